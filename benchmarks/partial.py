"""Does partial firing pay: a stage at double stride on one frame, in full on the next (the paper's dynamic striding)?

python benchmarks/partial.py          results/partial.json and the table
python benchmarks/partial.py --docs   the same, and the table into docs/regions.md between its markers
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from clockseg import Session, load
from clockseg.commands._table import percent
from clockseg.datasets import read_clips
from clockseg.graph.part import FRAME_SIZE, IMAGE
from clockseg.metrics import Confusion, confusion
from clockseg.schedule import Schedule, alternating, fixed_rate, frame_oracle, skip_frame
from clockseg.stages import Part, StagedNetwork
from page import insert, table
from provenance import HERE, provenance, write_result
from shared_data import shared_data

PAGE = HERE.parent / "docs" / "regions.md"


def coarse(net: StagedNetwork, first: int) -> StagedNetwork:
    """``net`` with the stages from ``first`` (0 is the first) on at double stride: half of what they read, then enlarged."""
    multiple = net.sidecar.input.pad_multiple
    stages = list(net.stages)
    for index in range(first, len(stages)):
        stages[index] = replace(stages[index], body=_halved(stages[index].body, multiple))
    return replace(net, stages=tuple(stages), joined=None)


def _halved(body: Part, multiple: int) -> Part:
    def run(value: dict[str, Any]) -> dict[str, Any]:
        width, height = value[FRAME_SIZE] if FRAME_SIZE in value else value[IMAGE].shape[2:0:-1]
        small = [-(-int(side) // (2 * multiple)) * multiple for side in (width, height)]
        given = {name: _smaller(array, (int(width), int(height)), small) for name, array in value.items()}
        made = body({**given, FRAME_SIZE: np.array(small)})
        full = {name: _larger(array, (int(width), int(height)), small) for name, array in made.items()}
        return {**full, FRAME_SIZE: np.array((width, height))}

    return run


def _smaller(array: Any, size: tuple[int, int], small: Sequence[int]) -> Any:
    """The mean of two by two places, and the edge repeated up to the size that the network takes."""
    if array.ndim != 4:
        return array
    maps = array.transpose(0, 3, 1, 2) if array.dtype == np.uint8 else array
    stride = size[0] // maps.shape[3]
    pads = [(0, 2 * side // stride - length) for side, length in zip(reversed(small), maps.shape[2:], strict=True)]
    full = np.pad(maps.astype(np.float32), [(0, 0), (0, 0), *pads], mode="edge")
    half = full.reshape(*full.shape[:2], full.shape[2] // 2, 2, full.shape[3] // 2, 2).mean((3, 5))
    return np.rint(half).astype(np.uint8).transpose(0, 2, 3, 1) if array.dtype == np.uint8 else half.astype(array.dtype)


def _larger(array: Any, size: tuple[int, int], small: Sequence[int]) -> Any:
    """Each place four times, and what was padded cut off."""
    if array.ndim != 4:
        return array
    stride = small[0] // array.shape[3]
    full = array.repeat(2, axis=2).repeat(2, axis=3)
    return np.ascontiguousarray(full[:, :, : size[1] // stride, : size[0] // stride])


def runners(net: StagedNetwork) -> dict[str, Callable[[int, np.ndarray], np.ndarray]]:
    """By name, what gives the labels of frame t."""
    uncut = net.uncut()
    halves = {first: coarse(net, first) for first in range(len(net))}

    def every_other(small: StagedNetwork) -> Callable[[int, np.ndarray], np.ndarray]:
        return lambda t, image: (small if t % 2 else net)(image)

    def held(schedule: Schedule) -> Callable[[int, np.ndarray], np.ndarray]:
        session = Session(net, schedule)
        return lambda t, image: session(image)

    found = {"uncut": lambda t, image: uncut(image), "every stage in full": held(frame_oracle(len(net)))}
    for first, small in reversed(halves.items()):
        stages = "all stages" if first == 0 else f"stage {first + 1}" + (" and later" if first < len(net) - 1 else "")
        found[f"{stages} at double stride on every other frame"] = every_other(small)
    last = len(net)
    found[f"stage {last} held on every other frame"] = held(alternating(last))
    found["stage 2 and later held on every other frame"] = held(fixed_rate((1, *(2,) * (last - 1)))(last))
    found["all stages held on every other frame"] = held(skip_frame(2)(last))
    return found


def measured(net: StagedNetwork, limit: int) -> list[dict[str, Any]]:
    """Mean IU against human labels and relative time of each, interleaved frame by frame."""
    ways = runners(net)
    classes = len(net.sidecar.classes)
    scores = {name: Confusion.none(classes) for name in ways}
    seconds = dict.fromkeys(ways, 0.0)
    [clip] = read_clips(shared_data("camvid", "val"), limit=limit)
    for t, frame in enumerate(clip):
        for name, run in ways.items():
            start = time.perf_counter()
            labels = run(t, frame.image)
            seconds[name] += time.perf_counter() - start if t > 1 else 0.0  # the first two compile
            if frame.labels is not None:
                scores[name] += confusion(frame.labels, labels, classes)
    return [
        {"way": name, "mean_iu": scores[name].mean_iu, "relative_time": seconds[name] / seconds["uncut"]}
        for name in ways
    ]


def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="street", metavar="street|FILE.onnx")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--limit", type=int, default=101, help="frames of the clip")
    parser.add_argument("--docs", action="store_true", help="put the table into docs/regions.md")
    args = parser.parse_args()
    net = load(args.network, threads=args.threads)
    found = measured(net, args.limit)
    path = write_result("partial", {"network": net.name, "engine": net.engine, "frames": args.limit, "ways": found})
    best = found[0]["mean_iu"]
    rows = [["", "mean IU", "kept", "time"]]
    rows += [
        [one["way"], percent(one["mean_iu"]), percent(one["mean_iu"] / best), f"{one['relative_time']:.2f}"]
        for one in found
    ]
    made = provenance()
    where = (
        f"`{net.name}`, CamVid val, {args.limit} frames; {net.engine} on {made['machine']['cores']} cores of "
        f"{made['machine']['processor']}, {made['date']}, commit {made['commit']}. Time: relative to the uncut network."
    )
    text = f"{table(rows)}\n\n{where}"
    print(text)
    if args.docs:
        insert(PAGE, "partial", text)
    print(f"{path.relative_to(HERE.parent)} written", file=sys.stderr)


if __name__ == "__main__":
    main()
