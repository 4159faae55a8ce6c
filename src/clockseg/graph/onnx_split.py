"""Applies the plan of splits to an ONNX graph: nodes are repeated for each term, weights cut to its channels."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import onnx
from onnx import helper, numpy_helper

from clockseg.graph import onnx_reader
from clockseg.graph.nodes import attribute, copied, folded, keep_nodes, reads
from clockseg.graph.sidecar import Sidecar
from clockseg.graph.split import Split, Term, splits
from clockseg.graph.static import Static, fix, walk
from clockseg.types import Size


def applied(static: Static, plan: Sequence[Split]) -> Static:
    """Carry out ``plan`` on a copy of ``static``; tensors keep their names."""
    for split in plan:
        static = _applied(static, split)
    return static


def _applied(static: Static, split: Split) -> Static:
    made = replace(static, nodes=[], weights=dict(static.weights), types=dict(static.types), folded=dict(static.folded))
    terms = _Terms(made, split, {node.name: node for node in static.nodes})
    for node in static.nodes:
        if node.name == split.product:
            terms.add()
        else:
            made.nodes.append(node)
    return made


@dataclass(frozen=True)
class _Terms:
    """Adds the nodes of a split's terms to ``static``; ``nodes``: the graph's, by name."""

    static: Static
    split: Split
    nodes: dict[str, onnx.NodeProto]

    @cached_property
    def settled(self) -> set[str]:
        """Tensors that do not depend on the frame."""
        found = {"", *self.static.weights, *self.static.folded}
        for node in self.nodes.values():
            if found.issuperset(reads(node)):
                found.update(node.output)
        return found

    def add(self) -> None:
        """Add all terms and their sums."""
        before = ""
        for index, term in enumerate(self.split.terms):
            tensor = self._term(index, term)
            if index:
                name, total = self.split.total(index)
                walk(self.static, helper.make_node("Add", [before, tensor], [total], name=name))
                tensor = total
            before = tensor

    def _term(self, index: int, term: Term) -> str:
        enlarge = self.nodes[term.enlarge] if term.enlarge else None
        reads = [enlarge.input[0]] if enlarge else [self.split.leaves[leaf] for leaf in term.leaves]
        tensor = reads[0]
        if len(reads) > 1:
            tensor = self.split.named(index, "joined")
            walk(self.static, helper.make_node("Concat", reads, [tensor], name=tensor, axis=self.split.axis))
        channels = self._channels(term)
        for step, name in enumerate(self.split.between):
            tensor = self._repeated(self.nodes[name], tensor, self.split.named(index, step), channels)
        product = self.nodes[self.split.product]
        tensor = self._product(product, tensor, index, channels)
        if enlarge:
            tensor = self._repeated(enlarge, tensor, self.split.named(index, "enlarged"), channels)
        return tensor

    def _channels(self, term: Term) -> list[int]:
        """Return the positions along the joined axis that ``term`` has."""
        sizes = [self.static.shape(leaf)[self.split.axis] for leaf in self.split.leaves]
        starts = [0, *itertools.accumulate(sizes)]
        return [channel for leaf in term.leaves for channel in range(starts[leaf], starts[leaf + 1])]

    def _repeated(self, node: onnx.NodeProto, reads: str, name: str, channels: list[int]) -> str:
        """Add a copy of ``node`` that reads ``reads``; its numbers for each channel are cut to ``channels``."""
        copy = _copy(node, name)
        copy.input[self._dynamic(node)] = reads
        for position, axis in self._by_channel(node):
            copy.input[position] = self._cut(node.input[position], axis, channels, f"{name}.{position}")
        for entry in copy.attribute:
            if node.op_type == "Conv" and entry.name == "group":
                entry.i = len(channels)
        if node.op_type == "Resize" and len(node.input) > 3 and node.input[3]:
            copy.input[3] = self._sizes(node, reads, f"{name}.sizes")
        walk(self.static, copy)
        return name

    def _product(self, node: onnx.NodeProto, reads: str, index: int, channels: list[int]) -> str:
        """Add the product with the weights of ``channels``, and the bias if this term has it."""
        name = self.split.named(index, "product")
        copy = _copy(node, name)
        copy.input[0] = reads
        axis = 1 if node.op_type == "Conv" or attribute(node, "transB", 0) else 0
        copy.input[1] = self._cut(node.input[1], axis, channels, f"{name}.weights")
        if index != self.split.bias:
            del copy.input[2:]
        walk(self.static, copy)
        return name

    def _dynamic(self, node: onnx.NodeProto) -> int:
        """Return the position of the one input that isn't constant: the joined maps, or a map computed from them."""
        return next(index for index, name in enumerate(node.input) if name not in self.settled)

    def _by_channel(self, node: onnx.NodeProto) -> Iterator[tuple[int, int]]:
        """Yield the inputs of a channelwise node with one number per channel: their position, and the axis of the channels."""
        axis, whole = self.split.axis, self.static.shape(node.input[self._dynamic(node)])
        for position, name in enumerate(node.input):
            if not name or position == self._dynamic(node) or node.op_type == "Resize":
                continue
            shape = self.static.shape(name)
            if node.op_type in ("BatchNormalization", "Conv"):
                yield position, 0
            elif (own := axis - len(whole) + len(shape)) >= 0 and shape[own] > 1:
                yield position, own

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


def _copy(node: onnx.NodeProto, name: str) -> onnx.NodeProto:
    copy = copied(node)
    copy.name = name
    copy.output[:] = [name]
    return copy


def split_model(model: onnx.ModelProto, said: Sidecar, size: Size) -> onnx.ModelProto:
    """Split a copy of ``model`` as it is split when it is cut at the cuts of ``said``; sizes stay free.

    Planned at the working size ``size``. Without anything to split, the network as it is.
    """
    model = folded(model)
    width, height = size
    static = fix(model, {said.input.name: (1, 3, height, width)}, floats=[said.output, *filter(None, said.scores)])
    graph = onnx_reader.neutral(static, said.input.name)
    plan = splits(graph, said.cuts, output=said.output, shapes=static.shapes)
    if not plan or not _there(model, plan):
        return model
    # Of the graph at one size come only the shapes; what computes sizes stays.
    weights = {weight.name: weight for weight in model.graph.initializer}
    done = applied(replace(static, nodes=list(model.graph.node), weights=weights), plan)
    keep_nodes(model.graph, done.nodes, done.weights)
    del model.graph.value_info[:]
    onnx.checker.check_model(model)
    return model


def _there(model: onnx.ModelProto, plan: Sequence[Split]) -> bool:
    """Return True if the file has all nodes of the plan; those inside an If have other names."""
    names = {node.name for node in model.graph.node}
    return {name for split in plan for name in (split.product, *split.between)} <= names
