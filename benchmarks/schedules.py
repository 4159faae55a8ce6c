"""What do schedules keep, and what do they cost? The README's table, on the dense CamVid clip.

python benchmarks/schedules.py            results/schedules.json and the table
python benchmarks/schedules.py --readme   the same, and the table into README.md between its markers
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace

from clockseg import load, parse_schedule
from clockseg.cli._options import recommended
from clockseg.cli._terminal import percent, shown
from clockseg.clockwork.trace import Progress
from clockseg.datasets import read_clips
from clockseg.evaluation.labels import Evaluation, evaluate
from page import README, insert, table
from provenance import HERE, provenance, write_result
from shared_data import shared_data

THRESHOLDS = (0.1, 0.15, 0.2)


def names(thresholds: Sequence[float]) -> list[str]:
    """The schedules of the table, as the command line writes them."""
    adaptive = [f"adaptive({threshold:g})" for threshold in thresholds]
    fixed = ["frame_oracle", "alternating", "fixed_rate((1, 2, 2))", "skip_frame(2)", "skip_frame(4)", "exponential"]
    moved = [f"carried(skip_frame({n}), warp(flow))" for n in (2, 4, 8)]
    return [*fixed, *adaptive, "pipelined(2)", "pipelined(3)", *moved]


def main() -> None:
    """Evaluate, write, print."""
    args = _arguments()
    net = load(args.network, engine=args.engine, threads=args.threads)
    clips = read_clips(shared_data("camvid", "val"), limit=args.limit)
    wanted = dict.fromkeys([*names(args.thresholds), recommended(net)])
    schedules = [(name, parse_schedule(name)) for name in wanted]
    passes = [evaluate(net, schedules, clips, progress=_told) for _ in range(args.passes)]
    found = [_pooled(each) for each in zip(*passes, strict=True)]
    print(file=sys.stderr)
    setting = {"network": net.name, "engine": net.engine, "data": "CamVid val", "frames": found[0].tally.frames,
               "passes": args.passes}  # fmt: skip
    path = write_result("schedules", setting | {"schedules": [one.facts() for one in found]})
    text = markdown(found, net.engine)
    print(text)
    if args.readme:
        insert(README, "schedules", text)
    print(f"{path.relative_to(HERE.parent)} written", file=sys.stderr)


def markdown(found: Sequence[Evaluation], engine: str) -> str:
    """The table, and a line on where it was made."""
    stages = list(found[0].tally.fire_rate)
    head = ["schedule", "mean IU", "kept", "agreement", *(f"fires: {stage}" for stage in stages), "ms a frame", "time"]
    made = provenance()
    where = (
        f"CamVid val, {found[0].tally.frames} frames at 15 Hz, 480x360; {engine} on {made['machine']['cores']} cores of "
        f"{made['machine']['processor']}, {made['date']}, commit {made['commit']}. "
        "Kept: share of the uncut network's mean IU; agreement: mean IU against its labels; time: relative to it."
    )
    return f"{table([head, *(_row(one) for one in found)])}\n\n{where}"


def _pooled(passes: Sequence[Evaluation]) -> Evaluation:
    """One pass's scores, which repeat exactly, with the mean of all passes' seconds."""
    first = passes[0]
    seconds = statistics.fmean(one.tally.seconds for one in passes)
    uncut = statistics.fmean(one.uncut.seconds for one in passes)
    return replace(first, tally=replace(first.tally, seconds=seconds), uncut=replace(first.uncut, seconds=uncut))


def _row(one: Evaluation) -> list[str]:
    facts = one.facts()
    return [
        f"`{one.schedule}`",
        percent(facts["mean_iu"]),
        percent(one.kept),
        percent(facts["agreement"]["mean_iu"]),
        *(shown(rate, lambda value: f"{100 * value:.0f} %") for rate in one.tally.fire_rate.values()),
        shown(facts["seconds_per_frame"], lambda seconds: f"{1000 * seconds:.1f}"),
        shown(facts["relative_time"], lambda value: f"{value:.2f}"),
    ]


def _told(at: Progress) -> None:
    if at.done % 10 == 0:
        print(f"\r{at.clip}: {at.done} of {at.expected} frames", end="", file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="street", metavar="street|FILE.onnx")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--thresholds", type=float, nargs="+", default=THRESHOLDS, help="of adaptive")
    parser.add_argument("--limit", type=int, help="frames of the clip")
    parser.add_argument("--passes", type=int, default=3, help="over the clip; their times are pooled (default: 3)")
    parser.add_argument("--readme", action="store_true", help="put the table into README.md")
    return parser.parse_args()


if __name__ == "__main__":
    main()
