"""A fusion written into its network's file: what it reads, adds and gives, as plain ONNX nodes behind the network's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from clockseg.graph import sidecar
from clockseg.graph.correction import Addition, repeated, value_info, with_addition
from clockseg.training.stale_net import Fusion
from clockseg.training.stale_teacher import Teacher
from clockseg.types import Array

PREFIX = "stale."
"""Before the names of what is added."""
MOVED, UNEXPLAINED, CORRECTED = "moved_scores", "unexplained", "corrected"
"""Names of its inputs and its output in the file."""


def corrected(
    teacher: Teacher, fusion: Fusion, *, reads: str | None, name: str
) -> tuple[onnx.ModelProto, sidecar.Sidecar]:
    """The teacher's network with ``fusion`` in its file, and the sidecar that says so; the network itself is unchanged."""
    said = replace(teacher.said, name=name)
    seen = said.input.name if teacher.features is None else teacher.features.tensor
    nodes = _Nodes(teacher.kind)
    mended = nodes.fusion(fusion, seen)
    if teacher.of != said.output:
        tail = repeated(teacher.model.graph, teacher.of, said.output, reads=mended, prefix=PREFIX)
        tail[-1].output[list(tail[-1].output).index(PREFIX + said.output)] = CORRECTED
    else:
        tail = (helper.make_node("Identity", [mended], [CORRECTED], name=f"{PREFIX}output"),)
    before = () if teacher.features is None else teacher.features.nodes
    inputs = value_info(MOVED, teacher.kind, fusion.shape.classes), value_info(UNEXPLAINED, TensorProto.FLOAT, 1)
    addition = Addition((*before, *nodes.nodes, *tail), tuple(nodes.weights), inputs, _output(teacher))
    model = with_addition(teacher.model, addition)
    onnx.checker.check_model(model)
    correction = sidecar.Correction(CORRECTED, teacher.of, MOVED, UNEXPLAINED, reads)
    return model, replace(said, correction=correction)


def _output(teacher: Teacher) -> onnx.ValueInfoProto:
    """As the network's own output, of any size."""
    kind, shape = teacher.output
    free = [f"{CORRECTED}_{axis}" if axis >= len(shape) - 2 else size for axis, size in enumerate(shape)]
    return helper.make_tensor_value_info(CORRECTED, kind, free)


class _Nodes:
    """Appends nodes, each named by what it makes."""

    def __init__(self, kind: int) -> None:
        self.kind = kind
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def fusion(self, net: Fusion, seen: str) -> str:
        """All of ``net``; the name of the corrected scores, in the network's own type."""
        shape = net.shape
        plain = self.kind == TensorProto.FLOAT
        moved = MOVED if plain else self.add("Cast", MOVED, to=TensorProto.FLOAT)
        seen = seen if plain else self.add("Cast", seen, to=TensorProto.FLOAT)
        scores = self._scores(net, moved)
        for place, conv in enumerate(net.seen):
            unit = shape.units[1] if place == 0 else 1.0
            seen = self.conv(conv, seen if place == 0 else self.add("Relu", seen), inputs=1 / unit)
        seen = seen if shape.fits else self.resized(seen, scores)
        fused = self.relu(net.near, self.add("Relu", self.add("Add", seen, scores)))
        down, across, up = net.wide
        wide = self.conv(up, self.relu(across, self.relu(down, fused)))
        fused = self.add("Relu", self.add("Add", fused, self.resized(wide, fused)))
        found = self.conv(net.head, self.relu(net.last, fused), outputs=shape.units[0])
        if shape.fold > 1:
            found = self.add("DepthToSpace", found, blocksize=shape.fold, mode="CRD")
        found = found if shape.even else self.cut(found, moved)
        found = self.add("Add", moved, found)
        return found if plain else self.add("Cast", found, to=self.kind)

    def _scores(self, net: Fusion, moved: str) -> str:
        """The two maps that come from before; what scales them goes into the weights."""
        factors = np.full(net.shape.classes + 1, 1 / net.shape.units[0], np.float32)
        factors[-1] = 4
        # Zeros at the end are read only where the map isn't a multiple of the fold.
        more = 0 if net.shape.even else net.shape.fold - 1
        return self.conv(net.scores, self.add("Concat", moved, UNEXPLAINED, axis=1), inputs=factors, more=more)

    def relu(self, conv: nn.Module, tensor: str) -> str:
        return self.add("Relu", self.conv(conv, tensor))

    def conv(self, conv: Any, tensor: str, *, inputs: float | Array = 1.0, outputs: float = 1.0, more: int = 0) -> str:
        """A convolution; ``inputs``, ``outputs``: factors on what it reads and gives; ``more``: zeros behind the last."""
        weight = conv.weight.detach().numpy() * np.reshape(np.float32(inputs), (1, -1, 1, 1)) * np.float32(outputs)
        bias = conv.bias.detach().numpy() * np.float32(outputs)
        names = [self.weight(weight), self.weight(bias)]
        pads = [*conv.padding, *(pad + more for pad in conv.padding)]
        return self.add("Conv", tensor, *names, kernel_shape=conv.kernel_size, strides=conv.stride, pads=pads)

    def resized(self, tensor: str, like: str) -> str:
        """Bilinear, to the height and width of ``like``."""
        sizes = self.add("Slice", self.add("Shape", like), *(self.weight(np.array([n], np.int64)) for n in (2, 4)))
        start = self.add("Slice", self.add("Shape", tensor), *(self.weight(np.array([n], np.int64)) for n in (0, 2)))
        sizes = self.add("Concat", start, sizes, axis=0)
        how = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
        return self.add("Resize", tensor, "", "", sizes, **how)

    def cut(self, tensor: str, like: str) -> str:
        """Its first rows and columns, as many as ``like`` has."""
        first, axes = (self.weight(np.array(n, np.int64)) for n in ([0, 0], [2, 3]))
        ends = self.add("Slice", self.add("Shape", like), *(self.weight(np.array([n], np.int64)) for n in (2, 4)))
        return self.add("Slice", tensor, first, ends, axes)

    def weight(self, value: Array) -> str:
        """A constant."""
        name = f"{PREFIX}weight{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """A node; the name of what it makes."""
        name = f"{PREFIX}{operator.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name=name, **attributes))
        return name
