"""The schedule to recommend for a network that has just been cut, measured on a video: the planner's short form."""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from clockseg.clocks.spec import parse_schedule
from clockseg.datasets.clips import Clip
from clockseg.errors import UsageError
from clockseg.graph import sidecar
from clockseg.networks.checking import picture
from clockseg.networks.cutting import CutNetwork
from clockseg.networks.load import load
from clockseg.networks.source import Told
from clockseg.planning.planner import Callbacks, Goal, Variant, plan
from clockseg.showing.kind import kind_of
from clockseg.showing.stream import run

SHARE = 1 / 3
"""Of the uncut network's time: the limit in which the recommended schedule agrees the most."""
FRAMES = 64
MADE, STEP = 12, 2
"""Frames of a made video, and the pixels by which its picture moves from one to the next."""


def recommend(
    cut: CutNetwork,
    clips: Sequence[Clip],
    *,
    engine: str = "auto",
    threads: int | None = None,
    callbacks: Callbacks = Callbacks(),  # noqa: B008 - frozen
) -> CutNetwork:
    """Measure schedules on ``clips``, write the best one into the sidecar, and return the network with it.

    It is the one that agrees most on all frames, since nothing is promised of other ones. ``engine``, ``threads``: to measure
    in. Errors as of ``plan``; ``UsageError`` for instances.
    """
    net = load(cut.file, engine=engine, threads=threads)
    if kind_of(net) == "instances":
        raise UsageError(f"network {net.name!r} gives instances; schedules are compared by their label maps.")
    found = plan([Variant(net, str(cut.file))], clips, Goal(time=SHARE), limit=FRAMES, callbacks=callbacks)
    in_time = [one for one in found.trials if one.relative_time <= SHARE]
    best = max(in_time, key=lambda one: (one.tuned + one.held_back).pixel_acc, default=found.chosen)
    agreement = (best.tuned + best.held_back).pixel_acc
    why = (
        f"{100 * agreement:.1f} % of the pixels have their every-frame label, in {best.relative_time:.2f} of the time: the "
        f"best of {len(found.trials)} schedules on {found.frames} frames of {', '.join(str(clip.path) for clip in clips)}"
    )
    text = best.candidate.text
    told = (*(one for one in cut.told if one.what != "schedule"), Told("schedule", text, why))
    said = replace(cut.sidecar, schedule=text)
    sidecar.write(said, cut.file.with_suffix(".json"))
    return replace(cut, sidecar=said, told=told, inspection=replace(cut.inspection, schedule=text))


def timed_default(cut: CutNetwork, *, engine: str = "auto", threads: int | None = None) -> CutNetwork:
    """Return the network with the time that its recommended schedule takes on a made video told: a picture that moves.

    Such a video tells nothing of agreement, nor of the thresholds of clocks on change: on a real one, labels change for other
    reasons than motion. Nothing is measured of a network of instances. A note is added where the schedule saves no time.
    """
    text = cut.sidecar.schedule
    if cut.sidecar.instances is not None or text is None:
        return cut
    net, (width, height) = load(cut.file, engine=engine, threads=threads), cut.inspection.size
    wide = picture((width + MADE * STEP, height))
    images = [np.ascontiguousarray(wide[:, at * STEP : at * STEP + width]) for at in range(MADE)]
    schedule, uncut = parse_schedule(text), net.uncut()
    share = _seconds(lambda: list(run(net, images, schedule))) / MADE / _seconds(lambda: uncut(images[0]), 3)
    measured = f"; on a made video it takes {share:.2f} of the uncut network's time; --video measures agreement too"
    told = [one._replace(why=one.why + measured) if one.what == "schedule" else one for one in cut.told]
    slow = (
        "Estimating motion takes longer than this network. Run it on every frame (--schedule frame_oracle), or hold its labels "
        "without motion (--schedule 'skip_frame(2)')."
    )
    return replace(cut, told=tuple(told), notes=(*cut.notes, slow) if share > 1 else cut.notes)


def _seconds(call: Callable[[], object], repeat: int = 1) -> float:
    """Return the median of ``repeat`` times of ``call``, in seconds, after one that compiles."""
    return statistics.median(timeit.repeat(call, number=1, repeat=1 + repeat)[1:])
