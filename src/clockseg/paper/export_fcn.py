"""Export of an FCN to an ONNX file of any height and width, written layer by layer from its weights without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from clockseg.clockwork.network import StagedNetwork
from clockseg.errors import MissingDependency, UsageError, install
from clockseg.graph import sidecar
from clockseg.graph.onnx_reader import write_network
from clockseg.paper.fcn_checkpoint import FCNDescription, read_state
from clockseg.paper.fcn_layers import FCNShape, Layer, layers, offsets
from clockseg.types import Array, Size

OPSET = 17
SCHEDULE = "adaptive(0.25)"
"""The paper's clock at the threshold of its figures (section 5.3)."""


def export(checkpoint: Path, out: Path, *, variant: str | None = None, size: Size | None = None) -> Path:
    """Write ``out`` (NAME.onnx) and its sidecar from a checkpoint of `clockseg import` or `python -m recipes.fcn`.

    ``variant``: the required variant (None: any). ``size`` (width, height): the working size in the sidecar;
    None: that of the checkpoint. Weights keep their precision; those of 16 bits are cast when the file is loaded.
    """
    state, description = read_state(checkpoint)
    if variant not in (None, description.shape.variant):
        raise UsageError(f"{checkpoint} is an {description.shape.variant}, not an {variant}.")
    said = describe(replace(description, working=size or description.working), out.stem)
    model = to_onnx(state, description.shape)
    onnx.checker.check_model(model)
    write_network(model, said, out)
    return out


def read(path: Path) -> tuple[onnx.ModelProto, sidecar.Sidecar]:
    """Return the graph and the sidecar of a checkpoint; ``clockseg.networks.load`` calls this for NAME.safetensors."""
    state, description = read_state(path)
    return to_onnx(state, description.shape), describe(description, path.stem)


def load_in_torch(path: Path, *, device: str, threads: int | None) -> StagedNetwork:
    """Return a checkpoint's network in PyTorch; ``MissingDependency`` without torch."""
    try:
        from clockseg.paper.fcn_staged import load_staged
    except ImportError as error:
        raise MissingDependency(f"running a checkpoint needs torch: {install('torch')}") from error
    return load_staged(path, device=device, threads=threads)


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
    net = layers(shape)
    graph = _Graph(state, offsets(net))
    for layer in net:
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
