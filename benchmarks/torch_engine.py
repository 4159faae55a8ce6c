"""What the torch engine makes of a cut module: SegFormer-B0 (transformers, random weights) at 512x256, against the module.

Each way of running it uncut and in its four stages, all firing, in interleaved rounds; ratios are medians over rounds.

    python benchmarks/torch_engine.py            results/torch_engine.json and a table
    python benchmarks/torch_engine.py --docs     the same, and the table into docs/pytorch.md between its markers
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np
import torch

import segformer
from clockseg import Session, frame_oracle
from clockseg.clockwork.network import StagedNetwork
from clockseg.engines.torch import torch as engine
from clockseg.execution.machine import threads_or_all
from clockseg.graph.sidecar import Input
from clockseg.networks.cut_torch import cut
from engines import Run, measured, ratio
from page import insert, table
from provenance import HERE, write_result

PAGE = HERE.parent / "docs" / "cut-in-torch.md"
SIZE = (512, 256)
"""WIDTH, HEIGHT."""
EAGER = "the module, eager"


def network() -> StagedNetwork:
    """Cut where its encoder's stages end; frames in, labels out."""
    width, height = SIZE
    given = Input("image", width, height, mean=segformer.MEAN, std=segformer.STD, pad_multiple=32)
    at = [f"model.segformer.stages.{index}" for index in range(4)]
    classes = [f"class{index}" for index in range(segformer.CLASSES)]
    return cut(segformer.module(), torch.zeros(1, 3, height, width), at=at, input=given, classes=classes)


def ways(net: StagedNetwork) -> dict[str, StagedNetwork]:
    """Name -> the network so run."""
    found = {"cut, no engine": net}
    for compile in (False, True):
        for precision in ("f32", "bf16"):
            name = f"torch {precision}{', compiled' if compile else ''}"
            found[name] = engine(net, precision=precision, compile=compile)
    return found


def compared(nets: dict[str, StagedNetwork], args: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each way."""
    random = np.random.default_rng(0)
    frames = [random.integers(0, 256, (*SIZE[::-1], 3), dtype=np.uint8) for _ in range(args.frames)]
    [plain, *others] = nets
    runs: dict[str, Run] = {EAGER: Session(nets[plain].uncut(), frame_oracle)}
    runs |= {f"{name}, uncut": Session(nets[name].uncut(), frame_oracle) for name in others}
    runs |= {name: Session(net, frame_oracle) for name, net in nets.items()}
    rounds = measured(runs, frames, args.rounds)
    rows: list[dict[str, Any]] = [{"way": EAGER, "uncut": 1.0, "staged": round(ratio(rounds, plain, EAGER), 3)}]
    return rows + [
        {
            "way": name,
            "uncut": round(ratio(rounds, f"{name}, uncut", EAGER), 3),
            "staged": round(ratio(rounds, name, EAGER), 3),
        }
        for name in others
    ]


def markdown(rows: list[dict[str, Any]]) -> str:
    """Times as shares of the module's own."""
    head = ["SegFormer-B0 at 512x256", "uncut", "in four stages, all firing"]
    return table([head, *([row["way"], f"{row['uncut']:.2f}", f"{row['staged']:.2f}"] for row in rows)])


def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="interleaved rounds (default 7)")
    parser.add_argument("--frames", type=int, default=6, help="frames a round (default 6)")
    parser.add_argument("--threads", type=int, help="of torch (default: all)")
    parser.add_argument("--docs", action="store_true", help="put the table into docs/pytorch.md")
    args = parser.parse_args()
    torch.set_num_threads(threads_or_all(args.threads))
    rows = compared(ways(network()), args)
    size = f"{SIZE[0]}x{SIZE[1]}"
    path = write_result("torch_engine", {"size": size, "rounds": args.rounds, "frames": args.frames, "rows": rows})
    print(markdown(rows))
    if args.docs:
        insert(PAGE, "torch_engine", markdown(rows))
    print(f"{path.relative_to(HERE.parent)} written", file=sys.stderr)


if __name__ == "__main__":
    main()
