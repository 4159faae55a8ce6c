"""Time of a PyTorch model on a clock: cut as a module, wrapped in two lines, and as it is; SegFormer-B0 at 512x256.

Random weights, frames of the driving video, interleaved rounds; all times are shares of the module's own.
"""

from __future__ import annotations

import copy
from argparse import Namespace
from typing import Any

from benchmarks.harness import Facts, percent, table
from benchmarks.inputs import DRIVING, MEAN, SEGFORMER_CLASSES, STD, images, segformer_module, video
from benchmarks.measuring import Run, interleaved, ratio
from clockseg import Session, cut, frame_oracle, wrap
from clockseg.engines.torch import torch as engine
from clockseg.execution.machine import threads_or_all
from clockseg.graph.sidecar import Input
from clockseg.libraries import opencv

OPTIONS = {"threads": 1, "rounds": 7, "frames": 24, "engines": ["torch", "openvino"]}
SIZE = (512, 256)
ALONE = "the module, eager"
WRAPPED: dict[str, Facts] = {
    "frame_oracle": {"schedule": "frame_oracle"},
    "recommended, without the picture": {},
    "skip_frame(3)": {"schedule": "skip_frame(3)"},
    "recommended, with processor=": {"processor": (MEAN, STD)},
}


def measure(asked: Namespace) -> Facts:
    """Measure both ways."""
    import torch

    torch.set_num_threads(threads_or_all(asked.threads))
    resized = [opencv().resize(one, SIZE) for one in images(video(DRIVING), asked.frames)]
    return {"threads": asked.threads, "cut": _cut(resized, asked), "wrapped": _wrapped(resized, asked)}


def _cut(frames: list[Any], asked: Namespace) -> list[Facts]:
    """Measure the module cut where its encoder's stages end, uncut and with all stages firing."""
    import torch

    given = Input("image", *SIZE, mean=MEAN, std=STD, pad_multiple=32)
    at = [f"model.segformer.stages.{index}" for index in range(4)]
    example = torch.zeros(1, 3, *SIZE[::-1])
    net = cut(segformer_module(), example, at=at, input=given, classes=SEGFORMER_CLASSES)
    nets = {"no engine": net}
    for compiled in (False, True):
        for precision in ("f32", "bf16"):
            name = f"torch {precision}{', compiled' if compiled else ''}"
            nets[name] = engine(net, precision=precision, compile=compiled)
    runs: dict[str, Run] = {f"{name}, uncut": Session(one.uncut(), frame_oracle) for name, one in nets.items()}
    runs |= {name: Session(one, frame_oracle) for name, one in nets.items()}
    seconds, whole = interleaved(runs, frames, asked.rounds), "no engine, uncut"
    return [
        {"way": name, "uncut": ratio(seconds, f"{name}, uncut", whole), "staged": ratio(seconds, name, whole)}
        for name in nets
    ]


def _wrapped(frames: list[Any], asked: Namespace) -> list[Facts]:
    """Measure the model in its own loop, wrapped."""
    import torch

    mean, std = (torch.tensor(one).view(3, 1, 1) for one in (MEAN, STD))
    pixels = [((torch.from_numpy(one).permute(2, 0, 1).float() / 255 - mean) / std)[None] for one in frames]
    models = {ALONE: copy.deepcopy(segformer_module().model)}
    clocked = {}
    for name in asked.engines:
        for text, options in WRAPPED.items():
            model = models[f"{name}: {text}"] = copy.deepcopy(segformer_module().model)
            clocked[f"{name}: {text}"] = wrap(model, engine=name, threads=asked.threads, **options)
    runs: dict[str, Run] = {
        name: (lambda frame, model=model: model(pixel_values=frame)) for name, model in models.items()
    }
    with torch.no_grad():
        seconds = interleaved(runs, pixels, asked.rounds)
    return [
        {
            "way": name,
            "time": ratio(seconds, name, ALONE),
            "fires": list(clocked[name].tally.fire_rate.values()) if name in clocked else None,
        }
        for name in runs
    ]


def pages(facts: Facts) -> dict[str, str]:
    """Times as shares of the module's own."""
    head = ["cut, in the torch engine", "uncut", "in four stages, all firing"]
    cut_rows = [[row["way"], f"{row['uncut']:.2f}", f"{row['staged']:.2f}"] for row in facts["cut"]]
    rows = [
        [
            row["way"],
            f"{row['time']:.2f}",
            "-" if row["fires"] is None else ", ".join(percent(one, 0) for one in row["fires"]),
        ]
        for row in facts["wrapped"]
    ]
    tables = [table(head, cut_rows), table(["wrapped", "time", "stages fire"], rows)]
    return {"pytorch": "\n\n".join([*tables, f"Threads: {facts['threads']}."])}
