"""Resident memory while `segment` writes labels, an overlay and a trace of a long video.

Small frames under `warp`, and two sizes under `interpolate` with 1,000 frames from one key frame to the next, of which only as
many may wait as fit into 400 MB.
"""

from __future__ import annotations

import multiprocessing
import tempfile
from argparse import Namespace
from fractions import Fraction
from itertools import cycle
from pathlib import Path
from typing import Any

import av
import cv2

from benchmarks.harness import Facts, listing, say, where
from benchmarks.inputs import DRIVING, images, video, write_video
from clockseg import load, parse_schedule, segment
from clockseg.types import Size

FAR = "carried(skip_frame(1000), interpolate(flow))"
PARTS = {
    "160x90": (100_000, "carried(skip_frame(3), warp(flow))"),
    "640x360": (20_000, FAR),
    "3840x2160": (20_000, FAR),
}
"""Frames and schedule of each part."""
OPTIONS: Facts = {"frames": None}
FPS = 25
SHARE = 0.2
"""The share of the frames, at the beginning and at the end, whose most memory is compared: within a piece, and while frames
wait for a key frame, it rises and falls again."""


def part(name: str, asked: Namespace) -> Facts:
    """Segment and sample."""
    frames, schedule = PARTS[name]
    frames, (width, height) = asked.frames or frames, map(int, name.split("x"))
    samples: list[tuple[int, float]] = []
    each = max(1, frames // 1000)

    def sample(progress: Any) -> None:
        if progress.done % each == 0:
            samples.append((progress.done, _resident_mib()))
            say(f"frame {progress.done}: {samples[-1][1]:.1f} MiB", again=True)

    with tempfile.TemporaryDirectory() as folder:
        clip = Path(folder) / "long.mkv"
        # In a process of its own, whose memory does not count.
        writing = multiprocessing.get_context("spawn").Process(target=_long_video, args=(clip, frames, (width, height)))
        writing.start()
        writing.join()
        net = load("street", engine="openvino", size=min(width, 480))
        done = segment(clip, Path(folder) / "out", net, parse_schedule(schedule), progress=sample)
    found = {"frames": done.summary["frames"], "pieces": len(done.summary["starts"]), "schedule": schedule}
    first = max(mib for at, mib in samples if at <= SHARE * frames)
    last = max(mib for at, mib in samples if at > (1 - SHARE) * frames)
    return found | {"first_mib": round(first, 1), "last_mib": round(last, 1)}


def _resident_mib() -> float:
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmRSS")).split()[1]) / 1024


def _long_video(target: Path, frames: int, size: Size) -> None:
    """Write the driving clip at ``size`` again and again, from one encoding of it, which begins with a key frame."""
    one = target.with_name("one.mkv")
    resized = (cv2.resize(image, size, interpolation=cv2.INTER_AREA) for image in images(video(DRIVING)))
    write_video(one, resized, FPS, {"bf": "0", "g": "50", "preset": "ultrafast"})
    with av.open(str(one)) as source, av.open(str(target), "w") as output:
        stream = output.add_stream_from_template(source.streams.video[0])
        packets = [packet for packet in source.demux(video=0) if packet.size]
        for number, packet in zip(range(frames), cycle(packets)):
            again = av.Packet(bytes(packet))
            again.stream, again.time_base, again.is_keyframe = stream, Fraction(1, FPS), packet.is_keyframe
            again.pts = again.dts = number
            output.mux(again)


def pages(facts: Facts) -> dict[str, str]:
    """The most memory at both ends of each run, and the growth."""
    columns: Facts = {
        "resident memory, MiB": lambda row: f"{row['part']}, {row['frames']:,} frames in {row['pieces']} pieces",
        "schedule": lambda row: f"`{row['schedule']}`",
        "most in the first fifth": "first_mib",
        "most in the last fifth": "last_mib",
        "growth": lambda row: f"{row['last_mib'] / row['first_mib'] - 1:+.1%}",
    }
    parts = facts["parts"]
    notes = "\n".join(f"* {name}: {where(one)}" for name, one in parts.items())
    return {"memory": f"{listing([one | {'part': name} for name, one in parts.items()], columns)}\n\n{notes}"}
