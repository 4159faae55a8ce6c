"""Two networks that should give the same, frame by frame: how well they agree, and what each part takes of either."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from clockseg.clocks.maps import relative_difference
from clockseg.clockwork.network import StagedNetwork
from clockseg.engines import timed
from clockseg.evaluation.metrics import Confusion, confusion, finite
from clockseg.graph.part import FRAME_SIZE, IMAGE, LABELS, Tensors
from clockseg.networks.calibration import Prepared
from clockseg.types import Array


class Agreement(NamedTuple):
    """Of labels: mIoU (classes with at least 0.1 % of the pixels) and pixel accuracy, 0..1.

    Of other outputs: their relative difference, sum |a - b| / half of sum (|a| + |b|). What doesn't apply is None.
    """

    mean_iu: float | None = None
    pixel_acc: float | None = None
    difference: float | None = None


@dataclass(frozen=True)
class Seconds:
    """A part's median seconds, before and now, measured by turns."""

    name: str
    before: float
    now: float

    @property
    def speed_up(self) -> float:
        """The speed-up factor."""
        return self.before / self.now if self.now else 1.0


def agreement(before: StagedNetwork, now: StagedNetwork, frames: Sequence[Prepared]) -> Agreement:
    """Compare the output of ``now`` with that of ``before``, both uncut, over ``frames``; padding is left out."""
    pairs = [(_output(before, frame), _output(now, frame)) for frame in frames]
    if not pairs:
        return Agreement()
    if pairs[0][0].dtype.kind == "f":
        wanted, given = (np.concatenate([pair[side].ravel() for pair in pairs]) for side in (0, 1))
        return Agreement(difference=relative_difference(wanted, given))
    count = len(before.sidecar.classes)
    total = sum((confusion(wanted, given, count) for wanted, given in pairs), Confusion.none(count))
    return Agreement(finite(total.mean_iu_of()), finite(total.pixel_acc))


def _output(net: StagedNetwork, frame: Prepared) -> Array:
    value: Tensors = _whole(net)({IMAGE: frame.image})
    [output] = [array for name, array in value.items() if name != FRAME_SIZE]
    if LABELS not in value:
        return np.asarray(output)
    width, height = frame.shown
    # Bytes that an engine lends are written again at its next run.
    return np.array(output[0, :height, :width])


def _whole(net: StagedNetwork) -> Any:
    """Return the uncut network, or all its parts one after the other."""
    return net.whole or net.map(lambda name, part: part)


def seconds(before: StagedNetwork, now: StagedNetwork, frames: Sequence[Prepared], repeat: int) -> tuple[Seconds, ...]:
    """Measure each part in either network, then "every stage" (their sum) and "whole" (uncut): medians of ``repeat`` runs."""
    runs = [_Timed(before), _Timed(now)]
    for number in range(repeat + 1):
        frame = frames[number % len(frames)]
        for one in random.Random(number).sample(runs, 2):
            one.run(frame, counted=number > 0)
    names = [*(stage.name for stage in now.stages), *(group.name for group in now.groups), "finish"]
    found = [Seconds(name, *(one.of(name) for one in runs)) for name in names]
    return (
        *found,
        Seconds("every stage", *(one.of(*names) for one in runs)),
        Seconds("whole", *(one.of("whole") for one in runs)),
    )


class _Timed:
    """A network run in parts and whole, and what each run took."""

    def __init__(self, net: StagedNetwork) -> None:
        self.net, self.times = timed(net)
        self.runs: list[dict[str, float]] = []

    def run(self, frame: Prepared, *, counted: bool) -> None:
        """Run once in parts and once whole, twice; the first time warms up."""
        for _ in range(2):
            self.times.clear()
            _parts(self.net, frame)
            _output(self.net, frame)
        if counted:
            self.runs.append(dict(self.times.seconds))

    def of(self, *names: str) -> float:
        """Return the median seconds of these parts together."""
        keys = [key for name in names for key in (name, f"{name}.body", f"{name}.head")]
        return statistics.median(sum(run.get(key, 0.0) for key in keys) for run in self.runs)


def _parts(net: StagedNetwork, frame: Prepared) -> None:
    trunk: Any = {IMAGE: frame.image}
    values: dict[str, Any] = {}
    for stage in net.stages:
        trunk = stage.body(trunk)
        values[stage.name] = stage.head(trunk)
    for group in net.groups:
        values[group.name] = group.function(*(values[name] for name in group.reads))
    net.finish(values[net.last])
