"""Time of a frame in every engine and precision, in stages and whole, beside PyTorch, and of the session's own Python.

`street` at 480x360, SegFormer-B0 (random weights) at 512x256 and the bundled narrow FCN-8s on frames of noise, in
interleaved rounds; ratios are medians over rounds. Schedules run joined, with what runs together as one model, and apart,
with every part by itself.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.harness import Facts, number, percent, say, table
from benchmarks.inputs import camvid, networks, noise, segformer_module
from benchmarks.measuring import Run, interleaved, milliseconds, ratio
from clockseg import Schedule, Session, alternating, frame_oracle, load, skip_frame
from clockseg.clocks import ALWAYS
from clockseg.clockwork.network import StagedNetwork
from clockseg.engines import contenders, timed
from clockseg.execution.machine import threads_or_all
from clockseg.networks.quantization import quantize
from clockseg.types import Image

OPTIONS = {"networks": ["street", "segformer-b0", "fcn8s-narrow"], "threads": None, "rounds": 15, "frames": 4}
EAGER = "pytorch eager"


def _looking(stages: int) -> Schedule:
    """Every stage on every frame, by a clock before the last one that looks at the map of the stage before."""
    return Schedule((*(ALWAYS,) * (stages - 1), lambda tick: True))


SCHEDULES = {
    "every stage": frame_oracle,
    "every stage, the last after its clock has looked": _looking,
    "the last stage on every other frame": alternating,
    "skip_frame(2)": skip_frame(2),
}


def measure(asked: Namespace) -> Facts:
    """Measure each network in all engines that are installed."""
    with tempfile.TemporaryDirectory() as folder:
        rows = [row for name in asked.networks for row in _network(name, Path(folder), asked)]
    return {"rounds": asked.rounds, "frames": asked.frames, "rows": rows}


def _network(name: str, folder: Path, asked: Namespace) -> list[Facts]:
    file = networks()[name]
    nets = _in_engines(name, file, folder, asked.threads)
    plain = load(file, engine=None)
    frames = noise(plain, asked.frames)
    runs: dict[str, Run] = {key: Session(net.uncut(), frame_oracle) for key, net in nets.items()}
    for key, net in nets.items():
        for text, schedule in SCHEDULES.items():
            runs[f"{key}, {text}"] = Session(net, schedule)
            runs[f"{key}, {text}, apart"] = Session(replace(net, executor=None), schedule)
    runs[EAGER] = _eager(name, plain, asked.threads)
    say(f"{name}: {', '.join(nets)}")
    seconds = interleaved(runs, frames, asked.rounds)
    rows = []
    for key, net in nets.items():
        row = {
            "network": name,
            "engine": key,
            "ms": milliseconds(seconds[key]),
            "eager_over": ratio(seconds, EAGER, key),
        }
        row |= {text: ratio(seconds, f"{key}, {text}", key) for text in SCHEDULES}
        row |= {f"{text}, apart": ratio(seconds, f"{key}, {text}, apart", key) for text in SCHEDULES}
        rows.append(row | {"own_python": own_python(net, frames, asked.rounds)})
    return [*rows, {"network": name, "engine": EAGER, "ms": milliseconds(seconds[EAGER]), "eager_over": 1.0}]


def _in_engines(name: str, file: str | Path, folder: Path, threads: int | None) -> dict[str, StagedNetwork]:
    found = {
        f"{engine} {precision}": load(file, engine=runs)
        for precision in ("f32", "bf16")
        for engine, runs in contenders(precision, threads).items()
    }
    small = folder / f"{name}-int8.onnx"
    quantize(file, camvid(), small, frames=20, repeat=2, ends="int8")
    return found | {f"{engine} int8": load(small, engine=runs) for engine, runs in contenders("f32", threads).items()}


def own_python(net: StagedNetwork, frames: Sequence[Image], rounds: int) -> float:
    """Return what a session takes beside the network's parts, as a share of their time, every stage firing."""
    parts, times = timed(net)
    session, shares = Session(parts, frame_oracle), []
    for turn in range(rounds + 1):
        times.clear()
        start = time.perf_counter()
        for image in frames:
            session(image)
        wall, inside = time.perf_counter() - start, sum(times.seconds.values())
        if turn:
            shares.append((wall - inside) / inside)
    return round(statistics.median(shares), 4)


def _eager(name: str, net: StagedNetwork, threads: int | None) -> Run:
    """Return the module as PyTorch runs it as it is written, from the frame to the label map."""
    import torch

    torch.set_num_threads(threads_or_all(threads))
    module, scores_of = _module(name)
    given = net.sidecar.input
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in (given.mean, given.std))

    def run(image: Image) -> Any:
        frame = torch.from_numpy(net.prepare(image)["image"].copy()).permute(0, 3, 1, 2).float()
        with torch.inference_mode():
            scores = scores_of(module((frame * given.scale - mean) / std))
            if scores.shape[2:] != frame.shape[2:]:
                scores = torch.nn.functional.interpolate(scores, size=frame.shape[2:], mode="bilinear")
            return net.restore({"labels": scores.argmax(dim=1).to(torch.uint8).numpy()}, image)

    return run


def _module(name: str) -> tuple[Any, Callable[[Any], Any]]:
    """Return a network's torch module with random weights, and what picks scores of its outputs."""
    if name == "street":
        from recipes.street.network import Shape, Street

        return Street(Shape()).eval(), lambda made: made.fused
    if name == "fcn8s-narrow":
        from clockseg.paper.fcn_layers import FCNShape
        from recipes.fcn.net import FCN

        return FCN(FCNShape(classes=11).narrowed(1 / 8)).eval(), lambda made: made.score
    return segformer_module(), lambda made: made


def pages(facts: Facts) -> dict[str, str]:
    """A page on engines, and one on what running in stages costs."""
    engines, staged = [], []
    for row in facts["rows"]:
        name, ms = f"{row['network']}, {row['engine']}", f"{row['ms']:.1f}"
        engines.append(
            [name, ms, number(row["eager_over"]), number(row.get("every stage")), percent(row.get("own_python"))]
        )
        if "own_python" in row:
            staged.append([name, ms, *(f"{row[text]:.2f} / {row[f'{text}, apart']:.2f}" for text in SCHEDULES)])
    head = ["network, engine", "ms a frame", "PyTorch eager / this", "staged / uncut", "own Python"]
    staged_head = ["network, engine", "uncut, ms", *(f"{text}: joined / apart" for text in SCHEDULES)]
    note = "Every frame; staged: every stage fires; own Python: what a session takes beside the network's parts, of their time."
    return {
        "engines": f"{table(head, engines)}\n\n{note}",
        "staged-overhead": f"{table(staged_head, staged)}\n\nTime of a frame over the uncut network's.",
    }
