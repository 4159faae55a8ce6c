"""Does all of a video come through ``clockseg segment``: its frames, its times, its sound, its colours?

Fifty videos made with PyAV, an axis or two each, a folder of images, and every file of the shared folder of odd videos. The
network (``bright_network``) tells bright from dark, so that its labels show which frame they belong to; colours are compared
with a conversion by the standards' formulas (``video_reference``), times, sound and counts with what FFmpeg decodes.

    python benchmarks/any_video.py            results/any_video.json and a table
    python benchmarks/any_video.py --docs     the same, and the table into docs/any-video.md between its markers
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import av
import cv2

from bright_network import write_bright
from clockseg.execution.machine import machine
from clockseg.segmenting.inputs import inputs
from clockseg.video.colour import ToRGB
from page import insert, table
from provenance import HERE, write_result
from shared_data import shared_data
from video_axes import Made, made_videos
from video_checks import Check, checked

PAGE = HERE.parent / "docs" / "any-video.md"


_CONVERTED = {
    "8 bits": ("yuv420p", 1),
    "10 bits": ("yuv420p10le", 1),
    "HDR, PQ": ("yuv420p10le", 16),
    "HDR, HLG": ("yuv420p10le", 18),
}
"""Pixel formats and transfers (ITU-T H.273)."""


class Row(NamedTuple):
    """A video, what the command said of it, and what came of it (None: it was refused)."""

    made: Made
    said: str
    check: Check | None

    @property
    def passed(self) -> bool:
        """A video that is refused must be one of which nothing can be decoded."""
        return bool(self.said) if self.check is None else self.check.passed


def main() -> None:
    """Make, segment, compare, write, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", action="store_true", help="put the table into docs/any-video.md")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        rows = run(Path(name))
    cost = conversions()
    write_result("any_video", {"videos": [facts(row) for row in rows], "conversion_ms": cost})
    text = f"{markdown(rows)}\n\n{told(cost)}"
    print(text)
    if args.docs:
        insert(PAGE, "any-video", text)
    sys.exit(0 if all(row.passed for row in rows) else 1)


def run(folder: Path) -> list[Row]:
    """Each video through the command and compared."""
    network = write_bright(folder)
    (folder / "in").mkdir()
    odd = sorted(shared_data("odd-videos").iterdir())
    videos = [*made_videos(folder / "in"), *(Made("shared", path, ()) for path in odd)]
    return [
        row
        for number in dict.fromkeys(made.stream for made in videos)
        for row in _rows(videos, number, folder, network)
    ]


def _rows(videos: Sequence[Made], number: int | None, folder: Path, network: Path) -> list[Row]:
    """Those of which the stream of this number is asked for, in one command."""
    mine = [made for made in videos if made.stream == number]
    out = folder / f"out-{number}"
    command = [sys.executable, "-m", "clockseg", "segment", "--quiet", "--network", str(network), "--out", str(out)]
    options = [] if number is None else ["--stream", str(number)]
    paths = [str(made.path) for made in mine]
    said = subprocess.run([*command, *options, "--", *paths], capture_output=True, text=True, check=False).stderr
    lines = said.splitlines()
    results = [out / one.folder for one in inputs(paths)]
    return [_row(made, result, lines) for made, result in zip(mine, results, strict=True)]


def _row(made: Made, result: Path, lines: Sequence[str]) -> Row:
    name = str(made.path)
    said = "; ".join(line.partition(name)[2].lstrip(": ") for line in lines if name in line)
    return Row(made, said, checked(made, result) if result.is_dir() else None)


def conversions(size: tuple[int, int] = (1920, 1080), repeats: int = 15) -> dict[str, float]:
    """What converting a picture to RGB takes, ms in one thread: the least of ``repeats``, taken in turn."""
    frames = {name: av.VideoFrame(*size, pixels) for name, (pixels, _) in _CONVERTED.items()}
    for name, (_, transfer) in _CONVERTED.items():
        frames[name].color_trc = transfer
    convert, best = ToRGB(size[0] * size[1]), dict.fromkeys(frames, float("inf"))
    cv2.setNumThreads(1)
    for _ in range(repeats):
        for name, frame in frames.items():
            start = perf_counter()
            convert(frame)
            best[name] = min(best[name], 1000 * (perf_counter() - start))
    return {name: round(ms, 1) for name, ms in best.items()}


def told(cost: dict[str, float]) -> str:
    """The same in a sentence."""
    listed = ", ".join(f"{name} {ms:.1f} ms" for name, ms in cost.items())
    return f"Converting a picture of 1920x1080 to RGB, in one thread of {machine()['processor']}: {listed}."


def facts(row: Row) -> dict[str, Any]:
    """A video in the results."""
    found = {} if row.check is None else row.check._asdict()
    return {"file": row.made.path.name, "what": row.made.what, "said": row.said, "passed": row.passed, **found}


def markdown(rows: Sequence[Row]) -> str:
    """The table, and the sum under it."""
    head = [
        "file",
        "what is odd about it",
        "frames in",
        "out",
        "at their places",
        "times, ms",
        "sound",
        "colours, of 255",
        "",
    ]
    cells = [head, *(_cells(row) for row in rows)]
    passed = sum(row.passed for row in rows)
    return f"{table(cells)}\n\n{passed} of {len(rows)} as they should be."


def _cells(row: Row) -> list[str]:
    mark = "yes" if row.passed else "**no**"
    name = f"`{row.made.path.name}`"
    if row.check is None:
        return [name, f"shared: refused ({row.said.partition('. ')[0]})", "0", "0", "", "", "", "", mark]
    found = row.check
    what = row.made.what + (f": {row.said}" if row.said else "")
    times = max(found.times_ms, found.end_ms, found.made_ms or 0.0)
    counts = [str(found.frames_in), str(found.frames_out)]
    sound = found.sound + ("" if found.sound_kept else " (not kept)")
    return [name, what, *counts, "yes" if found.in_place else "no", f"{times:.2f}", sound, f"{found.colours:.1f}", mark]


if __name__ == "__main__":
    main()
