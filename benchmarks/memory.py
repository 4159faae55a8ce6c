"""Does memory stay flat over a long video?

`clockseg segment` of 100,000 small frames with labels, overlay and trace: the resident memory of the process, sampled
every 100 frames, over the first thousand frames and over the last.

    python benchmarks/memory.py [--frames 100000] [--docs]      results/memory.json and a table
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import av

from clockseg import load, segment
from clockseg.clocks.spec import parse_schedule
from clockseg.clockwork.trace import Progress
from page import insert, table
from provenance import HERE, write_result
from shared_data import shared_data

VIDEO = "solidWhiteRight.mp4"
SIZE = (160, 90)
SCHEDULE = "carried(skip_frame(3), warp(flow))"
EVERY, ENDS = 100, 1000
SETTLED = 3000
"""Frames: the second piece has begun, and with it all that is made once."""
TARGET = 0.02


def main() -> None:
    """Segment, sample, write."""
    args = _arguments()
    samples: list[tuple[int, float]] = []

    def sample(progress: Progress) -> None:
        if progress.done % EVERY == 0:
            samples.append((progress.done, resident_mib()))
            print(f"\rframe {progress.done}: {samples[-1][1]:.1f} MiB", end="", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as folder:
        video = long_video(Path(folder) / "long.mkv", args.frames)
        net = load("street", engine="openvino", size=SIZE[0])
        done = segment(video, Path(folder) / "out", net, parse_schedule(SCHEDULE), progress=sample)
    print(file=sys.stderr)
    facts = {
        "frames": done.summary["frames"],
        "pieces": len(done.summary["starts"]),
        "size": SIZE,
        "schedule": SCHEDULE,
    }
    facts |= _ends(samples)
    print("first thousand {first_mib} MiB, last {last_mib}, most {most_mib}: {growth:+.1%}".format(**facts))
    write_result("memory", facts)
    if args.docs:
        insert(HERE.parent / "docs" / "many-videos.md", "memory", _table(facts))


def _ends(samples: list[tuple[int, float]]) -> dict[str, Any]:
    first = statistics.mean(mib for frame, mib in samples if frame <= ENDS)
    settled = statistics.mean(mib for frame, mib in samples if SETTLED < frame <= SETTLED + ENDS)
    last = statistics.mean(mib for frame, mib in samples if frame > samples[-1][0] - ENDS)
    growth = last / first - 1
    thinned = samples[:: max(1, len(samples) // 200)]
    return {
        "first_mib": round(first, 1),
        "settled_mib": round(settled, 1),
        "last_mib": round(last, 1),
        "most_mib": round(max(mib for _, mib in samples), 1),
        "growth": round(growth, 4),
        "growth_settled": round(last / settled - 1, 4),
        "target": TARGET,
        "met": growth <= TARGET,
        "samples_mib": [[frame, round(mib, 1)] for frame, mib in thinned],
    }


def _table(facts: dict[str, Any]) -> str:
    rows = [["resident memory, MiB", "first thousand frames", "the thousand from 3,000 on", "last thousand", "most"]]
    cells = [str(facts[f"{name}_mib"]) for name in ("first", "settled", "last", "most")]
    rows.append([f"{facts['frames']:,} frames in {facts['pieces']} pieces", *cells])
    rows.append(["the last thousand against it", f"{facts['growth']:+.1%}", f"{facts['growth_settled']:+.1%}", "", ""])
    return table(rows)


def resident_mib() -> float:
    """Resident memory of this process in MiB."""
    status = Path("/proc/self/status")
    if not status.exists():
        sys.exit("memory is read from /proc, which this system does not have.")
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def long_video(target: Path, frames: int) -> Path:
    """The driving clip at ``SIZE``, encoded once and then again and again, packet by packet, until there are ``frames``."""
    small = target.with_suffix(".small.mkv")
    with av.open(str(shared_data("videos", VIDEO))) as source, av.open(str(small), "w") as out:
        stream = out.add_stream("libx264", rate=25, options={"bf": "0", "g": "50", "preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = *SIZE, "yuv420p"
        for frame in source.decode(video=0):
            out.mux(stream.encode(frame.reformat(*SIZE, format="yuv420p")))
        out.mux(stream.encode(None))
    written = shift = 0
    with av.open(str(target), "w") as out:
        stream = None
        while written < frames:
            end = shift
            with av.open(str(small)) as container:
                video = container.streams.video[0]
                stream = stream or out.add_stream_from_template(video)
                for packet in container.demux(video):
                    if packet.size and written < frames:
                        packet.pts = packet.dts = packet.pts + shift
                        end, written = packet.pts + 40, written + 1
                        packet.stream = stream
                        out.mux(packet)
            shift = end
    small.unlink()
    return target


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=100_000, help="(default: 100000)")
    parser.add_argument("--docs", action="store_true", help="put the table into docs/many-videos.md")
    args = parser.parse_args()
    if args.frames < SETTLED + ENDS:
        parser.error(f"--frames is at least {SETTLED + ENDS}")
    return args


if __name__ == "__main__":
    main()
