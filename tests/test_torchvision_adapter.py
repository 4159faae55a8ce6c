"""``clockseg cut torchvision:NAME``, with a stand-in of torchvision, which can't be imported beside every torch."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs torch")

import hashlib
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from clockseg.cli.main import main
from clockseg.datasets.official import PASCAL
from clockseg.engines import openvino
from clockseg.errors import NetworkError, UsageError
from clockseg.networks import torchvision_zoo
from clockseg.networks.checking import picture
from clockseg.networks.cutting import cut_network
from clockseg.networks.load import load, silent
from clockseg.networks.settling import Cutting
from clockseg.networks.source import Said, Source

SIZE = (96, 64)


class StandIn(nn.Module):
    """As torchvision's segmentation models: layers named alike, a dict out, an auxiliary head if asked for."""

    def __init__(self, *, aux_loss: bool = False) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 8, 3, 2, 1), nn.ReLU())
        self.classifier = nn.Sequential(
            nn.Conv2d(8, 8, 3, 1, 1), nn.Identity(), nn.Identity(), nn.ReLU(), nn.Conv2d(8, 21, 1)
        )
        self.aux_classifier = nn.Conv2d(8, 21, 1) if aux_loss else None

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        deep = self.backbone(image)
        found = {"out": F.interpolate(self.classifier(deep), size=image.shape[-2:], mode="bilinear")}
        return found if self.aux_classifier is None else found | {"aux": self.aux_classifier(deep)}


class Torchvision:
    """What is used of ``torchvision.models``; the weights are published as a file, with those of the auxiliary head."""

    def __init__(self, folder: Path) -> None:
        torch.manual_seed(0)
        self.network = StandIn(aux_loss=True).eval()
        torch.save(self.network.state_dict(), folder / "weights.pth")
        digest = hashlib.sha256((folder / "weights.pth").read_bytes()).hexdigest()[:8]
        self.segmentation = "torchvision.models.segmentation"
        self.file = (folder / "weights.pth").rename(folder / f"weights-{digest}.pth")

    def list_models(self, module: str) -> list[str]:
        assert module == self.segmentation
        return ["deeplabv3_resnet50", "fcn_resnet50"]

    def get_model_weights(self, name: str) -> Any:
        def get_state_dict(**options: bool) -> Any:
            return torch.hub.load_state_dict_from_url(self.file.as_uri(), **options)

        return SimpleNamespace(DEFAULT=SimpleNamespace(url=self.file.as_uri(), get_state_dict=get_state_dict))

    def get_model(self, name: str, *, weights: None, weights_backbone: None) -> StandIn:
        return StandIn()


@pytest.fixture
def torchvision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Torchvision:
    made = Torchvision(tmp_path)
    monkeypatch.setitem(sys.modules, "torchvision", SimpleNamespace(models=made, __spec__=SimpleNamespace()))
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "torch"))
    return made


def source(name: str = "deeplabv3_resnet50", tell: Any = silent) -> Source:
    return torchvision_zoo.torchvision_source(name, given=Said(size=SIZE), engine=openvino, tell=tell)


def test_it_gives_what_the_module_gives_under_out(torchvision: Torchvision, tmp_path: Path) -> None:
    found = cut_network(source(), tmp_path / "net.onnx", cutting=Cutting(measured=False), engine="openvino", repeat=1)
    assert found.sidecar.classes == PASCAL.names
    assert found.sidecar.palette == PASCAL.palette
    assert (found.sidecar.input.width, found.sidecar.input.height) == torchvision_zoo.SIZE
    assert "the output does not change" in found.notes[0]  # a DeepLabV3 has no skip
    image = picture(SIZE)
    x = (image.astype(np.float32) / 255 - np.float32(found.sidecar.input.mean)) / np.float32(found.sidecar.input.std)
    with torch.inference_mode():
        scores = torchvision.network(torch.from_numpy(x.transpose(2, 0, 1)[None].astype(np.float32)))["out"][0].numpy()
    second, first = np.sort(scores, axis=0)[-2:]
    sure = first - second > 1e-4
    assert sure.mean() > 0.9
    assert np.array_equal(load(found.file, engine="openvino", size=SIZE)(image)[sure], scores.argmax(0)[sure])


def test_tensors_carry_the_paths_of_modules(torchvision: Torchvision) -> None:
    names = {name for node in source().model.graph.node for name in node.output}
    assert "/backbone/backbone.3/Relu_output_0" in names
    assert not any("clockseg" in name for name in names)


def test_a_name_that_torchvision_does_not_have(torchvision: Torchvision) -> None:
    with pytest.raises(UsageError, match=r"Did you mean .*deeplabv3_resnet50"):
        source("deeplab_resnet50")


def test_the_command_needs_torchvision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    assert main(["cut", "torchvision:fcn_resnet50", "--out", str(tmp_path / "net.onnx")]) == 1
    assert "pip install torchvision" in capsys.readouterr().err


def test_torchvisions_own_where_it_can_be_imported() -> None:
    try:
        from torchvision import models
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"torchvision can't be imported beside this torch: {error}")
    for name in models.list_models(module=models.segmentation):
        assert models.get_model_weights(name).DEFAULT.url
        assert "out" in models.get_model(name, weights=None, weights_backbone=None).eval()(torch.zeros(1, 3, 64, 64))


def test_published_weights_are_downloaded_once_and_checked(torchvision: Torchvision, tmp_path: Path) -> None:
    told: list[str] = []
    good = torchvision.file
    torchvision.file = tmp_path / "weights-00000000.pth"
    torchvision.file.write_bytes(good.read_bytes())
    with pytest.raises(NetworkError, match=r"can't be downloaded \(invalid hash value"):
        source()
    torchvision.file = good
    source(tell=told.append)
    assert told == [f"downloading {good.as_uri()}, unless {tmp_path / 'torch'} has it"]
    good.unlink()
    source()
    (tmp_path / "torch" / "checkpoints" / good.name).unlink()
    with pytest.raises(NetworkError, match=r"its weights are not in .*Connect once, or put the file there"):
        source()
