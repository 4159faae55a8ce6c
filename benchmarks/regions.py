"""Does computing only what changed pay before a fixed camera? The tables of docs/regions.md.

python benchmarks/regions.py          results/regions.json and the tables
python benchmarks/regions.py --docs   the same, and the tables into docs/regions.md between their markers
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from clockseg import load, parse_schedule
from clockseg._keeping import everything
from clockseg._regions import Windowed
from clockseg._tiles import Box
from clockseg._together import Run
from clockseg.interleaving import Interleaving
from clockseg.session import Session, fill
from clockseg.stages import StagedNetwork
from clockseg.video import open_clip
from page import insert, table
from provenance import HERE, provenance, write_result
from shared_data import shared_data

PAGE = HERE.parent / "docs" / "regions.md"
SCHEDULES = (
    "regions(0.1, stages=1, rest=every(1))",
    "regions(0.03, stages=1, level=8, rest=every(1), most=1)",
    "regions(0.03, stages=2, level=8, halo=32, rest=every(1), most=1)",
    "regions(0.03, stages=2, level=8, halo=96, rest=every(1), most=1)",
    "regions(0.1, stages=2, halo=64, every=5)",
    "regions(0.1, stages=2, most=0.0001)",
    "regions(0.03, stages=2, level=8, most=0.0001)",
    "skip_frame(2)",
    "skip_frame(5)",
    "carried(skip_frame(5), warp(flow))",
    'difference(0.02, of="pixels")',
    'carried(difference(0.02, of="pixels"), warp(flow))',
)
"""With ``most=0.0001`` the whole frame fires as soon as one tile would: the same clock without regions."""
SIZES = ("480x288", "768x448")


def frames(skip: int, count: int) -> Iterator[np.ndarray]:
    """Pictures of the fixed camera's clip."""
    clip = open_clip(shared_data("videos", "one-by-one-person-detection.mp4"))
    return (frame.image for frame in islice(clip, skip, skip + count))


def schedules(net: StagedNetwork, names: Sequence[str], skip: int, count: int) -> list[dict[str, Any]]:
    """Agreement of pixels with the uncut network, and relative time, over the frames after the first."""
    sessions = [Session(net, parse_schedule(name)) for name in names]
    runs = Interleaving(net, sessions)
    same: list[list[float]] = [[] for _ in names]
    shares: list[list[float]] = [[] for _ in names]
    for index, image in enumerate(frames(skip, count)):
        whole, *outputs = runs(image)
        for which, (output, session) in enumerate(zip(outputs, sessions, strict=True)):
            if index:
                same[which].append(float(np.mean(output == whole)))
            if session.record.share:
                shares[which].append(session.record.share[0])
    uncut, *tallies = runs.tallies
    return [
        {
            "schedule": name,
            "agreement": statistics.fmean(same[which]),
            "worst": min(same[which]),
            "relative_time": tally.seconds / uncut.seconds,
            "fire_rate": list(tally.fire_rate.values()),
            "in_windows": len(shares[which]) / tally.later,
            "share": statistics.fmean(shares[which]) if shares[which] else None,
        }
        for which, (name, tally) in enumerate(zip(names, tallies, strict=True))
    ]


def windows(net: StagedNetwork, image: np.ndarray, repeat: int) -> list[dict[str, float]]:
    """What a window of each shape costs of the whole frame: the first two stages, and what fuses them."""
    schedule = parse_schedule("regions(0.1, stages=2)")(len(net))
    _, memory = fill(net, schedule, image)
    windowed, prepared = Windowed.of(net, schedule), net.prepare(image)
    _, height, width, _ = prepared["image"].shape
    run = Run(range(2), tuple(group.name for group in net.groups), True, everything(net))
    boxes = [Box(0, 0, *shape) for shape in windowed.shapes(prepared)] + [Box(0, 0, width, height)]
    seconds: list[list[float]] = [[] for _ in boxes]
    for _ in range(repeat + 1):
        for box, spent in zip(boxes, seconds, strict=True):
            start = time.perf_counter()
            windowed.piece(run, prepared, memory.values, box)
            spent.append(time.perf_counter() - start)
    # The first run compiled.
    medians = [statistics.median(spent[1:]) for spent in seconds]
    return [
        {"width": box.width, "height": box.height, "area": box.area / boxes[-1].area, "time": spent / medians[-1]}
        for box, spent in zip(boxes, medians, strict=True)
    ]


def main() -> None:
    """Measure, write, print."""
    args = _arguments()
    runs = [_run(args, size) for size in args.sizes]
    setting = {"frames": args.frames, "skip": args.skip}
    path = write_result("regions", setting | {"runs": runs})
    text = markdown(runs, setting)
    print(text)
    if args.docs:
        insert(PAGE, "regions", text)
    print(f"{path.relative_to(HERE.parent)} written", file=sys.stderr)


def _run(args: argparse.Namespace, size: str) -> dict[str, Any]:
    """Everything at one working size, WIDTHxHEIGHT."""
    width, height = map(int, size.split("x"))
    net = load(args.network, engine=args.engine, threads=args.threads, size=(width, height))
    found = schedules(net, args.schedules, args.skip, args.frames)
    shapes = windows(net, next(frames(args.skip, 1)), args.repeat)
    local = [net.locality(count) for count in range(1, len(net) + 1)] if net.locality else []
    looks = [{"stages": i, "reach": one.reach, "mixing": one.mixing} for i, one in enumerate(local, 1)]
    names = {"network": net.name, "engine": net.engine, "size": size}
    return names | {"schedules": found, "windows": shapes, "looks": looks}


def markdown(runs: Sequence[dict[str, Any]], setting: dict[str, Any]) -> str:
    """The tables, and a line on where they were made."""
    parts = [part for run in runs for part in _tables(run)]
    told = [["first stages", "pixels beyond its own that a place depends on"]]
    told += [[str(one["stages"]), one["mixing"] or str(one["reach"])] for one in runs[0]["looks"]]
    made = provenance()
    where = (
        f"`{runs[0]['network']}`, {setting['frames']} frames of the fixed camera's clip from frame {setting['skip']} on; "
        f"{runs[0]['engine']} on {made['machine']['cores']} cores of {made['machine']['processor']}, {made['date']}, "
        f"commit {made['commit']}. Time: relative to the uncut network; fires: share of frames; in windows: share of frames "
        "on which stage 1 fired in places; share: of the frame, what it then computed."
    )
    return "\n\n".join([*parts, table(told), where])


def _tables(run: dict[str, Any]) -> list[str]:
    """Of one working size: what schedules keep and take, and what windows take."""
    head = [
        "schedule",
        "pixels as on every frame",
        "worst frame",
        "time",
        "fires (stage 1, last)",
        "in windows",
        "share",
    ]
    rows = [head, *(_row(one) for one in run["schedules"])]
    areas = [["window", "area", "time of the whole"]]
    areas += [[f"{s['width']}x{s['height']}", f"{s['area']:.2f}", f"{s['time']:.2f}"] for s in run["windows"]]
    return [f"At {run['size']}:", table(rows), table(areas)]


def _row(one: dict[str, Any]) -> list[str]:
    rates = one["fire_rate"]
    return [
        f"`{one['schedule']}`",
        f"{100 * one['agreement']:.2f} %",
        f"{100 * one['worst']:.1f} %",
        f"{one['relative_time']:.2f}",
        f"{100 * rates[0]:.0f} %, {100 * rates[-1]:.0f} %",
        f"{100 * one['in_windows']:.0f} %",
        "-" if one["share"] is None else f"{one['share']:.2f}",
    ]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="street", metavar="street|FILE.onnx")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--schedules", nargs="+", default=SCHEDULES)
    parser.add_argument("--skip", type=int, default=150, help="frames of the clip to leave out (default: 150)")
    parser.add_argument("--frames", type=int, default=200)
    parser.add_argument("--sizes", nargs="+", default=SIZES, metavar="WIDTHxHEIGHT")
    parser.add_argument("--repeat", type=int, default=9, help="runs of each window")
    parser.add_argument("--docs", action="store_true", help="put the tables into docs/regions.md")
    return parser.parse_args()


if __name__ == "__main__":
    main()
