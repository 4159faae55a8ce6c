"""What does ``clockseg segment`` make of every file in the shared folder of odd videos?

python benchmarks/odd_videos.py           results/odd_videos.json and a table: file, exit code, frames, message
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from clockseg import read_labels, read_trace
from clockseg.cli._terminal import align
from clockseg.segmenting.inputs import inputs
from provenance import write_result
from shared_data import shared_data


def segmented(file: Path, out: Path) -> dict[str, Any]:
    """What the command said, and what it left: label maps and lines of the trace must be equally many."""
    command = [sys.executable, "-m", "clockseg", "segment", "--quiet", "--out", str(out), "--", file.name]
    done = subprocess.run(command, cwd=file.parent, capture_output=True, text=True, check=False)
    [one] = inputs([str(file)])
    folder = out / one.folder
    written = folder.is_dir()
    frames = len(read_trace(folder)) if written else 0
    labels = sum(1 for _ in read_labels(folder)) if written else 0
    left = sorted(path.name for path in folder.iterdir()) if written else []
    said = [line.removeprefix("clockseg: ") for line in done.stderr.splitlines()]
    return {"file": file.name, "exit": done.returncode, "frames": frames, "labels": labels, "left": left, "said": said}


def main() -> None:
    """Segment each, write, print."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        facts = [segmented(file, Path(folder)) for file in sorted(shared_data("odd-videos").iterdir())]
    write_result("odd_videos", {"files": facts})
    rows = [[one["file"], str(one["exit"]), str(one["frames"]), "; ".join(one["said"])] for one in facts]
    print(align([["file", "exit", "frames", "message"], *rows]))


if __name__ == "__main__":
    main()
