"""Run the paper's tables and figures on stand-ins, into results/reproduced: ``python benchmarks/reproduce.py [NAME..]``.

Needs the shared data folder. Each experiment has a page of results; README.md lists the claims of all of them, with
machine, commit and date of each run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from clockseg.cli.reproduce import EXPERIMENTS
from clockseg.paper.claims import Claim
from provenance import HERE, provenance
from shared_data import shared_data

OUT = HERE / "results" / "reproduced"
STANDINS = {
    "street": "the bundled network, in three stages, and the networks that end after its first and second",
    "fcn8s-narrow": "the paper's architecture with an eighth of its channels, trained from scratch",
}
PICTURES = ("adaptive-videos", "qualitative")
"""Of videos and pictures one stand-in's are enough."""
HEAD = """\
# The paper on stand-ins

Neither the paper's data sets nor its authors' weights come with clockseg. These are the paper's protocols run on CamVid's
labelled clip (translated stills of it, and every 1st, 5th and 10th frame) and on videos, with bundled networks. `clockseg
reproduce NAME --data DIR --weights DIR` runs the same protocols on the paper's own data. Listed is which of the paper's
claims hold for the measured figures; the pages also list the published ones. Why claims fail here is explained in
[Reproduce the paper](../../../docs/reproduce.md#results-on-stand-ins).
"""


def main() -> None:
    """Run what is named, or all, and write the index."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="which experiments (default: all)")
    parser.add_argument("--standin", choices=STANDINS, help="on which stand-in (default: each)")
    args = parser.parse_args()
    for standin in [args.standin] if args.standin else STANDINS:
        for name in args.names or EXPERIMENTS:
            if standin == "street" or name not in PICTURES:
                reproduce(name, standin)
    write_index()


def write_index() -> None:
    """The page above all."""
    (OUT / "README.md").write_text("\n".join([HEAD, *(section(standin) for standin in STANDINS)]))


def reproduce(name: str, standin: str) -> None:
    """Run one experiment, and note where and when."""
    start, folder = time.perf_counter(), OUT / standin
    command = [sys.executable, "-m", "clockseg", "reproduce", name, "--standin", standin]
    subprocess.run([*command, "--data", str(shared_data()), "--out", str(folder)], check=True)
    for strip in folder.glob("*.png"):
        # Of filmstrips the PNG is enough, of curves the SVG.
        (strip if is_drawn(strip.with_suffix(".svg")) else strip.with_suffix(".svg")).unlink(missing_ok=True)
    runs = read_runs(standin) | {name: {"minutes": round((time.perf_counter() - start) / 60, 1), **provenance()}}
    (folder / "runs.json").write_text(json.dumps(runs, indent=1) + "\n")


def is_drawn(path: Path) -> bool:
    """Whether an SVG is lines and letters, without pictures in it."""
    return path.is_file() and b"data:image" not in path.read_bytes()


def read_runs(standin: str) -> dict[str, Any]:
    """Minutes, machine, commit and date of each experiment that was run."""
    path = OUT / standin / "runs.json"
    return dict(json.loads(path.read_text())) if path.is_file() else {}


def section(standin: str) -> str:
    """What became of the paper's claims on one stand-in."""
    parts, runs = [f"## `{standin}`\n\n{STANDINS[standin][0].upper()}{STANDINS[standin][1:]}.\n"], read_runs(standin)
    for name in EXPERIMENTS:
        if name not in runs:
            continue
        facts, run = json.loads((OUT / standin / f"{name}.json").read_text()), runs[name]
        parts.append(f"### [{facts['title']}]({standin}/{name}.md)\n")
        claims = [Claim(**claim) for claim in facts["claims"] if not claim["where"].endswith((", paper", ", notebook"))]
        parts.append("\n".join(f"* {claim}" for claim in claims) + "\n")
        where = f"{run['machine']['cores']} cores of {run['machine']['processor']}"
        parts.append(f"{run['minutes']} minutes on {where}, {run['date']}, commit {run['commit']}.\n")
    return "\n".join(parts)


if __name__ == "__main__":
    main()
