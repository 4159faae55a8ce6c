"""The figures of its model card, measured through the engine as users run it.

    python -m recipes.scene.card TEACHER               results/scene_card.json and the tables
    python -m recipes.scene.card TEACHER --card        the same, the figures into the card (weights/scene.md) and,
                                                       with those of the training, recipes/scene/results

TEACHER is the teacher's TFLite file.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.harness import provenance
from benchmarks.inputs import DRIVING, FIXED_CAMERA, data
from clockseg import evaluate, load, parse_schedule
from clockseg.clockwork.network import StagedNetwork
from clockseg.datasets import read_data
from clockseg.networks.load import path_of
from recipes.cards import RECIPES, WEIGHTS, arguments, facts, finish, percent, table, trained, write_metrics
from recipes.scene.teacher import Teacher, Teaches
from recipes.scene.training import LEAST_SHARE, agreement
from recipes.street.card import frame_times, own_labels

SCENE, INT8 = "scene", "scene-int8"
SCHEDULE = "carried(skip_frame(6), interpolate(flow))"
VIDEOS = {
    "driving": ("videos", DRIVING),
    "fixed camera": ("videos", FIXED_CAMERA),
    "parkour (DAVIS)": ("davis", "parkour", "images"),
}
FRAMES = 96


def main() -> None:
    """Measure, write, print."""
    args = _arguments()
    root, teacher = data("scenes").parent, Teacher(args.TEACHER)
    nets = {name: load(name, engine="openvino", threads=args.threads) for name in (SCENE, INT8)}
    figures: dict[str, Any] = {
        "agreement": {name: scored(net.uncut(), net, root, teacher) for name, net in nets.items()},
        "stages": stages(nets[SCENE], root, teacher),
        "clocked": {name: clocked(nets[SCENE], data(*parts)) for name, parts in VIDEOS.items()},
        "milliseconds": {name: frame_times(name, args.threads, args.repeat) for name in nets},
        "megabytes": {name: round(path_of(name).stat().st_size / 1e6, 1) for name in nets},
        "confidence": nets[SCENE].sidecar.confidence,
        "training": training(args.log),
    }
    finish(args, "scene_card", figures, WEIGHTS / "scene.md", "figures", markdown(figures))
    if args.card:
        write_metrics("scene", "scene", figures)


def scored(labeller: Any, net: StagedNetwork, root: Path, teacher: Teaches) -> dict[str, Any]:
    """Agreement of a labeller with the teacher on the validation pictures, in fractions of 1."""
    found = agreement(labeller, root, teacher)
    shares = found.counts.sum(axis=1) / found.pixels
    told = facts(found, net.classes) | {"mean_iu": round(found.mean_iu_of(LEAST_SHARE), 4)}
    return told | {"share": {name: round(float(share), 4) for name, share in zip(net.classes, shares, strict=True)}}


def stages(net: StagedNetwork, root: Path, teacher: Teaches) -> dict[str, Any]:
    """The same of each stage's own scores alone."""
    found = {}
    for stage in net.stages:

        def label(image: Any, name: str = stage.name) -> Any:
            return own_labels(net, image)[name]

        total = agreement(label, root, teacher)
        found[stage.name] = {"pixel_acc": round(total.pixel_acc, 4), "mean_iu": round(total.mean_iu_of(LEAST_SHARE), 4)}
    return found


def clocked(net: StagedNetwork, path: Path) -> dict[str, Any]:
    """Agreement with every frame of the network run on 1 frame of 6, and its time as a share."""
    clips = read_data(path, limit=FRAMES)
    [one] = evaluate(net, {"1 of 6": parse_schedule(SCHEDULE)}, clips)
    agreed = one.agreement
    return {
        "pixel_acc": round(agreed.pixel_acc, 4),
        "mean_iu": round(agreed.mean_iu_of(), 4),
        "relative_time": None if one.relative_time is None else round(one.relative_time, 3),
    }


def training(log: Path) -> dict[str, Any]:
    """Return the length of the training, and its number of pictures."""
    found = trained(log)
    return {key: found[key] for key in ("pictures", "sources", "device", "steps", "minutes", "views")}


def markdown(figures: Mapping[str, Any]) -> str:
    """The tables of the card."""
    whole, small = (figures["agreement"][name] for name in (SCENE, INT8))
    rows = [["class", "share of the teacher's pixels", "IoU"]]
    rows += [[name, percent(whole["share"][name]), percent(iu)] for name, iu in whole["iu"].items()]
    clocks = [["video", "pixels", "mIoU", "time"]]
    clocks += [
        [name, percent(one["pixel_acc"]), percent(one["mean_iu"]), f"{one['relative_time'] or 0:.2f}"]
        for name, one in figures["clocked"].items()
    ]
    agreed = [["network", "pixels", "mIoU", "480x360 frame, best", "median", "file"]]
    agreed += [
        [f"`{name}`", percent(found["pixel_acc"]), percent(found["mean_iu"]), f"{ms['fastest']:.1f} ms",
         f"{ms['median']:.1f} ms", f"{figures['megabytes'][name]} MB"]
        for name, found, ms in ((SCENE, whole, figures["milliseconds"][SCENE]), (INT8, small, figures["milliseconds"][INT8]))
    ]  # fmt: skip
    own = ", ".join(
        f"{name} {percent(one['pixel_acc'])} and {percent(one['mean_iu'])}" for name, one in figures["stages"].items()
    )
    made, run = provenance(), figures["training"]
    return "\n".join(
        [
            table(agreed),
            "",
            f"Agreement with the teacher's labels at 512x512 on the 252 validation pictures, in percent; mIoU over the classes with "
            f"at least 0.5 % of the pixels. Each stage's own scores alone, pixels and mIoU: {own}. Mean confidence there: "
            f"{figures['confidence']}. Trained for {run['steps']} steps on {run['pictures']} pictures ({run['views']} views, "
            f"{run['minutes']:.0f} minutes). {made['machine']['processor']}, {made['machine']['cores']} cores, OpenVINO f32, "
            f"commit {made.get('commit', '?')}, {made['date']}.",
            "",
            table(clocks),
            "",
            f"`{SCHEDULE}` against every frame, first {FRAMES} frames; time as a share of every frame's.",
            "",
            table(rows),
        ]
    )


def _arguments() -> argparse.Namespace:
    return arguments(
        __doc__,
        threads=2,
        TEACHER={"type": Path},
        repeat={"type": int, "default": 60, "help": "runs to time"},
        log={"type": Path, "default": RECIPES / "scene" / "results" / "scene-log.jsonl"},
    )


if __name__ == "__main__":
    main()
