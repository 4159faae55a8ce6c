"""Every table and figure of the paper on stand-ins, into docs/reproduced: ``python benchmarks/reproduce.py [NAME..]``.

Needs the shared data folder. Each experiment's page says what it measured; README.md beside them lists the claims, and
machine, commit and date of the run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from clockseg.commands.reproduce import EXPERIMENTS
from clockseg.experiments.claims import Claim
from provenance import HERE, provenance
from shared_data import shared_data

OUT = HERE.parent / "docs" / "reproduced"
HEAD = """\
# The paper on stand-ins

Neither the paper's data sets nor its authors' weights come with clockseg. These are the paper's protocols on what does:
the bundled network `street` in three stages, on CamVid's dense clip (translated stills of it; every 1st, 5th and 10th
frame) and on videos. `clockseg reproduce NAME --data DIR --weights DIR` runs the same on the paper's own.
"""


def main() -> None:
    """Run what is named, or all, and write the index."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="which experiments (default: all)")
    seconds = {name: reproduce(name) for name in parser.parse_args().names or EXPERIMENTS}
    runs = OUT / "runs.json"
    before: dict[str, Any] = json.loads(runs.read_text()) if runs.is_file() else {}
    now = {name: {"minutes": round(spent / 60, 1), **provenance()} for name, spent in seconds.items()}
    runs.write_text(json.dumps(before | now, indent=1) + "\n")
    (OUT / "README.md").write_text(index(before | now))


def reproduce(name: str) -> float:
    """Run one experiment; returns how many seconds it took."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "clockseg", "reproduce", name, "--standin"]
    subprocess.run([*command, "--data", str(shared_data()), "--out", str(OUT)], check=True)
    for strip in OUT.glob("*.png"):
        # Of filmstrips the PNG is enough, of curves the SVG.
        (strip if is_drawn(strip.with_suffix(".svg")) else strip.with_suffix(".svg")).unlink(missing_ok=True)
    return time.perf_counter() - start


def is_drawn(path: Path) -> bool:
    """Whether an SVG is lines and letters, without pictures in it."""
    return path.is_file() and b"data:image" not in path.read_bytes()


def index(runs: dict[str, Any]) -> str:
    """The page that lists the experiments and what became of the paper's claims."""
    parts = [HEAD]
    for name, what in EXPERIMENTS.items():
        if name not in runs:
            continue
        facts, run = json.loads((OUT / f"{name}.json").read_text()), runs[name]
        where = run["machine"]
        parts.append(f"## [{facts['title']}]({name}.md)\n\n{what[0].upper()}{what[1:]}.\n")
        claims = [Claim(**claim) for claim in facts["claims"] if not claim["where"].endswith((", paper", ", notebook"))]
        parts.append("\n".join(f"* {claim}" for claim in claims) + "\n")
        parts.append(
            f"{run['minutes']} minutes on {where['cores']} cores of {where['processor']}, {run['date']}, "
            f"commit {run['commit']}.\n"
        )
    return "\n".join(parts)


if __name__ == "__main__":
    main()
