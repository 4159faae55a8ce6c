"""Accuracy and time of frames made from the key frames on both sides, against those warped from the one behind.

Networks on CamVid's clip with human labels; a fixed camera and a driving video without labels, on which pixels agree with the
network's own on every frame; annotated DAVIS masks of 1 of n frames carried to the frames between, as if a network gave them;
and the time of SegFormer-B0 at 1024x512. All ways of a part, and the network on every frame, to which time is relative, see
each frame before any sees the next.
"""

from __future__ import annotations

import statistics
from argparse import Namespace
from collections.abc import Sequence

import numpy as np

from benchmarks.harness import Facts, percent, table, where
from benchmarks.inputs import DRIVING, FIXED_CAMERA, camvid, data, segformer, video, without_correction
from benchmarks.measuring import compared
from clockseg import Stage, StagedNetwork, parse_schedule, run
from clockseg.datasets import Clip, read_data

PARTS = {
    "street-large": "CamVid val, human labels: `street-large`",
    "street": "CamVid val, human labels: `street`",
    "int8": "CamVid val, human labels: `street-large-int8` against `street-large`",
    "fixed-camera": "Fixed camera, against every-frame `street-large`",
    "driving": "Driving video, against every-frame `street-large`",
    "davis": "Annotated DAVIS masks, mean J of the frames between",
    "segformer": "Time of SegFormer-B0 at 1024x512, random weights, driving video",
}
OPTIONS = {"threads": None, "limit": 120, "machine": "idle"}
CARRIES = {
    "warp": "warp(flow)",
    "interpolate, keys=1": "interpolate(flow, keys=1)",
    "interpolate, keys=2": "interpolate(flow)",
}
PERIODS, FEW = (1, 2, 3, 4, 6, 8, 12), (3, 6, 12)
SEGFORMER_FRAMES = 37


def part(name: str, asked: Namespace) -> Facts:
    """Measure a part, and note how busy the machine was."""
    return {"machine": asked.machine, **(_masks(FEW) if name == "davis" else _networks(name, asked))}


def _networks(part: str, asked: Namespace) -> Facts:
    """Return the rows of a network under each carry at each period; the first is the reference on every frame."""
    options: Facts = {"engine": "openvino", "threads": asked.threads}
    videos = {"fixed-camera": FIXED_CAMERA, "driving": DRIVING, "segformer": DRIVING}
    periods: Sequence[int] = FEW if part in videos else PERIODS
    limit = min(asked.limit, SEGFORMER_FRAMES) if part == "segformer" else asked.limit
    clip = video(videos[part], limit) if part in videos else camvid(limit=limit)[0]
    file = {"street": "street", "segformer": str(segformer((1024, 512)))}.get(part, "street-large")
    net = without_correction(file, **options)
    runs = without_correction("street-large-int8", **options) if part == "int8" else net
    ways = [
        (f"{name} {n}", runs, parse_schedule(f"carried(skip_frame({n}), {carry})"))
        for n in periods
        for name, carry in CARRIES.items()
    ]
    return {"frames": limit, "periods": periods, "rows": compared(net, ways, clip)}


def _masks(periods: Sequence[int]) -> Facts:
    """Return J under each carry at each period: the mean over the frames between of each clip, and over clips."""
    clips, found = read_data(data("davis")), {}
    for n in periods:
        for name, carry in {"identity": "identity", **CARRIES}.items():
            schedule = f"carried(skip_frame({n}), {carry})"
            found[f"{name} {n}"] = statistics.mean(_similarity(clip, schedule) for clip in clips)
    return {"clips": [clip.name for clip in clips], "periods": periods, "j": found}


def _similarity(clip: Clip, schedule: str) -> float:
    """Return the mean J of the frames on which the network, which is the annotation, does not run."""
    frames = list(clip.frames())
    images, masks = [frame.image for frame in frames], [frame.labels == 1 for frame in frames]  # type: ignore[comparison-overlap]
    annotation = {id(image): mask for image, mask in zip(images, masks, strict=True)}
    stage = Stage("mask", lambda image: annotation[id(image)][None, None].astype(np.float32))
    net = StagedNetwork("annotation", (stage,), finish=lambda share: share[0, 0] > 0.5)
    ran = run(net, images, parse_schedule(schedule))
    shown = [(mask, output) for mask, (output, record) in zip(masks, ran, strict=True) if not any(record.fired)]
    return statistics.mean((mask & output).sum() / max(1, (mask | output).sum()) for mask, output in shown)


def pages(facts: Facts) -> dict[str, str]:
    """A table for each part."""
    return {"both-sides": "\n\n".join(_block(part, one) for part, one in facts["parts"].items())}


def _block(part: str, one: Facts) -> str:
    if part == "davis":
        names = ["identity", *CARRIES]
        rows = [[f"1 of {n}", *(percent(one["j"][f"{name} {n}"]) for name in names)] for n in one["periods"]]
        text, note = table(["annotated", *names], rows), f"Clips: {', '.join(one['clips'])}."
    else:
        every, *ways = one["rows"]
        shown = [key for key in ("mean_iu", "pixels", "flicker", "time") if part != "segformer" or key == "time"]
        shown = [key for key in shown if every[key] is not None]
        heads = {"mean_iu": "kept", "pixels": "pixels", "flicker": "flicker", "time": "time"}
        head = ["network runs on", *(f"{name}: {heads[key]}" for key in shown for name in CARRIES)]
        found = {way["name"]: way | {"mean_iu": (way["mean_iu"] or 0) / (every["mean_iu"] or 1)} for way in ways}
        cells = {n: [percent(found[f"{name} {n}"][key]) for key in shown for name in CARRIES] for n in one["periods"]}
        rows = [[f"1 of {n}", *row] for n, row in cells.items()]
        text = table(head, rows)
        note = f"Flicker on every frame: {percent(every['flicker'])}. " if "flicker" in shown else ""
        note += f"Time relative to every frame, measured on a machine that was {one['machine']}."
    return f"### {PARTS[part]}\n\n{text}\n\n{note} {where(one)}"
