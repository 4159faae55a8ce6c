"""Pieces of an exported module as functions on the module's own weights, and splits applied to its graph."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import SyncBatchNorm, _BatchNorm

from clockseg.errors import NetworkError
from clockseg.graph.split import Split, SplitNode, Term
from clockseg.graph.torch_export import INNER, operation
from clockseg.graph.torch_reader import NORMS, Names, Program, owner


def split_up(program: Program, plan: Sequence[Split]) -> Program:
    """Carry out ``plan`` on a copy of ``program``; weights are sliced where they are used, so that they stay the module's."""
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
        total = product
        with self.graph.inserting_before(product):
            for step in self.split.steps:
                total = self._made(step, product)
        product.replace_all_uses_with(total)
        for name, node in list(self.names.known.items()):
            if node is product:
                self.names.known[name] = total
        self.names.chosen[total] = self.names.chosen.pop(product)
        self.graph.erase_node(product)

    def _made(self, step: SplitNode, product: fx.Node) -> fx.Node:
        given = [self.names.known[name] for name in step.inputs]
        if step.term is None:
            return self._add(step.name, product, torch.ops.aten.add.Tensor, *given)
        if not step.like:
            return self._add(step.name, product, torch.ops.aten.cat.default, given, self.split.axis)
        like = self._node(step.like)
        if like is not product:
            return self._add(step.name, like, like.target, *given, *like.args[1:])
        weights = self._sliced(product.args[1], 0 if operation(product) in ("matmul", "mm") else 1, step.term)
        rest = list(product.args[2:])
        if rest and not step.bias:
            rest[0] = None
        return self._add(step.name, product, product.target, *given, weights, *rest)

    def _node(self, name: str) -> fx.Node:
        """Return a node of the plan: by its name in the graph, or, if a split made it, by that of its tensor."""
        found = next((node for node in self.graph.nodes if node.name == name), None)
        return found if found is not None else self.names.known[name]

    def _sliced(self, weight: fx.Node, axis: int, term: Term) -> fx.Node:
        """Return the channels of ``weight`` along ``axis`` that belong to the leaves of ``term``."""
        slices = [(weight, axis, *span) for span in self.split.spans(term)]
        pieces = [self._add("", weight, torch.ops.aten.slice.Tensor, *one) for one in slices]
        return pieces[0] if len(pieces) == 1 else self._add("", weight, torch.ops.aten.cat.default, pieces, axis)

    def _add(self, name: str, like: fx.Node, target: Any, *args: Any) -> fx.Node:
        """Add a node with the value it would have, called ``name`` if it is a tensor that parts may pass."""
        node = self.graph.call_function(target, args)
        node.meta |= {key: like.meta[key] for key in ("nn_module_stack", "stack_trace") if key in like.meta}
        values = fx.node.map_arg(args, lambda one: one.meta["val"])
        node.meta["val"] = target(*values)
        if name and isinstance(node.meta["val"], Tensor):
            self.names.known[name] = node
            self.names.chosen[node] = name
        return node


Tensors: TypeAlias = tuple[Tensor, ...]
Settle: TypeAlias = Callable[[str, Tensor, frozenset[str]], Tensor]
"""A weight's path in the module (empty for other constants), its value, the operations that read it -> what stands for it."""


def shared(program: Program, module: nn.Module, inputs: Sequence[str], outputs: Sequence[str]) -> fx.GraphModule:
    """Return the piece of ``program`` from ``inputs`` to ``outputs`` that looks ``module``'s weights up at every call.

    Batch norms and dropouts do as their submodules' ``training`` says at each call.
    """
    code = _Copy(program, inputs, outputs, module).compiled()
    code.module = module
    return code


def frozen(
    program: Program,
    module: nn.Module,
    inputs: Sequence[str],
    outputs: Sequence[str],
    *,
    settle: Settle,
    device: torch.device,
) -> fx.GraphModule:
    """Return a piece like ``shared``'s, in eval mode on ``device``, with a copy of the present weights.

    Values that depend on weights alone are computed here, and ``settle`` converts the results.
    """
    copy = _Copy(program, inputs, outputs, None)
    known = copy.known(module)
    for node, value in known.items():
        readers = frozenset(operation(user) for user in node.users if user not in known)
        if readers:
            label = node.target.removeprefix(INNER) if node.op == "get_attr" and node.target not in copy.held else ""
            copy.held[node.name] = settle(label, value, readers)
            with copy.graph.inserting_before(node):
                node.replace_all_uses_with(
                    copy.graph.get_attr(node.name), delete_user_cb=lambda user: user not in known
                )
    for node in copy.graph.nodes:
        node.args = tuple(device if isinstance(arg, torch.device) else arg for arg in node.args)
        if "device" in node.kwargs:
            node.kwargs = {**node.kwargs, "device": device}
    return copy.compiled()


class _Copy:
    """A graph being made: placeholders for ``inputs``, then the nodes that ``outputs`` need; weights are attributes of ``module``.

    With ``module``, what depends on its being in training is such an attribute as well. ``held``: values of others.
    """

    def __init__(
        self, program: Program, inputs: Sequence[str], outputs: Sequence[str], module: nn.Module | None
    ) -> None:
        self.program, self.module = program, module
        self.graph = fx.Graph()
        self.made: dict[fx.Node, fx.Node] = {}
        self.held: dict[str, Any] = {}
        for index, name in enumerate(inputs):
            self.made[program.names.known[name]] = self.graph.placeholder(f"given_{index}")
        self.outputs = [program.names.known[name] for name in outputs]
        needed, todo = set[fx.Node](), [*self.outputs]
        while todo:
            node = todo.pop()
            if node not in needed and node not in self.made:
                needed.add(node)
                todo += node.all_input_nodes
        for node in program.fx.nodes:
            if node in needed:
                self.made[node] = self._copied(node)

    def known(self, module: nn.Module) -> dict[fx.Node, Any]:
        """Return the nodes that depend on weights alone, with their present values."""
        found: dict[fx.Node, Any] = {}
        for node in self.graph.nodes:
            if node.op == "get_attr" and node.target in self.held:
                value = self.held[node.target]
            elif node.op == "get_attr":
                value = operator.attrgetter(node.target.removeprefix(INNER))(module).detach()
            elif node.op == "call_function" and found.keys() >= set(node.all_input_nodes):
                if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
                    continue
                with torch.no_grad():
                    value = node.target(
                        *fx.node.map_arg(node.args, found.get), **fx.node.map_arg(node.kwargs, found.get)
                    )
            else:
                continue
            found[node] = value
        return found

    def compiled(self) -> fx.GraphModule:
        self.graph.output(tuple(self.made[node] for node in self.outputs))
        self.graph.eliminate_dead_code()
        looked_up = (node.target for node in self.graph.nodes if node.op == "get_attr")
        return fx.GraphModule({name: self.held.get(name) for name in looked_up}, self.graph)

    def _copied(self, node: fx.Node) -> fx.Node:
        if node.op == "placeholder":
            source = self.program.sources.get(node.name)
            if source is None:
                raise NetworkError(f"a part doesn't reach {node.name!r} from what it is given.")
            if isinstance(source, str):
                return self._attribute(source)
            self.held[node.name] = source
            return self.graph.get_attr(node.name)
        if node.op == "get_attr":
            self.held[node.target] = getattr(self.program.inner, node.target)
        if self.module is not None and operation(node) in (*NORMS, "dropout"):
            return self._in_training(node, self.module)
        copy = self.graph.node_copy(node, self.made.__getitem__)
        if operation(node) == "view":
            # Other parts and engines may give it a tensor of another memory layout.
            copy.target = torch.ops.aten.reshape.default
        return copy

    def _in_training(self, node: fx.Node, module: nn.Module) -> fx.Node:
        """Add a batch norm or dropout that asks its submodule whether it is being trained."""
        path = owner(node)
        layer, name = module.get_submodule(path), operation(node)
        plain = type(layer).forward in (_BatchNorm.forward, SyncBatchNorm.forward)
        if name in NORMS and plain:
            function = operator.call if name == "batch_norm" else _apply_first
            return self.graph.call_function(function, (self._attribute(path), self.made[node.args[0]]))
        place = {"dropout": 2, "batch_norm": 5}.get(name)
        training, copy = self._attribute(f"{path}.training"), self.graph.node_copy(node, self.made.__getitem__)
        if place is not None and node.args[place] is False and (name == "dropout" or isinstance(layer, _BatchNorm)):
            copy.update_arg(place, training)
        return copy

    def _attribute(self, path: str) -> fx.Node:
        """Add a look-up of an attribute of the module."""
        return self.graph.get_attr(f"{INNER}{path.removeprefix('.')}")


def _apply_first(layer: nn.Module, given: Tensor) -> Tensors:
    return (layer(given),)
