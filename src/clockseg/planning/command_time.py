"""The time of the whole command: ``clockseg segment`` with a schedule, from its start to its complete files.

A short part of the video is segmented by the command itself. Its summary has the seconds from the first frame to the last, with
decoding, motion, network, drawing and encoding as they overlap; the remainder is the start-up.
"""

from __future__ import annotations

import json
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

WRITES = ("labels", "overlay", "trace")
"""The outputs that the command writes by default."""
MOST, LEAST = 240, 12
"""Frames to measure on, and those that a video needs to be measured."""


@dataclass(frozen=True)
class CommandTime:
    """The time of the command: ``start`` seconds, and ``per_frame`` seconds for each frame."""

    start: float
    per_frame: float

    def seconds(self, frames: int) -> float:
        """Return the seconds for so many frames."""
        return self.start + frames * self.per_frame


@dataclass(frozen=True)
class CommandPromise:
    """The time promised for ``clockseg segment`` with a plan, and with its reference on every frame.

    ``frames``: of all clips together; of one whose header does not tell, those that it was measured on. ``timed_frames``:
    those that it was measured on. ``write``: the outputs written.
    """

    frames: int
    timed_frames: int
    write: tuple[str, ...]
    planned: CommandTime
    every_frame: CommandTime

    @property
    def faster(self) -> float:
        """The speed-up of the command over every frame."""
        return self.every_frame.seconds(self.frames) / self.planned.seconds(self.frames)

    def facts(self) -> dict[str, Any]:
        """Return plain values."""
        found = asdict(self) | {"times_as_fast": self.faster}
        for name, way in (("planned", self.planned), ("every_frame", self.every_frame)):
            found[name]["seconds"] = way.seconds(self.frames)
        return found


def promise(
    plan: Plan,
    clips: Sequence[Clip],
    *,
    write: Sequence[str] = WRITES,
    engine: str = "auto",
    threads: int | None = None,
    limit: int = MOST,
) -> CommandPromise:
    """Measure the command on the longest of ``clips`` with the plan, and with its reference on every frame.

    ``write``: the outputs to write; ``engine`` and ``threads``: as given to the command. ``limit``: the most frames
    to measure on. Errors as of ``command_times``.
    """
    lengths = [clip.expected() or min(MOST, limit) for clip in clips]
    length, clip = max(zip(lengths, clips, strict=True), key=lambda one: one[0])
    common = ["--write", ",".join(write), "--engine", engine, "--every", str(clip.every)]
    common += [] if threads is None else ["--threads", str(threads)]
    ways = []
    for variant, schedule in ((plan.variant, plan.chosen.candidate.text), (plan.variants[0], "frame_oracle")):
        size = [] if variant.size is None else ["--size", variant.size]
        network = ["--network", variant.network, "--precision", variant.precision]
        ways.append([*common, *network, *size, "--schedule", schedule])
    source = clip.images[0].parent if clip.images else clip.path
    timed = min(length, limit, MOST)
    return CommandPromise(sum(lengths), timed, tuple(write), *command_times(source, timed, ways))


def command_times(source: Path, frames: int, ways: Sequence[Sequence[str]]) -> list[CommandTime]:
    """Measure ``clockseg segment`` on the first ``frames`` of ``source`` with each list of options.

    A first run, in which engines compile, is not counted. ``DataError`` if the video is too short or the command fails.
    """
    if frames < LEAST:
        raise DataError(f"{source}: {frames} frames are too few to measure the command on; it needs {LEAST}.")
    for options in ways:
        _run(source, options, LEAST // 2)
    return [_run(source, options, frames) for options in ways]


def _run(source: Path, options: Sequence[str], limit: int) -> CommandTime:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "clockseg", "segment", "--quiet", "--out", folder, "--limit", str(limit)]
        command += [*options, "--", str(source)]
        start = time.perf_counter()
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace")
        seconds = time.perf_counter() - start
        if done.returncode:
            raise DataError(f"segment could not be measured: {(done.stderr.strip().splitlines() or ['it failed'])[-1]}")
        [summary] = (json.loads(file.read_text(encoding="utf-8")) for file in Path(folder).glob("*/summary.json"))
    running = summary["wall_seconds"]
    return CommandTime(round(seconds - running, 6), round(running / summary["frames"], 6))
