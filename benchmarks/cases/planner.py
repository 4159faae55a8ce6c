"""Promises of `plan` against what came: its schedules on blocks held back, and run on every frame.

Three videos are planned with `street` alone, and with a big network, its 8 bits and a small one, for pixel agreement; the first
network is the reference. Of the same trials two goals are answered: the least time that keeps 98 %, and the most agreement in a
third of the time.
"""

from __future__ import annotations

import time
from argparse import Namespace
from dataclasses import replace

from benchmarks.harness import Facts, figure, listing, say, share
from benchmarks.inputs import DRIVING, FIXED_CAMERA, data
from benchmarks.measuring import compared
from clockseg import load, parse_schedule, plan
from clockseg.datasets import read_data
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
        planned: Facts = {"promised": goal.promised(trial), "held_back": goal.agreement(trial.held_back)}
        planned |= {"network": found.variants[trial.variant].name, "schedule": trial.candidate.text}
        way = ("plan", found.variants[trial.variant].net, parse_schedule(trial.candidate.text))
        _, one = compared(found.variants[0].net, [way], clip)
        ran = {"evaluate_agreement": one["pixels"], "evaluate_relative_time": one["time"]}
        planned["relative_time"] = trial.relative_time
        answers.append({"goal": name, "met": goal.met(trial), **planned, **ran})
    apart = [found.goal.agreement(one.held_back) - found.goal.promised(one) for one in found.trials]
    off = {"worst": min(apart), "within_a_point": sum(one >= -0.01 for one in apart) / len(apart)}
    told = {"video": video, "networks": [variant.name for variant in variants], "frames": found.frames}
    told |= {"schedules": len(found.trials), "seconds": seconds, "tape_bytes": found.bytes}
    return told | {"answers": answers, "off": off}


def pages(facts: Facts) -> dict[str, str]:
    """A table of answers, and one of all trials."""
    answers, promises = [], []
    for row in facts["videos"]:
        many = len(row["networks"])
        video = row["video"] if many == 1 else f"{row['video']}, {many} networks"
        answers += [{"on": video} | one for one in row["answers"]]
        promises.append({"on": video, **row, **row["off"]})
    answer: Facts = {
        "video": "on",
        "goal": lambda row: row["goal"] + ("" if row["met"] else " (not met)"),
        "schedule": lambda row: f"`{row['schedule']}` on {row['network']}",
        "promised": share("promised", 2),
        "held back": share("held_back", 2),
        "of the run": share("evaluate_agreement", 2),
        "time planned": figure("relative_time", ".3f"),
        "time of the run": figure("evaluate_relative_time", ".3f"),
    }
    promise: Facts = {"video": "on", "frames": "frames", "schedules": "schedules"}
    promise |= {"kept to a point": share("within_a_point"), "worst": lambda row: f"{100 * row['worst']:+.2f} points"}
    promise |= {"recordings": lambda row: f"{row['tape_bytes'] / 1e6:.0f} MB", "seconds": figure("seconds", ".0f")}
    return {"planner": f"{listing(answers, answer)}\n\n{listing(promises, promise)}"}
