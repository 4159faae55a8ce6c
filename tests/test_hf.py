"""``clockseg cut hf:DIRECTORY``: what a transformers checkpoint says, and that its graph gives what it gives."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs torch")

import json
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import torch

import clockseg
from clockseg.cli.main import main
from clockseg.engines import openvino
from clockseg.errors import NetworkError, UsageError
from clockseg.graph import onnx_reader, sidecar
from clockseg.networks.checking import picture
from clockseg.networks.load import load
from clockseg.networks.settling import Cutting, settle
from clockseg.networks.source import Said, Source

transformers = pytest.importorskip(
    "transformers", reason="needs transformers: pip install '.[transformers]' in the clone"
)

from clockseg.networks import hf, onnx_export  # noqa: E402

NAMES = ("road", "sky", "car", "person")
PROCESSOR = {
    "image_processor_type": "SegformerImageProcessor",
    "do_normalize": True,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
    "do_resize": True,
    "size": {"height": 64, "width": 96},
    "do_reduce_labels": False,
}
CONFIG = {"architectures": ["SegformerForSemanticSegmentation"], "id2label": dict(enumerate(NAMES))}


def segformer() -> Any:
    torch.manual_seed(0)
    config = transformers.SegformerConfig(
        hidden_sizes=[8, 16, 24, 32],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 1, 2, 2],
        decoder_hidden_size=16,
        id2label=dict(enumerate(NAMES)),
        label2id={name: id for id, name in enumerate(NAMES)},
    )
    return transformers.SegformerForSemanticSegmentation(config).eval()


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hub") / "tiny-segformer"
    segformer().save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSOR))
    return folder


def folder_of(path: Path, config: Any = CONFIG, processor: Any = None) -> Path:
    """A checkpoint without weights."""
    (path / "config.json").write_text(json.dumps(config))
    if processor is not None:
        (path / "preprocessor_config.json").write_text(json.dumps(processor))
    return path


# The network


@pytest.fixture(scope="module")
def cut(checkpoint: Path) -> tuple[Path, str]:
    """The network that ``clockseg cut`` makes of it, and what it tells."""
    out = checkpoint.parent / "net.onnx"
    at = "segformer.stages.0,segformer.stages.1,segformer.stages.3"
    with redirect_stdout(StringIO()) as told:
        assert main(["cut", f"hf:{checkpoint}", "--at", at, "--engine", "openvino", "--out", str(out)]) == 0
    return out, told.getvalue()


def test_a_segformer_in_one_command(cut: tuple[Path, str]) -> None:
    out, told = cut
    for text in ("takes any size", "preprocessor_config.json"):
        assert text in told
    said = sidecar.read(out.with_suffix(".json"))
    assert said.classes == NAMES
    assert (said.input.mean, said.input.std, said.input.colour) == ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225), "rgb")
    assert (said.input.width, said.input.height) == (96, 64)
    assert said.schedule == "carried(skip_frame(6), interpolate(flow))"
    assert said.cuts[2] == ("/segformer/stages.3/Transpose_output_0",)


@pytest.mark.parametrize("size", [(96, 64), (128, 96)])
def test_its_labels_are_those_of_transformers(cut: tuple[Path, str], size: tuple[int, int]) -> None:
    """Its own way: normalise, logits, enlarge to the frame, argmax."""
    image = picture(size)
    x = (image.astype(np.float32) / 255 - np.float32(PROCESSOR["image_mean"])) / np.float32(PROCESSOR["image_std"])
    with torch.inference_mode():
        logits = segformer()(pixel_values=torch.from_numpy(x.transpose(2, 0, 1)[None].astype(np.float32))).logits
        scores = torch.nn.functional.interpolate(logits, size=size[::-1], mode="bilinear")[0].numpy()
    second, first = np.sort(scores, axis=0)[-2:]
    sure = first - second > 1e-4
    assert sure.mean() > 0.7  # random weights are rarely sure
    assert np.array_equal(load(cut[0], engine="openvino", size=size)(image)[sure], scores.argmax(0)[sure])


def test_one_whose_size_can_not_be_free_is_fixed(tmp_path: Path) -> None:
    """A pool to a grid is no ONNX operator, and its cells depend on the size."""

    class Pooled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 4, 3, 2, 1)
            self.pools = [torch.nn.AdaptiveAvgPool2d(cells) for cells in (1, 3)]
            self.named = torch.nn.ModuleList(self.pools)

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            deep = self.conv(image)
            found = [torch.nn.functional.interpolate(pool(deep), size=deep.shape[-2:]) for pool in self.pools]
            return torch.cat([deep, *found], 1)

    torch.manual_seed(0)
    exported, told = onnx_export.export(Pooled(), (40, 32), engine=openvino, of="torch")
    assert "fixed to it" in told.why
    assert [dim.dim_value for dim in exported.graph.input[0].type.tensor_type.shape.dim] == [1, 3, 32, 40]


def test_an_export_that_gives_something_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_export, "TOLERANCE", -1.0)
    with pytest.raises(NetworkError, match="a fault of the export; nothing was written"):
        onnx_export.export(torch.nn.Conv2d(3, 4, 3, 2, 1), (32, 32), engine=openvino, of="torch")


class Halving(torch.nn.Module):
    """Takes multiples of 4 alone, as GLPN takes multiples of 32."""

    def __init__(self) -> None:
        super().__init__()
        self.halve = torch.nn.Conv2d(3, 3, 3, 2, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        deep = self.halve(self.halve(image))
        return image + torch.nn.functional.interpolate(deep, scale_factor=4)


def test_a_size_that_a_network_does_not_take() -> None:
    with pytest.raises(
        NetworkError, match=r"not take frames of 46x33; the nearest size .* is 48x36 \(multiples of 4\)"
    ):
        onnx_export.export(Halving(), (46, 33), engine=openvino, of="torch")
    with pytest.raises(NetworkError, match="the nearest size that it takes is 48x36"):
        clockseg.cut(Halving().eval(), torch.zeros(1, 3, 33, 46), at=["halve@1"])
    net = clockseg.cut(Halving().eval(), torch.zeros(1, 3, 36, 48), at=["halve@1"])
    for run in (net, net.uncut()):
        with pytest.raises(NetworkError, match="the nearest size that it takes is 48x36"):
            run(torch.zeros(1, 3, 33, 46))


def test_an_operator_that_can_not_be_exported_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    class Odd(torch.nn.Module):
        def forward(self, image: torch.Tensor) -> torch.Tensor:
            return torch.special.bessel_j0(image)

    with pytest.raises(NetworkError, match=r"can't be exported at 32x32: .*bessel_j0"):
        onnx_export.export(Odd(), (32, 32), engine=openvino, of="torch")
    assert capfd.readouterr().out == ""  # torch's exporter prints the graph


def test_weights_that_are_missing_are_not_made_up(checkpoint: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = tmp_path / "part"
    folder.mkdir()
    for file in ("config.json", "preprocessor_config.json"):
        (folder / file).write_text((checkpoint / file).read_text())
    state = load_file(checkpoint / "model.safetensors")
    kept = {name: value for name, value in state.items() if not name.startswith("decode_head.classifier")}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(NetworkError, match=r"lacks 2 weights .*decode_head\.classifier\.bias"):
        hf.hf_source(folder, engine=openvino)


def test_a_folder_without_weights(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, CONFIG | {"model_type": "segformer"}, PROCESSOR)
    with pytest.raises(NetworkError, match=r"has no weights: there is no model\.safetensors"):
        hf.hf_source(folder, engine=openvino)


def test_what_is_given_goes_before_what_it_says(checkpoint: Path, cut: tuple[Path, str]) -> None:
    source = Source(onnx_reader.read(cut[0]), "x", hf.read_folder(checkpoint).said, by="the processor")
    given = Said(size=(64, 64), mean=(0.5,) * 3, std=(0.5,) * 3, colour="bgr")
    found = settle(source, given, Cutting(measured=False), "net")
    read = found.sidecar.input
    assert (read.width, read.height, read.mean, read.std, read.colour) == (64, 64, (0.5,) * 3, (0.5,) * 3, "bgr")
    assert {one.what for one in found.told if one.why == "the processor"} == {"scale"}


def test_without_a_size(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give --size"):
        hf.hf_source(folder_of(tmp_path), given=Said(mean=(0.5,) * 3, std=(0.5,) * 3), engine=openvino)


# What the folder says


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        ({}, {"mean": (0.485, 0.456, 0.406), "scale": 1 / 255, "size": (96, 64), "colour": "rgb"}),
        ({"size": 512}, {"size": (512, 512)}),
        ({"size": {"shortest_edge": 320}}, {"size": (640, 320)}),
        ({"size": {"shortest_edge": 320, "longest_edge": 430}, "size_divisor": 32}, {"size": (416, 320)}),
        ({"do_center_crop": True, "crop_size": {"height": 256, "width": 300}}, {"size": (300, 256)}),
        ({"do_resize": False}, {"size": None}),
        ({"rescale_factor": 1 / 127.5}, {"scale": 1 / 127.5}),
        ({"rescale_factor": None}, {"scale": 1 / 255}),
        ({"do_rescale": False}, {"scale": 1.0}),
        ({"do_normalize": False}, {"mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)}),
        ({"do_flip_channel_order": True}, {"colour": "bgr"}),
        ({"image_processor_type": "MobileViTImageProcessor"}, {"colour": "bgr"}),
        ({"image_std": 0.5}, {"std": (0.5, 0.5, 0.5)}),
    ],
)
def test_the_processor(tmp_path: Path, changed: dict[str, Any], wanted: dict[str, Any]) -> None:
    said = hf.read_folder(folder_of(tmp_path, processor=PROCESSOR | changed)).said
    assert {name: getattr(said, name) for name in wanted} == wanted


def test_a_processor_without_numbers_to_normalise_by(tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match="give --mean and --std"):
        hf.read_folder(folder_of(tmp_path, processor={"do_normalize": True}))
    plain = hf.read_folder(folder_of(tmp_path, processor={"image_processor_type": "MobileViTImageProcessor"})).said
    assert (plain.mean, plain.std, plain.colour) == ((0.0,) * 3, (1.0,) * 3, "bgr")


def test_reduced_labels_are_told_of(tmp_path: Path) -> None:
    for key in ("do_reduce_labels", "reduce_labels"):
        told = hf.read_folder(folder_of(tmp_path, processor=PROCESSOR | {"do_reduce_labels": False} | {key: True})).told
        assert ("labels" in {one.what for one in told}) == (key == "do_reduce_labels")
    old = {key: value for key, value in PROCESSOR.items() if key != "do_reduce_labels"} | {"reduce_labels": True}
    assert any("unlabelled" in one.why for one in hf.read_folder(folder_of(tmp_path, processor=old)).told)


def test_without_a_processor_the_user_is_asked(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give --mean and --std"):
        hf.hf_source(folder_of(tmp_path), given=Said(size=(64, 64)), engine=openvino)


def test_classes_in_the_order_of_their_ids_and_of_one_name_each(tmp_path: Path) -> None:
    labels = {"10": "k", **{str(id): name for id, name in enumerate("abcdefghia")}}
    said = hf.read_folder(folder_of(tmp_path, CONFIG | {"id2label": labels}, PROCESSOR)).said
    assert said.classes == ("a 0", *"bcdefghi", "a 9", "k")


@pytest.mark.parametrize(
    ("architecture", "text"),
    [
        ("VideomtForUniversalSegmentation", "neither class scores of pixels, nor masks of a frame, nor depth"),
        ("SegformerForImageClassification", "whose architecture ends in one of ForSemanticSegmentation"),
        (None, "names no architecture"),
    ],
)
def test_networks_that_score_no_pixels(tmp_path: Path, architecture: str | None, text: str) -> None:
    with pytest.raises(NetworkError) as raised:
        hf.read_folder(folder_of(tmp_path, CONFIG | {"architectures": [architecture] if architecture else None}))
    assert text in str(raised.value)


def test_depth_has_no_classes(tmp_path: Path) -> None:
    found = hf.read_folder(folder_of(tmp_path, CONFIG | {"architectures": ["DPTForDepthEstimation"]}, PROCESSOR))
    assert (found.gives, found.said.classes) == ("depth", ())


def test_files_that_are_no_checkpoint(tmp_path: Path, capsys: Any) -> None:
    out = ["--out", str(tmp_path / "net.onnx")]
    assert main(["cut", f"hf:{tmp_path / 'none'}", *out]) == 1
    assert "hf: takes a folder as save_pretrained writes it" in capsys.readouterr().err
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(NetworkError, match="contains list, not an object"):
        hf.read_folder(tmp_path)
