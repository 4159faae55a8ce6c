"""FCNs as ONNX files of any height and width, written layer by layer from their weights without torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from clockseg.datasets import Classes
from clockseg.errors import NetworkError, nearest
from clockseg.graph import sidecar
from clockseg.graph.onnx_reader import write_network
from clockseg.paper.fcn_layers import CROPS, FCNShape, Layer, layers, weight_shapes
from clockseg.types import Array, Size

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
    """Raise ``NetworkError`` unless ``state`` has exactly the weights of such a net, each with its shape.

    >>> check_state({"conv1_1.weight": np.zeros((4, 3, 3, 3))}, FCNShape(), source="x")
    Traceback (most recent call last):
        ...
    clockseg.errors.NetworkError: x: conv1_1.weight is 4x3x3x3; an fcn8s of 21 classes has 64x3x3x3 there.
    """
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
    """Return the name of each stage's own score map, which groups read.

    >>> scores(FCNShape("fcn32s")), scores(FCNShape("fcn16s"))
    (('score_fr',), ('score_pool4', 'upscore2'))
    """
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
