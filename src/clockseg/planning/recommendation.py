"""The schedule to recommend for a network that has just been cut, measured on a video: the planner's short form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from clockseg.datasets.clips import Clip
from clockseg.errors import UsageError
from clockseg.graph import sidecar
from clockseg.networks.cutting import CutNetwork
from clockseg.networks.load import load
from clockseg.networks.source import Told
from clockseg.planning.candidates import SKIP
from clockseg.planning.frontier import Goal
from clockseg.planning.planner import Plan, Trial, Variant, plan
from clockseg.planning.taping import Callbacks
from clockseg.showing.kind import kind_of

SHARE = 1 / 3
"""Of the uncut network's time: the limit in which the recommended schedule agrees the most."""
FRAMES = 64


def recommend(
    cut: CutNetwork,
    clips: Sequence[Clip],
    *,
    engine: str = "auto",
    threads: int | None = None,
    frames: int = FRAMES,
    callbacks: Callbacks = Callbacks(),  # noqa: B008 - frozen
) -> tuple[CutNetwork, Plan]:
    """Measure schedules on ``clips``, write the best one into the sidecar, and return the network with it and the plan.

    ``engine``, ``threads``: to measure in; ``frames``: looked at. Errors as of ``plan``; ``UsageError`` for instances.
    """
    net = load(cut.file, engine=engine, threads=threads)
    if kind_of(net) == "instances":
        raise UsageError(f"network {net.name!r} gives instances; schedules are compared by their label maps.")
    found = plan([Variant(net, str(cut.file))], clips, Goal(time=SHARE), limit=frames, callbacks=callbacks)
    best = unbeaten(found.chosen, found.trials)
    total = best.all_frames
    why = (
        f"{100 * total.agreement.pixel_acc:.1f} % of the pixels as on every frame, in {total.relative_time:.2f} of the time: the "
        f"best of {len(found.trials)} schedules on {found.frames} frames of {', '.join(str(clip.path) for clip in clips)}"
    )
    text = best.candidate.text
    told = (*(one for one in cut.told if one.what != "schedule"), Told("schedule", text, why))
    said = replace(cut.sidecar, schedule=text)
    sidecar.write(said, cut.file.with_suffix(".json"))
    return replace(cut, sidecar=said, told=told, inspection=replace(cut.inspection, schedule=text)), found


def unbeaten(chosen: Trial, trials: Sequence[Trial]) -> Trial:
    """Return ``chosen``, unless running on every n-th frame with motion agrees at least as much in at most the time.

    Both are compared on all frames, those held back included.
    """
    plain = [one for one in trials if one.candidate.kind == SKIP and one.candidate.carry != "identity"]
    best = chosen.all_frames
    better = [
        one
        for one in plain
        if one.all_frames.agreement.pixel_acc >= best.agreement.pixel_acc
        and one.all_frames.relative_time <= best.relative_time
        and one is not chosen
    ]
    return max(better, key=lambda one: one.all_frames.agreement.pixel_acc, default=chosen)
