"""Heads trained from the network's own output against the heads that came with it: `street` with its scores taken away.

python benchmarks/heads.py            results/heads.json and the tables
python benchmarks/heads.py --docs     the same, and the tables into docs/train.md between its markers

Three networks that differ in what clocks may watch: the heads that `street` was trained with, heads that `clockseg train
heads` fits to its output (on CamVid's training frames without their labels, and on two other videos), and features alone.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import onnx

from clockseg import load
from clockseg.cli._terminal import percent
from clockseg.clocks import Clock, adaptive, difference
from clockseg.clockwork.schedule import schedule_for
from clockseg.datasets import Clip, read_data
from clockseg.evaluation.labels import evaluate
from clockseg.execution.recording import Recording, needs, record, replay
from clockseg.graph import sidecar
from clockseg.networks.load import framing, read
from clockseg.training.head_frames import plan
from clockseg.training.head_scores import HeadScore, score_heads
from clockseg.training.heads import train_heads
from page import insert, table
from provenance import HERE, provenance, write_result
from shared_data import shared_data

RATES = (0.5, 0.25)
"""Shares of frames on which the last stage fires, where the kinds of clocks are compared."""


def main() -> None:
    """Train, score, compare, write."""
    args = _arguments()
    camvid = read_data(shared_data("camvid", "train"))
    videos = [clip for path in sorted(shared_data("videos").glob("*.mp4")) for clip in read_data(path)]
    val = read_data(shared_data("camvid", "val"), limit=args.limit)
    with tempfile.TemporaryDirectory() as folder:
        bare = _bare(args.network, Path(folder))
        sources = {"CamVid train": camvid, "two other videos": videos}
        trained = {name: _train(args, bare, clips, val, name) for name, clips in sources.items()}
        own = _train(args, bare, videos, (), "own")
        heads = [_shipped(args, clips=val), *trained.values(), own]
        networks = {"shipped": args.network} | {name: str(_file(bare, name)) for name in trained}
        clocks = [_clocks(args, name, network, val) for name, network in networks.items()]
        clocks.append(_clocks(args, "features", str(bare), val))
    facts = {"network": args.network, "engine": args.engine, "frames": sum(len(clip.taken or ()) for clip in val)}
    names = ["shipped", *trained, "two other videos, on their own ends"]
    path = write_result(
        "heads", facts | {"heads": dict(zip(names, heads)), "clocks": [row for each in clocks for row in each]}
    )
    text = markdown(names, heads, [row for each in clocks for row in each])
    print(text)
    if args.docs:
        insert(HERE.parent / "docs" / "heads.md", "heads", text)
    print(f"{path.relative_to(HERE.parent)} written", file=sys.stderr)


def _bare(network: str, folder: Path) -> Path:
    """The network without its own scores."""
    model, said = read(network)
    path = folder / "bare.onnx"
    onnx.save(model, path)
    sidecar.write(replace(said, name="bare", scores=(), schedule=None), path.with_suffix(".json"))
    return path


def _file(bare: Path, name: str) -> Path:
    return bare.with_name(f"{name.replace(' ', '-')}.onnx")


def _train(
    args: argparse.Namespace, bare: Path, clips: Sequence[Clip], val: Sequence[Clip], name: str
) -> dict[str, Any]:
    start = time.perf_counter()
    found = train_heads(bare, clips, _file(bare, name), validation=val, frames=args.frames, engine=args.engine)
    return found.facts() | {"network": name, "seconds": round(time.perf_counter() - start, 1)}


def _shipped(args: argparse.Namespace, clips: Sequence[Clip]) -> dict[str, Any]:
    """The same figures of the heads that the network came with."""
    model, said = read(args.network)
    net = load(args.network, engine=args.engine)
    stages = range(len(net) - 1)
    parts = plan(clips, clips, frames=1).held_out
    classes = len(said.classes)
    scores: tuple[HeadScore, ...] = score_heads(net, framing(model, said), stages, parts, classes=classes, warn=print)
    return {"heads": [{"stage": score.stage, **score.facts()} for score in scores], "seconds": None}


def _clocks(args: argparse.Namespace, name: str, network: str, clips: Sequence[Clip]) -> list[dict[str, Any]]:
    """Agreement at about the same firing rates; the threshold for each is found on the clip itself, for all alike."""
    net = load(network, engine=args.engine)
    clock: Callable[[float], Clock] = partial(difference, of="features") if name == "features" else adaptive
    [clip] = clips
    recording = record(net, (frame.image for frame in clip), keep=needs(schedule_for(clock(0.1), len(net))))
    thresholds = [_threshold(recording, clock, rate) for rate in RATES]
    schedules = [(f"{threshold:.4g}", clock(threshold)) for threshold in thresholds]
    found = evaluate(net, schedules, clips)
    return [
        {
            "watches": name,
            "threshold": threshold,
            "fires": one.tally.fire_rate[net.stages[-1].name],
            "agreement": one.facts()["agreement"],
            "mean_iu": one.facts()["mean_iu"],
        }
        for threshold, one in zip(thresholds, found, strict=True)
    ]


def _threshold(recording: Recording, clock: Callable[[float], Clock], rate: float) -> float:
    """The lowest threshold at which the last stage fires on no more than this share of frames, by halving."""
    low, high = 0.0, 1.0
    for _ in range(12):
        middle = (low + high) / 2
        fired = [one.fired[-1] for one in replay(recording, clock(middle))][1:]
        low, high = (middle, high) if sum(fired) > rate * len(fired) else (low, middle)
    return high


def markdown(names: Sequence[str], heads: Sequence[dict[str, Any]], clocks: Sequence[dict[str, Any]]) -> str:
    """Two tables, and a line on where they were made."""
    head = ["heads", "stage", "cells like the output", "mean IU", "change: head", "change: features"]
    rows = [head]
    for name, found in zip(names, heads, strict=True):
        for each in found["heads"]:
            agreement, correlation = each["agreement"], each["correlation"]
            rows.append(
                [name, each["stage"], percent(agreement["pixel_acc"]), percent(agreement["mean_iu"])]
                + [f"{correlation[which]:.2f}" for which in ("head", "features")]
            )
    head = ["the clock watches", "threshold", "last stage fires", "agreement: mean IU", "pixels", "mean IU"]
    compared = [head]
    for row in clocks:
        agreement = row["agreement"]
        shares = (row["fires"], agreement["mean_iu"], agreement["pixel_acc"], row["mean_iu"])
        compared.append([row["watches"], f"{row['threshold']:.3f}", *map(percent, shares)])
    made = provenance()
    took = ", ".join(f"{name} {found['seconds']:.0f} s" for name, found in zip(names, heads) if found["seconds"])
    where = (
        f"Scored on CamVid val (101 frames), the last heads on the last fifth of the videos they learnt from. "
        f"Training and scoring took: {took}, on {made['machine']['cores']} cores of "
        f"{made['machine']['processor']}, {made['date']}, commit {made['commit']}."
    )
    return f"{table(rows)}\n\n{table(compared)}\n\n{where}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="street", metavar="street|FILE.onnx", help="one that has heads of its own")
    parser.add_argument("--engine", default="openvino")
    parser.add_argument("--frames", type=int, default=240, help="to learn from")
    parser.add_argument("--limit", type=int, help="frames of the clip to score on")
    parser.add_argument("--docs", action="store_true", help="put the tables into docs/train.md")
    return parser.parse_args()


if __name__ == "__main__":
    main()
