"""Which clock? Agreement with every frame at equal rates, on video that is still and moving in turn; and what budgets keep to.

python benchmarks/clocks.py            results/clocks.json and the tables
python benchmarks/clocks.py --docs     and into docs/clocks.md

Each video is taped once (`clockseg.execution.tape`), and every schedule is played on the tape. Thresholds are searched for, so that
clocks are compared at the rate of the fixed one; a budget finds its own.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from clock_signals import SIGNALS
from clockseg import load
from clockseg.carry import Flow, Warp, identity
from clockseg.cli._terminal import percent
from clockseg.clocks import adaptive, budget, difference, motion_residual
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Named, carried, skip_frame
from clockseg.datasets.clip_folders import read_clips
from clockseg.evaluation.metrics import Confusion, agreement, confusion, no_agreement
from clockseg.execution.tape import Tape, wanted
from clockseg.libraries import opencv
from clockseg.video import open_clip
from page import insert, table
from provenance import HERE, write_result
from shared_data import shared_data

MOVING, STILL = "solidWhiteRight.mp4", "one-by-one-person-detection.mp4"
TURNS, TURN = 3, {MOVING: 47, STILL: 41}
"""Frames a turn: no multiples of a fixed clock's period, which would fire at the cuts then."""
SIZE = (768, 432)
PERIODS = (2, 4, 10)
ROAD_USERS = ("pedestrian", "bicyclist")
WARP = Warp(Flow())
LOWEST, HIGHEST, STEPS = 1e-3, 1.0, 6
"""Between which thresholds are searched for, and how many are tried for each rate, halving."""


def main() -> None:
    """Tape, play, write, print."""
    args = _arguments()
    net = load("street", engine=args.engine, threads=args.threads)
    turns = _taped(net, _in_turn(), "in turn")
    drive = _taped(net, (frame.image for frame in _drive()), "camvid")
    figures = {
        "network": net.name,
        "in_turn": _kinds(turns),
        "signals": [row for name, tape in (("in turn", turns), ("camvid", drive)) for row in _signals(name, tape)],
        "classes": _classes(net, drive),
        "budgets": [row for name, tape in _videos(net, drive) for row in _budgets(name, tape)],
    }
    path = write_result("clocks", figures)
    for name, text in _tables(figures).items():
        print(f"{text}\n")
        if args.docs:
            insert(HERE.parent / "docs" / "clocks.md", name, text)
    print(f"{path.relative_to(HERE.parent)} written", file=sys.stderr)


def _video(name: str, frames: int | None) -> Iterator[Any]:
    cv2 = opencv()
    with open_clip(shared_data("videos", name)) as clip:
        for frame in islice(clip, frames):
            yield cv2.resize(frame.image, SIZE, interpolation=cv2.INTER_AREA)


def _in_turn() -> Iterator[Any]:
    """Both videos in turns, at one size."""
    sources = {name: list(_video(name, TURNS * frames)) for name, frames in TURN.items()}
    for turn in range(TURNS):
        for name, frames in TURN.items():
            yield from sources[name][turn * frames : (turn + 1) * frames]


def _drive() -> Iterator[Any]:
    """The frames of CamVid's val clip, with human labels."""
    [clip] = read_clips(shared_data("camvid", "val"))
    return iter(clip)


def _videos(net: StagedNetwork, drive: Tape) -> Iterator[tuple[str, Tape]]:
    yield MOVING, _taped(net, _video(MOVING, None), MOVING)
    yield STILL, _taped(net, _video(STILL, 300), STILL)
    yield "CamVid's val clip", drive


def _taped(net: StagedNetwork, images: Iterator[Any], name: str) -> Tape:
    schedules = [carried(adaptive(0.1), WARP), carried(budget(network_rate=0.5), WARP), difference(0.1, of="pixels")]
    tape = Tape(net, wanted(net, schedules))
    for image in images:
        tape.add(image)
    print(f"{name}: {len(tape)} frames taped", file=sys.stderr)
    return tape


def _rate(tape: Tape, schedule: Named) -> float:
    """The share of frames after the first on which the last stage fires."""
    return float(np.mean([played.record.fired[-1] for played in islice(tape.play(schedule), 1, None)]))


def _at_rate(tape: Tape, by_threshold: Callable[[float], Named], rates: Sequence[float]) -> list[Named]:
    """The schedules whose rates are closest to these; what was tried for one helps with the next."""
    chosen = []
    tried: dict[float, float] = {}
    for rate in rates:
        for _ in range(STEPS):
            low = max((one for one, found in tried.items() if found > rate), default=LOWEST)
            high = min((one for one, found in tried.items() if found <= rate and one > low), default=HIGHEST)
            middle = math.sqrt(low * high)
            tried[middle] = _rate(tape, by_threshold(middle))
        chosen.append(by_threshold(min(tried, key=lambda one: abs(tried[one] - rate))))
    return chosen


def _agreeing(tape: Tape, schedule: Named) -> dict[str, float]:
    """The rate, and how far the labels agree with those of every frame."""
    total, fired = no_agreement(len(tape.net.classes)), []
    for index, played in enumerate(tape.play(schedule)):
        truth = tape.net.restore(tape.look("output", index), np.broadcast_to(np.uint8(0), tape.shape(index)))
        total += agreement(truth, played.output.value, len(tape.net.classes))
        fired.append(played.record.fired[-1])
    return {"rate": float(np.mean(fired[1:])), "pixel_acc": total.pixel_acc, "mean_iu": total.mean_iu}


def _kinds(tape: Tape) -> list[dict[str, Any]]:
    """Each kind of clock at each rate, under the warp."""
    fixed = [carried(skip_frame(period), WARP) for period in PERIODS]
    rates = [_rate(tape, schedule) for schedule in fixed]
    by_threshold: dict[str, Callable[[float], Named]] = {
        "motion_residual(t)": lambda t: carried(motion_residual(t), WARP),
        'difference(t, of="pixels")': lambda t: carried(difference(t, of="pixels"), WARP),
        "adaptive(t, watch=1)": lambda t: carried(adaptive(t, watch=1), WARP),
    }
    kinds = {"skip_frame(n)": fixed} | {name: _at_rate(tape, make, rates) for name, make in by_threshold.items()}
    kinds["budget(network_rate=r)"] = [carried(budget(network_rate=1 / period), WARP) for period in PERIODS]
    return [
        {"clock": name, "asked": rate, **_agreeing(tape, schedule)}
        for name, schedules in kinds.items()
        for rate, schedule in zip(rates, schedules, strict=True)
    ]


def _signals(name: str, tape: Tape) -> list[dict[str, Any]]:
    """Ways to sum up what motion leaves unexplained, with and without more weight near the borders of labels."""
    return [
        {"video": name, "signal": signal, "asked": rate, **_agreeing(tape, schedule)}
        for signal, make in SIGNALS.items()
        for rate, schedule in zip(
            (0.25, 0.125), _at_rate(tape, lambda t, make=make: carried(make(t), WARP), (0.25, 0.125)), strict=True
        )
    ]


def _classes(net: StagedNetwork, tape: Tape) -> list[dict[str, Any]]:
    """A change clock on all classes and one on some, at equal rates, against human labels."""
    makers: dict[str, Callable[[float], Named]] = {
        "every frame": lambda t: skip_frame(1),
        "adaptive(t, watch=1)": lambda t: adaptive(t, watch=1),
        f"adaptive(t, watch=1, classes={ROAD_USERS})": lambda t: adaptive(t, watch=1, classes=ROAD_USERS),
    }
    rows = []
    for carry in (identity, WARP):
        for name, make in makers.items():
            rates = (1.0,) if name == "every frame" else (0.5, 0.25, 0.125)
            made = _at_rate(tape, lambda t, make=make, carry=carry: carried(make(t), carry), rates)
            scores = [{"asked": rate, **_scored(net, tape, one)} for rate, one in zip(rates, made, strict=True)]
            rows += [{"clock": name, "carry": str(carry), **one} for one in scores]
    return rows


def _scored(net: StagedNetwork, tape: Tape, schedule: Named) -> dict[str, Any]:
    """IU of the classes that matter, and of all."""
    found, fired = Confusion.none(len(net.classes)), []
    for frame, played in zip(_drive(), tape.play(schedule), strict=True):
        fired.append(played.record.fired[-1])
        found += confusion(frame.labels, played.output.value, len(net.classes))
    iu = {name: float(found.iu[net.classes.index(name)]) for name in ROAD_USERS}
    return {"rate": float(np.mean(fired[1:])), "mean_iu": found.mean_iu, **iu}


def _budgets(name: str, tape: Tape) -> list[dict[str, Any]]:
    """What rate there was after 100 frames, the largest distance from then on, and refills."""
    rows = []
    for carry in (WARP, identity):
        for period in PERIODS:
            rate = 1 / period
            records = [one.record for one in islice(tape.play(carried(budget(network_rate=rate), carry)), 1, None)]
            so_far = np.cumsum([any(one.fired) for one in records]) / np.arange(1, len(records) + 1)
            rows.append(
                {
                    "video": name,
                    "carry": str(carry),
                    "asked": rate,
                    "after_100": float(so_far[99]),
                    "at_the_end": float(so_far[-1]),
                    "farthest": float(np.abs(so_far[99:] - rate).max()),
                    "refills": sum(one.fill for one in records),
                }
            )
    return rows


def _tables(figures: dict[str, Any]) -> dict[str, str]:
    """The tables of the page, by the name of their markers."""
    return {
        "in turn": _by_rate(figures["in_turn"], ("clock",)),
        "signals": _by_rate(figures["signals"], ("video", "signal")),
        "classes": _class_table(figures["classes"]),
        "budgets": _budget_table(figures["budgets"]),
    }


def _by_rate(rows: list[dict[str, Any]], names: tuple[str, ...]) -> str:
    """A row for each clock, its agreement at each rate."""
    asked = list(dict.fromkeys(row["asked"] for row in rows))
    found: dict[tuple[str, ...], dict[float, dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in names), {})[row["asked"]] = row
    head = [*names, *(cell for rate in asked for cell in (f"rate, of {percent(rate)}", "mean IU", "pixels"))]
    cells = [
        [*_quoted(key), *(cell for rate in asked for cell in _agreement_cells(by_rate[rate]))]
        for key, by_rate in found.items()
    ]
    return table([head, *cells])


def _quoted(key: tuple[str, ...]) -> list[str]:
    return [f"`{part}`" if "(" in part else part for part in key]


def _agreement_cells(row: dict[str, Any]) -> list[str]:
    return [percent(row["rate"]), percent(row["mean_iu"]), percent(row["pixel_acc"])]


def _class_table(rows: list[dict[str, Any]]) -> str:
    head = ["clock", "carry", "fires on", *ROAD_USERS, "mean IU"]
    return table(
        [head]
        + [
            [
                *_quoted((row["clock"],)),
                row["carry"],
                *(percent(row[name]) for name in ("rate", *ROAD_USERS, "mean_iu")),
            ]
            for row in rows
        ]
    )


def _budget_table(rows: list[dict[str, Any]]) -> str:
    head = ["video", "carry", "asked", "after 100 frames", "farthest from then on", "at the end", "refills"]
    cells = [
        [
            row["video"],
            row["carry"],
            *(percent(row[name]) for name in ("asked", "after_100")),
            f"{100 * row['farthest']:.1f} points",
            percent(row["at_the_end"]),
            str(row["refills"]),
        ]
        for row in rows
    ]
    return table([head, *cells])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", default="openvino")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--docs", action="store_true", help="put the tables into docs/clocks.md")
    return parser.parse_args()


if __name__ == "__main__":
    main()
