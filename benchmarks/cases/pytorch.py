"""Time of a PyTorch model on a clock, wrapped in two lines, and as it is; SegFormer-B0 at 512x256.

Random weights, frames of the driving video, interleaved rounds; all times are shares of the module's own.
"""

from __future__ import annotations

import copy
from argparse import Namespace
from collections.abc import Callable
from typing import Any

from benchmarks.harness import Facts, figure, listing, percent
from benchmarks.inputs import DRIVING, MEAN, STD, images, segformer_module, video
from benchmarks.measuring import Run, interleaved, ratio
from clockseg import wrap
from clockseg.execution.machine import threads_or_all

OPTIONS = {"threads": 1, "rounds": 7, "frames": 24, "engines": ["torch", "openvino"]}
SIZE = (512, 256)
ALONE = "the model alone"
WRAPPED: dict[str, Facts] = {
    "frame_oracle": {"schedule": "frame_oracle"},
    "recommended, without the picture": {},
    "skip_frame(3)": {"schedule": "skip_frame(3)"},
    "recommended, with processor=": {"processor": (MEAN, STD)},
}


def measure(asked: Namespace) -> Facts:
    """Measure the model in its own loop, alone and wrapped."""
    import torch

    torch.set_num_threads(threads_or_all(asked.threads))
    frames = images(video(DRIVING), asked.frames, SIZE)
    mean, std = (torch.tensor(one).view(3, 1, 1) for one in (MEAN, STD))
    pixels = [((torch.from_numpy(one).permute(2, 0, 1).float() / 255 - mean) / std)[None] for one in frames]
    models = {ALONE: copy.deepcopy(segformer_module().model)}
    clocked = {}
    for name in asked.engines:
        for text, options in WRAPPED.items():
            model = models[f"{name}: {text}"] = copy.deepcopy(segformer_module().model)
            clocked[f"{name}: {text}"] = wrap(model, engine=name, threads=asked.threads, **options)

    def running(model: Any) -> Run:
        return lambda frame: model(pixel_values=frame)

    runs = {name: running(model) for name, model in models.items()}
    with torch.no_grad():
        seconds = interleaved(runs, pixels, asked.rounds)
    fires = {name: list(one.tally.fire_rate.values()) for name, one in clocked.items()}
    rows = [{"way": name, "time": ratio(seconds, name, ALONE), "fires": fires.get(name)} for name in runs]
    return {"threads": asked.threads, "wrapped": rows}


def pages(facts: Facts) -> dict[str, str]:
    """Times as shares of the module's own."""

    def fires(row: Facts) -> str:
        return "-" if row["fires"] is None else ", ".join(percent(one, 0) for one in row["fires"])

    wrapped: dict[str, str | Callable[[Facts], str]] = {"wrapped": "way", "time": figure("time"), "stages fire": fires}
    return {"pytorch": f"{listing(facts['wrapped'], wrapped)}\n\nThreads: {facts['threads']}."}
