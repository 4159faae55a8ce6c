"""A torch module as the cut rule sees it: its graph, and the names, kinds, shapes and multiply-adds of its tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, fx, nn

from clockseg.errors import NetworkError
from clockseg.graph import cost
from clockseg.graph.neutral import CONCAT, CROP, ENLARGE, OTHER, POINT, PRODUCT, REARRANGE, Graph, Kind, Node, conv_kind
from clockseg.graph.part import IMAGE
from clockseg.graph.rule import nearest_tensors
from clockseg.graph.torch_export import INNER, exported, operation


@dataclass(frozen=True)
class Names:
    """``chosen``: each tensor's own name. ``known``: the tensor of every name that it may be called by."""

    chosen: dict[fx.Node, str]
    known: dict[str, fx.Node]

    def __call__(self, name: str) -> str:
        """Return the chosen name of the tensor called ``name``; NetworkError with the nearest ones if there is none."""
        if name not in self.known:
            raise NetworkError(f"{name!r} is not a tensor of this network. {nearest_tensors(name, self.known)}")
        return self.chosen[self.known[name]]


def named(graph: fx.Graph) -> Names:
    """Name the tensors of ``graph``.

    The one tensor that leaves a call of a submodule has the submodule's path; of several each has its place added,
    ".0", ".1", in the order they are made. From a submodule's second call on, the path has "@1", "@2" added. A tensor
    that leaves several calls alone has the outermost's; one that leaves none has its operation's name in the graph.
    """
    made = (node for node in graph.nodes if node.op == "call_function" or node.name == IMAGE)
    tensors = [node for node in made if isinstance(node.meta.get("val"), Tensor)]
    leaving = _leaving(tensors)
    known = {scope: nodes[0] for scope, nodes in leaving.items() if len(nodes) == 1}
    known |= {node.name: node for node in tensors if node.op == "placeholder"}
    several = {
        f"{scope}.{index}": node
        for scope, nodes in leaving.items()
        if len(nodes) > 1
        for index, node in enumerate(nodes)
    }
    best: dict[fx.Node, str] = {}
    for name in [*sorted(known, key=_depth), *sorted(several, key=_depth, reverse=True)]:
        best.setdefault((known.get(name) or several[name]), name)
    known = several | known
    for node in tensors:
        free = node.name
        while known.get(free, node) is not node:
            free += "_"
        known[free] = node
        best.setdefault(node, free)
    return Names(best, known)


def owner(node: fx.Node) -> str:
    """Return the path of the submodule in whose call a node was made; empty for the module itself."""
    paths = [path for path, _ in _scopes(node)]
    return paths[-1] if paths else ""


def _depth(name: str) -> tuple[int, int]:
    return name.count("."), len(name)


def _leaving(tensors: list[fx.Node]) -> dict[str, list[fx.Node]]:
    """Return for each call of a submodule the tensors made in it that are read outside of it."""
    found: dict[str, list[fx.Node]] = {}
    for node in tensors:
        for scope in _scopes(node) if node.op == "call_function" else ():
            if any(scope not in _scopes(user) for user in node.users):
                found.setdefault("".join(scope), []).append(node)
    return found


def _scopes(node: fx.Node) -> Iterator[tuple[str, str]]:
    """Yield the calls of submodules a node was made in, outermost first: path, and "@1" from the second call on."""
    for key, (path, _) in (node.meta.get("nn_module_stack") or {}).items():
        _, at, number = key.partition("@")
        if path.startswith(INNER):
            yield path.removeprefix(INNER), at + number


NORMS = ("batch_norm", "_native_batch_norm_legit_no_training")
_KINDS = {
    POINT: "softmax _softmax log_softmax _log_softmax sigmoid argmax to _to_copy clone alias detach contiguous squeeze unsqueeze",
    CROP: "slice narrow",
    REARRANGE: "permute transpose t movedim swapaxes view _unsafe_view reshape flatten unflatten",
}
_KIND = {name: kind for kind, names in _KINDS.items() for name in names.split()}
"""Operation -> its kind, for those of one kind whatever they read."""


def kind_of(node: fx.Node) -> Kind:
    """Return the kind of an operation and its axis, as in ``clockseg.graph.neutral``; ("", None) for any other."""
    name = operation(node)
    if name in _KIND:
        return _KIND[name], None
    if name == "cat":
        return CONCAT, _argument(node, 1, 0) % len(shape(node))
    if name.startswith(("upsample_", "_upsample_")):
        return (ENLARGE, 1) if _elements(node) >= _elements(node.args[0]) else OTHER
    if name == "linear" or (name in ("matmul", "mm") and len(shape(node.args[1])) == 2):
        return PRODUCT, len(shape(node.args[0])) - 1
    if name == "conv2d":
        stride, padding, groups = _argument(node, 3, [1, 1]), _argument(node, 4, [0, 0]), _argument(node, 6, 1)
        return conv_kind(shape(node.args[0]), shape(node.args[1]), groups, stride, padding)
    if name == "conv_transpose2d":
        groups, channels = _argument(node, 6, 1), shape(node.args[0])[1]
        alone = groups == channels == shape(node)[1] and _elements(node) > _elements(node.args[0])
        return (ENLARGE, None) if alone else OTHER
    return OTHER


def _argument(node: fx.Node, index: int, default: Any) -> Any:
    return node.args[index] if len(node.args) > index else default


def shape(node: Any) -> tuple[int, ...]:
    """Return the shape of the tensor that ``node`` makes; of the first, where it makes several."""
    value = node.meta["val"]
    return tuple((value if isinstance(value, Tensor) else value[0]).shape)


def _elements(node: Any) -> int:
    return math.prod(shape(node))


_WHOLE = (torch.int64, torch.int32)


@dataclass(frozen=True)
class Program:
    """An exported module. ``fx`` is its graph; weights stand in it as placeholders, told of in ``sources``.

    ``sources``: placeholder -> where in the module it is ("layer1.0.conv.weight"), or the constant itself.
    ``inner``: holds the graphs that nodes refer to, such as the branches of a condition. ``output`` is the name of the
    tensor it gives.
    """

    fx: fx.Graph
    inner: nn.Module
    sources: dict[str, str | Tensor]
    names: Names
    output: str

    @cached_property
    def graph(self) -> Graph:
        """As the cut rule sees it; work is told of those operations that multiply."""
        calls = [node for node in self.fx.nodes if node.op == "call_function"]
        tensors = [node for node in self.fx.nodes if isinstance(node.meta.get("val"), Tensor)]
        return Graph(
            tuple(self._node(node) for node in calls if not _takes(node)),
            (IMAGE,),
            frozenset(self._integers()),
            {self.name(node): shape(node) for node in tensors},
            {node.name: float(count) for node in calls if (count := multiply_adds(node))},
        )

    def name(self, node: fx.Node) -> str:
        """Return the cut rule's name of the tensor that ``node`` makes."""
        source = self.sources.get(node.name)
        return source if isinstance(source, str) else self.names.chosen.get(node, node.name)

    def _node(self, node: fx.Node) -> Node:
        taken = [user for user in node.users if _takes(user)]
        made = taken if taken and not isinstance(node.meta.get("val"), Tensor) else [node]
        kind, axis = kind_of(node)
        read = node.args[0] if kind == CONCAT else dict.fromkeys(node.all_input_nodes)
        inputs = (self.name(source) for source in read if source.op != "get_attr")
        return Node(node.name, tuple(inputs), tuple(self.name(one) for one in made), kind, axis)

    def _integers(self) -> Iterator[str]:
        """Yield the tensors that hold whole numbers, and numbers that are no tensors."""
        for node in self.fx.nodes:
            value = node.meta.get("val")
            if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool) or (
                isinstance(value, Tensor) and value.dtype in _WHOLE
            ):
                yield self.name(node)


def read(module: nn.Module, example: Tensor, output: str | None = None) -> Program:
    """Export ``module``'s forward pass in eval mode for a frame of the shape, type and device of ``example``.

    ``output``: which of the tensors it gives, by key, index or field (``torch_export.pick``). Weights are not copied.
    NetworkError, with the line, where the module can't be exported.

    >>> program = read(nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU()), torch.zeros(1, 3, 2, 2))
    >>> [(node.name, node.inputs, node.outputs) for node in program.graph.nodes]
    [('conv2d', ('image', '0.weight', '0.bias'), ('0',)), ('relu', ('0',), ('1',))]
    >>> program.graph.work
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
    return Program(graph, program.graph_module, sources, names, names.chosen[end])


_COUNTED = {
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), "Conv"),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), "ConvTranspose"),
    **dict.fromkeys(("linear", "mm", "bmm", "matmul", "addmm"), "MatMul"),
    "scaled_dot_product_attention": "Attention",
}
"""Operations that multiply, by their ONNX names."""


def multiply_adds(node: fx.Node) -> int:
    """Count the multiply-adds of one operation, as ``clockseg.graph.cost.multiply_adds`` does."""
    called = _COUNTED.get(operation(node))
    if called is None:
        return 0
    args = node.args[1:4] if operation(node) == "addmm" else node.args[:3]
    return cost.multiply_adds(called, [shape(one) for one in args if isinstance(one, fx.Node)], shape(node))


def _takes(node: fx.Node) -> bool:
    """Return True if a node only selects one of the tensors that another node makes."""
    return operation(node) == "getitem"
