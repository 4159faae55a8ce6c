"""``clockseg cut torchvision:NAME``: weights from a file, with a stand-in of the module that has torchvision's names."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs torch")

import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from clockseg.cli.main import main
from clockseg.datasets.known_classes import PASCAL
from clockseg.engines import openvino
from clockseg.errors import MissingDependency, NetworkError, UsageError
from clockseg.networks import torchvision_zoo
from clockseg.networks.checking import picture
from clockseg.networks.cutting import cut_network
from clockseg.networks.load import load
from clockseg.networks.settling import Cutting
from clockseg.networks.source import Said

SIZE = (96, 64)


class StandIn(nn.Module):
    """As torchvision's segmentation models: layers named alike, a dict out, an auxiliary head if asked for."""

    def __init__(
        self, *, weights: None, weights_backbone: None, num_classes: int, aux_loss: bool | None = None
    ) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 8, 3, 2, 1), nn.ReLU())
        self.classifier = nn.Sequential(
            nn.Conv2d(8, 8, 3, 1, 1), nn.Identity(), nn.Identity(), nn.ReLU(), nn.Conv2d(8, num_classes, 1)
        )
        self.aux_classifier = nn.Conv2d(8, num_classes, 1) if aux_loss else None

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        deep = self.backbone(image)
        found = {"out": F.interpolate(self.classifier(deep), size=image.shape[-2:], mode="bilinear")}
        return found if self.aux_classifier is None else found | {"aux": self.aux_classifier(deep)}


def made(classes: int = 21, *, auxiliary: bool = False) -> StandIn:
    torch.manual_seed(0)
    return StandIn(weights=None, weights_backbone=None, num_classes=classes, aux_loss=auxiliary or None).eval()


def source(weights: Path, name: str = "deeplabv3_resnet50", **options: Any) -> Any:
    return torchvision_zoo.torchvision_source(
        name, weights, given=Said(size=SIZE), engine=openvino, constructor=StandIn, **options
    )


def test_it_gives_what_the_module_gives_under_out(tmp_path: Path) -> None:
    module = made(auxiliary=True)
    torch.save(module.state_dict(), tmp_path / "w.pth")
    found = cut_network(
        source(tmp_path / "w.pth"), tmp_path / "net.onnx", cutting=Cutting(measured=False), engine="openvino", repeat=1
    )
    assert found.sidecar.classes == PASCAL.names
    assert found.sidecar.palette == PASCAL.palette
    assert (found.sidecar.input.width, found.sidecar.input.height) == torchvision_zoo.SIZE
    assert "the output does not change" in found.notes[0]  # a DeepLabV3 has no skip
    image = picture(SIZE)
    x = (image.astype(np.float32) / 255 - np.float32(found.sidecar.input.mean)) / np.float32(found.sidecar.input.std)
    with torch.inference_mode():
        scores = module(torch.from_numpy(x.transpose(2, 0, 1)[None].astype(np.float32)))["out"][0].numpy()
    second, first = np.sort(scores, axis=0)[-2:]
    sure = first - second > 1e-4
    assert sure.mean() > 0.9
    assert np.array_equal(load(found.file, engine="openvino", size=SIZE)(image)[sure], scores.argmax(0)[sure])


def test_tensors_carry_the_paths_of_modules(tmp_path: Path) -> None:
    torch.save(made(5).state_dict(), tmp_path / "w.pth")
    found = source(tmp_path / "w.pth")
    assert found.said.classes is None  # five classes are nobody's
    names = {name for node in found.model.graph.node for name in node.output}
    assert "/backbone/backbone.3/Relu_output_0" in names
    assert not any("clockseg" in name for name in names)


@pytest.mark.parametrize("wrapped", ["model", "state_dict", "safetensors", "parallel"])
def test_weights_lie_where_training_leaves_them(tmp_path: Path, wrapped: str) -> None:
    state = made(5).state_dict()
    file = tmp_path / "w.pth"
    if wrapped == "safetensors":
        from safetensors.torch import save_file

        file = tmp_path / "w.safetensors"
        save_file(state, file)
    elif wrapped == "parallel":
        torch.save({f"module.{name}": value for name, value in state.items()}, file)
    else:
        torch.save({wrapped: state, "epoch": 3}, file)
    read = torchvision_zoo.read_state(file)
    assert all(torch.equal(read[name], value) for name, value in state.items())
    assert len(read) == len(state)


def test_weights_that_do_not_fit(tmp_path: Path) -> None:
    state = made().state_dict()
    with pytest.raises(UsageError, match=r"Did you mean .*deeplabv3_resnet50"):
        source(tmp_path / "w.pth", name="deeplab_resnet50")
    with pytest.raises(NetworkError, match="can't be read as weights"):
        source(tmp_path / "none.pth")
    (tmp_path / "text.pth").write_text("no weights")
    with pytest.raises(NetworkError, match="it holds other things than tensors") as raised:
        source(tmp_path / "text.pth")
    assert "weights_only" not in str(raised.value)
    torch.save({"backbone.0.weight": state["backbone.0.weight"]}, tmp_path / "w.pth")
    with pytest.raises(NetworkError, match="a backbone alone can't be cut"):
        source(tmp_path / "w.pth")
    torch.save({name: value for name, value in state.items() if name != "backbone.0.bias"}, tmp_path / "w.pth")
    with pytest.raises(NetworkError, match=r"aren't of deeplabv3_resnet50: Missing key.*backbone\.0\.bias"):
        source(tmp_path / "w.pth")
    torch.save([1, 2], tmp_path / "w.pth")
    with pytest.raises(NetworkError, match="contains list, not a state dict"):
        source(tmp_path / "w.pth")


def test_the_command_needs_weights_and_torchvision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    out = ["--out", str(tmp_path / "net.onnx")]
    assert main(["cut", "model.onnx", "--weights", "w.pth", *out]) == 2
    assert "--weights FILE works only with torchvision:NAME" in capsys.readouterr().err
    torch.save(made().state_dict(), tmp_path / "w.pth")
    monkeypatch.setattr(torchvision_zoo, "_torchvision", _missing)
    assert main(["cut", "torchvision:fcn_resnet50", "--weights", str(tmp_path / "w.pth"), *out]) == 1
    assert "pip install torchvision" in capsys.readouterr().err


def _missing(name: str) -> Any:
    raise MissingDependency(f"torchvision:{name} needs torchvision: pip install torchvision")


@pytest.mark.parametrize("name", ["lraspp_mobilenet_v3_large"])
def test_torchvisions_own_where_it_can_be_imported(tmp_path: Path, name: str) -> None:
    try:
        from torchvision.models import segmentation
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"torchvision can't be imported beside this torch: {error}")
    torch.manual_seed(0)
    module = vars(segmentation)[name](weights=None, weights_backbone=None, num_classes=21)
    torch.save(module.state_dict(), tmp_path / "w.pth")
    found = torchvision_zoo.torchvision_source(name, tmp_path / "w.pth", given=Said(size=SIZE), engine=openvino)
    assert found.said.classes == PASCAL.names


def test_published_weights_are_downloaded_once_and_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = tmp_path / "there.pth"
    torch.save(made(auxiliary=True).state_dict(), there)
    digest = hashlib.sha256(there.read_bytes()).hexdigest()
    good = there.rename(tmp_path / f"fcn_resnet50_coco-{digest[:8]}.pth")
    bad = tmp_path / "fcn_resnet50_coco-00000000.pth"
    bad.write_bytes(good.read_bytes())
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "torch"))

    def publish(file: Path) -> None:
        weights = SimpleNamespace(DEFAULT=SimpleNamespace(url=file.as_uri()))
        models = SimpleNamespace(get_model_weights=lambda name: weights)
        monkeypatch.setattr(torchvision_zoo, "_torchvision", lambda name: models)

    told: list[str] = []
    publish(bad)
    with pytest.raises(NetworkError, match="can't be downloaded to"):
        torchvision_zoo.published("fcn_resnet50", told.append)
    publish(good)
    told.clear()
    files = [torchvision_zoo.published("fcn_resnet50", told.append) for _ in range(2)]
    assert files == [tmp_path / "torch" / "checkpoints" / good.name] * 2
    assert told == [f"downloading {good.as_uri()}"]
    good.unlink()
    files[0].unlink()
    with pytest.raises(NetworkError, match=r"its weights are not in .* --weights FILE"):
        torchvision_zoo.published("fcn_resnet50", told.append)
