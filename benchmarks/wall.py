"""What does everything around the network cost?

`clockseg segment` of two videos with every stage on every frame, labels and trace written: its wall time over that of a
bare loop of the uncut network over frames that are decoded already.

    python benchmarks/wall.py                 results/wall.json and a table
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

from clockseg import Session, frame_oracle, load, segment
from clockseg.cli._terminal import align
from clockseg.clockwork.network import StagedNetwork
from clockseg.video import open_clip
from provenance import HERE, write_result
from shared_data import shared_data

VIDEOS = ("solidWhiteRight.mp4", "one-by-one-person-detection.mp4")
TARGET = 1.35


def main() -> None:
    """Measure, write, print."""
    args = _arguments()
    net = load(args.network, threads=args.threads)
    facts = {"wall": [wall(net, video, args) for video in VIDEOS], "target": TARGET}
    print(align([["video", "frames", "bare s", "segment s", "ratio"], *(_row(one) for one in facts["wall"])]))
    path = write_result("wall", facts)
    print(f"{path.relative_to(HERE.parent)} written", file=sys.stderr)


def wall(net: StagedNetwork, video: str, args: argparse.Namespace) -> dict[str, Any]:
    """Seconds of the bare loop and of ``segment``, in turns; the ratio is the median over rounds."""
    path = shared_data("videos", video)
    images = [frame.image for frame in islice(open_clip(path), args.limit)]
    bare, whole = [], []
    for number in range(args.rounds + 1):
        bare.append(_seconds(lambda: _loop(net, images)))
        whole.append(_seconds(lambda: _segment(net, path, len(images))))
        print(f"\r{video}: round {number} of {args.rounds}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    bare, whole = bare[1:], whole[1:]  # the first round compiles
    ratio = statistics.median(b / a for a, b in zip(bare, whole, strict=True))
    return {"video": video, "frames": len(images), "bare_seconds": round(statistics.median(bare), 3),
            "segment_seconds": round(statistics.median(whole), 3), "ratio": round(ratio, 3),
            "met": ratio <= TARGET}  # fmt: skip


def _loop(net: StagedNetwork, images: list[Any]) -> None:
    session = Session(net.uncut(), frame_oracle)
    for image in images:
        session(image)


def _segment(net: StagedNetwork, path: Path, limit: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        segment(path, Path(folder) / "out", net, frame_oracle, write=("labels", "trace"), limit=limit)


def _seconds(run: Callable[[], None]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _row(one: dict[str, Any]) -> list[str]:
    met = "" if one["met"] else f" (target {TARGET})"
    return [one["video"], str(one["frames"]), f"{one['bare_seconds']:.2f}", f"{one['segment_seconds']:.2f}",
            f"{one['ratio']:.3f}{met}"]  # fmt: skip


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="street", metavar="street|FILE.onnx")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--limit", type=int, default=200, help="frames a video, for wall time (default: 200)")
    parser.add_argument("--rounds", type=int, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    main()
