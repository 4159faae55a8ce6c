"""Does a plan keep what it promises? Plans on three videos, each judged on the blocks that were held back.

python benchmarks/planner.py            results/planner.json and the tables
python benchmarks/planner.py --docs     the same, and the tables into docs/plan.md between its markers

Every video is planned once, for pixel agreement, with the first network as the reference. Of the same trials two goals are
answered: the least time that keeps 98 %, and the most agreement in a third of the time. Promised is what the tuned blocks
tell, less the standard error over them; held back is what the same schedule gives on the other blocks.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from clockseg import load
from clockseg.commands._table import percent
from clockseg.datasets import read_data
from clockseg.planning import Goal, Plan, Told, Trial, Variant, plan
from page import insert, table
from provenance import HERE, write_result
from shared_data import shared_data

VIDEOS = {
    "driving": ("videos", "solidWhiteRight.mp4"),
    "fixed camera": ("videos", "one-by-one-person-detection.mp4"),
    "CamVid val": ("camvid", "val", "0016E5"),
}
KEEP, TIME = 0.98, 1 / 3


def main() -> None:
    """Plan, judge, write, print."""
    args = _arguments()
    variants = [
        Variant(load(name, engine=args.engine, threads=args.threads, size=size), name, size and str(size))
        for name in args.network or ["street"]
        for size in args.size or [None]
    ]
    rows = [_planned(args, name, variants) for name in VIDEOS]
    facts = {"networks": [variant.name for variant in variants], "engine": variants[0].net.engine, "videos": rows}
    path = write_result("planner", facts)
    tables = "\n\n".join([_answers(rows), _promises(rows)])
    if args.docs:
        insert(HERE.parent / "docs" / "plan.md", "planner", tables)
    print(tables)
    print(f"{path.relative_to(HERE.parent)} written", file=sys.stderr)


def _planned(args: argparse.Namespace, name: str, variants: list[Variant]) -> dict[str, Any]:
    start = time.perf_counter()
    told = Told(step=lambda sentence: print(f"{name}: {sentence}", file=sys.stderr, flush=True))
    clips = read_data(shared_data(*VIDEOS[name]))
    found = plan(variants, clips, Goal(keep=KEEP), limit=args.limit, told=told)
    return {
        "video": name,
        "frames": found.frames,
        "schedules": len(found.trials),
        "seconds": time.perf_counter() - start,
        "tape_bytes": found.bytes,
        "uncut_seconds": found.uncut_seconds,
        "answers": [_answer(found, goal) for goal in (Goal(keep=KEEP), Goal(time=TIME))],
        "off": _off(found),
    }


def _answer(found: Plan, goal: Goal) -> dict[str, Any]:
    """What the trials say to ``goal``."""
    trial = goal.best(found.trials)
    return {
        "goal": f"keep {KEEP:g}" if goal.keep else f"time {TIME:.2f}",
        "met": goal.met(trial),
        "network": found.variants[trial.variant].name,
        "schedule": trial.candidate.text,
        "promised": goal.promised(trial),
        "error": goal.error(trial),
        "held_back": goal.agreement(trial.held_back),
        "held_back_mean_iu": trial.held_back.agreement.mean_iu,
        "relative_time": trial.tuned.relative_time,
        "held_back_relative_time": trial.held_back.relative_time,
        "network_rate": trial.tuned.network_rate,
    }


def _off(found: Plan) -> dict[str, float]:
    """Held back less promised, over all trials: the mean, and how far the worst falls short; the frontier by itself."""
    apart = [_apart(found.goal, trial) for trial in found.trials]
    return {
        "mean": sum(apart) / len(apart),
        "worst": min(apart),
        "within_a_point": sum(one >= -0.01 for one in apart) / len(apart),
        "worst_of_frontier": min(_apart(found.goal, trial) for trial in found.frontier),
    }


def _apart(goal: Goal, trial: Trial) -> float:
    return goal.agreement(trial.held_back) - goal.promised(trial)


def _answers(rows: list[dict[str, Any]]) -> str:
    head = ["video", "goal", "schedule", "promised", "held back", "mean IU there", "time", "time there"]
    return table([head, *(_cells(row, answer) for row in rows for answer in row["answers"])])


def _cells(row: dict[str, Any], answer: dict[str, Any]) -> list[str]:
    return [
        row["video"],
        answer["goal"] + ("" if answer["met"] else " (not met)"),
        f"`{answer['schedule']}`" + (f" on {answer['network']}"),
        f"{100 * answer['promised']:.2f} %",
        f"{100 * answer['held_back']:.2f} %",
        percent(answer["held_back_mean_iu"]),
        f"{answer['relative_time']:.3f}",
        f"{answer['held_back_relative_time']:.3f}",
    ]


def _promises(rows: list[dict[str, Any]]) -> str:
    head = ["video", "frames", "schedules", "kept to a point", "worst", "worst on the frontier", "tapes", "seconds"]
    return table([head, *(_promise_cells(row) for row in rows)])


def _promise_cells(row: dict[str, Any]) -> list[str]:
    return [
        row["video"],
        str(row["frames"]),
        str(row["schedules"]),
        percent(row["off"]["within_a_point"]),
        f"{100 * row['off']['worst']:+.2f} points",
        f"{100 * row['off']['worst_of_frontier']:+.2f} points",
        f"{row['tape_bytes'] / 1e6:.0f} MB",
        f"{row['seconds']:.0f}",
    ]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", action="store_true", help="put the tables into docs/plan.md")
    parser.add_argument("--network", action="append", help="several times for several, the first is the reference")
    parser.add_argument("--size", action="append", type=int, help="longer side, several times for several")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--limit", type=int, default=200, help="frames of each video")
    return parser.parse_args()


if __name__ == "__main__":
    main()
