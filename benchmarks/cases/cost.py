"""Multiply-adds, bytes and seconds of each part of networks in OpenVINO, f32, among them the paper's FCN-8s at full width."""

from __future__ import annotations

import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Facts, figure, listing, share
from benchmarks.inputs import networks
from clockseg import load
from clockseg.evaluation.cost import EVERY, WHOLE, part_seconds, priced
from clockseg.graph.part import IMAGE

OPTIONS = {"networks": ["street", "segformer-b0", "fcn8s-narrow", "fcn8s"], "threads": None, "repeat": 40}
PAPER = {"pool3": "59 %", "pool4": "18 %", "fc7": "23 %"}
"""Shares of a frame's time in the paper's tables: 59 for stage 1, 77 with stage 2; fusing is in them."""


def measure(asked: Namespace) -> Facts:
    """Price the parts of each network."""
    with tempfile.TemporaryDirectory() as folder:
        files = networks() | ({"fcn8s": _fcn8s(Path(folder))} if "fcn8s" in asked.networks else {})
        return {"networks": {name: _network(files[name], asked) for name in asked.networks}}


def _fcn8s(folder: Path) -> Path:
    """Export FCN-8s of 21 classes with random weights, 134 million of them, for frames of 500x500."""
    from clockseg.paper.caffe import trained_on
    from clockseg.paper.fcn import FCN8S, FCNDescription, write_fcn
    from recipes.fcn.net import FCN

    known = trained_on("voc", FCN8S.classes)
    state = {name: value.numpy() for name, value in FCN(FCN8S).state_dict().items()}
    return write_fcn(state, FCNDescription(FCN8S, known.classes, known.mean), folder / "fcn8s.onnx")


def _network(file: Any, asked: Namespace) -> Facts:
    size = (500, 500) if Path(file).stem == "fcn8s" else None
    net = load(file, engine="openvino", threads=asked.threads, size=size)
    prices = priced(net)
    width, height = prices.size or (0, 0)
    frame = {IMAGE: np.random.default_rng(0).integers(0, 256, (1, height, width, 3), dtype=np.uint8)}
    [seconds] = part_seconds([net], [frame], asked.repeat)
    counts = {name: prices.parts[name] for name in (*prices.stages, *prices.reads, "finish")}
    whole = prices.whole or prices.full
    return {
        "size": prices.size,
        "whole": {"multiply_adds": whole, "seconds": seconds[WHOLE]},
        "staged_over_uncut": {"multiply_adds": prices.full / whole, "seconds": seconds[EVERY] / seconds[WHOLE]},
        "parts": [
            {
                "name": name,
                "multiply_adds": count / prices.full,
                "seconds": seconds[name] / seconds[EVERY],
                "giga_a_second": count / seconds[name] / 1e9,
            }
            for name, count in counts.items()
            if seconds.get(name)
        ],
    }


def pages(facts: Facts) -> dict[str, str]:
    """A table for each network."""
    sections = [_section(name, one) for name, one in facts["networks"].items()]
    return {"cost": "\n\n".join([*sections, "OpenVINO f32; medians over interleaved runs."])}


def _section(name: str, one: Facts) -> str:
    whole, staged = one["whole"], one["staged_over_uncut"]
    title = (
        f"**{name}** at {'x'.join(map(str, one['size']))}: {whole['multiply_adds'] / 1e9:.2f} G multiply-adds, "
        f"{1000 * whole['seconds']:.1f} ms uncut; in parts "
        f"{staged['multiply_adds']:.3f} of the multiply-adds, {staged['seconds']:.2f} of the time."
    )
    columns: Facts = {"part": "name", "multiply-adds": share("multiply_adds"), "seconds": share("seconds")}
    columns["G multiply-adds/s"] = figure("giga_a_second", ".0f")
    if name == "fcn8s":
        columns["seconds, paper"] = lambda row: PAPER.get(row["name"], "")
    return f"{title}\n\n{listing(one['parts'], columns)}"
