"""Promises of plans against what their schedules give: on blocks held back, by `evaluate` and by `segment`.

Three videos are planned with `street` alone, and with a big network, its 8 bits and a small one, for pixel agreement; the
first network is the reference. Of the same trials two goals are answered: the least time that keeps 98 %, and the most
agreement in a third of the time.
"""

from __future__ import annotations

import tempfile
import time
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from benchmarks.harness import Facts, percent, say, table
from benchmarks.inputs import DRIVING, FIXED_CAMERA, data
from benchmarks.measuring import compared
from clockseg import load, parse_schedule, plan, read_trace, segment
from clockseg.clockwork.schedule import schedule_for
from clockseg.datasets import Clip, read_data
from clockseg.planning.planner import Callbacks, Goal, Variant

OPTIONS = {"engine": "auto", "threads": None, "limit": 200}
VIDEOS = {
    "driving": ("videos", DRIVING),
    "fixed camera": ("videos", FIXED_CAMERA),
    "CamVid val": ("camvid", "val", "0016E5"),
}
NETWORKS = (("street",), ("street-large", "street-large-int8", "street"))
KEEP, TIME = 0.98, 1 / 3


def measure(asked: Namespace) -> Facts:
    """Plan every video with every set of networks."""
    rows = []
    for names in NETWORKS:
        variants = [Variant(load(name, engine=asked.engine, threads=asked.threads), name) for name in names]
        rows += [_planned(asked, video, variants) for video in VIDEOS]
    return {"videos": rows}


def _planned(asked: Namespace, video: str, variants: list[Variant]) -> Facts:
    clips, start = read_data(data(*VIDEOS[video])), time.perf_counter()
    callbacks = Callbacks(step=lambda sentence: say(f"{video}: {sentence}"))
    found = plan(variants, clips, Goal(keep=KEEP), limit=asked.limit, callbacks=callbacks)
    seconds, clip = time.perf_counter() - start, replace(clips[0], limit=asked.limit)
    answers = []
    for name, goal in ((f"keep {KEEP:g}", Goal(keep=KEEP)), (f"time {TIME:.2f}", Goal(time=TIME))):
        trial = goal.best(found.trials)
        promise = {
            "goal": name,
            "met": goal.met(trial),
            "network": found.variants[trial.variant].name,
            "schedule": trial.candidate.text,
            "promised": goal.promised(trial),
            "held_back": goal.agreement(trial.held_back),
            "relative_time": trial.tuned.relative_time,
            "held_back_relative_time": trial.held_back.relative_time,
        }
        answers.append(promise | _ran(found, trial, clip))
    apart = [found.goal.agreement(one.held_back) - found.goal.promised(one) for one in found.trials]
    return {
        "video": video,
        "networks": [variant.name for variant in variants],
        "frames": found.frames,
        "schedules": len(found.trials),
        "seconds": seconds,
        "tape_bytes": found.bytes,
        "answers": answers,
        "off": {"worst": min(apart), "within_a_point": sum(one >= -0.01 for one in apart) / len(apart)},
    }


def _ran(found: Any, trial: Any, clip: Clip) -> Facts:
    """Run the schedule on the clip's first frames, by evaluate and by segment."""
    net, reference = found.variants[trial.variant].net, found.variants[0].net
    schedule = schedule_for(parse_schedule(trial.candidate.text), len(net))
    uncut, one = compared(reference, [("plan", net, schedule)], clip)
    pictures = clip.path / "images"
    with tempfile.TemporaryDirectory() as folder:
        segment(pictures if pictures.exists() else clip.path, folder, net, schedule, limit=clip.limit, overwrite=True)
        trace = read_trace(folder)[1:]
    seconds = sum(_seconds(record["seconds"]) for record in trace) / len(trace)
    shares = {"evaluate_agreement": one["pixels"], "evaluate_relative_time": one["time"]}
    return shares | {"segment_relative_time": 1000 * seconds / uncut["milliseconds"]}


def _seconds(spent: Facts) -> float:
    """Return the seconds of a frame without decoding and encoding."""
    alone = (value for name, value in spent.items() if name not in ("decode", "encode"))
    return sum(sum(value) if isinstance(value, Sequence) else value for value in alone)


def pages(facts: Facts) -> dict[str, str]:
    """A table of answers, and one of all trials."""
    answers, promises = [], []
    for row in facts["videos"]:
        many = len(row["networks"])
        video = row["video"] if many == 1 else f"{row['video']}, {many} networks"
        for one in row["answers"]:
            goal = one["goal"] + ("" if one["met"] else " (not met)")
            shares = (one["promised"], one["held_back"], one["evaluate_agreement"])
            times = (one["relative_time"], one["evaluate_relative_time"], one["segment_relative_time"])
            cells = [*(percent(share, 2) for share in shares), *(f"{value:.3f}" for value in times)]
            answers.append([video, goal, f"`{one['schedule']}` on {one['network']}", *cells])
        off = [percent(row["off"]["within_a_point"]), f"{100 * row['off']['worst']:+.2f} points"]
        size = [f"{row['tape_bytes'] / 1e6:.0f} MB", f"{row['seconds']:.0f}"]
        promises.append([video, str(row["frames"]), str(row["schedules"]), *off, *size])
    head = ["video", "goal", "schedule", "promised", "held back", "of the run"]
    head += ["time planned", "of `evaluate`", "of `segment`"]
    promise_head = ["video", "frames", "schedules", "kept to a point", "worst", "recordings", "seconds"]
    return {"planner": f"{table(head, answers)}\n\n{table(promise_head, promises)}"}
