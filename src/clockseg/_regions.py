"""Stages that fire in places: computed in windows of the frame, and put where they belong in what is held."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from clockseg._errors import UsageError
from clockseg._tiles import Box, Shape, Window, shapes, share, windows
from clockseg._together import Keep, Made, Run, Took
from clockseg._types import FRAME_SIZE, IMAGE, Array, Size
from clockseg.carry import identity
from clockseg.clocks.regions import Regions, Whole, in_places
from clockseg.schedule import Schedule
from clockseg.stages import Locality, StagedNetwork, Value


def check(net: StagedNetwork, schedule: Schedule) -> None:
    """Refuse regions where they can't be computed, with the reason and what to do."""
    count = in_places(schedule.clocks)
    if any(isinstance(clock, Regions) for clock in schedule.clocks[1:]):
        raise UsageError("regions fire from stage 1 on; give them by regions(threshold, stages=..).")
    if not count:
        return
    if schedule.carry != identity or len(schedule.segments()) > 1 or not schedule.nested:
        raise UsageError(
            f"regions under the carry {schedule.carry}, delays {schedule.delays}, nested={schedule.nested}: what stays is "
            "held as it was, so regions are for a fixed camera. Give the identity, no delays, nested=True."
        )
    if net.locality is None:
        raise UsageError(
            f"network {net.name!r} isn't made of ONNX graphs, so that nobody knows how far its stages look; "
            "regions need a network from a file."
        )
    mixing = net.locality(count).mixing
    if mixing:
        local = next((n for n in range(count - 1, 0, -1) if not net.locality(n).mixing), 0)
        raise UsageError(
            f"regions of {count} stages of {net.name!r}: {mixing} mixes places from anywhere, so it can't run in a window. "
            + (f"Give stages={local}; the others fire whole." if local else "This network has no stage that can.")
        )


class Held(NamedTuple):
    """What is kept of the frame before: stages' trunks and held values, all values by name, and the output."""

    trunks: Sequence[Value]
    held: Sequence[Value]
    values: Mapping[str, Value]
    output: Value


@dataclass(frozen=True)
class Windowed:
    """The first ``count`` stages of ``net``, and what fuses them, in windows of the frame; ``holds``: the others do then."""

    net: StagedNetwork
    clock: Regions
    locality: Locality
    count: int
    holds: bool

    @classmethod
    def of(cls, net: StagedNetwork, schedule: Schedule) -> Windowed:
        """For a schedule that has been checked."""
        clock, locality = schedule.clocks[0], net.locality
        if not isinstance(clock, Regions) or locality is None:
            raise UsageError(f"{clock!r} fires no places of {net.name!r}; give regions(threshold).")
        count = in_places(schedule.clocks)
        holds = isinstance(schedule.clocks[count], Whole) if count < len(net) else True
        return cls(net, clock, locality(count), count, holds)

    @property
    def fuses(self) -> bool:
        """Whether groups and finish can run in windows as well."""
        return not self.locality.fusing

    def windows(self, places: Array, prepared: Value) -> tuple[Window, ...] | None:
        """Those to be computed for ``places``, bool [rows, columns]; None where the whole frame costs no more."""
        size, step, clock = _size(prepared), self._step(prepared), self.clock
        halo = self.locality.reach if clock.halo is None else clock.halo
        return windows(places, size, step=step, halo=halo, spread=clock.spread)

    def shapes(self, prepared: Value) -> tuple[Shape, ...]:
        """All that windows may have."""
        return shapes(_size(prepared), self._step(prepared))

    def compile_ahead(
        self,
        keep: Keep,
        fuse: tuple[tuple[str, ...], bool],
        prepared: Value,
        trunks: Sequence[Value],
        values: Mapping[str, Value],
    ) -> None:
        """Run what may run in windows once in each shape, and what may follow; ``fuse``: groups, and whether to finish."""
        first = range(self.count)
        for shape in self.shapes(prepared):
            run = Run(first, *(fuse if self.fuses else ((), False)), keep)
            self.piece(run, prepared, values, Box(0, 0, *shape))
        after = range(0) if self.holds else range(self.count, len(self.net))
        for stages in dict.fromkeys((range(0), after)):
            self.net.together(Run(stages, *fuse, keep.of(stages, fuse[0])), trunks[self.count - 1], values)

    def _step(self, prepared: Value) -> int:
        """What windows' borders are multiples of: the largest stride."""
        (width, height), step = _size(prepared), self.locality.step
        if width % step or height % step:
            raise UsageError(
                f"regions at a working size of {width}x{height}, which is no multiple of {step}; give a --size that is."
            )
        return step

    def run(self, run: Run, prepared: Value, held: Held, found: Sequence[Window]) -> Made:
        """``run`` in the windows ``found``; what isn't in them is as it was."""
        start = time.perf_counter()
        pieces = [(window, self.piece(run, prepared, held.values, window.outer)) for window in found]
        strides, kept = self.locality.strides, held
        trunks = [_pasted(kept.trunks[i], [(w, made.trunks[i]) for w, made in pieces], strides) for i in run.stages]
        helds = [_pasted(kept.held[i], [(w, made.held[i]) for w, made in pieces], strides) for i in run.stages]
        groups = {
            name: _pasted(kept.values[name], [(w, made.groups[name]) for w, made in pieces], strides)
            for name in run.groups
            if name in kept.values
        }
        output = _pasted(kept.output, [(w, made.output) for w, made in pieces], strides) if run.finish else None
        took = _summed([made.took for _, made in pieces]).scaled(time.perf_counter() - start)
        return Made(tuple(trunks), tuple(helds), groups, output, took, share(found, _size(prepared)))

    def piece(self, run: Run, prepared: Value, values: Mapping[str, Value], box: Box) -> Made:
        """What ``run`` makes of this window of the frame."""
        strides = self.locality.strides
        own = {self.net.stages[index].name for index in run.stages} | set(run.groups)
        read = {name for group in self.net.groups if group.name in run.groups for name in group.reads} - own
        cut = {name: _cropped(values[name], box, strides) for name in read}
        return self.net.apart(run, _cropped(prepared, box, strides), cut)


def _size(prepared: Value) -> Size:
    _, height, width, _ = prepared[IMAGE].shape
    return width, height


def _cropped(value: Value, box: Box, strides: Mapping[str, int]) -> dict[str, Any]:
    found = {name: _part(name, array, box, strides) for name, array in value.items() if name in strides}
    others = {name: array for name, array in value.items() if name not in strides}
    return {**others, **found, FRAME_SIZE: np.array((box.width, box.height))}


def _part(name: str, array: Array, box: Box, strides: Mapping[str, int]) -> Array:
    """The view of ``array`` that lies in ``box``: [1, h, w, 3] of the frame, else [.., h, w]."""
    left, top, right, bottom = box.over(strides[name])
    return array[:, top:bottom, left:right] if name == IMAGE else array[..., top:bottom, left:right]


def _pasted(value: Value, pieces: Sequence[tuple[Window, Value]], strides: Mapping[str, int]) -> Value:
    """A copy of ``value`` with the inner parts of ``pieces`` in their places; of tensors that aren't kept, nothing."""
    found = dict(value)
    for name, array in value.items():
        if name in strides and name != IMAGE:
            found[name] = array.copy(order="K")
            for window, piece in pieces:
                inner, (left, top, _, _) = window.inner, window.outer
                within = Box(inner.left - left, inner.top - top, inner.right - left, inner.bottom - top)
                _part(name, found[name], inner, strides)[...] = _part(name, piece[name], within, strides)
    return found


def _summed(times: Sequence[Took]) -> Took:
    stages = tuple(sum(each) for each in zip(*(one.stages for one in times), strict=True))
    return Took(stages, sum(one.fuse for one in times), sum(one.finish for one in times))


def kept(net: StagedNetwork, count: int) -> Keep:
    """What a schedule reads again whose first ``count`` stages fire in places: all that is put together, but trunks."""
    every = Keep.all(len(net), [group.name for group in net.groups])
    return every._replace(trunks=frozenset({count - 1} if count < len(net) else ()), scores=frozenset())
