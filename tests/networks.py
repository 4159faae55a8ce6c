"""Small ONNX networks for tests, made with onnx.helper: they need no torch and no weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from clockseg.graph.sidecar import Input, Sidecar, write

CLASSES = ("sky", "road", "tree", "car")
TINY = Sidecar(
    name="tiny",
    input=Input(
        "input",
        48,
        32,
        scale=1 / 255,
        mean=(0.5, 0.4, 0.3),
        std=(0.2, 0.25, 0.3),
        pad_multiple=8,
        pad_value=(128, 102, 77),
    ),
    output="scores",
    cuts=(("low",), ("mid",), ("deep",)),
    stages=("low", "mid", "deep"),
    scores=("scores_1", "scores_2", "scores_3"),
    classes=CLASSES,
    palette=((0, 0, 255), (128, 64, 128), (0, 128, 0), (255, 0, 0)),
    ignore=255,
    schedule="alternating",
)


class Builder:
    """Makes a graph node by node; every method returns the name of the tensor it makes."""

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def node(self, operator: str, *inputs: str, to: str = "", **attributes: Any) -> str:
        """One operation with one output."""
        name = to or f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name=f"node_{name}", **attributes))
        return name

    def constant(self, value: np.ndarray) -> str:
        """A weight."""
        name = f"weight_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(value, name))
        return name

    def conv(self, x: str, inputs: int, outputs: int, kernel: int = 3, stride: int = 1, to: str = "") -> str:
        """A convolution with bias, padded to keep size / stride."""
        scale = 1.5 / np.sqrt(inputs * kernel * kernel)
        weight = self.constant(
            (self.random.standard_normal((outputs, inputs, kernel, kernel)) * scale).astype(np.float32)
        )
        bias = self.constant(self.random.standard_normal(outputs).astype(np.float32) * np.float32(0.1))
        return self.node(
            "Conv", x, weight, bias, to=to, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[kernel // 2] * 4
        )

    def block(self, x: str, inputs: int, outputs: int, stride: int = 1, to: str = "") -> str:
        """A convolution and a ReLU."""
        return self.node("Relu", self.conv(x, inputs, outputs, stride=stride), to=to)

    def up_to(self, x: str, like: str, channels: int, to: str = "") -> str:
        """``x`` enlarged to the size of ``like`` by arithmetic on shapes, as exporters write it."""
        ends = [self.constant(np.array([number], np.int64)) for number in (2, 4)]
        size = self.node("Slice", self.node("Shape", like), *ends)
        full = self.node("Concat", self.constant(np.array([1, channels], np.int64)), size, axis=0)
        return self.node("Resize", x, "", "", full, to=to, mode="linear", coordinate_transformation_mode="half_pixel")

    def model(
        self,
        outputs: dict[str, int],
        inputs: tuple[str, ...] = ("input",),
        size: tuple[Any, Any] = ("h", "w"),
        opset: int = 18,
    ) -> onnx.ModelProto:
        """The model; ``outputs``: name -> channels."""
        graph = helper.make_graph(
            self.nodes,
            "test",
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, *size]) for name in inputs],
            [
                helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, channels, None, None])
                for name, channels in outputs.items()
            ],
            self.weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def tiny(*, classes: int = len(CLASSES), size: tuple[Any, Any] = ("h", "w")) -> onnx.ModelProto:
    """Three stages with skips at strides 2, 4 and 8, scores from each, of any size that is a multiple of 8."""
    build = Builder()
    half = build.block("input", 3, 8, stride=2)
    low = build.node("Add", build.block(half, 8, 8), half, to="low")
    mid = build.block(low, 8, 12, stride=2, to="mid")
    deep = build.block(build.block(mid, 12, 16, stride=2), 16, 16, to="deep")
    first = build.conv(low, 8, classes, kernel=1, to="scores_1")
    second = build.conv(mid, 12, classes, kernel=1, to="scores_2")
    third = build.conv(deep, 16, classes, kernel=1, to="scores_3")
    fused = build.node("Add", build.up_to(third, second, classes), second)
    fused = build.node("Add", build.up_to(fused, first, classes), first)
    build.up_to(fused, "input", classes, to="scores")
    return build.model({"scores": classes, "low": 8, "mid": 12, "deep": 16}, size=size)


def write_tiny(folder: Path, sidecar: Sidecar = TINY, **options: Any) -> Path:
    """``tiny`` and its sidecar in ``folder``; the ONNX file's path."""
    return write_network(folder, tiny(**options), sidecar)


def write_network(folder: Path, model: onnx.ModelProto, sidecar: Sidecar) -> Path:
    """A model and its sidecar in ``folder``; the ONNX file's path."""
    path = folder / f"{sidecar.name}.onnx"
    onnx.save(model, path)
    write(sidecar, path.with_suffix(".json"))
    return path


def unet(channels: int = 4) -> onnx.ModelProto:
    """A U-Net of depth 3: the decoder concatenates skips and convolves; upsampling by learned transposed convolution."""
    build = Builder(1)
    skips, x, width = [], "input", 3
    for level, outputs in enumerate((channels, 2 * channels, 4 * channels)):
        x, width = build.block(x, width, outputs, stride=2 if level else 1, to=f"enc{level + 1}"), outputs
        skips.append((x, outputs))
    for name, skip in reversed(skips[:-1]):
        weight = build.constant((build.random.standard_normal((width, skip, 2, 2)) * 0.2).astype(np.float32))
        up = build.node("ConvTranspose", x, weight, kernel_shape=[2, 2], strides=[2, 2])
        x, width = build.block(build.node("Concat", name, up, axis=1), 2 * skip, skip), skip
    build.conv(x, width, len(CLASSES), kernel=1, to="scores")
    return build.model({"scores": len(CLASSES)})


UNET = Sidecar(
    "unet", Input("input", 32, 24, pad_multiple=4), "scores", (("enc1",), ("enc2",), ("enc3",)), classes=CLASSES
)


def no_skip() -> onnx.ModelProto:
    """Two stages in a row and an enlargement, as DeepLabV3: scores at stride 4, then a softmax."""
    build = Builder(2)
    low = build.block("input", 3, 8, stride=2, to="low")
    deep = build.block(low, 8, 8, stride=2, to="deep")
    small = build.conv(deep, 8, len(CLASSES), kernel=1, to="small")
    build.node("Softmax", build.up_to(small, "input", len(CLASSES)), to="scores", axis=1)
    return build.model({"scores": len(CLASSES)})


NO_SKIP = Sidecar(
    "noskip",
    Input("input", 32, 24, pad_multiple=4, colour="bgr", scale=1.0, mean=(104.0, 117.0, 123.0)),
    "scores",
    (("low",), ("deep",)),
    classes=CLASSES,
)


def three_levels(*, skip: bool) -> onnx.ModelProto:
    """Three levels at strides 2, 4 and 8 and an enlargement; with ``skip`` the second level is added to the enlarged third.

    The first level reaches the output only through the second.
    """
    build = Builder(5)
    one = build.block("input", 3, 8, stride=2, to="one")
    two = build.block(one, 8, 12, stride=2, to="two")
    three = build.block(two, 12, 16, stride=2, to="three")
    decoded = build.up_to(build.conv(three, 16, 12, kernel=1), two, 12)
    if skip:
        decoded = build.node("Add", decoded, two)
    small = build.conv(build.block(decoded, 12, 12), 12, len(CLASSES), kernel=1)
    build.up_to(small, "input", len(CLASSES), to="scores")
    return build.model({"scores": len(CLASSES)})


THREE_LEVELS = Sidecar(
    "levels", Input("input", 48, 32, pad_multiple=8), "scores", (("one",), ("two",), ("three",)), classes=CLASSES
)


def two_branches() -> onnx.ModelProto:
    """A fine and a coarse branch that exchange twice, as DDRNet: cut where both pass."""
    build = Builder(3)
    stem = build.block("input", 3, 8, stride=2, to="stem")
    fine, coarse = build.block(stem, 8, 8, to="fine1"), build.block(stem, 8, 8, stride=2, to="coarse1")
    mixed = build.node("Add", build.conv(fine, 8, 8), build.up_to(build.conv(coarse, 8, 8), fine, 8))
    down = build.node("Add", build.conv(coarse, 8, 8), build.conv(fine, 8, 8, stride=2))
    fine, coarse = build.node("Relu", mixed, to="fine2"), build.node("Relu", down, to="coarse2")
    fused = build.node("Add", build.block(fine, 8, 8), build.up_to(build.block(coarse, 8, 8), fine, 8))
    build.conv(fused, 8, 1, to="depth")
    return build.model({"depth": 1})


TWO_BRANCHES = Sidecar(
    "branches", Input("input", 32, 24, pad_multiple=4), "depth", (("stem",), ("fine1", "coarse1"), ("fine2", "coarse2"))
)


def fcn(channels: int = 4) -> onnx.ModelProto:
    """FCN-8s in small: full transposed convolutions that hold a bilinear kernel per channel, and crops."""
    build = Builder(4)
    pool3 = build.block(build.block("input", 3, 8, stride=2), 8, 8, stride=2, to="pool3")
    pool4 = build.block(pool3, 8, 12, stride=2, to="pool4")
    fc7 = build.block(pool4, 12, 16, stride=2, to="fc7")

    def upscore(x: str, factor: int) -> str:
        row = 1 - np.abs(np.arange(2 * factor) - factor + 0.5) / factor
        kernel = np.zeros((channels, channels, 2 * factor, 2 * factor), np.float32)
        kernel[range(channels), range(channels)] = np.outer(row, row)
        return build.node(
            "ConvTranspose", x, build.constant(kernel), kernel_shape=[2 * factor] * 2, strides=[factor] * 2
        )

    def crop(x: str, like: str, to: str = "") -> str:
        start, axes = build.constant(np.array([1, 1], np.int64)), build.constant(np.array([2, 3], np.int64))
        ends = [build.constant(np.array([number], np.int64)) for number in (2, 4)]
        size = build.node("Slice", build.node("Shape", like), *ends)
        return build.node("Slice", x, start, build.node("Add", size, start), axes, to=to)

    score = build.conv(fc7, 16, channels, kernel=1, to="score_fr")
    for name, width in ((pool4, 12), (pool3, 8)):
        skip = build.conv(name, width, channels, kernel=1, to=f"score_{name}")
        score = build.node("Add", crop(upscore(score, 2), skip), skip)
    crop(upscore(score, 4), "input", to="scores")
    return build.model({"scores": channels})


FCN = Sidecar(
    "fcn",
    Input(
        "input", 48, 32, colour="bgr", scale=1.0, mean=(104.0, 117.0, 123.0), std=(60.0, 60.0, 60.0), pad_multiple=16
    ),
    "scores",
    (("pool3",), ("pool4",), ("fc7",)),
    stages=("pool3", "pool4", "fc7"),
    scores=("score_pool3", "score_pool4", "score_fr"),
    classes=CLASSES,
)

NETWORKS = {
    "fcn": (fcn, FCN),
    "tiny": (tiny, TINY),
    "unet": (unet, UNET),
    "noskip": (no_skip, NO_SKIP),
    "branches": (two_branches, TWO_BRANCHES),
}


def renamed(sidecar: Sidecar, **changes: Any) -> Sidecar:
    """``sidecar`` with fields changed."""
    return replace(sidecar, **changes)
