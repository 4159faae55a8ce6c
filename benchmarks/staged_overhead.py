"""What does it cost to run in stages, with what runs together as one model and with every part by itself?

`street` at 480x360, SegFormer-B0 (transformers, random weights) at 512x256 and the bundled narrow FCN-8s, in OpenVINO in
f32 and bf16 and in ONNX Runtime; frames of noise, in interleaved rounds. Ratios over the uncut network are medians over
rounds.

    python benchmarks/staged_overhead.py           results/staged_overhead.json and a table
    python benchmarks/staged_overhead.py --docs    the same, and the table into docs/engines.md between its markers
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import onnx

import segformer
from clockseg import Session, alternating, frame_oracle, load, skip_frame
from clockseg.clocks import ALWAYS
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Named, Schedule
from clockseg.graph.sidecar import Input, Sidecar
from clockseg.networks.load import assemble
from engines import measured, ratio
from page import insert, table
from provenance import HERE, provenance, write_result

PAGE = HERE.parent / "docs" / "engines.md"
ENGINES = (("openvino", "f32"), ("openvino", "bf16"), ("onnxruntime", "f32"))
UNCUT = "uncut"


def looking(stages: int) -> Schedule:
    """Every stage on every frame, by a clock before the last one that is shown the map of the one before."""
    return Schedule((*(ALWAYS,) * (stages - 1), lambda tick: True))


SCHEDULES: dict[str, Named] = {
    "every stage": frame_oracle,
    "every stage, the last after its clock has looked": looking,
    "the last stage on every other frame": alternating,
    "skip_frame(2)": skip_frame(2),
}


class Row(NamedTuple):
    """One schedule of one network in one engine, as ratios over the uncut network, which takes ``uncut_ms``."""

    network: str
    engine: str
    precision: str
    uncut_ms: float
    schedule: str
    joined: float
    apart: float


def networks() -> dict[str, Callable[..., StagedNetwork]]:
    """How each network is loaded, given an engine and a precision."""

    def named(name: str) -> Callable[..., StagedNetwork]:
        return lambda **options: load(name, **options)

    return {"street": named("street"), "segformer-b0": _segformer, "fcn8s-narrow": named("fcn8s-narrow")}


def _segformer(**options: Any) -> StagedNetwork:
    given = Input(segformer.INPUT, 512, 256, "rgb", 1 / 255, segformer.MEAN, segformer.STD, 32)
    classes = tuple(f"class{index}" for index in range(segformer.CLASSES))
    said = Sidecar("segformer-b0", given, segformer.OUTPUT, tuple((cut,) for cut in segformer.CUTS), classes=classes)
    return assemble(onnx.load(segformer.file()), said, **options)


def compared(name: str, net: StagedNetwork, engine: str, precision: str, args: argparse.Namespace) -> list[Row]:
    """The rows of one network in one engine."""
    given, random = net.sidecar.input, np.random.default_rng(0)
    frames = [random.integers(0, 256, (given.height, given.width, 3), dtype=np.uint8) for _ in range(args.frames)]
    apart = replace(net, executor=None)
    runs: dict[str, Session] = {UNCUT: Session(net.uncut(), frame_oracle)}
    for schedule, made in SCHEDULES.items():
        runs[schedule] = Session(net, made)
        runs[f"{schedule}, apart"] = Session(apart, made)
    rounds = measured(runs, frames, args.rounds)
    milliseconds = round(1000 * statistics.median(rounds[UNCUT]), 3)
    return [
        Row(
            name,
            engine,
            precision,
            milliseconds,
            schedule,
            round(ratio(rounds, schedule, UNCUT), 4),
            round(ratio(rounds, f"{schedule}, apart", UNCUT), 4),
        )
        for schedule in SCHEDULES
    ]


def main() -> None:
    """Measure, write, print."""
    args = _arguments()
    rows: list[Row] = []
    for name in args.networks or networks():
        for engine, precision in ENGINES:
            print(f"{name}, {engine} {precision}", file=sys.stderr)
            net = networks()[name](engine=engine, precision=precision, threads=args.threads)
            rows += compared(name, net, engine, precision, args)
    facts = {"rounds": args.rounds, "frames": args.frames, "rows": [row._asdict() for row in rows]}
    path = write_result("staged_overhead", facts)
    print(markdown(rows))
    if args.docs:
        insert(PAGE, "staged-overhead", markdown(rows))
    print(f"{path.relative_to(HERE.parent)} written", file=sys.stderr)


def markdown(rows: Sequence[Row]) -> str:
    """The table, and where it comes from."""
    head = ["network, engine", "uncut, ms", *(f"{name}: joined / apart" for name in SCHEDULES)]
    lines = []
    for start in range(0, len(rows), len(SCHEDULES)):
        group = rows[start : start + len(SCHEDULES)]
        first = group[0]
        ratios = [f"{row.joined:.2f} / {row.apart:.2f}" for row in group]
        lines.append([f"{first.network}, {first.engine} {first.precision}", f"{first.uncut_ms:.1f}", *ratios])
    made = provenance()
    where = (
        f"Time of a frame over the uncut network's, on {made['machine']['cores']} cores of "
        f"{made['machine']['processor']}, {made['date']}, commit {made['commit']}; medians of interleaved rounds."
    )
    return f"{table([head, *lines])}\n\n{where}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="*", choices=networks(), help="only these")
    parser.add_argument("--threads", type=int, help="of every engine (default: as many as the process may use)")
    parser.add_argument("--docs", action="store_true", help="the table into docs/engines.md")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--frames", type=int, default=4, help="a round; an even number, for skip_frame(2)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
