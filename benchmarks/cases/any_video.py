"""Frames, times, sound and colours of unusual videos through `segment`: fifty made with PyAV, and the shared odd ones.

The network of the tests tells bright from dark, so that labels show which frame they belong to; colours are compared with a
conversion by the standards' formulas, times, sound and counts with what FFmpeg decodes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any

from benchmarks.harness import Facts, table
from benchmarks.inputs import data
from clockseg.segmenting.inputs import inputs

OPTIONS: Facts = {}


def measure(asked: Namespace) -> Facts:
    """Run each video through the command, and compare."""
    from bright_network import write_bright
    from video_axes import Made, made_videos

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "in").mkdir()
        network, odd = str(write_bright(folder)), sorted(data("odd-videos").iterdir())
        videos = [*made_videos(folder / "in"), *(Made("shared", path, ()) for path in odd)]
        rows = [_row(made, network, folder / str(number)) for number, made in enumerate(videos)]
    return {"videos": rows, "passed": all(row["passed"] for row in rows)}


def _row(made: Any, network: str, out: Path) -> Facts:
    """Return what came of a video; one that is refused must be one of which nothing can be decoded, with the reason."""
    from video_checks import checked

    command = [sys.executable, "-m", "clockseg", "segment", "--quiet", "--network", network, "--out", str(out)]
    done = subprocess.run([*command, "--", str(made.path)], capture_output=True, text=True, check=False)
    said = "; ".join(line.partition(str(made.path))[2].lstrip(": ") for line in done.stderr.splitlines())
    [one] = inputs([str(made.path)])
    check = checked(made, out / one.folder) if (out / one.folder).is_dir() else None
    facts = {"file": made.path.name, "what": made.what, "said": said}
    return facts | {"passed": bool(said) if check is None else check.passed} | (check._asdict() if check else {})


def pages(facts: Facts) -> dict[str, str]:
    """One row a video."""
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
    passed = sum(row["passed"] for row in facts["videos"])
    found = table(head, [_cells(row) for row in facts["videos"]])
    return {"any-video": f"{found}\n\n{passed} of {len(facts['videos'])} as they should be."}


def _cells(row: Facts) -> list[str]:
    mark, name = "yes" if row["passed"] else "**no**", f"`{row['file']}`"
    if "frames_in" not in row:
        return [name, f"shared: refused ({row['said'].partition('. ')[0]})", "0", "0", "", "", "", "", mark]
    what = row["what"] + (f": {row['said']}" if row["said"] else "")
    times = max(row["times_ms"], row["end_ms"], row["made_ms"] or 0.0)
    sound = row["sound"] + ("" if row["sound_kept"] else " (not kept)")
    counts = [str(row["frames_in"]), str(row["frames_out"]), "yes" if row["in_place"] else "no"]
    return [name, what, *counts, f"{times:.2f}", sound, f"{row['colours']:.1f}", mark]
