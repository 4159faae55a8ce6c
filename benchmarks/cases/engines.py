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

from benchmarks.harness import Facts, figure, listing, say, share
from benchmarks.inputs import camvid, networks, noise, segformer_module
from benchmarks.measuring import Run, interleaved, milliseconds, ratio
from clockseg import Session, frame_oracle, load, skip_frame
from clockseg.clockwork.network import StagedNetwork
from clockseg.engines import contenders, timed
from clockseg.execution.machine import threads_or_all
from clockseg.networks.quantization import quantize
from clockseg.types import Image

OPTIONS = {"networks": ["street", "segformer-b0", "fcn8s-narrow"], "threads": None, "rounds": 15, "frames": 4}
EAGER = "pytorch eager"
SCHEDULES = {"every stage": frame_oracle, "skip_frame(2)": skip_frame(2)}


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
        over = {text: ratio(seconds, f"{key}, {text}", key) for one in SCHEDULES for text in (one, f"{one}, apart")}
        told = {"ms": milliseconds(seconds[key]), "eager_over": ratio(seconds, EAGER, key)}
        own = own_python(net, frames, asked.rounds)
        rows.append({"network": name, "engine": key, "own_python": own} | told | over)
    return [*rows, {"network": name, "engine": EAGER, "ms": milliseconds(seconds[EAGER]), "eager_over": 1.0}]


def _in_engines(name: str, file: str | Path, folder: Path, threads: int | None) -> dict[str, StagedNetwork]:
    found = {
        f"{engine} {precision}": load(file, engine=runs)
        for precision in ("f32", "bf16")
        for engine, runs in contenders(precision, threads).items()
    }
    small = folder / f"{name}-int8.onnx"
    quantize(file, camvid(), small, frames=20, repeat=2)
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
        from clockseg.paper.fcn import FCNShape
        from recipes.fcn.net import FCN

        return FCN(FCNShape(classes=11).narrowed(1 / 8)).eval(), lambda made: made.score
    return segformer_module(), lambda made: made


def pages(facts: Facts) -> dict[str, str]:
    """A page on engines, and one on what running in stages costs."""

    def over(text: str) -> Callable[[Facts], str]:
        return lambda row: f"{row[text]:.2f} / {row[f'{text}, apart']:.2f}"

    rows = [{"every stage": None, "own_python": None} | row for row in facts["rows"]]
    named: Facts = {"network, engine": lambda row: f"{row['network']}, {row['engine']}"}
    engines = {"ms a frame": figure("ms", ".1f"), "PyTorch eager / this": figure("eager_over")}
    engines |= {"staged / uncut": figure("every stage"), "own Python": share("own_python")}
    staged = {"uncut, ms": figure("ms", ".1f"), **{f"{text}: joined / apart": over(text) for text in SCHEDULES}}
    note = "Every frame; staged: every stage fires; own Python: what a session takes beside the network's parts, of their time."
    apart = listing([row for row in rows if row["engine"] != EAGER], named | staged)
    return {
        "engines": f"{listing(rows, named | engines)}\n\n{note}",
        "staged-overhead": f"{apart}\n\nTime of a frame over the uncut network's.",
    }
