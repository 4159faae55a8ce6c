"""Does a tuned schedule keep its fire rate on video it was not tuned on? Alternate 5 s blocks of two videos.

python benchmarks/tuning.py            results/tuning.json and the table

Each video is recorded once and cut into blocks of 5 s. A schedule is tuned on the even blocks and tried on the odd ones,
and the other way round; every block is a clip of its own, whose first frame is filled and left out of the rates. Fixed:
the threshold as it was found. Paced: the schedule that `clockseg tune` writes by default, whose threshold moves.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from clockseg import load
from clockseg.cli._terminal import percent
from clockseg.clocks import adaptive, paced
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Named
from clockseg.execution.recording import Recording, record
from clockseg.planning.tuning import tried, tune, tune_near
from clockseg.video import open_clip
from page import table
from provenance import HERE, write_result
from shared_data import shared_data

VIDEOS = ("solidWhiteRight.mp4", "one-by-one-person-detection.mp4")
RATES = (0.25, 0.5)
BLOCK_SECONDS = 5


def main() -> None:
    """Record, tune, try, write, print."""
    args = _arguments()
    net = load(args.network, engine=args.engine, threads=args.threads)
    rows = [
        row
        for video in VIDEOS
        for halves in [_halves(net, shared_data("videos", video), args.limit)]
        for rate in RATES
        for row in _both_ways(video, halves, rate)
    ]
    setting = {"network": net.name, "engine": net.engine, "block_seconds": BLOCK_SECONDS}
    path = write_result("tuning", setting | {"tries": rows})
    print(table([list(HEAD), *(_cells(row) for row in rows)]))
    print(f"{path.relative_to(HERE.parent)} written", file=sys.stderr)


def _halves(net: StagedNetwork, video: Path, limit: int | None) -> tuple[list[Recording], list[Recording]]:
    """The even and the odd blocks of one recording."""
    with open_clip(video) as clip:
        recording = record(net, (frame.image for frame in islice(clip, limit)))
        length = round(BLOCK_SECONDS * (clip.fps or 25))
    print(f"{video.name}: {len(recording)} frames in blocks of {length}", file=sys.stderr)
    blocks = [recording[start : start + length] for start in range(0, len(recording), length)]
    return blocks[::2], blocks[1::2]


def _both_ways(video: str, halves: tuple[list[Recording], list[Recording]], rate: float) -> list[dict[str, Any]]:
    even, odd = halves
    return [
        {"video": video, "asked": rate, "tuned_on": name, **found}
        for name, on, others in (("even", even, odd), ("odd", odd, even))
        for found in _tuned(on, others, rate)
    ]


def _tuned(on: Sequence[Recording], others: Sequence[Recording], rate: float) -> list[dict[str, Any]]:
    fixed = tune(on, adaptive, rate).point.threshold
    start = tune_near(on, lambda threshold: paced(adaptive(threshold), rate), rate, fixed).point.threshold
    return [
        _tried(f"adaptive({fixed:g})", adaptive(fixed), on, others),
        _tried(f"paced(adaptive({start:g}), {rate:g})", paced(adaptive(start), rate), on, others),
    ]


def _tried(name: str, schedule: Named, on: Sequence[Recording], others: Sequence[Recording]) -> dict[str, Any]:
    there = tried(others, schedule)
    blocks = [tried([block], schedule).fire_rate for block in others if len(block) > 1]
    return {
        "schedule": name,
        "fire_rate_where_tuned": tried(on, schedule).fire_rate,
        "fire_rate": there.fire_rate,
        "blocks": len(blocks),
        "deviation_over_blocks": statistics.pstdev(blocks) if len(blocks) > 1 else None,
        "held_agreement": there.held_agreement,
    }


HEAD = (
    "video",
    "tuned on",
    "schedule",
    "there",
    "on the other blocks",
    "off by",
    "one block deviates",
    "held agreement",
)


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        row["video"],
        f"{row['tuned_on']} blocks",
        f"`{row['schedule']}`",
        percent(row["fire_rate_where_tuned"]),
        percent(row["fire_rate"]),
        f"{100 * (row['fire_rate'] - row['asked']):+.1f} points",
        percent(row["deviation_over_blocks"]),
        percent(row["held_agreement"]),
    ]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="street", metavar="street|FILE.onnx")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--limit", type=int, help="frames of each video")
    return parser.parse_args()


if __name__ == "__main__":
    main()
