"""The schedule to recommend for a network that has just been cut, and which of its stages score classes."""

from __future__ import annotations

from clockseg.graph.neutral import CHANNELWISE, CROP, ENLARGE, Graph
from clockseg.graph.rule import Division
from clockseg.graph.static import Static

RECOMMENDED = "carried(skip_frame(6), interpolate(flow))"
"""The whole network on every sixth frame; the frames in between are made from the key frames on both sides.

A clock on stages pays in few networks, and only ``clockseg plan`` and ``evaluate`` on a user's own video can tell: where
all of the picture moves, its stages fire on every frame, and running them one by one costs more than the uncut network.
"""


def scores_of_stages(static: Static, graph: Graph, division: Division, classes: int) -> tuple[str | None, ...]:
    """Return for each stage its tensor of class scores, which is only summed, scaled and enlarged to the output, or None.

    A map of features that happens to have as many channels isn't one.
    """
    if classes < 2:
        return (None,) * len(division.stages)
    found = _summed(static, graph, division.scores)
    return tuple(
        next((name for name in stage.held if name in found and _channels(static, name) == classes), None)
        for stage in division.stages
    )


def _channels(static: Static, tensor: str) -> int | None:
    shape = static.shape(tensor) if tensor in static.types else ()
    return shape[1] if len(shape) == 4 else None


def _summed(static: Static, graph: Graph, tensor: str) -> set[str]:
    """Return ``tensor`` and the tensors that are only added, scaled, cropped or enlarged on the way to it."""
    operators = {node.name: node.op_type for node in static.nodes}
    met: set[str] = set()
    todo = [tensor]
    while todo:
        name = todo.pop()
        met.add(name)
        node = graph.maker.get(name)
        linear = node is not None and (
            node.kind in (ENLARGE, CROP)
            or operators.get(node.name) in ("Add", "Sum")
            or (node.kind == CHANNELWISE and operators.get(node.name) in ("Mul", "Div"))
        )
        if node is not None and linear:
            todo += [read for read in graph.reads(node) if read not in met]
    return met
