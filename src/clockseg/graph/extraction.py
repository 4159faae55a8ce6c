"""Parts of an ONNX graph as models, with preprocessing before or the argmax behind, and splits applied to the graph."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from clockseg.errors import NetworkError
from clockseg.graph import onnx_reader
from clockseg.graph.nodes import attribute, folded, keep_nodes, reads
from clockseg.graph.part import Built
from clockseg.graph.sidecar import Input, Sidecar
from clockseg.graph.split import Split, SplitNode, splits
from clockseg.graph.static import Static, declared_shape, fix, walk
from clockseg.types import Array, Size

FRAME = "clockseg.frame"
"""The name inside models of the frame: uint8 RGB [1, h, w, 3]."""
OUTCOME = "clockseg.outcome"
"""The name inside models of class ids: uint8 [1, h, w]."""


SCORES = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16)
"""Element types of class scores; any other is one of class ids."""


def extract(static: Static, inputs: Sequence[str], outputs: Sequence[str], *, name: str) -> onnx.ModelProto:
    """Extract the nodes between ``inputs`` and ``outputs`` as a model with static shapes and only the weights it needs."""
    wanted, nodes = set(outputs).difference(inputs), list[onnx.NodeProto]()
    for node in reversed(static.nodes):
        if not wanted.isdisjoint(node.output):
            nodes.append(node)
            wanted.update(name for name in reads(node) if name not in inputs)
    nodes.reverse()
    made = {tensor for node in nodes for tensor in node.output}
    read = dict.fromkeys([*outputs, *(tensor for node in nodes for tensor in reads(node))])
    constants: list[TensorProto] = []
    for tensor in read:
        if tensor not in made and tensor not in inputs:
            if (value := static.constant(tensor)) is None:
                raise NetworkError(f"part {name!r} doesn't reach {tensor!r} from {', '.join(inputs)}.")
            constants.append(value)
    # Engines drop inputs that nothing reads, and then don't find them.
    graph = helper.make_graph(
        nodes,
        name,
        [_info(static, tensor) for tensor in inputs if tensor in read],
        [_info(static, tensor) for tensor in outputs],
        constants,
    )
    return helper.make_model(graph, opset_imports=static.opsets, ir_version=static.ir_version, producer_name="clockseg")


def _info(static: Static, tensor: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(tensor, *static.types[tensor])


def with_frame(model: onnx.ModelProto, tensor: str, given: Input) -> onnx.ModelProto:
    """Replace the input ``tensor`` of ``model`` by uint8 frames: x = (pixel * scale - mean) / std.

    Cast before the transpose: engines fuse that into one pass over the bytes.
    """
    graph = model.graph
    [value] = [value for value in graph.input if value.name == tensor]
    _, _, height, width = declared_shape(value)
    kind = value.type.tensor_type.elem_type
    graph.input.remove(value)
    graph.input.insert(0, helper.make_tensor_value_info(FRAME, TensorProto.UINT8, [1, height, width, 3]))
    chain = _Chain(graph, FRAME)
    if given.colour == "bgr":
        chain.add("Gather", np.array([2, 1, 0], np.int64), axis=3)
    chain.add("Cast", to=TensorProto.FLOAT)
    chain.add("Transpose", perm=[0, 3, 1, 2])
    factor, offset = given.affine()
    if (factor != 1).any():
        chain.add("Mul", factor.astype(np.float32).reshape(1, 3, 1, 1))
    if offset.any():
        chain.add("Add", offset.astype(np.float32).reshape(1, 3, 1, 1))
    if kind != TensorProto.FLOAT:
        chain.add("Cast", to=kind)
    nodes = [*chain.ending_in(tensor), *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    return model


def with_labels(model: onnx.ModelProto, tensor: str, size: Size, *, keep: bool = False) -> onnx.ModelProto:
    """Replace the output ``tensor``, scores [1, classes, ..] or class ids, by uint8 labels [1, h, w] at ``size``.

    ``keep``: ``tensor`` stays an output as well. The lowest id wins ties. The argmax is taken over [1, classes, pixels]:
    with four axes OpenVINO keeps channels last or in blocks of 16, in which its argmax takes 5 to 20 times as long.
    """
    graph = model.graph
    [value] = [value for value in graph.output if value.name == tensor]
    shape = [*declared_shape(value)]
    kind = value.type.tensor_type.elem_type
    width, height = size
    if not keep:
        graph.output.remove(value)
    chain = _Chain(graph, tensor)
    if kind in SCORES:
        if shape[2:] != [height, width]:
            sizes = np.array([1, shape[1], height, width], np.int64)
            chain.add("Resize", None, None, sizes, mode="linear", coordinate_transformation_mode="half_pixel")
        chain.add("Reshape", np.array([1, shape[1], height * width], np.int64))
        chain.add("ArgMax", axis=1, keepdims=0)
    elif shape[-2:] != [height, width]:
        sizes = np.array([*(side or 1 for side in shape[:-2]), height, width], np.int64)
        chain.add("Cast", to=TensorProto.FLOAT)  # few engines resize whole numbers
        chain.add("Resize", None, None, sizes, mode="nearest", coordinate_transformation_mode="half_pixel")
    chain.add("Cast", to=TensorProto.UINT8)
    chain.add("Reshape", np.array([1, height, width], np.int64))
    graph.node.extend(chain.ending_in(OUTCOME))
    graph.output.append(helper.make_tensor_value_info(OUTCOME, TensorProto.UINT8, [1, height, width]))
    return model


class _Chain:
    """Nodes each of which reads what the one before it made; their constants go into ``graph``."""

    def __init__(self, graph: onnx.GraphProto, start: str) -> None:
        self.graph, self.tensor = graph, start
        self.nodes: list[onnx.NodeProto] = []

    def add(self, operator: str, *constants: Array | None, **attributes: object) -> None:
        """Append ``operator``; ``constants`` are its inputs after the first (None: left out)."""
        name = f"clockseg.{self.tensor.removeprefix('clockseg.')}.{operator}"
        inputs = [self.tensor]
        for index, constant in enumerate(constants):
            inputs.append("" if constant is None else f"{name}.{index}")
            if constant is not None:
                self.graph.initializer.append(numpy_helper.from_array(constant, inputs[-1]))
        self.tensor = f"{name}.made"
        self.nodes.append(helper.make_node(operator, inputs, [self.tensor], name=name, **attributes))

    def ending_in(self, name: str) -> list[onnx.NodeProto]:
        """Return the nodes, of which the last one makes ``name``."""
        self.nodes[-1].output[0] = name
        return self.nodes


def built(model: onnx.ModelProto) -> Built:
    """Serialize ``model``, with the names of its inputs and outputs in order."""
    return Built(
        model.SerializeToString(),
        tuple(value.name for value in model.graph.input),
        tuple(value.name for value in model.graph.output),
    )


def applied(static: Static, plan: Sequence[Split]) -> Static:
    """Carry out ``plan`` on a copy of ``static``; tensors keep their names."""
    for split in plan:
        made = replace(
            static, nodes=[], weights=dict(static.weights), types=dict(static.types), folded=dict(static.folded)
        )
        terms = _Terms(made, split, {node.name: node for node in static.nodes})
        for node in static.nodes:
            if node.name == split.product:
                for step in split.steps:
                    walk(made, terms.node(step))
            else:
                made.nodes.append(node)
        static = made
    return static


@dataclass(frozen=True)
class _Terms:
    """Makes the nodes of a split's terms, and their weights in ``static``; ``nodes``: the graph's, by name."""

    static: Static
    split: Split
    nodes: dict[str, onnx.NodeProto]

    def node(self, step: SplitNode) -> onnx.NodeProto:
        """Return the node of ``step``; its weights are cut to the channels of its term."""
        if step.term is None:
            return helper.make_node("Add", step.inputs, [step.made], name=step.name)
        if not step.like:
            return helper.make_node("Concat", step.inputs, [step.made], name=step.name, axis=self.split.axis)
        node = self.nodes[step.like]
        copy = deepcopy(node)
        copy.name, copy.output[:] = step.name, [step.made]
        copy.input[0] = step.inputs[0]
        if step.like == self.split.product:
            axis = 1 if node.op_type == "Conv" or attribute(node, "transB", 0) else 0
            channels = [channel for span in self.split.spans(step.term) for channel in range(*span)]
            copy.input[1] = self._cut(node.input[1], axis, channels, f"{step.name}.weights")
            if not step.bias:
                del copy.input[2:]
        elif len(node.input) > 3 and node.input[3]:
            copy.input[3] = self._sizes(node, step.inputs[0], f"{step.name}.sizes")
        return copy

    def _cut(self, name: str, axis: int, channels: list[int], to: str) -> str:
        """Return the constant ``name`` cut to ``channels`` along ``axis``, as ``to``."""
        value = self.static.constant(name)
        if value is not None:
            part = np.take(numpy_helper.to_array(value), channels, axis)
            self.static.hold(numpy_helper.from_array(np.ascontiguousarray(part), to))
            return to
        self.static.hold(numpy_helper.from_array(np.array(channels, np.int64), f"{to}.channels"))
        walk(self.static, helper.make_node("Gather", [name, f"{to}.channels"], [to], name=to, axis=axis))
        return to

    def _sizes(self, node: onnx.NodeProto, reads: str, to: str) -> str:
        """Return the sizes a Resize is given, for as many channels as what it now reads has."""
        sizes = self.static.folded[node.input[3]].copy()
        axes = list(attribute(node, "axes", range(len(sizes))))
        if self.split.axis in axes:
            sizes[axes.index(self.split.axis)] = self.static.shape(reads)[self.split.axis]
        self.static.hold(numpy_helper.from_array(sizes, to))
        return to


def split_model(model: onnx.ModelProto, said: Sidecar, size: Size) -> onnx.ModelProto:
    """Split a copy of ``model`` as it is split when it is cut at the cuts of ``said``; sizes stay free.

    Planned at the working size ``size``. Without anything to split, the network as it is.
    """
    model = folded(model)
    width, height = size
    static = fix(model, {said.input.name: (1, 3, height, width)}, floats=[said.output, *filter(None, said.scores)])
    graph = onnx_reader.neutral(static, said.input.name)
    plan = splits(graph, said.cuts, output=said.output)
    # Nodes inside an If have other names in the plan.
    if not plan or not {split.product for split in plan} <= {node.name for node in model.graph.node}:
        return model
    # Of the graph at one size come only the shapes; what computes sizes stays.
    weights = {weight.name: weight for weight in model.graph.initializer}
    done = applied(replace(static, nodes=list(model.graph.node), weights=weights), plan)
    keep_nodes(model.graph, done.nodes, done.weights)
    del model.graph.value_info[:]
    onnx.checker.check_model(model)
    return model
