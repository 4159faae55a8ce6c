"""What does everything around the network cost, and does memory stay flat?

`clockseg segment` of two videos with every stage on every frame, labels and trace written: its wall time over that of a
bare loop of the uncut network over frames that are decoded already. And the memory of the process over a long video.

    python benchmarks/wall.py                 results/wall.json and a table
    python benchmarks/wall.py --only memory --frames 20000
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

import av

from clockseg import Session, frame_oracle, load, segment
from clockseg.commands._table import align
from clockseg.stages import StagedNetwork
from clockseg.video import open_clip
from provenance import HERE, write_result
from shared_data import shared_data

VIDEOS = ("solidWhiteRight.mp4", "one-by-one-person-detection.mp4")
TARGET = 1.35
EVERY = 500
SETTLED = 2000
"""Frames after which allocators and caches have what they need."""


def main() -> None:
    """Measure, write, print."""
    args = _arguments()
    facts: dict[str, Any] = {}
    if args.only != "memory":
        net = load(args.network, threads=args.threads)
        facts["wall"] = [wall(net, video, args) for video in VIDEOS]
        facts["target"] = TARGET
        print(align([["video", "frames", "bare s", "segment s", "ratio"], *(_row(one) for one in facts["wall"])]))
    if args.only != "wall":
        facts["memory"] = memory(args)
        print("memory: {frames} frames, {settled_mib} MiB at frame {settled_at}, {last_mib} at the end, "
              "growth {kib_per_1000_frames} KiB per 1000 frames".format(**facts["memory"]))  # fmt: skip
    path = write_result("wall" if args.only is None else f"wall-{args.only}", facts)
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


def memory(args: argparse.Namespace) -> dict[str, Any]:
    """Resident memory every 500 frames of a video looped to ``--frames``, and the slope of a line through it."""
    net = load(args.network, threads=args.threads, size=args.memory_size)
    samples: list[tuple[int, float]] = []

    def sample(progress: Any) -> None:
        if progress.done % EVERY == 0:
            samples.append((progress.done, resident_mib()))
            print(f"\rframe {progress.done}: {samples[-1][1]:.1f} MiB", end="", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as folder:
        looped = loop_video(shared_data("videos", VIDEOS[0]), Path(folder) / "looped.mkv", args.frames)
        done = segment(looped, Path(folder) / "out", net, frame_oracle, write=("labels", "trace"), limit=args.frames,
                       progress=sample)  # fmt: skip
    print(file=sys.stderr)
    settled = [(frame, mib) for frame, mib in samples if frame >= min(SETTLED, args.frames // 2)]
    return {
        "frames": done.summary["frames"],
        "settled_at": settled[0][0],
        "settled_mib": round(settled[0][1], 1),
        "last_mib": round(settled[-1][1], 1),
        "kib_per_1000_frames": round(_slope(settled) * 1000 * 1024, 1),
        "samples_mib": [[frame, round(mib, 1)] for frame, mib in samples],
    }


def _slope(points: list[tuple[int, float]]) -> float:
    if len(points) < 2:
        return 0.0
    return statistics.linear_regression([x for x, _ in points], [y for _, y in points]).slope


def resident_mib() -> float:
    """Resident memory of this process in MiB."""
    status = Path("/proc/self/status")
    if not status.exists():
        sys.exit("memory is read from /proc, which this system does not have.")
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def loop_video(source: Path, target: Path, frames: int) -> Path:
    """``source`` again and again until there are ``frames`` frames, its packets copied as they are."""
    written = shift = 0
    with av.open(str(target), "w") as out:
        stream = None
        while written < frames:
            end = shift
            with av.open(str(source)) as container:
                video = container.streams.video[0]
                stream = stream or out.add_stream_from_template(video)
                for packet in container.demux(video):
                    if packet.dts is None or packet.pts is None:
                        continue
                    packet.pts, packet.dts = packet.pts + shift, packet.dts + shift
                    end = max(end, packet.pts + (packet.duration or 1))
                    packet.stream = stream
                    out.mux(packet)
                    written += 1
            shift = end
    return target


def _row(one: dict[str, Any]) -> list[str]:
    met = "" if one["met"] else f" (target {TARGET})"
    return [one["video"], str(one["frames"]), f"{one['bare_seconds']:.2f}", f"{one['segment_seconds']:.2f}",
            f"{one['ratio']:.3f}{met}"]  # fmt: skip


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="street", metavar="street|FILE.onnx")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--only", choices=("wall", "memory"))
    parser.add_argument("--limit", type=int, default=200, help="frames a video, for wall time (default: 200)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--frames", type=int, default=20_000, help="for memory (default: 20000)")
    parser.add_argument(
        "--memory-size", type=int, default=160, help="working size for memory, longer side (default: 160)"
    )
    args = parser.parse_args()
    if args.frames < 2 * EVERY:
        parser.error(f"--frames is at least {2 * EVERY}: memory is sampled every {EVERY} frames")
    return args


if __name__ == "__main__":
    main()
