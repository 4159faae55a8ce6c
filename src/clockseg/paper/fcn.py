"""FCN-32s, FCN-16s, FCN-8s and the truncated nets: their layers with the paper's names, and their ONNX files.

The module, the ONNX file, the importer of Caffe's weights, the sizes and the costs are all made from the list of layers.
(Long, Shelhamer, Darrell: Fully Convolutional Networks, 2015; cut at its score paths by Shelhamer et al., 2016, section 4.)

Maps that are added must agree on the position of the picture's origin, so the larger one is cropped. The offsets of the crops
follow from the layers (docs/fcn8s.md derives them): the origin is at 5.71875 in pool4 and at 0.71875 in upscore2, for example.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from clockseg.datasets import Classes
from clockseg.errors import NetworkError, UsageError, nearest
from clockseg.graph import sidecar
from clockseg.graph.onnx_reader import write_network
from clockseg.types import Array, Size

Variant: TypeAlias = Literal["fcn32s", "fcn16s", "fcn8s", "pool3", "pool4"]
VARIANTS: tuple[Variant, ...] = ("fcn32s", "fcn16s", "fcn8s", "pool3", "pool4")
CONVS = (2, 2, 3, 3, 3)
"""Convolutions of VGG-16's five blocks; each block ends in a pooling."""
PAD = 100
"""Padding of conv1_1: so that the smallest picture, 1x1, still has a map after fc6."""
CROPS: Mapping[Variant, Mapping[str, int]] = {
    "fcn32s": {"score": 19},
    "fcn16s": {"fuse_pool4": 5, "score": 27},
    "fcn8s": {"fuse_pool4": 5, "fuse_pool3": 9, "score": 31},
    "pool3": {"score": 103},
    "pool4": {"score": 107},
}
"""The offset of each crop, by the name of the layer that crops."""


@dataclass(frozen=True)
class FCNShape:
    """The architecture of an FCN; the default is the paper's FCN-8s.

    ``variant``: pool3 and pool4 are the truncated nets of the stage baselines. ``widths``: channels of the five blocks;
    ``fc``: of fc6 and fc7.
    """

    variant: Variant = "fcn8s"
    classes: int = 21
    widths: tuple[int, ...] = (64, 128, 256, 512, 512)
    fc: int = 4096

    def __post_init__(self) -> None:
        if self.variant not in VARIANTS:
            raise UsageError(f"variant {self.variant!r}; allowed are {', '.join(VARIANTS)}.")
        if self.classes < 2 or len(self.widths) != 5 or min(*self.widths, self.fc) < 1:
            raise UsageError(
                f"{self.classes} classes, widths {self.widths}, fc {self.fc}; give at least 2 classes, "
                "five widths and an fc of at least 1."
            )

    @property
    def blocks(self) -> int:
        """The number of VGG's five blocks in the net."""
        return {"pool3": 3, "pool4": 4}.get(self.variant, 5)

    @property
    def cuts(self) -> tuple[str, ...]:
        """The maps at which it is cut, one per stage, at which score paths leave the trunk; they name the stages."""
        if self.variant in ("pool3", "pool4"):
            return (self.variant,)
        return {"fcn8s": ("pool3", "pool4", "fc7"), "fcn16s": ("pool4", "fc7")}.get(self.variant, ("fc7",))

    @property
    def last(self) -> str:
        """The name of the enlargement to the picture's size."""
        return {"fcn8s": "upscore8", "fcn16s": "upscore16"}.get(self.variant, "upscore")

    def narrowed(self, factor: float) -> FCNShape:
        """Return the same net with ``factor`` of the channels, at least one each."""
        if not (factor > 0 and math.isfinite(factor)):
            raise UsageError(f"a width factor of {factor}; give a number above 0, such as 0.25.")
        *widths, fc = (max(1, round(width * factor)) for width in (*self.widths, self.fc))
        return replace(self, widths=tuple(widths), fc=fc)


FCN8S = FCNShape()
"""The paper's network."""


class Layer(NamedTuple):
    """One layer; its map has its name, after the ReLU where there is one (``rectified``).

    ``kind``: conv; pool (the maximum, rounding up); deconv (a fixed bilinear enlargement, one class at a time, no bias);
    crop, of ``reads[0]`` to the size of ``reads[1]``; fuse, which adds ``reads[1]`` and the crop of ``reads[0]`` to it.
    """

    name: str
    kind: Literal["conv", "pool", "deconv", "crop", "fuse"]
    reads: tuple[str, ...]
    inputs: int
    outputs: int
    kernel: int = 1
    stride: int = 1
    pad: int = 0
    rectified: bool = False

    @property
    def weights(self) -> dict[str, tuple[int, ...]]:
        """The shapes of its weights, by name."""
        if self.kind == "conv":
            kernel = (self.outputs, self.inputs, self.kernel, self.kernel)
            return {f"{self.name}.weight": kernel, f"{self.name}.bias": (self.outputs,)}
        return {f"{self.name}.weight": (self.outputs, 1, self.kernel, self.kernel)} if self.kind == "deconv" else {}


def layers(shape: FCNShape) -> tuple[Layer, ...]:
    """Return the net's layers in the order they run: stage after stage, each up to its head, then those that fuse.

    >>> [layer.name for layer in layers(FCNShape())][-6:]
    ['upscore2', 'fuse_pool4', 'upscore_pool4', 'fuse_pool3', 'upscore8', 'score']
    """
    heads = {head.reads[0]: head for head in _heads(shape)}
    found: list[Layer] = []
    for layer in _trunk(shape):
        found += [layer, heads[layer.name]] if layer.name in heads else [layer]
    return (*found, *_fusion(shape))


def weight_shapes(shape: FCNShape) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all weights, by name: ``LAYER.weight`` and ``LAYER.bias``."""
    return {name: size for layer in layers(shape) for name, size in layer.weights.items()}


def bilinear(kernel: int) -> Array:
    """Return the bilinear kernel of an enlargement by kernel / 2, float32 [kernel, kernel]: the fixed weights of a deconv."""
    factor = -(-kernel // 2)
    centre = factor - 0.5 if kernel % 2 == 0 else factor - 1.0
    row = 1 - np.abs(np.arange(kernel) - centre) / factor
    found: Array = np.outer(row, row).astype(np.float32)
    return found


def _trunk(shape: FCNShape) -> Iterator[Layer]:
    before, inputs = "data", 3
    for block, width in enumerate(shape.widths[: shape.blocks], 1):
        for index in range(1, CONVS[block - 1] + 1):
            name, pad = f"conv{block}_{index}", PAD if (block, index) == (1, 1) else 1
            yield Layer(name, "conv", (before,), inputs, width, 3, pad=pad, rectified=True)
            before, inputs = name, width
        yield Layer(f"pool{block}", "pool", (before,), width, width, 2, 2)
        before = f"pool{block}"
    if shape.blocks == len(CONVS):
        yield Layer("fc6", "conv", (before,), inputs, shape.fc, 7, rectified=True)
        yield Layer("fc7", "conv", ("fc6",), shape.fc, shape.fc, rectified=True)


def _heads(shape: FCNShape) -> Iterator[Layer]:
    """Yield the 1x1 convolutions that compute scores; the deepest is always called score_fr."""
    for cut in shape.cuts:
        channels = shape.fc if cut == "fc7" else shape.widths[int(cut[-1]) - 1]
        name = "score_fr" if cut == shape.cuts[-1] else f"score_{cut}"
        yield Layer(name, "conv", (cut,), channels, shape.classes)


def _fusion(shape: FCNShape) -> Iterator[Layer]:
    classes, before, stride = shape.classes, "score_fr", 2**shape.blocks
    for cut in reversed(shape.cuts[:-1]):
        up = "upscore2" if before == "score_fr" else f"upscore_{before.removeprefix('fuse_')}"
        yield Layer(up, "deconv", (before,), classes, classes, 4, 2)
        yield Layer(f"fuse_{cut}", "fuse", (f"score_{cut}", up), classes, classes)
        before, stride = f"fuse_{cut}", stride // 2
    yield Layer(shape.last, "deconv", (before,), classes, classes, 2 * stride, stride)
    yield Layer("score", "crop", (shape.last, "data"), classes, classes)


OPSET = 17
SCHEDULE = "adaptive(0.25)"
"""The paper's clock at the threshold of its figures (section 5.3)."""
MEAN = (104.00698793, 116.66876762, 122.67891434)
"""Mean of ImageNet and PASCAL VOC, 0..255, blue, green, red, with which VGG-16 and networks based on it are trained."""


@dataclass(frozen=True)
class FCNDescription:
    """The architecture of an FCN, its input, and the classes of its output.

    The net reads pixels 0..255 in ``order`` minus ``mean``, which is in the same order, without further preprocessing.
    ``working``: the size (width, height) that frames are fitted into.
    """

    shape: FCNShape
    classes: Classes
    mean: tuple[float, float, float] = MEAN
    order: Literal["bgr", "rgb"] = "bgr"
    working: Size = (500, 500)

    def __post_init__(self) -> None:
        names, colours = len(self.classes.names), len(self.classes.palette)
        if names != self.shape.classes or colours not in (0, names):
            raise NetworkError(
                f"{names} names and {colours} colours for the {self.shape.classes} classes of an {self.shape.variant}; "
                "give one of each per class, or no colours."
            )
        if self.order not in ("bgr", "rgb") or min(self.working) < 1 or not all(map(math.isfinite, self.mean)):
            raise NetworkError(
                f"order {self.order!r}, working size {self.working}, mean {self.mean}; the order is bgr or rgb, "
                "the size at least 1x1, and the mean three finite numbers."
            )


def write_fcn(
    state: Mapping[str, Array], description: FCNDescription, out: Path, *, half: bool = False, size: Size | None = None
) -> Path:
    """Write ``out`` (NAME.onnx) and its sidecar from weights by name; with ``half``, weights are stored in float16.

    ``size`` (width, height): the working size in the sidecar; None: that of the description. ``NetworkError`` unless the
    weights fit the description, and 16 bits if they are to.
    """
    check_state(state, description.shape, source=str(out))
    if half and (large := [name for name, value in state.items() if np.abs(value).max() > np.finfo(np.float16).max]):
        raise NetworkError(f"{', '.join(large)} have weights too large for 16 bits; write them in 32.")
    stored = {name: value.astype(np.float16 if half else np.float32) for name, value in state.items()}
    said = describe(replace(description, working=size or description.working), out.stem)
    model = to_onnx(stored, description.shape)
    onnx.checker.check_model(model)
    write_network(model, said, out)
    return out


def check_state(state: Mapping[str, Array], shape: FCNShape, *, source: str) -> None:
    """Raise ``NetworkError`` unless ``state`` has exactly the weights of such a net, each with its shape."""
    wanted = weight_shapes(shape)
    what = f"an {shape.variant} of {shape.classes} classes"
    for name, value in state.items():
        if name not in wanted:
            raise NetworkError(f"{source}: {what} has no weights {name!r}. {nearest(name, wanted)}")
        if value.shape != wanted[name]:
            found, right = ("x".join(map(str, size)) for size in (value.shape, wanted[name]))
            raise NetworkError(f"{source}: {name} is {found}; {what} has {right} there.")
    if missing := [name for name in wanted if name not in state]:
        raise NetworkError(f"{source} lacks {', '.join(missing)} of {what}.")


def describe(description: FCNDescription, name: str) -> sidecar.Sidecar:
    """Return the sidecar with input, cuts and classes. Score maps are watched and held uncropped."""
    width, height = description.working
    frame = sidecar.Input("data", width, height, description.order, 1.0, description.mean)
    cuts, classes = description.shape.cuts, description.classes
    return sidecar.Sidecar(
        name,
        frame,
        "score",
        tuple((cut,) for cut in cuts),
        cuts,
        scores(description.shape),
        classes.names,
        classes.palette,
        classes.ignore,
        SCHEDULE if len(cuts) > 1 else None,
    )


def scores(shape: FCNShape) -> tuple[str, ...]:
    """Return the name of each stage's own score map, which groups read."""
    last = "upscore2" if len(shape.cuts) > 1 else "score_fr"
    return (*(f"score_{cut}" for cut in shape.cuts[:-1]), last)


def to_onnx(state: Mapping[str, Array], shape: FCNShape) -> onnx.ModelProto:
    """Return the graph from data [1, 3, height, width] to score and to each stage's own scores; maps are named like layers."""
    graph = _Graph(state, CROPS[shape.variant])
    for layer in layers(shape):
        graph.add(layer)
    outputs = ("score", *scores(shape))
    made = helper.make_graph(
        graph.nodes,
        shape.variant,
        [helper.make_tensor_value_info("data", TensorProto.FLOAT, [1, 3, "height", "width"])],
        [
            helper.make_tensor_value_info(
                name, TensorProto.FLOAT, [1, shape.classes, f"{name}_height", f"{name}_width"]
            )
            for name in outputs
        ],
        graph.constants,
    )
    return helper.make_model(
        made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8, producer_name="clockseg"
    )


class _Graph:
    """Nodes and constants of the graph, added layer by layer."""

    def __init__(self, state: Mapping[str, Array], offsets: Mapping[str, int]) -> None:
        self.state, self.offsets = state, offsets
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[TensorProto] = []

    def add(self, layer: Layer) -> None:
        """Append the operations that compute the map ``layer.name``."""
        square = {"kernel_shape": [layer.kernel] * 2, "strides": [layer.stride] * 2}
        if layer.kind == "pool":
            self.node("MaxPool", layer.reads, layer.name, **square, ceil_mode=1)
        elif layer.kind == "deconv":
            self.node("ConvTranspose", self.inputs(layer), layer.name, **square, group=layer.outputs)
        elif layer.kind == "conv":
            linear = f"{layer.name}.linear" if layer.rectified else layer.name
            self.node("Conv", self.inputs(layer), linear, **square, pads=[layer.pad] * 4)
            if layer.rectified:
                self.node("Relu", (linear,), layer.name)
        elif layer.kind == "crop":
            self.crop(layer, layer.name)
        else:
            self.node("Add", (layer.reads[1], self.crop(layer, f"{layer.name}.crop")), layer.name)

    def inputs(self, layer: Layer) -> tuple[str, ...]:
        """Return the inputs of a layer with weights; 16-bit weights are widened, so that it computes in 32 bits."""
        names = []
        for name in layer.weights:
            value = np.ascontiguousarray(self.state[name])
            self.constants.append(numpy_helper.from_array(value, name))
            if value.dtype != np.float32:
                name = self.node("Cast", (name,), f"{name}.wide", to=TensorProto.FLOAT)
            names.append(name)
        return (*layer.reads, *names)

    def crop(self, layer: Layer, made: str) -> str:
        """Append the crop of ``reads[0]`` at the layer's offset to the size of ``reads[1]``; return the name of its output."""
        map, reference = layer.reads
        start, axes = f"{layer.name}.offset", f"{layer.name}.axes"
        offset = np.full(2, self.offsets[layer.name], np.int64)
        self.constants += [numpy_helper.from_array(offset, start), numpy_helper.from_array(np.array([2, 3]), axes)]
        size = self.node("Shape", (reference,), f"{layer.name}.size", start=2)
        end = self.node("Add", (size, start), f"{layer.name}.end")
        return self.node("Slice", (map, start, end, axes), made)

    def node(self, operator: str, inputs: tuple[str, ...], made: str, **attributes: Any) -> str:
        """Append one operation and return the name of its output."""
        self.nodes.append(helper.make_node(operator, inputs, [made], name=f"{operator}_{made}", **attributes))
        return made
