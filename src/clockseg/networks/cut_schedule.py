"""A schedule for a network that has just been cut: which stages score classes, and what change is worth a firing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from clockseg.clocks.maps import change, labels, relative_difference
from clockseg.clockwork.network import StagedNetwork
from clockseg.graph.neutral import CHANNELWISE, CROP, ENLARGE, Graph
from clockseg.graph.rule import Division
from clockseg.graph.static import Static
from clockseg.networks.cut_check import picture
from clockseg.types import Array, Image

MOVE = 0.005
"""What a firing is worth: the change that a move of the picture by this share of its width makes. From a driving car that
is a tenth of a second, more or less (``docs/cut-your-network.md``)."""
_SMALLEST = 0.01
"""A change of labels that is less tells nothing."""
MOST_HELD = 8
"""Frames after which stages fire whatever the clock says."""


class Advice(NamedTuple):
    """A schedule to recommend, and why this one."""

    schedule: str | None
    why: str


def scores_of_stages(static: Static, graph: Graph, division: Division, classes: int) -> tuple[str | None, ...]:
    """Per stage, the tensor it holds that is a map of class scores: it is only summed, scaled and enlarged to the output.

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
    """What ``tensor`` is a sum of: ``tensor`` itself and all that is only added, scaled, cropped or enlarged on the way."""
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


def advised(net: StagedNetwork) -> Advice:
    """What to recommend for ``net``, compiled: the stages behind the first fire when it sees enough change.

    How much is enough differs from network to network, so it is measured: what a move of a made-up picture by ``MOVE`` of
    its width changes in stage 1's labels, or, where it scores no classes, in its features.
    """
    if len(net) < 2:
        return Advice(None, "one stage: there is nothing to clock")
    width, height = net.sidecar.input.width, net.sidecar.input.height
    step = max(1, round(MOVE * width))
    wide = picture((width + step, height))
    before, after = (_seen(net, image) for image in (wide[:, :width], wide[:, step:]))
    if before.scores is not None and after.scores is not None:
        moved = change(labels(before.scores), labels(after.scores))
        if moved >= _SMALLEST:
            return Advice(_either(f"adaptive({_rounded(moved)}"), "stage 1 scores classes")
    moved = _rounded(relative_difference(before.features, after.features))
    why = "no class scores at stage 1" if before.scores is None else "stage 1's labels hardly ever change"
    return Advice(_either(f'difference({moved}, of="features"'), f"{why}, so clocks watch features")


def _either(clock: str) -> str:
    return f"either({clock}, watch=1), at_least_every({MOST_HELD}))"


class _Seen(NamedTuple):
    """What clocks that watch stage 1 see of a frame."""

    features: Array
    scores: Array | None


def _seen(net: StagedNetwork, image: Image) -> _Seen:
    stage = net.stages[0]
    trunk = stage.body(net.prepare(np.ascontiguousarray(image)))
    scores = None if stage.scores is None else np.array(stage.scores(stage.head(trunk)))
    return _Seen(np.array(stage.features(trunk)), scores)


def _rounded(change: float) -> float:
    """Two digits, and never 0, at which every frame would fire.

    >>> _rounded(0.4312), _rounded(0.0)
    (0.43, 0.01)
    """
    return max(_SMALLEST, round(change, 2))
