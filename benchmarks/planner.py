"""Does a plan keep what it promises? Plans on three videos, each judged on the blocks that were held back, then run.

python benchmarks/planner.py            results/planner.json and the tables
python benchmarks/planner.py --docs     the same, and the tables into docs/plan.md between its markers

Every video is planned with street alone, and with a big network, its 8 bits and a small one, for pixel agreement; the first
network is the reference. Of the same trials two goals are answered: the least time that keeps 98 %, and the most agreement in a
third of the time. Promised is what the tuned blocks tell, less the standard error over them; held back is what the same
schedule gives on the other blocks. Then each answer runs, by evaluate beside the uncut reference, and by segment.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from clockseg import load, read_trace
from clockseg.cli._terminal import percent
from clockseg.clocks.spec import parse_schedule
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Schedule, schedule_for
from clockseg.datasets import read_data
from clockseg.datasets.clips import Clip
from clockseg.evaluation.labels import evaluate
from clockseg.planning.planner import Callbacks, Goal, Plan, Trial, Variant, plan
from clockseg.segmenting.segmentation import segment
from page import insert, table
from provenance import HERE, provenance, write_result
from shared_data import shared_data

VIDEOS = {
    "driving": ("videos", "solidWhiteRight.mp4"),
    "fixed camera": ("videos", "one-by-one-person-detection.mp4"),
    "CamVid val": ("camvid", "val", "0016E5"),
}
NETWORKS = (("street",), ("street-large", "street-large-int8", "street"))
"""That are planned with together."""
KEEP, TIME = 0.98, 1 / 3


def main() -> None:
    """Plan, judge, run, write, print."""
    args = _arguments()
    rows = []
    for names in [args.network] if args.network else NETWORKS:
        variants = [
            Variant(load(name, engine=args.engine, threads=args.threads, size=size), name, size and str(size))
            for name in names
            for size in args.size or [None]
        ]
        rows += [_planned(args, video, variants) for video in VIDEOS]
    path = write_result("planner", {"videos": rows})
    made = provenance()
    machine = f"{made['machine']['cores']} cores of {made['machine']['processor']}"
    where = f"OpenVINO on {machine}, {made['date']}, commit {made['commit']}."
    tables = "\n\n".join([_answers(rows), _promises(rows), _runs(rows), where])
    if args.docs:
        insert(HERE.parent / "docs" / "plan.md", "planner", tables)
    print(tables)
    print(f"{path.relative_to(HERE.parent)} written", file=sys.stderr)


def _planned(args: argparse.Namespace, video: str, variants: list[Variant]) -> dict[str, Any]:
    start = time.perf_counter()
    callbacks = Callbacks(step=lambda sentence: print(f"{video}: {sentence}", file=sys.stderr, flush=True))
    clips = read_data(shared_data(*VIDEOS[video]))
    found = plan(variants, clips, Goal(keep=KEEP), limit=args.limit, callbacks=callbacks)
    seconds = time.perf_counter() - start
    answers = []
    for goal in (Goal(keep=KEEP), Goal(time=TIME)):
        trial = goal.best(found.trials)
        answers.append(_answer(found, goal, trial) | _ran(found, trial, replace(clips[0], limit=args.limit)))
    return {
        "video": video,
        "networks": [variant.name for variant in variants],
        "engine": variants[0].net.engine,
        "frames": found.frames,
        "schedules": len(found.trials),
        "seconds": seconds,
        "tape_bytes": found.bytes,
        "uncut_seconds": found.uncut_seconds,
        "answers": answers,
        "off": _off(found),
    }


def _answer(found: Plan, goal: Goal, trial: Trial) -> dict[str, Any]:
    """What the trials say to ``goal``."""
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


def _ran(found: Plan, trial: Trial, clip: Clip) -> dict[str, Any]:
    """The schedule on the clip's first frames: by evaluate, and by segment, whose time is over evaluate's uncut reference."""
    net = found.variants[trial.variant].net
    schedule = schedule_for(parse_schedule(trial.candidate.text), len(net))
    reference = found.variants[0].net
    [one] = evaluate(reference, {}, [clip], baselines=[("plan", net, schedule)], boundary=False)
    uncut = one.uncut.seconds_per_frame
    if uncut is None:
        raise ValueError(f"{clip.path} has one frame")
    return {
        "evaluate_agreement": one.agreement.pixel_acc,
        "evaluate_relative_time": one.relative_time,
        "segment_relative_time": _segment_seconds(clip, net, schedule) / uncut,
    }


def _segment_seconds(clip: Clip, net: StagedNetwork, schedule: Schedule) -> float:
    """Of a frame after the first; without decoding and encoding, as in all relative times."""
    pictures = clip.path / "images"
    with tempfile.TemporaryDirectory() as folder:
        segment(pictures if pictures.exists() else clip.path, folder, net, schedule, limit=clip.limit, overwrite=True)
        trace = read_trace(folder)[1:]
    return sum(_seconds(record["seconds"]) for record in trace) / len(trace)


def _seconds(spent: dict[str, Any]) -> float:
    alone = (value for name, value in spent.items() if name not in ("decode", "encode"))
    return sum(sum(value) if isinstance(value, Sequence) else value for value in alone)


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
        _name(row),
        answer["goal"] + ("" if answer["met"] else " (not met)"),
        f"`{answer['schedule']}`" + (f" on {answer['network']}"),
        f"{100 * answer['promised']:.2f} %",
        f"{100 * answer['held_back']:.2f} %",
        percent(answer["held_back_mean_iu"]),
        f"{answer['relative_time']:.3f}",
        f"{answer['held_back_relative_time']:.3f}",
    ]


def _name(row: dict[str, Any]) -> str:
    return row["video"] if len(row["networks"]) == 1 else f"{row['video']}, {len(row['networks'])} networks"


def _runs(rows: list[dict[str, Any]]) -> str:
    head = ["video", "goal", "agreement promised", "of the run", "time planned", "of `evaluate`", "of `segment`"]
    return table([head, *(_run_cells(row, answer) for row in rows for answer in row["answers"])])


def _run_cells(row: dict[str, Any], answer: dict[str, Any]) -> list[str]:
    return [
        _name(row),
        answer["goal"],
        f"{100 * answer['promised']:.2f} %",
        f"{100 * answer['evaluate_agreement']:.2f} %",
        f"{answer['relative_time']:.3f}",
        f"{answer['evaluate_relative_time']:.3f}",
        f"{answer['segment_relative_time']:.3f}",
    ]


def _promises(rows: list[dict[str, Any]]) -> str:
    head = [
        "networks",
        "video",
        "frames",
        "schedules",
        "kept to a point",
        "worst",
        "worst on the frontier",
        "tapes",
        "seconds",
    ]
    return table([head, *(_promise_cells(row) for row in rows)])


def _promise_cells(row: dict[str, Any]) -> list[str]:
    return [
        ", ".join(row["networks"]),
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
