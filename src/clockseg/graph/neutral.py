"""A network's graph as the cut rule sees it: who reads what, how large it is, and what it costs. No library, no weights.

Each reader (``onnx_reader``; others may follow) turns a network into this and cuts by the names of tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property

ENLARGE = "enlarge"
"""Kind of a node that only interpolates: each channel of its output is its input's, larger (or as large).

With ``axis`` it interpolates every channel along it alike, with weights that sum to 1: what is linear in the channels
may as well be done before it.
"""
CROP = "crop"
"""Kind of a node that only cuts a window out of its input."""
POINT = "point"
"""Kind of a node that only rewrites scores where they are: a softmax, a cast, an argmax."""
CONCAT = "concat"
"""Kind of a node that joins its inputs along ``axis``."""
REARRANGE = "rearrange"
"""Kind of a node that permutes or reshapes: rows and columns may lie along other axes of its output."""
PRODUCT = "product"
"""Kind of a node that at each position sums its first input over ``axis`` with weights: a 1x1 convolution, a linear layer."""
CONVOLUTION = "convolution"
"""Kind of a node that sums its first input over ``axis`` and a window with weights: a convolution that isn't grouped."""


Kind = tuple[str, int | None]
"""A node's kind and axis."""
OTHER: Kind = ("", None)


def conv_kind(
    given: Sequence[int], weights: Sequence[int], groups: int, strides: Sequence[int], pads: Sequence[int] | str
) -> Kind:
    """Return the kind of a convolution of maps of shape ``given`` with weights [channels out, channels in / groups, ..]."""
    if groups != 1:
        return OTHER
    point = all(step == 1 for step in (*strides, *weights[2:])) and (isinstance(pads, str) or not any(pads))
    return PRODUCT if point else CONVOLUTION, 1


@dataclass(frozen=True)
class Node:
    """One operation: its name, the tensors it reads and the tensors it makes.

    ``kind`` is one of the kinds above, or empty for anything else; ``axis`` is what it says there, 0 the first.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    kind: str = ""
    axis: int | None = None


@dataclass(frozen=True)
class Graph:
    """Nodes in topological order. Tensors made by no node and not in ``inputs`` are constants.

    ``inputs`` are the tensors that hold the frame (c_0), [1, 3, h, w]; ``integers`` are tensors that hold positions or other
    whole numbers, which can't be held or moved. ``shapes``: of every tensor, weights too. ``work``: of each node by name, in
    multiply-adds or seconds (none: 0).
    """

    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    integers: frozenset[str] = frozenset()
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict, compare=False, repr=False)
    work: Mapping[str, float] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def maker(self) -> dict[str, Node]:
        """Tensor -> the node that makes it."""
        return {tensor: node for node in self.nodes for tensor in node.outputs}

    @cached_property
    def dynamic(self) -> frozenset[str]:
        """Tensors that depend on the frame; all others are constants, whatever makes them."""
        known = set(self.inputs)
        for node in self.nodes:
            if known.intersection(node.inputs):
                known.update(node.outputs)
        return frozenset(known)

    @cached_property
    def position(self) -> dict[str, int]:
        """Tensor -> its place in topological order."""
        order = [*self.inputs, *(tensor for node in self.nodes for tensor in node.outputs)]
        return {tensor: index for index, tensor in enumerate(order)}

    def reads(self, node: Node) -> tuple[str, ...]:
        """Return the tensors ``node`` reads that depend on the frame."""
        return tuple(dict.fromkeys(tensor for tensor in node.inputs if tensor in self.dynamic))

    def ordered(self, tensors: Iterable[str]) -> tuple[str, ...]:
        """Return ``tensors`` once each, in topological order."""
        return tuple(sorted(set(tensors), key=self.position.__getitem__))

    def back(self, tensors: Iterable[str], stops: Set[str]) -> tuple[tuple[Node, ...], tuple[str, ...]]:
        """Walk backwards from ``tensors`` up to ``stops`` and to the frame.

        Returns the nodes met, in topological order, and the tensors at which the walk ended. Constants aren't followed.
        """
        met: set[Node] = set()
        ends: set[str] = set()
        todo = [tensor for tensor in tensors if tensor in self.dynamic]
        while todo:
            tensor = todo.pop()
            node = self.maker.get(tensor)
            if tensor in stops or node is None:
                ends.add(tensor)
            elif node not in met:
                met.add(node)
                todo.extend(self.reads(node))
        return tuple(node for node in self.nodes if node in met), self.ordered(ends)
