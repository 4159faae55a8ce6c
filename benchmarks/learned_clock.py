"""Does a learned clock fire at better moments than one on the residual, or than a fixed rate, and what does it cost?

Trained on the shared videos and DAVIS clips, it is scored on their held-back ends and on the dense CamVid clip.

    python benchmarks/learned_clock.py             trains both forms and writes benchmarks/results/learned_clock.json
    python benchmarks/learned_clock.py --docs      the same, and the table into docs/train.md between its markers
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from clockseg import load
from clockseg.carry import Flow, Warp
from clockseg.clocks.learned import load as load_clock
from clockseg.clockwork.network import StagedNetwork
from clockseg.datasets import Clip, read_data
from clockseg.training.clock import Choices, train_clock
from clockseg.training.clock_samples import Take, takes
from clockseg.training.clock_score import score
from page import insert, table
from provenance import HERE, provenance, write_result
from shared_data import shared_data

PAGE = HERE.parent / "docs" / "learned-clock.md"
CARRY = Warp(Flow())
FORMS = ("frames", "history")


def main() -> None:
    """Train, score, and write what was found."""
    args = _arguments()
    videos = sorted(shared_data("videos").iterdir())
    teaching = [clip for path in (*videos, shared_data("davis")) for clip in read_data(path)]
    unseen = _unseen(load("street", threads=1), read_data(shared_data("camvid", "val")), args.unseen)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for form in FORMS:
            choices = Choices(form=form, carry=CARRY, frames=args.frames, passes=args.passes)
            out = Path(folder) / f"{form}.onnx"
            found = train_clock("street", teaching, out, choices=choices, threads=1)
            told = {"held-back ends": found.facts["held_out"], "CamVid": score(str(out), unseen, CARRY, seed=0)}
            rows.append(
                {"form": form, "milliseconds": _milliseconds(out), "trained": found.facts["trained"], "on": told}
            )
            print(rows[-1])
    print(write_result("learned_clock", {**provenance(), "clocks": rows}))
    if args.docs:
        insert(PAGE, "learned-clock", markdown(rows))


def _unseen(net: StagedNetwork, clips: list[Clip], frames: int) -> Take:
    """The last fifth of so many frames of a clip that nothing was learnt from."""
    _, held = takes(net, clips, CARRY, frames=frames, warn=print, say=lambda *progress: None)
    return held


def _milliseconds(file: Path, runs: int = 400) -> float:
    """The median of the graph alone, without making its inputs."""
    graph = load_clock(str(file))
    values = {one.name: np.zeros([side or 1 for side in one.shape], np.float32) for one in graph.inputs}
    spent = []
    for _ in range(runs):
        began = time.perf_counter()
        graph.run(values)
        spent.append(time.perf_counter() - began)
    return round(1000 * statistics.median(spent), 4)


def markdown(rows: list[dict[str, Any]]) -> str:
    """A row a clock and a kind of frames."""
    told = [["clock, on", "ms", "rank correlation", "pixels at 1/4", "pixels at 1/8"]]
    for place in ("held-back ends", "CamVid"):
        for row in rows:
            told.append(
                _row(f"learned, {row['form']}, {place}", f"{row['milliseconds']:.2f}", row["on"][place], "learned")
            )
        last = rows[-1]["on"][place]
        told += [_row(f"{name}, {place}", "-", last, name) for name in ("motion_residual", "fixed rate")]
    return table(told)


def _row(title: str, milliseconds: str, scored: dict[str, Any], name: str) -> list[str]:
    correlation = scored["correlation"].get(name)
    pixels = [f"{100 * each['pixels'][name]:.2f}" for each in scored["agreement"]]
    return [title, milliseconds, "-" if correlation is None else f"{correlation:.2f}", *pixels]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", action="store_true", help="put the table into docs/train.md")
    parser.add_argument("--frames", type=int, default=600, help="to run the network on (default: 600)")
    parser.add_argument("--passes", type=int, default=4, help="over them, at other ages each (default: 4)")
    parser.add_argument(
        "--unseen", type=int, default=600, help="frames of CamVid, of which a fifth is scored (default: 600)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
