"""What training for staleness gives: mean IU kept at one frame in 2, 4, 8 and 12, with the correction and without.

python benchmarks/stale.py                       results/stale.json and the tables, of the bundled network
python benchmarks/stale.py FILE.onnx ...         of these files that `clockseg train stale` wrote
python benchmarks/stale.py .. --docs             the same, and the tables into results/stale.md between its markers

CamVid's dense clip, human labels. Where a correction reads a stage, the stages up to that run on every frame; where it reads
the picture, none does. What it costs is timed against the uncut network, the two by turns.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from clockseg import load
from clockseg.carry import Flow, Warp
from clockseg.cli._terminal import percent
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import frame_oracle
from clockseg.clockwork.step import fill
from clockseg.datasets import Clip, read_data
from clockseg.training.stale_score import RATES, score_clips
from page import insert, table
from provenance import HERE, provenance, write_result
from shared_data import shared_data

SCALES = (0.5, 0.75)
"""Of flow: the default, and finer."""


def main() -> None:
    """Score, time, write."""
    args = _arguments()
    clips = read_data(shared_data("camvid", "val"), limit=args.limit)
    rows = [_one(args, network, clips, Flow(scale)) for network in args.networks for scale in SCALES]
    path = write_result("stale", {"engine": args.engine, "threads": args.threads, "networks": rows})
    text = markdown(rows)
    print(text)
    if args.docs:
        insert(HERE.parent / "docs" / "stale.md", "stale", text)
    print(f"{path.relative_to(HERE.parent)} written", file=sys.stderr)


def _one(args: argparse.Namespace, network: str, clips: list[Clip], flow: Flow) -> dict[str, Any]:
    net = load(network, engine=args.engine, threads=args.threads)
    if net.correction is None:
        sys.exit(f"{network} has no correction; train one: clockseg train stale {network} DATA --out DIR")
    plain = replace(net, correction=None)
    warp = Warp(flow, of="fused")
    costs = _costs(net, clips[0], warp)
    found = {"network": net.name, "flow": str(flow), "reads": net.correction.reads or "frame", "costs": costs}
    return found | score_clips(plain, net, warp, clips)


def _costs(net: StagedNetwork, clip: Clip, warp: Warp, frames: int = 40) -> dict[str, float]:
    """Median seconds over those of the uncut network: of the correction, with what it makes the output of, and beside it of
    motion and moving, and of making the output of moved scores without a correction."""
    correction = net.correction
    concluded, whole = net.conclude or net.finish, net.uncut()
    spent: dict[str, list[float]] = {"correction": [], "plain": [], "motion": [], "whole": []}
    before = None
    for frame in replace(clip, limit=frames):
        _, memory = fill(net, frame_oracle(len(net)), frame.image)
        prepared = net.prepare(frame.image)
        start = time.perf_counter()
        sight = warp.see(prepared, frame.image, None)
        motion = None if before is None else warp.observe(before, sight)
        moved = warp.move(net.fused(memory.fused.trunk.value), motion)
        spent["motion"].append(time.perf_counter() - start)
        before = sight
        if motion is None:
            continue
        names = [stage.name for stage in net.stages]
        seen = prepared if correction.reads is None else memory.stages[names.index(correction.reads)].trunk.value
        _time(spent["correction"], correction.part, seen, moved, warp.unexplained(moved, motion))
        _time(spent["plain"], concluded, moved)
        _time(spent["whole"], whole, frame.image)
    medians = {name: statistics.median(each[2:]) for name, each in spent.items()}
    return {name: round(medians[name] / medians["whole"], 4) for name in ("correction", "plain", "motion")}


def _time(spent: list[float], part: Callable[..., Any], *values: Any) -> None:
    start = time.perf_counter()
    part(*values)
    spent.append(time.perf_counter() - start)


def markdown(rows: list[dict[str, Any]]) -> str:
    """A table of what is kept, one of what it costs, and a line on where they were made."""
    head = ["network", "flow", "reads", "every frame", *(f"1/{rate}" for rate in RATES)]
    kept = [head]
    for row in rows:
        for how in ("moved", "corrected"):
            shares = [
                f"{percent(row['kept'][f'{how} 1/{rate}'])} ({percent(row['mean_iu'][f'{how} 1/{rate}'])})"
                for rate in RATES
            ]
            reads = row["reads"] if how == "corrected" else "moved only"
            kept.append([row["network"], row["flow"], reads, percent(row["mean_iu"]["every 1/1"]), *shares])
    costs = [["network", "flow", "reads", "correction and output", "output of moved scores alone", "motion and moving"]]
    for row in rows:
        cost = row["costs"]
        costs.append(
            [
                row["network"],
                row["flow"],
                row["reads"],
                *(percent(cost[name]) for name in ("correction", "plain", "motion")),
            ]
        )
    made = provenance()
    where = (
        f"Kept, in brackets mean IU; costs as shares of the uncut network's time on a frame. {made['machine']['cores']} cores "
        f"of {made['machine']['processor']}, {made['date']}, commit {made['commit']}."
    )
    return f"{table(kept)}\n\n{table(costs)}\n\n{where}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=["street-stale", "street-large"], metavar="FILE.onnx")
    parser.add_argument("--engine", default="openvino")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--limit", type=int, help="frames of the clip")
    parser.add_argument("--docs", action="store_true", help="put the tables into results/stale.md")
    return parser.parse_args()


if __name__ == "__main__":
    main()
