"""Interpolation replayed on a recording, for planning: the network is not run again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from clockseg.carry.interpolate import Interpolate
from clockseg.carry.warp import Estimator, Warp
from clockseg.clocks.scene_cut import scene_cut
from clockseg.clockwork.schedule import Schedule, ScheduleLike, schedule_for
from clockseg.execution.recording import Played, Recording
from clockseg.execution.replay import Promise, Shot
from clockseg.showing.labelling import Labeller
from clockseg.showing.maps import Maps
from clockseg.showing.stream import INTERPOLATED
from clockseg.showing.window import Due, Window


def play(recording: Recording, schedule: ScheduleLike) -> Iterator[Played]:
    """Play a schedule on a recording as ``Recording.play`` does, also under the carry ``interpolate``. Outputs are made when first read."""
    found = schedule_for(schedule, len(recording.net))
    if isinstance(found.carry, Interpolate):
        return _interpolated(recording, found, found.carry)
    return recording.play(found)


def _interpolated(recording: Recording, schedule: Schedule, carry: Interpolate) -> Iterator[Played]:
    window, labels = Window(smooth=carry.keys == 2), Labeller(recording.net)
    keys: tuple[int, ...] = ()

    def made(due: Due, key_frames: tuple[int, ...]) -> Played:
        (index, played), parts = due
        key = ("interpolated", carry, key_frames, index)
        promise = Promise(key, lambda: labels(labels.fuse(parts), Shot(recording, index)))
        fired = any(played.record.fired)
        return Played(promise, played.record._replace(propagated="" if fired else INTERPOLATED))

    cuts = _cuts(recording, carry.motion)
    firings = recording.play(replace(schedule, carry=Warp(carry.motion)), refills=cuts)
    for index, played in enumerate(firings):
        if played.record.fill:
            yield from [made(due, keys) for due in window.end()]
            keys = ()
        step = None if played.record.fill else recording.motion(carry.motion, index)
        maps: Maps | None = None
        if any(played.record.fired):
            keys, maps = (*keys, index), Maps.of(recording.look("fused", index))
        yield from [made(due, keys) for due in window.add((index, played), step, maps)]
    yield from [made(due, keys) for due in window.end()]


def _cuts(recording: Recording, estimator: Estimator) -> set[int]:
    """Return the frames with which a shot begins, beside the first ones of clips."""
    found, usual = set[int](), 0.0
    for index, frame in enumerate(recording.frames):
        if frame.first:
            usual = 0.0
            continue
        cut, usual = scene_cut(recording.motion(estimator, index), None, None, usual)
        found |= {index} if cut else set()
    return found
