"""What do pipelines gain here, in latency, in throughput, and on a stream? The tables of docs/pipelines.md.

Frames of the dense CamVid clip through the bundled network, everything on the same number of threads.

    python benchmarks/pipelines.py           results/pipelines.json and the tables
    python benchmarks/pipelines.py --docs    the same, and the tables into docs/pipelines.md between their markers
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import islice
from typing import Any

from clockseg import ClocksegError, Session, frame_oracle, load, parse_schedule
from clockseg.cli import _streaming as streaming
from clockseg.cli import bench
from clockseg.clockwork.network import StagedNetwork
from clockseg.datasets import Clip, read_clips
from clockseg.evaluation.latency import Latency, measure, pipeline_runners
from clockseg.evaluation.streaming import Streamed, evaluate_streaming
from clockseg.execution.machine import threads_or_all
from clockseg.execution.pipeline import How, Runner, Threaded, running, stage_seconds
from page import insert, table
from provenance import HERE, provenance, write_result
from shared_data import shared_data

DOCS = HERE.parent / "docs" / "pipelines.md"
BASELINES = ("street-stride8", "street-stride16")
STREAMED: tuple[tuple[str, How], ...] = (
    ("alternating", "serial"),
    ("skip_frame(2)", "serial"),
    *((f"pipelined({k})", how) for k in (2, 3) for how in ("serial", "concurrent", "ahead")),  # type: ignore[misc]
)


def main() -> None:
    """Measure, write, print."""
    args = _arguments()
    load_average = os.getloadavg()[0]
    threads = threads_or_all(args.threads)
    clip = read_clips(shared_data("camvid", "val"), limit=args.limit)[0]
    net: Threaded = cache(lambda count: load(args.network, engine=args.engine, threads=count))
    trained = dict(_baselines(args, threads))
    images = [frame.image for frame in islice(clip, args.frames)]
    beside = bench.truncations(_as_options(args, threads), net(threads), threads) | trained
    with pipeline_runners(net, threads=threads, images=images, beside=beside) as runners:
        waits = measure(runners, images, rounds=args.rounds, progress=lambda done: _told(f"round {done}"))
    streams = {fps: streamed(net, threads, trained, clip, fps, args) for fps in args.fps}
    setting = {"network": net(threads).name, "engine": net(threads).engine, "threads": threads, "data": "CamVid val",
               "load_average": round(load_average, 2)}  # fmt: skip
    figures = {"latency": [one.facts(waits[0]) for one in waits],
               "streaming": [{"fps": fps, "rounds": args.stream_rounds, "schedules": [one.facts() for one in found]}
                             for fps, found in streams.items()]}  # fmt: skip
    path = write_result("pipelines", setting | figures)
    print(bench.table(waits), *(f"\n{fps:g} FPS\n{streaming.table(found)}" for fps, found in streams.items()), sep="\n")
    if args.docs:
        insert(DOCS, "latency", latency_table(waits, setting))
        insert(
            DOCS,
            "streaming",
            "\n\n".join([*(stream_table(fps, found) for fps, found in streams.items()), made_where(setting)]),
        )
    print(f"{path.relative_to(HERE.parent)} written", file=sys.stderr)


def streamed(
    net: Threaded, threads: int, trained: dict[str, StagedNetwork], clip: Clip, fps: float, args: argparse.Namespace
) -> tuple[Streamed, ...]:
    """Every way on the clip at ``fps``, its rounds pooled; ways in another order each round."""
    with _ways(net, threads, trained, [frame.image for frame in islice(clip, 8)]) as ways:
        found: dict[str, Streamed] = {}
        for number in range(args.stream_rounds):
            order = random.Random(number).sample(ways, len(ways))
            for one in evaluate_streaming(net(threads), order, [clip], fps=fps, progress=_told):
                found[one.name] = found[one.name] + one if one.name in found else one
        return tuple(found[name] for name, _ in ways)


@contextmanager
def _ways(
    net: Threaded, threads: int, trained: dict[str, StagedNetwork], images: Sequence[Any]
) -> Iterator[list[tuple[str, Runner]]]:
    costs = stage_seconds(net(threads), images)
    with ExitStack() as stack:
        ways = [("full", Runner(Session(net(threads).uncut(), frame_oracle)))]
        for name, how in STREAMED:
            runner = stack.enter_context(running(net, parse_schedule(name), how=how, threads=threads, costs=costs))
            ways.append((f"{name} {how}" if name.startswith("pipelined") else name, runner))
        yield [*ways, *((name, Runner(Session(one.uncut(), frame_oracle))) for name, one in trained.items())]


def _baselines(args: argparse.Namespace, threads: int) -> Iterator[tuple[str, StagedNetwork]]:
    for name in args.baseline:
        try:
            yield name, load(name, engine=args.engine, threads=threads)
        except ClocksegError as error:
            print(f"warning: {name} is left out: {error}", file=sys.stderr)


def latency_table(found: Sequence[Latency], setting: dict[str, Any]) -> str:
    """The table of latency and throughput, and a line on where it was made."""
    rows = table([["way", *bench.HEAD[1:]], *(bench.row(one, found[0]) for one in found)])
    return f"{rows}\n\n{made_where(setting)} {found[0].frames} frames each in interleaved rounds."


def made_where(setting: dict[str, Any]) -> str:
    """On what, where and when."""
    made = provenance()
    return (
        f"`{setting['network']}` on frames of 480x360, {setting['engine']}, {setting['threads']} threads on "
        f"{made['machine']['cores']} cores of {made['machine']['processor']}, {made['date']}, commit {made['commit']}. "
        f"Load average at the start: {setting['load_average']:.1f} (what else the machine did; 0 is nothing)."
    )


def stream_table(fps: float, found: Sequence[Streamed]) -> str:
    """What was shown at the deadlines, at one FPS."""
    rows = table([list(streaming.HEAD), *(streaming.row(one) for one in found)])
    return f"At {fps:g} FPS ({1000 / fps:.1f} ms a frame):\n\n{rows}"


def _as_options(args: argparse.Namespace, threads: int) -> argparse.Namespace:
    return argparse.Namespace(network=args.network, engine=args.engine, precision="f32", threads=threads, size=None)


def _told(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="street", metavar="street|FILE.onnx")
    parser.add_argument(
        "--baseline", nargs="*", default=BASELINES, metavar="NETWORK", help="truncated and trained as such"
    )
    parser.add_argument("--engine", default="openvino", choices=("openvino", "onnxruntime"))
    parser.add_argument("--threads", type=int)
    parser.add_argument("--frames", type=int, default=24, help="a round, of latency")
    parser.add_argument("--rounds", type=int, default=7, help="of latency")
    parser.add_argument("--fps", type=float, nargs="*", default=(30.0, 60.0), help="of the streams")
    parser.add_argument("--limit", type=int, help="frames of the streams")
    parser.add_argument("--stream-rounds", type=int, default=2)
    parser.add_argument("--docs", action="store_true", help="put the tables into docs/pipelines.md")
    return parser.parse_args()


if __name__ == "__main__":
    main()
