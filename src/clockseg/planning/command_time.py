"""The time of the whole command: ``clockseg segment`` with a schedule, from its start to its complete files.

A short part of the video is segmented by the command itself, at two lengths in turn. The difference gives the seconds per
frame, with decoding, motion, network, drawing and encoding as they overlap; the remainder is the start-up.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from clockseg.datasets.clips import Clip
from clockseg.errors import DataError
from clockseg.planning.planner import Plan
from clockseg.planning.taping import UNKNOWN, clip_length

WRITES = ("labels", "overlay", "trace")
"""The outputs that the command writes by default."""
SHORT, LONG = 40, 240
"""Frames of the two lengths; of a shorter video, or a smaller limit, a third of its frames and all of them."""
ROUNDS = 2
LEAST = 12
"""Frames that a video needs to be measured."""


@dataclass(frozen=True)
class CommandTime:
    """The time of the command: ``start`` seconds, and ``per_frame`` seconds for each frame.

    >>> CommandTime(1.0, 0.02).seconds(200), CommandTime(1.0, 0.02).fps(200)
    (5.0, 40.0)
    """

    start: float
    per_frame: float

    def seconds(self, frames: int) -> float:
        """Return the seconds for so many frames."""
        return self.start + frames * self.per_frame

    def fps(self, frames: int) -> float:
        """Return the mean rate over so many frames, start-up included."""
        return frames / self.seconds(frames)

    @classmethod
    def fitted(cls, seconds: Sequence[tuple[int, float]]) -> CommandTime:
        """Return the line through the fastest runs of two lengths, each given as (frames, seconds).

        >>> CommandTime.fitted([(40, 1.8), (120, 3.4), (40, 1.8)])
        CommandTime(start=1.0, per_frame=0.02)
        """
        short, long = (end(frames for frames, _ in seconds) for end in (min, max))
        first, last = (min(spent for n, spent in seconds if n == frames) for frames in (short, long))
        per_frame = max(0.0, last - first) / (long - short)
        return cls(round(last - long * per_frame, 6), round(per_frame, 6))


@dataclass(frozen=True)
class CommandPromise:
    """The time promised for ``clockseg segment`` with a plan, and with its reference on every frame.

    ``frames``: of all clips together, None if a header does not tell; ``write``: the outputs written.
    """

    frames: int | None
    write: tuple[str, ...]
    planned: CommandTime
    every_frame: CommandTime

    @property
    def faster(self) -> float:
        """The speed-up of the command over every frame, for these frames; without their number, for many."""
        if self.frames is None:
            return self.every_frame.per_frame / max(self.planned.per_frame, 1e-9)
        return self.every_frame.seconds(self.frames) / self.planned.seconds(self.frames)

    def facts(self) -> dict[str, Any]:
        """Return plain values; seconds are None if the number of frames is unknown."""
        ways = {"planned": self.planned, "every_frame": self.every_frame}
        found = {
            name: asdict(one) | {"seconds": None if self.frames is None else one.seconds(self.frames)}
            for name, one in ways.items()
        }
        return {"frames": self.frames, "write": list(self.write), "times_as_fast": self.faster, **found}


def promise(
    plan: Plan,
    clips: Sequence[Clip],
    *,
    write: Sequence[str] = WRITES,
    engine: str = "auto",
    threads: int | None = None,
    limit: int = LONG,
) -> CommandPromise:
    """Measure the command on the longest of ``clips`` with the plan, and with its reference on every frame.

    ``write``: the outputs to write; ``engine`` and ``threads``: as given to the command. ``limit``: the most frames
    to measure on. Errors as of ``command_times``.
    """
    lengths = [clip_length(clip)[0] for clip in clips]
    longest = max(range(len(clips)), key=lambda at: lengths[at])
    clip = clips[longest]
    common = ["--write", ",".join(write), "--engine", engine, "--every", str(clip.every)]
    common += [] if threads is None else ["--threads", str(threads)]
    ways = []
    for variant, schedule in ((plan.variant, plan.chosen.candidate.text), (plan.variants[0], "frame_oracle")):
        size = [] if variant.size is None else ["--size", variant.size]
        network = ["--network", variant.network, "--precision", variant.precision]
        ways.append([*common, *network, *size, "--schedule", schedule])
    source = clip.images[0].parent if clip.images else clip.path
    planned, every_frame = command_times(source, min(lengths[longest], limit), ways)
    frames = sum(lengths)
    return CommandPromise(None if frames >= UNKNOWN else frames, tuple(write), planned, every_frame)


def command_times(
    source: Path, frames: int, ways: Sequence[Sequence[str]], *, rounds: int = ROUNDS
) -> list[CommandTime]:
    """Measure ``clockseg segment`` on the first ``frames`` of ``source``, ``LONG`` at most, with each list of options, in turns.

    A round that compiles is not counted. ``DataError`` if the video is too short or the command fails.
    """
    long = min(LONG, frames)
    if long < LEAST:
        raise DataError(f"{source}: {long} frames are too few to measure the command on; it needs {LEAST}.")
    spent: list[list[tuple[int, float]]] = [[] for _ in ways]
    for number in range(rounds + 1):
        for way, options in enumerate(ways):
            for limit in (max(LEAST // 2, min(SHORT, long // 3)), *((long,) if number else ())):
                seconds = _run(source, [*options, "--limit", str(limit)])
                if number:
                    spent[way].append((limit, seconds))
    return [CommandTime.fitted(one) for one in spent]


def _run(source: Path, options: Sequence[str]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "clockseg", "segment", "--quiet", "--out", folder, *options, "--", str(source)]
        start = time.perf_counter()
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace")
        if done.returncode:
            raise DataError(f"segment could not be measured: {(done.stderr.strip().splitlines() or ['it failed'])[-1]}")
        return time.perf_counter() - start
