"""Applies the plan of splits to an ONNX graph: nodes are repeated for each term, weights cut to its channels."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np
import onnx
from onnx import helper, numpy_helper

from clockseg.graph import onnx_reader
from clockseg.graph.nodes import attribute, folded, keep_nodes
from clockseg.graph.sidecar import Sidecar
from clockseg.graph.split import Split, SplitNode, splits
from clockseg.graph.static import Static, fix, walk
from clockseg.types import Size


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
