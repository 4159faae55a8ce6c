"""Carrying out on an exported module what ``split`` plans: a product of a concatenation as a sum of products."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor, fx

from clockseg.graph.split import Split, Term
from clockseg.graph.torch_export import operation
from clockseg.graph.torch_kinds import ARITHMETIC, NORMS, shape
from clockseg.graph.torch_names import Names
from clockseg.graph.torch_reader import Program

SPLIT = "clockseg.split"
"""In the ``meta`` of a node whose weights are only some channels of its submodule's."""


def split_up(program: Program, plan: Sequence[Split]) -> Program:
    """``program`` with ``plan`` carried out; weights are sliced where they are used, so that they stay the module's."""
    if not plan:
        return program
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    graph.output(graph.graph_copy(program.fx, copies))
    names = Names(
        {copies[node]: name for node, name in program.names.chosen.items()},
        {name: copies[node] for name, node in program.names.known.items()},
    )
    for split in plan:
        _Sum(graph, names, split).carry_out()
    return replace(program, fx=graph, names=names)


@dataclass(frozen=True)
class _Sum:
    """One split being carried out; ``names`` grows."""

    graph: fx.Graph
    names: Names
    split: Split

    def carry_out(self) -> None:
        product = next(node for node in self.graph.nodes if node.name == self.split.product)
        with self.graph.inserting_before(product):
            total, *others = [self._term(index, term, product) for index, term in enumerate(self.split.terms)]
            for index, made in enumerate(others, start=1):
                total = self._add(self.split.total(index)[0], product, torch.ops.aten.add.Tensor, total, made)
        product.replace_all_uses_with(total)
        for name, node in list(self.names.known.items()):
            if node is product:
                self.names.known[name] = total
        self.names.chosen[total] = self.names.chosen.pop(product)
        self.graph.erase_node(product)

    def _term(self, index: int, term: Term, product: fx.Node) -> fx.Node:
        leaves = [self.names.known[self.split.leaves[leaf]] for leaf in term.leaves]
        enlarge = self._node(term.enlarge) if term.enlarge else None
        [made, *others] = [enlarge.args[0]] if enlarge else leaves
        if others:
            made = self._add(
                self.split.named(index, "joined"), product, torch.ops.aten.cat.default, leaves, self.split.axis
            )
        for step, name in enumerate(self.split.between):
            made = self._between(self.split.named(index, step), self._node(name), made, term)
        weights = self._sliced(product.args[1], 0 if operation(product) in ("matmul", "mm") else 1, term)
        rest = list(product.args[2:])
        if rest and index != self.split.bias:
            rest[0] = None
        made = self._add(self.split.named(index, "product"), product, product.target, made, weights, *rest)
        if enlarge:
            made = self._add(self.split.named(index, "enlarged"), enlarge, enlarge.target, made, *enlarge.args[1:])
        return made

    def _between(self, name: str, like: fx.Node, given: fx.Node, term: Term) -> fx.Node:
        """``like`` repeated on ``given``, with the constants that belong to the term's channels."""
        what = operation(like)
        args: list[Any] = [given, *like.args[1:]]
        whole = sum(self._channels())
        for position, value in enumerate(args[1:], 1):
            if isinstance(value, fx.Node):
                axis = len(shape(value)) - len(shape(like)) + 1 if what in ARITHMETIC else 0
                if axis >= 0 and len(shape(value)) > axis and shape(value)[axis] == whole:
                    args[position] = self._sliced(value, axis, term)
        if what == "conv2d":
            args[6] = shape(given)[1]
        made = self._add(name, like, like.target, *args)
        made.meta[SPLIT] = True
        return self._add(f"{name}.taken", like, operator.getitem, made, 0) if _gives_several(like) else made

    def _node(self, name: str) -> fx.Node:
        """A node of the plan: by its name in the graph, or, if a split made it, by that of its tensor."""
        found = next((node for node in self.graph.nodes if node.name == name), None)
        return found if found is not None else self.names.known[name]

    def _channels(self) -> list[int]:
        return [shape(self.names.known[leaf])[self.split.axis] for leaf in self.split.leaves]

    def _sliced(self, weight: fx.Node, axis: int, term: Term) -> fx.Node:
        """The channels of ``weight`` along ``axis`` that belong to the leaves of ``term``."""
        bounds = list(pairwise(accumulate(self._channels(), initial=0)))
        wanted = [bounds[leaf] for leaf in term.leaves]
        runs = [wanted[0]]
        for start, end in wanted[1:]:
            runs = [*runs[:-1], (runs[-1][0], end)] if start == runs[-1][1] else [*runs, (start, end)]
        pieces = [self._add("", weight, torch.ops.aten.slice.Tensor, weight, axis, start, end) for start, end in runs]
        return pieces[0] if len(pieces) == 1 else self._add("", weight, torch.ops.aten.cat.default, pieces, axis)

    def _add(self, name: str, like: fx.Node, target: Any, *args: Any) -> fx.Node:
        """A new node, with the value it would have, called ``name`` if it is a tensor that parts may pass."""
        node = self.graph.call_function(target, args)
        node.meta |= {key: like.meta[key] for key in ("nn_module_stack", "stack_trace") if key in like.meta}
        values = fx.node.map_arg(args, lambda one: one.meta["val"])
        node.meta["val"] = target(*values)
        if name and isinstance(node.meta["val"], Tensor):
            self.names.known[name] = node
            self.names.chosen[node] = name
        return node


def _gives_several(node: fx.Node) -> bool:
    return operation(node) in NORMS and not isinstance(node.meta["val"], Tensor)
