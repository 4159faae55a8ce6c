"""Networks as exporters write them: each kind is cut, its parts equal to the whole, or refused with the way out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clockseg.clockwork.network import same

pytest.importorskip("torch", reason="needs torch")

import contextlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from clockseg import ClocksegError
from clockseg.networks.cutting import CutNetwork, Cutting, cut_network
from clockseg.networks.load import load
from clockseg.networks.source import Said

WIDTH, HEIGHT = 96, 64
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
FLOATS = Said(mean=MEAN, std=STD)
FREE = Said(mean=MEAN, std=STD, size=(WIDTH, HEIGHT))
TABLE = torch.tensor([7, 8, 11, 12])

pytestmark = pytest.mark.filterwarnings("ignore")  # of the exporters


def ids(count: int) -> Said:
    """What a user says of a network that gives class ids."""
    return Said(mean=MEAN, std=STD, classes=tuple(f"c{number}" for number in range(count)))


def as_it_is(value: Tensor) -> Tensor:
    return value


class Net(nn.Module):
    """Three encoder blocks, a skip from the first, scores at the frame's size; ``before`` and ``behind`` what a test adds."""

    def __init__(
        self,
        before: Callable[[Tensor], Any] = as_it_is,
        behind: Callable[[Tensor], Any] = as_it_is,
        channels: int = 4,
    ) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.before, self.behind = before, behind
        self.low, self.mid, self.deep = block(3, 8), block(8, 12), block(12, 16)
        self.skip, self.head = nn.Conv2d(8, channels, 1), nn.Conv2d(16, channels, 1)
        self.eval()

    def forward(self, image: Tensor) -> Any:
        x = self.before(image)
        low = self.low(x)
        deep = self.head(self.deep(self.mid(low)))
        scores = self.skip(low) + F.interpolate(deep, size=low.shape[2:], mode="bilinear", align_corners=False)
        return self.behind(F.interpolate(scores, size=x.shape[2:], mode="bilinear", align_corners=False))


def block(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, 2, 1), nn.BatchNorm2d(outputs), nn.ReLU())


def normalised(image: Tensor) -> Tensor:
    mean, std = (torch.tensor(numbers).view(1, 3, 1, 1) for numbers in (MEAN, STD))
    return (image.float() / 255 - mean) / std


def channels_first(image: Tensor) -> Tensor:
    return image.permute(0, 3, 1, 2)


FRAME, LAST = torch.zeros(1, 3, HEIGHT, WIDTH), torch.zeros(1, HEIGHT, WIDTH, 3)


def legacy(net: nn.Module, file: Path, example: Tensor = FRAME, *, opset: int = 17, **options: Any) -> None:
    options = {"output_names": ["scores"], **options}
    with contextlib.redirect_stdout(io.StringIO()):
        torch.onnx.export(
            net, (example,), str(file), dynamo=False, opset_version=opset, input_names=["image"], **options
        )


def dynamo(net: nn.Module, file: Path, example: Tensor = FRAME, *, opset: int = 18, **options: Any) -> None:
    pytest.importorskip("onnxscript", reason="the dynamo exporter needs onnxscript")
    with contextlib.redirect_stdout(io.StringIO()):
        torch.onnx.export(
            net,
            (example,),
            str(file),
            dynamo=True,
            opset_version=opset,
            verbose=False,
            input_names=["image"],
            **options,
        )


def cut(file: Path, said: Said) -> CutNetwork:
    return cut_network(
        file, file.with_name("cut.onnx"), said=said, cutting=Cutting(measured=False), engine="onnxruntime", repeat=1
    )


@pytest.mark.parametrize("opset", [9, 11, 12, 13, 17, 20])
@pytest.mark.parametrize("free", [False, True])
def test_the_legacy_exporter(tmp_path: Path, opset: int, free: bool) -> None:
    file = tmp_path / "net.onnx"
    axes = {"dynamic_axes": {"image": {2: "h", 3: "w"}, "scores": {2: "h", 3: "w"}}} if free else {}
    legacy(Net(), file, opset=opset, **axes)
    found = cut(file, FREE if free else FLOATS)
    assert len(found.sidecar.cuts) == 3
    assert found.sidecar.output == "scores"


@pytest.mark.parametrize(
    ("opset", "free"),
    [
        (18, True),
        *(pytest.param(opset, free, marks=pytest.mark.slow) for opset in (18, 20, 23) for free in (False, True)),
    ],
)
def test_the_dynamo_exporter(tmp_path: Path, opset: int, free: bool) -> None:
    """Weights lie outside the file, as it writes them by default."""
    file = tmp_path / "net.onnx"
    sides = {2: torch.export.Dim.DYNAMIC, 3: torch.export.Dim.DYNAMIC}
    dynamo(Net(), file, opset=opset, **({"dynamic_shapes": (sides,)} if free else {}))
    assert len(cut(file, FREE if free else FLOATS).sidecar.cuts) == 3


@pytest.mark.parametrize("opset", [21, 22, 23])
def test_the_newest_opsets(tmp_path: Path, opset: int) -> None:
    file = tmp_path / "net.onnx"
    legacy(Net(), file)
    onnx.save(onnx.version_converter.convert_version(onnx.load(file), opset), file)
    assert len(cut(file, FLOATS).sidecar.cuts) == 3


class Kind(NamedTuple):
    """A network with its frame and what is said of it; ``scores``: whether what is propagated are scores, not ids."""

    net: Callable[[], nn.Module]
    said: Said = FLOATS
    example: Tensor = FRAME
    scores: bool = True
    options: dict[str, Any] = {}  # noqa: RUF012


KINDS = {
    "bytes, normalised inside": Kind(lambda: Net(normalised), Said(), FRAME.to(torch.uint8)),
    "bytes with channels last": Kind(
        lambda: Net(lambda x: normalised(channels_first(x))), Said(), LAST.to(torch.uint8)
    ),
    "no batch": Kind(lambda: Net(lambda x: x[None]), example=FRAME[0]),
    "channels last in and out": Kind(lambda: Net(channels_first, lambda y: y.permute(0, 2, 3, 1)), example=LAST),
    "float16": Kind(lambda: Net().half(), example=FRAME.half()),
    "float16 inside": Kind(lambda: Net(lambda x: x.half(), lambda y: y.float()).half()),
    "softmax": Kind(lambda: Net(behind=lambda y: y.softmax(1))),
    "softmax, opset 11": Kind(lambda: Net(behind=lambda y: y.softmax(1)), options={"opset": 11}),
    "sigmoid": Kind(lambda: Net(behind=lambda y: y.sigmoid())),
    "softmax and argmax": Kind(lambda: Net(behind=lambda y: y.softmax(1).argmax(1)), ids(4)),
    "argmax, kept axis, bytes": Kind(lambda: Net(behind=lambda y: y.argmax(1, keepdim=True).to(torch.uint8)), ids(4)),
    "argmax of channels last": Kind(lambda: Net(behind=lambda y: y.permute(0, 2, 3, 1).argmax(-1)), ids(4)),
    "argmax as floats": Kind(lambda: Net(behind=lambda y: y.argmax(1).float()), ids(4)),
    "argmax without a batch": Kind(lambda: Net(behind=lambda y: y.argmax(1)[0]), ids(4), scores=False),
    "ids by a table": Kind(lambda: Net(behind=lambda y: TABLE[y.argmax(1)]), ids(20)),
    "ids plus one": Kind(lambda: Net(behind=lambda y: y.argmax(1) + 1), ids(5)),
    "ids resized": Kind(
        lambda: Net(behind=lambda y: F.interpolate(y.argmax(1, keepdim=True).float(), scale_factor=2.0).long()),
        ids(4),
    ),
    "a mask": Kind(lambda: Net(behind=lambda y: y.sigmoid() > 0.5, channels=1), ids(2), scores=False),
    "a mask of 0 and 255": Kind(
        lambda: Net(behind=lambda y: (y.sigmoid() > 0.5).to(torch.uint8) * 255, channels=1), ids(2), scores=False
    ),
    "two outputs": Kind(
        lambda: Net(behind=lambda y: (y, y.argmax(1))),
        Said(mean=MEAN, std=STD, output="scores"),
        options={"output_names": ["scores", "ids"]},
    ),
    "scores and confidence": Kind(
        lambda: Net(behind=lambda y: (y, y.softmax(1).amax(1))),
        Said(mean=MEAN, std=STD, output="scores"),
        options={"output_names": ["scores", "confidence"]},
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_kinds_that_are_cut(tmp_path: Path, name: str) -> None:
    kind, file = KINDS[name], tmp_path / "net.onnx"
    legacy(kind.net(), file, kind.example, **kind.options)
    found = cut(file, kind.said)
    assert len(found.sidecar.cuts) == 3
    net = load(found.file, engine="onnxruntime")
    image = np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
    moved = replace(net, finish=net.fused, restore=same)(image)
    assert any(value.dtype.kind == "f" for value in moved.values()) == kind.scores
    assert net(image).shape == (HEIGHT, WIDTH)


def test_a_mask_of_0_and_255_has_two_classes(tmp_path: Path) -> None:
    file = tmp_path / "net.onnx"
    kind = KINDS["a mask of 0 and 255"]
    legacy(kind.net(), file)
    net = load(cut(file, kind.said).file, engine="onnxruntime")
    image = np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
    assert set(np.unique(net(image))) <= {0, 1}


def test_remapped_ids_move_as_scores(tmp_path: Path) -> None:
    """The table is applied when labels are made, so that what is propagated are scores."""
    file = tmp_path / "net.onnx"
    legacy(KINDS["ids by a table"].net(), file)
    net = load(cut(file, ids(20)).file, engine="onnxruntime")
    image = np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
    moved = replace(net, finish=net.fused, restore=same)(image)
    assert [value.shape for name, value in moved.items() if value.ndim == 4] == [(1, 4, HEIGHT // 2, WIDTH // 2)]
    assert set(np.unique(net(image))) <= set(TABLE.tolist())


@pytest.mark.parametrize("per_channel", [False, True])
def test_8_bits_with_quantize_and_dequantize(tmp_path: Path, per_channel: bool) -> None:
    """Every map is rounded to a byte, which processors do at other values in parts than in the whole."""
    file = quantized(tmp_path / "net.onnx", "QDQ", per_channel=per_channel)
    found = cut(file, FLOATS)
    assert len(found.sidecar.cuts) == 3
    assert next(one for one in found.told if one.what == "tolerance").value == "0.03"


def quantized(file: Path, form: str, **options: Any) -> Path:
    tools = pytest.importorskip("onnxruntime.quantization", reason="needs ONNX Runtime")

    class Frames(tools.CalibrationDataReader):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            self.left = [{"image": np.random.default_rng(0).random((1, 3, HEIGHT, WIDTH), np.float32)}]

        def get_next(self) -> Any:
            return self.left.pop() if self.left else None

    legacy(Net(), file)
    tools.quantize_static(str(file), str(file), Frames(), quant_format=tools.QuantFormat[form], **options)
    return file


def refused(file: Path, said: Said, *words: str) -> None:
    with pytest.raises(ClocksegError) as told:
        cut(file, said)
    for word in words:
        assert word in str(told.value)


REFUSED: dict[str, tuple[Callable[[], nn.Module], Tensor, Said, tuple[str, ...]]] = {
    "one channel": (
        lambda: Net(lambda x: x.expand(-1, 3, -1, -1)),
        FRAME[:, :1],
        FLOATS,
        ("[1, 1, 64, 96]", "Export it"),
    ),
    "colours": (
        lambda: Net(behind=lambda y: torch.zeros(4, 3, dtype=torch.int64)[y.argmax(1)]),
        FRAME,
        ids(4),
        ("[1, 64, 96, 3]", "Export the network up to its argmax"),
    ),
    "too few names": (lambda: Net(behind=lambda y: y.argmax(1) + 4), FRAME, ids(4), ("the id", "--classes")),
    "a batch of four": (Net, FRAME.expand(4, -1, -1, -1), FLOATS, ("[4, 3, 64, 96]", "must be one frame")),
    "scores without a batch": (lambda: Net(behind=lambda y: y[0]), FRAME, FLOATS, ("[4, 64, 96]", "another --output")),
}


@pytest.mark.parametrize("name", REFUSED)
def test_kinds_that_are_refused(tmp_path: Path, name: str) -> None:
    net, example, said, words = REFUSED[name]
    file = tmp_path / "net.onnx"
    legacy(net(), file, example)
    refused(file, said, *words)


def test_operators_that_are_not_onnx_run_uncut(tmp_path: Path) -> None:
    file = quantized(tmp_path / "net.onnx", "QOperator")
    refused(file, FLOATS, "com.microsoft.QLinearAdd", "QDQ", "uncut")
    file.with_suffix(".json").write_text('{"input": {"scale": 1}}')
    assert load(file, engine="onnxruntime")(np.zeros((HEIGHT, WIDTH, 3), np.uint8)).shape == (HEIGHT, WIDTH)
