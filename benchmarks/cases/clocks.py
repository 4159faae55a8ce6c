"""Agreement of clocks with every frame at equal rates, IU of clocks that watch some classes, and how budgets are kept.

Videos are taped once, and every schedule is played on the recording. "In turn" joins a moving and a still video in turns.
Thresholds are searched for, so that clocks are compared at the rate of the fixed one; a budget finds its own.
"""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

import numpy as np

from benchmarks.harness import Facts, code, percent, say, table
from benchmarks.inputs import DRIVING, FIXED_CAMERA, camvid, images, video
from clockseg import adaptive, budget, carried, difference, load, motion_residual, parse_carry, skip_frame
from clockseg.clockwork.network import StagedNetwork
from clockseg.evaluation.metrics import Confusion, confusion
from clockseg.execution.recording import Recording, needs
from clockseg.libraries import opencv
from clockseg.planning.trial import agreement, no_agreement

OPTIONS = {"threads": None}
TURNS, TURN = 3, {DRIVING: 47, FIXED_CAMERA: 41}
"""Frames a turn: no multiples of a fixed clock's period, which would fire at the cuts then."""
SIZE, PERIODS, ROAD_USERS = (768, 432), (2, 4, 10), ("pedestrian", "bicyclist")
WARP, IDENTITY = parse_carry("warp(flow)"), parse_carry("identity")
LOWEST, HIGHEST, STEPS = 1e-3, 1.0, 6
"""Between which thresholds are searched for, and how many are tried for each rate, halving."""


def measure(asked: Namespace) -> Facts:
    """Recording and play."""
    net = load("street", engine="openvino", threads=asked.threads)
    drive = _taped(net, images(camvid()[0]))
    taped = {name: _taped(net, _video(name, frames)) for name, frames in ((DRIVING, None), (FIXED_CAMERA, 300))}
    return {
        "network": net.name,
        "in_turn": _kinds(_taped(net, _in_turn())),
        "classes": _classes(net, drive),
        "budgets": [
            row
            for name, recording in (*taped.items(), ("CamVid's val clip", drive))
            for row in _budgets(name, recording)
        ],
    }


def _video(name: str, frames: int | None) -> list[Any]:
    return [opencv().resize(image, SIZE, interpolation=opencv().INTER_AREA) for image in images(video(name), frames)]


def _in_turn() -> list[Any]:
    sources = {name: _video(name, TURNS * frames) for name, frames in TURN.items()}
    turns = [(turn, name, frames) for turn in range(TURNS) for name, frames in TURN.items()]
    return [image for turn, name, frames in turns for image in sources[name][turn * frames : (turn + 1) * frames]]


def _taped(net: StagedNetwork, frames: Iterable[Any]) -> Recording:
    schedules = [carried(adaptive(0.1), WARP), carried(budget(network_rate=0.5), WARP), difference(0.1, of="pixels")]
    recording = Recording(net, needs(net, schedules, outputs=True))
    for image in frames:
        recording.add(image)
    say(f"{len(recording)} frames taped")
    return recording


def _rate(recording: Recording, schedule: Any) -> float:
    """Return the share of frames after the first on which the last stage fires."""
    return float(np.mean([played.record.fired[-1] for played in islice(recording.play(schedule), 1, None)]))


def _at_rate(recording: Recording, make: Callable[[float], Any], rates: Sequence[float]) -> list[Any]:
    """Return the schedules whose rates are closest to these; thresholds tried for one help with the next."""
    chosen, tried = [], dict[float, float]()
    for rate in rates:
        for _ in range(STEPS):
            low = max((one for one, found in tried.items() if found > rate), default=LOWEST)
            high = min((one for one, found in tried.items() if found <= rate and one > low), default=HIGHEST)
            tried[math.sqrt(low * high)] = _rate(recording, make(math.sqrt(low * high)))
        chosen.append(make(min(tried, key=lambda one: abs(tried[one] - rate))))
    return chosen


def _agreeing(recording: Recording, schedule: Any) -> Facts:
    """Return the rate, and the agreement of labels with those of every frame."""
    total, fired = no_agreement(len(recording.net.classes)), []
    for index, played in enumerate(recording.play(schedule)):
        truth = recording.net.restore(
            recording.look("output", index), np.broadcast_to(np.uint8(0), recording.frames[index].shape)
        )
        total += agreement(truth, played.output.value, len(recording.net.classes))
        fired.append(played.record.fired[-1])
    return {"rate": float(np.mean(fired[1:])), "pixel_acc": total.pixel_acc, "mean_iu": total.mean_iu}


def _kinds(recording: Recording) -> list[Facts]:
    fixed = [carried(skip_frame(period), WARP) for period in PERIODS]
    rates = [_rate(recording, schedule) for schedule in fixed]
    makers: dict[str, Callable[[float], Any]] = {
        "motion_residual(t)": lambda t: carried(motion_residual(t), WARP),
        'difference(t, of="pixels")': lambda t: carried(difference(t, of="pixels"), WARP),
        "adaptive(t, watch=1)": lambda t: carried(adaptive(t, watch=1), WARP),
    }
    kinds = {"skip_frame(n)": fixed} | {name: _at_rate(recording, make, rates) for name, make in makers.items()}
    kinds["budget(network_rate=r)"] = [carried(budget(network_rate=1 / period), WARP) for period in PERIODS]
    return [
        {"clock": name, "asked": rate, **_agreeing(recording, schedule)}
        for name, schedules in kinds.items()
        for rate, schedule in zip(rates, schedules, strict=True)
    ]


def _classes(net: StagedNetwork, recording: Recording) -> list[Facts]:
    """Return a change clock on all classes and one on some, at equal rates, against human labels."""
    makers: dict[str, Callable[[float], Any]] = {
        "every frame": lambda t: skip_frame(1),
        "adaptive(t, watch=1)": lambda t: adaptive(t, watch=1),
        f"adaptive(t, watch=1, classes={ROAD_USERS})": lambda t: adaptive(t, watch=1, classes=ROAD_USERS),
    }
    return [
        {"clock": name, "carry": str(carry), **_scored(net, recording, schedule)}
        for carry in (IDENTITY, WARP)
        for name, make in makers.items()
        for schedule in _at_rate(
            recording,
            lambda t, make=make, carry=carry: carried(make(t), carry),
            (1.0,) if name == "every frame" else (0.5, 0.25, 0.125),
        )
    ]


def _scored(net: StagedNetwork, recording: Recording, schedule: Any) -> Facts:
    found, fired = Confusion.none(len(net.classes)), []
    for frame, played in zip(camvid()[0].frames(), recording.play(schedule), strict=True):
        fired.append(played.record.fired[-1])
        found += confusion(frame.labels, played.output.value, len(net.classes))
    iu = {name: float(found.iu[net.classes.index(name)]) for name in ROAD_USERS}
    return {"rate": float(np.mean(fired[1:])), "mean_iu": found.mean_iu, **iu}


def _budgets(name: str, recording: Recording) -> list[Facts]:
    """Return the rate after 100 frames, and the largest distance from then on."""
    rows = []
    for carry in (WARP, IDENTITY):
        for rate in (1 / period for period in PERIODS):
            records = [one.record for one in islice(recording.play(carried(budget(network_rate=rate), carry)), 1, None)]
            so_far = np.cumsum([any(one.fired) for one in records]) / np.arange(1, len(records) + 1)
            told = {"after_100": float(so_far[99]), "at_the_end": float(so_far[-1])}
            told |= {"farthest": float(np.abs(so_far[99:] - rate).max()), "refills": sum(one.fill for one in records)}
            rows.append({"video": name, "carry": str(carry), "asked": rate, **told})
    return rows


def pages(facts: Facts) -> dict[str, str]:
    """Three pages."""
    asked = list(dict.fromkeys(row["asked"] for row in facts["in_turn"]))
    by_clock: dict[str, list[str]] = {}
    for row in facts["in_turn"]:
        cells = by_clock.setdefault(row["clock"], [code(row["clock"])])
        cells += [percent(row[key]) for key in ("rate", "mean_iu", "pixel_acc")]
    head = ["clock", *(cell for rate in asked for cell in (f"rate, of {percent(rate)}", "mean IU", "pixels"))]
    classes = [
        [code(row["clock"]), row["carry"], *(percent(row[key]) for key in ("rate", *ROAD_USERS, "mean_iu"))]
        for row in facts["classes"]
    ]
    budgets = []
    for row in facts["budgets"]:
        shares = [percent(row[key]) for key in ("asked", "after_100")]
        rest = [f"{100 * row['farthest']:.1f} points", percent(row["at_the_end"]), str(row["refills"])]
        budgets.append([row["video"], row["carry"], *shares, *rest])
    budget_head = ["video", "carry", "asked", "after 100 frames", "farthest from then on", "at the end", "refills"]
    return {
        "in-turn": table(head, list(by_clock.values())),
        "classes": table(["clock", "carry", "fires on", *ROAD_USERS, "mean IU"], classes),
        "budgets": table(budget_head, budgets),
    }
