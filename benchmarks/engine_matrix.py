"""Every engine and precision on three networks: what a frame costs, what running in stages costs, against PyTorch eager.

`street` at 480x360, SegFormer-B0 (transformers, random weights) at 512x256 and the bundled narrow FCN-8s, in interleaved
rounds; ratios are medians over rounds.

    python benchmarks/engine_matrix.py            results/engine_matrix.json and a table
    python benchmarks/engine_matrix.py --docs     the same, and the tables into docs/engines.md between its markers
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import segformer
from clockseg import Session, frame_oracle, load
from clockseg.clockwork.network import StagedNetwork
from clockseg.datasets import read_clips
from clockseg.engines import contenders, timed
from clockseg.execution.machine import threads_or_all
from clockseg.graph.sidecar import Input, Sidecar, write
from clockseg.paper.fcn import FCN
from clockseg.paper.fcn_layers import FCNShape
from clockseg.training.quantization import quantize
from clockseg.types import Image
from engines import Run, measured, ratio
from page import insert, table
from provenance import HERE, provenance, write_result
from recipes.street.network import Shape, Street
from shared_data import shared_data

PAGE = HERE.parent / "docs" / "engines.md"


@dataclass(frozen=True)
class Subject:
    """A network: its file, the module it came from (weights as they come), and what picks scores of what that gives."""

    name: str
    file: str | Path
    module: torch.nn.Module
    scores: Callable[[Any], torch.Tensor]


def subjects(folder: Path) -> list[Subject]:
    """The three networks; SegFormer's file is cut in ``folder`` where its encoder's stages end."""
    fcn = FCN(FCNShape(classes=11).narrowed(1 / 8)).eval()
    return [
        Subject("street", "street", Street(Shape()).eval(), lambda made: made.fused),
        Subject("segformer-b0", _segformer(folder), segformer.module(), lambda made: made),
        Subject("fcn8s-narrow", "fcn8s-narrow", fcn, lambda made: made.score),
    ]


def _segformer(folder: Path) -> Path:
    path = folder / "segformer-b0.onnx"
    path.write_bytes(segformer.file().read_bytes())
    given = Input(segformer.INPUT, 512, 256, "rgb", 1 / 255, segformer.MEAN, segformer.STD, 32)
    classes = tuple(f"class{index}" for index in range(segformer.CLASSES))
    cuts = tuple((cut,) for cut in segformer.CUTS)
    write(Sidecar("segformer-b0", given, segformer.OUTPUT, cuts, classes=classes), path.with_suffix(".json"))
    return path


def main() -> None:
    """Measure, write, print."""
    args = _arguments()
    with tempfile.TemporaryDirectory() as folder:
        rows = [row for subject in subjects(Path(folder)) for row in compared(subject, Path(folder), args)]
    path = write_result("engine_matrix", {"rounds": args.rounds, "frames": args.frames, "rows": rows})
    text = markdown(rows)
    print(text)
    if args.docs:
        insert(PAGE, "engine_matrix", text)
    print(f"{path.relative_to(HERE.parent)} written", file=sys.stderr)


def compared(subject: Subject, folder: Path, args: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each engine and precision on one network."""
    nets = ways(subject, folder, args.threads)
    said = load(subject.file, engine=None).sidecar.input
    random = np.random.default_rng(0)
    frames = [random.integers(0, 256, (said.height, said.width, 3), dtype=np.uint8) for _ in range(args.frames)]
    runs: dict[str, Run] = {name: Session(net.uncut(), frame_oracle) for name, net in nets.items()}
    runs |= {f"{name}, staged": Session(net, frame_oracle) for name, net in nets.items()}
    runs["pytorch eager"] = eager(subject, load(subject.file, engine=None), args.threads)
    print(f"{subject.name}: {', '.join(nets)}", file=sys.stderr)
    rounds = measured(runs, frames, args.rounds)
    size = f"{said.width}x{said.height}"
    base: dict[str, Any] = {"network": subject.name, "size": size}
    found = [
        base
        | {
            "engine": name,
            "ms": _ms(rounds[name]),
            "eager_over": round(ratio(rounds, "pytorch eager", name), 3),
            "staged_over_uncut": round(ratio(rounds, f"{name}, staged", name), 3),
            "shares": shares(net, frames),
        }
        for name, net in nets.items()
    ]
    return [*found, base | {"engine": "pytorch eager", "ms": _ms(rounds["pytorch eager"]), "eager_over": 1.0}]


def ways(subject: Subject, folder: Path, threads: int | None) -> dict[str, StagedNetwork]:
    """The network in each engine and precision that is installed, and quantized to int8 in each engine."""
    found = {
        f"{name} {precision}": load(subject.file, engine=engine)
        for precision in ("f32", "bf16")
        for name, engine in contenders(precision, threads).items()
    }
    small = folder / f"{subject.name}-int8.onnx"
    quantize(subject.file, read_clips(shared_data("camvid", "val")), small, frames=20, repeat=2, ends="int8")
    return found | {f"{name} int8": load(small, engine=engine) for name, engine in contenders("f32", threads).items()}


def eager(subject: Subject, net: StagedNetwork, threads: int | None) -> Run:
    """The module as PyTorch runs it as it is written, from the frame to the label map."""
    torch.set_num_threads(threads_or_all(threads))
    given = net.sidecar.input
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in (given.mean, given.std))

    def run(image: Image) -> Any:
        frame = torch.from_numpy(np.array(net.prepare(image)["image"])).permute(0, 3, 1, 2).float()
        with torch.inference_mode():
            scores = subject.scores(subject.module((frame * given.scale - mean) / std))
            if scores.shape[2:] != frame.shape[2:]:
                scores = torch.nn.functional.interpolate(scores, size=frame.shape[2:], mode="bilinear")
            return net.restore({"labels": scores.argmax(dim=1).to(torch.uint8).numpy()}, image)

    return run


def shares(net: StagedNetwork, frames: Sequence[Image]) -> dict[str, float]:
    """Each part's share of the seconds when every stage fires on its own."""
    parts, times = timed(net)
    parts(frames[0])
    times.clear()
    for image in frames:
        parts(image)
    total = sum(times.seconds.values())
    found: dict[str, float] = {}
    for name, seconds in times.seconds.items():
        key = name.rsplit(".", 1)[0]
        found[key] = found.get(key, 0.0) + seconds / total
    return {key: round(value, 4) for key, value in found.items()}


def _ms(seconds: Sequence[float]) -> float:
    return round(1000 * statistics.median(seconds), 2)


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """A table for people, and where it comes from."""
    head = ["network", "size", "engine", "ms a frame", "PyTorch eager / this", "staged / uncut", "shares of parts"]
    cells = [
        [
            row["network"],
            row["size"],
            row["engine"],
            f"{row['ms']:.1f}",
            f"{row['eager_over']:.2f}",
            f"{row['staged_over_uncut']:.3f}" if "shares" in row else "",
            ", ".join(f"{name} {100 * share:.0f}" for name, share in row.get("shares", {}).items() if share >= 0.005),
        ]
        for row in rows
    ]
    made = provenance()
    where = (
        f"Every frame, noise, {made['machine']['cores']} cores of {made['machine']['processor']}, {made['date']}, "
        f"commit {made['commit']}; medians of interleaved rounds. Staged: every stage firing. Shares in %, parts apart."
    )
    return f"{table([head, *cells])}\n\n{where}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, help="of every engine (default: as many as the process may use)")
    parser.add_argument("--docs", action="store_true", help="the tables into docs/engines.md")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--frames", type=int, default=4, help="a round")
    return parser.parse_args()


if __name__ == "__main__":
    main()
