"""What the two lines bring: SegFormer-B0 (transformers, random weights) at 512x256, alone and wrapped, in torch and OpenVINO.

    clocked = clockseg.wrap(model, schedule)       then the loop that was there: model(pixel_values=frame)

Frames of a drive where the shared data folder is there, as the processor of such models makes them; all ways see the same
frames in interleaved rounds, and ratios are medians over rounds. What they fire is counted beside it; how well labels hold
is no question for random weights (docs/frontier.md asks it of trained ones).

    python benchmarks/wrap.py            results/wrap.json and a table
    python benchmarks/wrap.py --docs     the same, and the table into docs/pytorch.md between its markers
"""

from __future__ import annotations

import argparse
import copy
import sys
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

import cv2
import numpy as np
import torch

import segformer
from clockseg.execution.machine import threads_or_all
from clockseg.video import open_clip
from clockseg.wrapping import wrap
from clockseg.wrapping.clocked import Clocked
from engines import measured, ratio
from page import insert, table
from provenance import HERE, provenance, write_result
from shared_data import shared_data

PAGE = HERE.parent / "docs" / "two-lines.md"
SIZE = (512, 256)
"""WIDTH, HEIGHT."""
ALONE = "the model alone"
PROCESSOR = (segformer.MEAN, segformer.STD)
SCHEDULES: dict[str, dict[str, Any]] = {
    "frame_oracle": {"schedule": "frame_oracle"},
    "skip_frame(3)": {"schedule": "skip_frame(3)"},
    "recommended, with processor=": {"processor": PROCESSOR},
}


class Way(NamedTuple):
    """A copy of the model that is wrapped, and its clock."""

    model: Any
    clocked: Clocked


def model() -> Any:
    """The network as transformers has it, giving ``SemanticSegmenterOutput``."""
    return copy.deepcopy(segformer.module().model)


def ways(engines: Sequence[str], threads: int | None) -> dict[str, Way]:
    """Each schedule in each engine."""
    found = {}
    for engine in engines:
        for name, options in SCHEDULES.items():
            wrapped = model()
            found[f"{engine}: {name}"] = Way(wrapped, wrap(wrapped, engine=engine, threads=threads, **options))
    return found


def frames(count: int) -> list[torch.Tensor]:
    """Consecutive frames of the drive as the model reads them, [1, 3, h, w]."""
    mean, std = (torch.tensor(one).view(3, 1, 1) for one in PROCESSOR)
    found = []
    for frame in islice(open_clip(shared_data("videos", "solidWhiteRight.mp4")), count):
        pixels = torch.from_numpy(np.ascontiguousarray(cv2.resize(frame.image, SIZE, interpolation=cv2.INTER_AREA)))
        found.append(((pixels.permute(2, 0, 1).float() / 255 - mean) / std)[None])
    return found


def compared(args: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each way."""
    alone, others = model(), ways(args.engines, args.threads)
    runs: dict[str, Any] = {ALONE: lambda frame: alone(pixel_values=frame)}
    runs |= {name: (lambda frame, way=way: way.model(pixel_values=frame)) for name, way in others.items()}
    with torch.no_grad():
        rounds = measured(runs, frames(args.frames), args.rounds)
    rows = [{"way": ALONE, "time": 1.0, "network_rate": 1.0, "fires": None}]
    for name, way in others.items():
        tally = way.clocked.tally
        fires = list(tally.fire_rate.values())
        rows.append(
            {
                "way": name,
                "time": round(ratio(rounds, name, ALONE), 3),
                "network_rate": tally.network_rate,
                "fires": fires,
            }
        )
    return rows


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """Times as shares of the model's own."""
    head = ["SegFormer-B0 at 512x256", "time", "stages fire"]
    return table([head, *([row["way"], f"{row['time']:.2f}", _fires(row["fires"])] for row in rows)])


def _fires(rates: Sequence[float] | None) -> str:
    return "-" if rates is None else ", ".join(f"{100 * rate:.0f} %" for rate in rates)


def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", nargs="+", default=["torch", "openvino"], help="of clockseg.wrap")
    parser.add_argument("--rounds", type=int, default=7, help="interleaved rounds (default 7)")
    parser.add_argument("--frames", type=int, default=24, help="frames a round (default 24)")
    parser.add_argument("--threads", type=int, help="of torch and the engines (default: all)")
    parser.add_argument("--docs", action="store_true", help="put the table into docs/pytorch.md")
    args = parser.parse_args()
    torch.set_num_threads(threads_or_all(args.threads))
    rows = compared(args)
    size = f"{SIZE[0]}x{SIZE[1]}"
    facts = {"size": size, "rounds": args.rounds, "frames": args.frames, "threads": threads_or_all(args.threads)}
    path = write_result("wrap", {**facts, "rows": rows})
    print(markdown(rows))
    if args.docs:
        made = provenance()
        threads = "1 thread" if facts["threads"] == 1 else f"{facts['threads']} threads"
        where = f"{threads} of {made['machine']['processor']}, {made['date']}, commit {made['commit']}."
        insert(PAGE, "wrap", f"{markdown(rows)}\n\n{where}")
    print(f"{path.relative_to(HERE.parent)} written", file=sys.stderr)


if __name__ == "__main__":
    main()
