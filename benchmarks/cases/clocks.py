"""Agreement of clocks with every frame at equal rates, and how budgets are kept.

Videos are recorded once, and every schedule is replayed. "In turn" joins a moving and a still video in turns. Thresholds are
tuned, so that clocks are compared at the rate of the fixed one; a budget finds its own.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from benchmarks.harness import Facts, code, listing, percent, say, share, table
from benchmarks.inputs import DRIVING, FIXED_CAMERA, camvid, images, video
from clockseg import adaptive, budget, carried, difference, load, motion_residual, parse_carry, skip_frame
from clockseg.clockwork.network import StagedNetwork
from clockseg.execution.recording import Recording, needs
from clockseg.planning.trial import Agreement
from clockseg.planning.tuning import tried, tune

OPTIONS = {"threads": None}
TURNS, TURN = 3, {DRIVING: 47, FIXED_CAMERA: 41}
"""Frames a turn: no multiples of a fixed clock's period, which would fire at the cuts then."""
SIZE, PERIODS = (768, 432), (2, 4, 10)
WARP, IDENTITY = parse_carry("warp(flow)"), parse_carry("identity")


def measure(asked: Namespace) -> Facts:
    """Record and replay."""
    net = load("street", engine="openvino", threads=asked.threads)
    drive = _taped(net, images(camvid()[0]))
    frames = {DRIVING: None, FIXED_CAMERA: 300}
    taped = {name: _taped(net, images(video(name), count, SIZE)) for name, count in frames.items()}
    taped["CamVid's val clip"] = drive
    budgets = [row for name, recording in taped.items() for row in _budgets(name, recording)]
    return {"network": net.name, "in_turn": _kinds(_taped(net, _in_turn())), "budgets": budgets}


def _in_turn() -> list[Any]:
    sources = {name: images(video(name), TURNS * frames, SIZE) for name, frames in TURN.items()}
    turns = [(turn, name, frames) for turn in range(TURNS) for name, frames in TURN.items()]
    return [image for turn, name, frames in turns for image in sources[name][turn * frames : (turn + 1) * frames]]


def _taped(net: StagedNetwork, frames: Iterable[Any]) -> Recording:
    moved = [carried(adaptive(0.1), WARP), carried(budget(network_rate=0.5), WARP)]
    recording = Recording(net, needs(net, [*moved, difference(0.1, of="pixels")], outputs=True))
    for image in frames:
        recording.add(image)
    say(f"{len(recording)} frames taped")
    return recording


def _agreeing(recording: Recording, schedule: Any) -> Facts:
    """Return the rate, and the agreement of labels with those of every frame."""
    classes = len(recording.net.classes)
    total, fired = Agreement(np.zeros((3, classes), np.int64)), []
    for index, played in enumerate(recording.play(schedule)):
        frame = np.broadcast_to(np.uint8(0), recording.frames[index].shape)
        truth = recording.net.restore(recording.look("output", index), frame)
        total += Agreement.of(truth, played.output.value, classes)
        fired.append(played.record.fired[-1])
    return {"rate": float(np.mean(fired[1:])), "pixel_acc": total.pixel_acc, "mean_iu": total.mean_iu}


def _warped(make: Callable[[float], Any], threshold: float) -> Any:
    return carried(make(threshold), WARP)


def _kinds(recording: Recording) -> list[Facts]:
    fixed = [carried(skip_frame(period), WARP) for period in PERIODS]
    rates = [tried([recording], schedule).fire_rate for schedule in fixed]
    makers: dict[str, Callable[[float], Any]] = {
        "motion_residual(t)": motion_residual,
        'difference(t, of="pixels")': partial(difference, of="pixels"),
        "adaptive(t, watch=1)": partial(adaptive, watch=1),
    }
    kinds = {"skip_frame(n)": fixed}
    for name, make in makers.items():
        chosen = [tune([recording], partial(_warped, make), rate, points=4) for rate in rates]
        kinds[name] = [_warped(make, one.point.threshold) for one in chosen]
    kinds["budget(network_rate=r)"] = [carried(budget(network_rate=1 / period), WARP) for period in PERIODS]
    return [
        {"clock": name, "asked": rate, **_agreeing(recording, schedule)}
        for name, schedules in kinds.items()
        for rate, schedule in zip(rates, schedules, strict=True)
    ]


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
    """A page of clocks, and one of budgets."""
    asked = list(dict.fromkeys(row["asked"] for row in facts["in_turn"]))
    by_clock: dict[str, list[str]] = {}
    for row in facts["in_turn"]:
        cells = by_clock.setdefault(row["clock"], [code(row["clock"])])
        cells += [percent(row[key]) for key in ("rate", "mean_iu", "pixel_acc")]
    head = ["clock", *(cell for rate in asked for cell in (f"rate, of {percent(rate)}", "mean IU", "pixels"))]
    columns: Facts = {"video": "video", "carry": "carry", "asked": share("asked")}
    columns["after 100 frames"] = share("after_100")
    columns["farthest from then on"] = lambda row: f"{100 * row['farthest']:.1f} points"
    columns |= {"at the end": share("at_the_end"), "refills": "refills"}
    return {"in-turn": table(head, list(by_clock.values())), "budgets": listing(facts["budgets"], columns)}
