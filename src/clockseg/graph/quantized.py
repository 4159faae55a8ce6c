"""Maps in 8 bits, between a QuantizeLinear and a DequantizeLinear, as the cut rule is to see them.

A quantized network says a map three times: x in float, its bytes q, and d, the bytes as floats again, which is what is
read further on. What passes from part to part is the bytes: a quarter of the memory, and the next part computes in 8
bits from its first layer on. So that a cut at x goes on being a cut at x, the bytes take its name where nothing else
reads x, and dequantizing belongs to whoever reads. Where something does read x in float, x passes, and quantizing
belongs to whoever reads, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onnx import TensorProto, numpy_helper

from clockseg.graph.nodes import attribute, captured, readers_of, renamed
from clockseg.graph.part import AsFloats
from clockseg.types import Array

if TYPE_CHECKING:
    from clockseg.graph.static import Static

TO_BYTES, TO_FLOATS = "QuantizeLinear", "DequantizeLinear"
_FLOAT = ".float"
"""The suffix of the name of a map whose bytes have taken its own."""


def name_bytes(static: Static) -> None:
    """Let the bytes of each map of which nothing else is read take its name; ``static.floats`` keep theirs.

    Doing it again changes nothing.
    """
    # What subgraphs read goes by the name it has.
    static.floats |= {name for node in static.nodes for name in captured(node)}
    made = {tensor for node in static.nodes for tensor in node.output}
    readers = readers_of(static.nodes)
    new: dict[str, str] = {}
    for node in static.nodes:
        if node.op_type == TO_BYTES and node.input[0] != node.output[0] + _FLOAT:
            floats, stored = node.input[0], node.output[0]
            if floats in made and len(readers[floats]) == 1 and not static.floats & {floats, stored}:
                new |= {floats: floats + _FLOAT, stored: floats}
    static.nodes[:] = [
        node if new.keys().isdisjoint((*node.input, *node.output)) else renamed([node], new)[0] for node in static.nodes
    ]
    static.types |= {to: static.types[name] for name, to in new.items()}


@dataclass(frozen=True)
class Reading:
    """A view of a graph for the cut rule: without the nodes in ``left_out``, and with tensors renamed by ``stands_for``."""

    left_out: frozenset[str]
    stands_for: Mapping[str, str]

    def all(self, tensors: Iterable[str]) -> tuple[str, ...]:
        """Return the tensors that are passed between parts in place of those of ``tensors`` that have a name."""
        return tuple(self._of(tensor) for tensor in tensors if tensor)

    def _of(self, tensor: str) -> str:
        while tensor in self.stands_for:
            tensor = self.stands_for[tensor]
        return tensor


def reading(static: Static) -> Reading:
    """Return the view in which quantizing and dequantizing are part of making or reading a map, wherever they can be."""
    readers = readers_of(static.nodes)
    made = {tensor: node for node in static.nodes for tensor in node.output}
    left_out: set[str] = set()
    stands_for: dict[str, str] = {}
    for node in static.nodes:
        there = node.output[0] if node.output else ""
        if node.op_type == TO_BYTES and node.input[0] == there + _FLOAT:
            left_out.add(node.name)
            stands_for[node.input[0]] = there
        elif there not in static.floats and (
            (node.op_type == TO_BYTES and all(one.op_type == TO_FLOATS for one in readers.get(there, [])))
            or (node.op_type == TO_FLOATS and node.input[0] in made)
        ):
            left_out.add(node.name)
            stands_for[there] = node.input[0]
    return Reading(frozenset(left_out), stands_for)


def floats_of(static: Static, tensor: str) -> AsFloats:
    """Return a function that reads ``tensor`` as floats, also if it holds bytes from one QuantizeLinear."""
    node = next((node for node in static.nodes if tensor in node.output), None)
    if node is None or node.op_type != TO_BYTES:
        return AsFloats(tensor)
    rank, axis = len(static.shape(tensor)), attribute(node, "axis", 1)
    return AsFloats(tensor, *(_along(static.constant(name), axis, rank) for name in node.input[1:]))


def _along(value: TensorProto | None, axis: int, rank: int) -> Array | None:
    """Return ``value``, a number or one per channel, in a shape that multiplies a map of that rank."""
    if value is None:
        return None
    array: Array = numpy_helper.to_array(value)
    return array.reshape([-1 if place == axis % rank else 1 for place in range(rank)])
