"""``clockseg bench``: what running costs here; ``clockseg bench pipeline``: latency and throughput of pipelines."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from clockseg.cli._options import add_network_options, load_network, positive
from clockseg.cli._pipelines import Pipelines, add_baseline_option, load_baselines
from clockseg.cli._terminal import align
from clockseg.errors import DataError

if TYPE_CHECKING:
    from clockseg.clockwork.network import StagedNetwork
    from clockseg.evaluation.latency import Latency
    from clockseg.execution.pipeline import How
    from clockseg.types import Image

DESCRIPTION = """Measure latency (from a frame to its output) and throughput, on equal numbers of threads, in interleaved
rounds: the uncut network ("full"), schedules, and pipelines run serially, concurrently (segments at once, on shares of the
threads) and ahead (delayed segments when the output has left); beside them the network cut off after a stage, that stage's
scores enlarged, and the --baseline networks. Frames are decoded before anything is measured; without VIDEO they are noise."""


def add_parser(subparsers: Any) -> None:
    """``clockseg bench`` and its subcommands."""
    parser = subparsers.add_parser(
        "bench",
        help="measure latency and throughput here",
        description="Measure what running costs on this machine. Options: clockseg bench pipeline --help",
    )
    benches = parser.add_subparsers(metavar="WHAT", required=True)
    pipeline = benches.add_parser(
        "pipeline",
        help="latency and throughput of pipelines against the full network",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    pipeline.add_argument("video", nargs="?", metavar="VIDEO", help="frames to run on (default: noise)")
    add_network_options(pipeline)
    add_baseline_option(pipeline)
    pipeline.add_argument("--frames", type=positive, default=24, metavar="N", help="frames a round (default: 24)")
    pipeline.add_argument("--rounds", type=positive, default=8, metavar="N", help="rounds to measure (default: 8)")
    pipeline.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    pipeline.add_argument("--quiet", action="store_true", help="no progress, warnings and errors only")
    pipeline.set_defaults(run=run_pipeline)


def run_pipeline(args: argparse.Namespace) -> int:
    """Measure and print."""
    from clockseg.evaluation.latency import measure, noise, pipeline_runners

    net = load_network(args)
    pipelines = Pipelines(args, load_network, net)
    threads = pipelines.threads
    images = noise(net, args.frames) if args.video is None else _decoded(args.video, args.frames)
    hows: tuple[How, ...] = ("serial", "ahead") if net.engine.startswith("torch") else ("serial", "concurrent", "ahead")
    beside = truncations(args, net, threads) | dict(load_baselines(args, load_network))
    with pipeline_runners(pipelines.threaded, threads=threads, images=images, hows=hows, beside=beside) as runners:
        found = measure(runners, images, rounds=args.rounds, progress=lambda done: _told(args, done))
    print(json.dumps(facts(args, net, threads, found), allow_nan=False) if args.json else table(found))
    return 0


def truncations(args: argparse.Namespace, net: StagedNetwork, threads: int) -> dict[str, StagedNetwork]:
    """The network cut off after each stage but the last that has scores, compiled as ``net`` is; none of one in torch."""
    from clockseg.engines import engine
    from clockseg.graph.staged import truncated
    from clockseg.networks.load import load

    if net.engine.startswith("torch"):
        return {}
    graph = load(args.network, engine=None, size=args.size)
    compile = engine(args.engine, precision=args.precision, threads=threads)
    depths = [depth for depth, stage in enumerate(graph.stages[:-1], start=1) if stage.scores is not None]
    return {f"truncated({depth})": compile(truncated(graph, depth)) for depth in depths}


def facts(args: argparse.Namespace, net: StagedNetwork, threads: int, found: Sequence[Latency]) -> dict[str, Any]:
    """Return what ``--json`` prints; ratios are relative to the first, the uncut network."""
    from clockseg.execution.machine import machine, versions

    return {
        "video": args.video,
        "network": net.name,
        "engine": net.engine,
        "threads": threads,
        "frames": found[0].frames,
        "rounds": args.rounds,
        "machine": machine(),
        "versions": versions(),
        "ways": [one.facts(found[0]) for one in found],
    }


def table(found: Sequence[Latency]) -> str:
    """A row a way to run, aligned."""
    return align([list(HEAD), *(row(one, found[0]) for one in found)])


HEAD = ("", "threads", "mean ms", "median", "p95", "p99", "of full", "fps", "of full")


def row(one: Latency, full: Latency) -> list[str]:
    """The cells under ``HEAD``."""
    took = one.facts(full)["latency_ms"]
    return [
        one.name,
        "+".join(map(str, one.threads)) if "concurrent" in one.name else str(one.threads[0]),
        *(f"{took[which]:.1f}" for which in ("mean", "median", "p95", "p99")),
        f"{one.relative(full):.2f}",
        f"{one.fps:.1f}",
        f"{one.relative_fps(full):.2f}",
    ]


def _decoded(video: str, count: int) -> list[Image]:
    from clockseg.video import open_clip

    with open_clip(video) as clip:
        images = [frame.image for frame in islice(clip, count)]
    if len(images) < count:
        raise DataError(f"{video} has {len(images)} frames that can be decoded; give --frames {len(images)} or less.")
    return images


def _told(args: argparse.Namespace, done: int) -> None:
    if not args.quiet:
        print(f"clockseg: round {done} of {args.rounds}", file=sys.stderr, flush=True)
