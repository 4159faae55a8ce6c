"""Does a stage gain from batching the streams on which it fires? The table of docs/live.md.

Each stage of the bundled network, compiled by OpenVINO as the engine compiles it, for one frame and for several at once;
the ways take turns, in another order each round.

    python benchmarks/live_batching.py           results/live_batching.json and the table
    python benchmarks/live_batching.py --docs    the same, and the table into docs/live.md between its markers
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import openvino as ov

from clockseg import load
from clockseg.execution.machine import threads_or_all
from clockseg.graph.part import GraphPart
from page import insert, table
from provenance import HERE, provenance, write_result

DOCS = HERE.parent / "docs" / "live.md"
SIZE = (480, 384)
"""480x360 as the network pads it."""


def main() -> None:
    """Measure, write, print."""
    args = _arguments()
    load_average = os.getloadavg()[0]
    threads = threads_or_all(args.threads)
    net = load("street", engine=None)
    stages = [measured(stage.name, stage.body, threads, args) for stage in net.stages]
    setting = {"network": net.name, "threads": threads, "load_average": round(load_average, 2), "rounds": args.rounds}
    path = write_result("live_batching", setting | {"stages": stages})
    text = shown(stages, setting)
    print(text)
    if args.docs:
        insert(DOCS, "live-batching", text)
    print(f"{path.relative_to(HERE.parent)} written", file=sys.stderr)


def measured(name: str, part: Any, threads: int, args: argparse.Namespace) -> dict[str, Any]:
    """Milliseconds a frame of one stage, by how many frames are run at once, and the ratio to one at a time."""
    ways = {count: _compiled(part, count, threads) for count in args.batches}
    took: dict[int, list[float]] = {count: [] for count in ways}
    for number in range(args.rounds + 1):
        for count in random.Random(number).sample(list(ways), len(ways)):
            ways[count]()
            begun = time.perf_counter()
            for _ in range(args.repeats):
                ways[count]()
            if number:
                took[count].append((time.perf_counter() - begun) / args.repeats / count)
    return {
        "stage": name,
        "ms_a_frame": {str(count): round(1000 * median(seconds), 3) for count, seconds in took.items()},
        "relative": {
            str(count): round(median(a / b for a, b in zip(seconds, took[1], strict=True)), 4)
            for count, seconds in took.items()
        },
    }


def _compiled(part: GraphPart, count: int, threads: int) -> Callable[[], None]:
    core = ov.Core()
    model = core.read_model(part.build(SIZE).model)
    model.reshape({port.any_name: [count, *port.shape[1:]] for port in model.inputs})
    options = {"PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1, "INFERENCE_NUM_THREADS": threads}
    made = core.compile_model(model, "CPU", options)
    request = made.create_infer_request()
    rng = np.random.default_rng(0)
    for port in made.inputs:
        values = rng.random(tuple(port.shape))
        dtype = port.element_type.to_dtype()
        request.set_tensor(port, ov.Tensor((values * 255 if dtype == np.uint8 else values).astype(dtype)))
    return request.infer


def shown(stages: list[dict[str, Any]], setting: dict[str, Any]) -> str:
    """The table, and where it was made."""
    counts = list(stages[0]["ms_a_frame"])
    head = ["stage", *(f"{count} at once" if count != "1" else "one by one" for count in counts)]
    rows = [
        [one["stage"], *(f"{one['ms_a_frame'][count]:.1f} ms ({one['relative'][count]:.2f})" for count in counts)]
        for one in stages
    ]
    made = provenance()
    return (
        f"{table([head, *rows])}\n\nTime a frame, and in brackets relative to one by one. `{setting['network']}`, openvino, "
        f"{setting['threads']} threads on {made['machine']['cores']} cores of {made['machine']['processor']}, {made['date']}, "
        f"commit {made['commit']}. Load average at the start: {setting['load_average']:.1f}."
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--batches", type=int, nargs="*", default=(1, 2, 4), help="frames at once; 1 is always among them"
    )
    parser.add_argument("--threads", type=int)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--docs", action="store_true", help="put the table into docs/live.md")
    args = parser.parse_args()
    args.batches = sorted({1, *args.batches})
    return args


if __name__ == "__main__":
    main()
