"""A torch module as the cut rule sees it: its graph, and the names, shapes and multiply-adds of its tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, fx, nn

from clockseg.graph.neutral import CONCAT, Graph, Node
from clockseg.graph.part import IMAGE
from clockseg.graph.torch_export import INNER, exported, operation
from clockseg.graph.torch_kinds import kind_of, shape
from clockseg.graph.torch_names import Names, named

_WHOLE = (torch.int64, torch.int32)


@dataclass(frozen=True)
class Program:
    """An exported module. ``fx`` is its graph; weights stand in it as placeholders, told of in ``sources``.

    ``sources``: placeholder -> where in the module it is ("layer1.0.conv.weight"), or the constant itself.
    ``inner``: holds the graphs that nodes refer to, such as the branches of a condition. ``output`` is the name of the
    tensor it gives; ``shape`` is that of the frame it was exported for.
    """

    fx: fx.Graph
    inner: nn.Module
    sources: dict[str, str | Tensor]
    names: Names
    output: str
    shape: tuple[int, ...]

    @cached_property
    def graph(self) -> Graph:
        """As the cut rule sees it."""
        nodes = tuple(self._node(node) for node in self.fx.nodes if node.op == "call_function" and not _takes(node))
        return Graph(nodes, (IMAGE,), frozenset(self._integers()))

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Tensor -> its shape; weights too."""
        return {
            self.name(node): tuple(node.meta["val"].shape)
            for node in self.fx.nodes
            if isinstance(node.meta.get("val"), Tensor)
        }

    @cached_property
    def work(self) -> dict[str, float]:
        """Operation -> its multiply-adds; of those that multiply."""
        counted = {node.name: float(multiply_adds(node)) for node in self.fx.nodes if node.op == "call_function"}
        return {name: count for name, count in counted.items() if count}

    def name(self, node: fx.Node) -> str:
        """What the cut rule calls the tensor that ``node`` makes."""
        source = self.sources.get(node.name)
        return source if isinstance(source, str) else self.names.chosen.get(node, node.name)

    def _node(self, node: fx.Node) -> Node:
        taken = [user for user in node.users if _takes(user)]
        made = taken if taken and not isinstance(node.meta.get("val"), Tensor) else [node]
        kind, axis = kind_of(node, self.dynamic)
        read = node.args[0] if kind == CONCAT else dict.fromkeys(node.all_input_nodes)
        inputs = (self.name(source) for source in read if source.op != "get_attr")
        return Node(node.name, tuple(inputs), tuple(self.name(one) for one in made), kind, axis)

    @cached_property
    def dynamic(self) -> frozenset[fx.Node]:
        """The nodes that depend on the frame."""
        found = {self.names.known[IMAGE]}
        for node in self.fx.nodes:
            if found.intersection(node.all_input_nodes):
                found.add(node)
        return frozenset(found)

    def _integers(self) -> Iterator[str]:
        """Tensors that hold whole numbers, and numbers that are no tensors."""
        for node in self.fx.nodes:
            value = node.meta.get("val")
            if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool) or (
                isinstance(value, Tensor) and value.dtype in _WHOLE
            ):
                yield self.name(node)


def read(module: nn.Module, example: Tensor, output: str | None = None) -> Program:
    """``module`` as its forward runs in eval mode for a frame of the shape, type and device of ``example``.

    ``output``: which of the tensors it gives, by key, index or field (``torch_export.pick``). Weights are not copied.
    NetworkError, with the line, where the module can't be exported.

    >>> program = read(nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU()), torch.zeros(1, 3, 2, 2))
    >>> [(node.name, node.inputs, node.outputs) for node in program.graph.nodes]
    [('conv2d', ('image', '0.weight', '0.bias'), ('0',)), ('relu', ('0',), ('1',))]
    >>> program.work
    {'conv2d': 48.0}
    """
    program = exported(module, example, output)
    graph, signature = program.graph, program.graph_signature
    weights = signature.inputs_to_parameters | signature.inputs_to_buffers
    sources: dict[str, str | Tensor] = {name: path.removeprefix(INNER) for name, path in weights.items()}
    constants = signature.inputs_to_lifted_tensor_constants
    sources |= {name: program.constants[path] for name, path in constants.items()}
    names = named(graph)
    [result] = signature.user_outputs
    [end] = [node for node in graph.nodes if node.name == result]
    return Program(graph, program.graph_module, sources, names, names.chosen[end], tuple(example.shape))


def multiply_adds(node: fx.Node) -> int:
    """Multiply-adds of one operation; 0 for all but convolutions, matrix products and attention.

    As ``clockseg.graph.cost.multiply_adds`` counts them: bias, padding and activation left out.
    """
    name = operation(node)
    if name in ("conv1d", "conv2d", "conv3d"):
        return math.prod(shape(node)) * math.prod(shape(node.args[1])[1:])
    if name.startswith("conv_transpose"):
        return math.prod(shape(node.args[0])) * math.prod(shape(node.args[1])[1:])
    if name == "linear":
        return math.prod(shape(node)) * shape(node.args[1])[-1]
    if name in ("mm", "bmm", "matmul"):
        return math.prod(shape(node)) * shape(node.args[0])[-1]
    if name == "addmm":
        return math.prod(shape(node)) * shape(node.args[1])[-1]
    if name == "scaled_dot_product_attention":
        query, key, value = (shape(one) for one in node.args[:3])
        return math.prod(query[:-1]) * key[-2] * (query[-1] + value[-1])
    return 0


def _takes(node: fx.Node) -> bool:
    """Whether a node only takes one of the tensors that another makes."""
    return operation(node) == "getitem"
