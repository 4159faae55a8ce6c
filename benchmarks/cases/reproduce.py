"""Every table and figure of the paper on stand-ins for its data and weights, into results/reproduced.

Each experiment's page says what it measured; README.md above them lists the claims, with machine, commit and date.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from argparse import Namespace

from benchmarks.harness import RESULTS, ROOT, Facts, provenance, where
from benchmarks.inputs import data
from clockseg.cli.reproduce import EXPERIMENTS
from clockseg.paper.report import Claim

OPTIONS: Facts = {"names": [], "standins": ["street", "fcn8s-narrow"]}
OUT = RESULTS / "reproduced"
STANDINS = {
    "street": "the bundled network, in three stages, and the networks that end after its first and second",
    "fcn8s-narrow": "the paper's architecture with an eighth of its channels, trained from scratch",
}
NETWORKS = {
    "street": ["--standin", "street", "--weights", "recipes/street/weights"],
    "fcn8s-narrow": ["--standin", "recipes/fcn/weights/fcn8s-narrow.onnx"],
}
"""Options of ``clockseg reproduce`` for each stand-in, with paths from the root of the repository."""
VIDEOS = "adaptive-videos"
"""Of single videos one stand-in's table is enough."""
FIRST = "## `street`"
"""The heading of README.md from which on it is written anew; what stands above it is written by hand."""


def measure(asked: Namespace) -> Facts:
    """Run the experiments that are named, or all."""
    for standin in asked.standins:
        for name in asked.names or EXPERIMENTS:
            if standin == "street" or name != VIDEOS:
                reproduce(name, standin)
    return {}


def pages(facts: Facts) -> dict[str, str]:
    """Return no page; ``write`` makes it."""
    return {}


def write(facts: Facts) -> None:
    """Write the claims that hold on each stand-in into results/reproduced/README.md."""
    page = OUT / "README.md"
    above = page.read_text().partition(FIRST)[0]
    page.write_text(above + "\n".join(section(standin) for standin in STANDINS))


def reproduce(name: str, standin: str) -> None:
    """Run one experiment, and note where and when."""
    start, folder = time.perf_counter(), OUT / standin
    command = [sys.executable, "-m", "clockseg", "reproduce", name, *NETWORKS[standin]]
    subprocess.run([*command, "--data", str(data()), "--out", str(folder)], check=True, cwd=ROOT)
    for curves in folder.glob("*.png"):
        curves.unlink()  # the SVG is enough
    runs = read_runs(standin) | {name: {"minutes": round((time.perf_counter() - start) / 60, 1), **provenance()}}
    (folder / "runs.json").write_text(json.dumps(runs, indent=1) + "\n")


def read_runs(standin: str) -> Facts:
    """Return minutes, machine, commit and date of each experiment that was run."""
    path = OUT / standin / "runs.json"
    return dict(json.loads(path.read_text())) if path.is_file() else {}


def section(standin: str) -> str:
    """Return the paper's claims as they hold on one stand-in."""
    parts, runs = [f"## `{standin}`\n\n{STANDINS[standin][0].upper()}{STANDINS[standin][1:]}.\n"], read_runs(standin)
    for name in (one for one in EXPERIMENTS if one in runs):
        facts = json.loads((OUT / standin / f"{name}.json").read_text())
        claims = [Claim(**claim) for claim in facts["claims"] if not claim["where"].endswith((", paper", ", notebook"))]
        parts.append(f"### [{facts['title']}]({standin}/{name}.md)\n")
        parts.append("\n".join(f"* {claim}" for claim in claims) + "\n")
        parts.append(f"{runs[name]['minutes']} minutes on {where({'provenance': runs[name]})}\n")
    return "\n".join(parts)
