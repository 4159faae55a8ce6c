"""Pages of the bundled weights, and where their figures come from."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import RESULTS, ROOT, provenance
from benchmarks.harness import table as listed
from clockseg.evaluation.metrics import Confusion

WEIGHTS = ROOT / "src" / "clockseg" / "networks" / "weights"
RECIPES = ROOT / "recipes"


def insert(page: Path, name: str, text: str) -> None:
    """Put ``text`` between ``<!-- NAME:start -->`` and ``<!-- NAME:end -->``; end the program if the page lacks them."""
    start, end = f"<!-- {name}:start -->", f"<!-- {name}:end -->"
    before, found, rest = page.read_text(encoding="utf-8").partition(start)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise SystemExit(f"{page.name} lacks the markers {start} and {end}.")
    page.write_text(f"{before}{start}\n{text}\n{end}{after}", encoding="utf-8")


def write_result(name: str, figures: Mapping[str, Any]) -> Path:
    """Write results/NAME.json with the figures and where they come from."""
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"provenance": provenance(), **figures}, indent=1, allow_nan=False) + "\n")
    return path


def finish(args: Any, name: str, figures: Mapping[str, Any], card: Path, marker: str, text: str) -> None:
    """Print a card's text, write results/NAME.json, and with --card the text into the card."""
    print(text)
    print(f"{write_result(name, figures).relative_to(ROOT)} written")
    if args.card:
        insert(card, marker, text)


def write_metrics(recipe: str, network: str, figures: Mapping[str, Any]) -> None:
    """Write recipes/RECIPE/results/NETWORK-metrics.json."""
    said = json.dumps({"provenance": provenance(), **figures}, indent=1) + "\n"
    (RECIPES / recipe / "results" / f"{network}-metrics.json").write_text(said)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as Markdown, the first as the head."""
    return listed(rows[0], rows[1:])


def trained(log: Path) -> dict[str, Any]:
    """Return the first entry of a training's log with its steps and minutes, and the views that the network saw."""
    entries = read_log(log)
    last = [entry for entry in entries if entry["event"] == "step"][-1]
    views = last["step"] * entries[0]["recipe"]["batch"]
    return entries[0] | {"steps": last["step"], "minutes": last["minutes"], "views": views}


def read_log(log: Path) -> list[dict[str, Any]]:
    """Return the entries of a training's log."""
    return [json.loads(line) for line in log.read_text().splitlines()]


def facts(scores: Confusion, classes: Sequence[str]) -> dict[str, Any]:
    """Fractions of 1."""
    iu = {name: None if np.isnan(one) else round(float(one), 4) for name, one in zip(classes, scores.iu, strict=True)}
    return {"mean_iu": round(scores.mean_iu, 4), "pixel_acc": round(scores.pixel_acc, 4), "iu": iu}


def percent(share: float | None) -> str:
    """One decimal, or a dash where a class is absent."""
    return "–" if share is None else f"{100 * share:.1f}"


def arguments(doc: str | None, *, threads: int | None, **paths: Any) -> argparse.Namespace:
    """Parse the options of a card's script: --threads, --card, --repeat, and those of `paths` with their settings."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=threads)
    parser.add_argument("--card", action="store_true", help="write the card's figures")
    for name, settings in paths.items():
        parser.add_argument(name if name.isupper() else f"--{name.replace('_', '-')}", **settings)
    return parser.parse_args()
