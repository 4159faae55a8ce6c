"""``clockseg bench pipeline``: latency and throughput of pipelines on this machine."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from clockseg.cli.loading import load_baselines, load_network
from clockseg.cli.options import add_baseline_option, add_network_options, add_options, new_command, positive
from clockseg.cli.terminal import columns, print_result, say
from clockseg.errors import DataError

if TYPE_CHECKING:
    from clockseg.clockwork.network import StagedNetwork
    from clockseg.evaluation.latency import Latency
    from clockseg.types import Image

DESCRIPTION = """Measure latency (from a frame to its output) and throughput, on equal numbers of threads, in interleaved
rounds: the uncut network ("full"), schedules, and pipelines run serially and ahead (delayed stages run after the output is
returned). For comparison, also the network cut off after each stage, with that stage's scores enlarged, and the --baseline
networks. Frames are decoded before the measurement; without VIDEO they are noise."""


def add_parser(commands: Any) -> None:
    """Add ``clockseg bench pipeline``."""
    text = "Measure what running costs on this machine. Options: clockseg bench pipeline --help"
    parser = commands.add_parser("bench", help="measure latency and throughput here", description=text)
    benches = parser.add_subparsers(metavar="WHAT", required=True)
    help = "latency and throughput of pipelines against the full network"
    pipeline = new_command(benches, "pipeline", run, help=help, description=DESCRIPTION)
    pipeline.add_argument("video", nargs="?", metavar="VIDEO", help="frames to run on (default: noise)")
    add_network_options(pipeline)
    add_baseline_option(pipeline)
    pipeline.add_argument("--frames", type=positive, default=24, metavar="N", help="frames per round (default: 24)")
    pipeline.add_argument("--rounds", type=positive, default=8, metavar="N", help="rounds to measure (default: 8)")
    add_options(pipeline, "--json", "--quiet")


def run(args: argparse.Namespace) -> int:
    """Measure and print."""
    from clockseg.evaluation.latency import measure, noise, pipeline_runners
    from clockseg.execution.machine import threads_or_all

    def progress(done: int) -> None:
        if not args.quiet:
            say(f"round {done} of {args.rounds}")

    net = load_network(args, instances=True)
    threads = threads_or_all(args.threads)
    images = noise(net, args.frames) if args.video is None else _decoded(args.video, args.frames)
    beside = _truncations(args, net, threads) | dict(load_baselines(args))
    found = measure(pipeline_runners(net, beside=beside), images, rounds=args.rounds, progress=progress)
    print_result(args, _facts(args, net, threads, found), lambda: _table(found))
    return 0


def _truncations(args: argparse.Namespace, net: StagedNetwork, threads: int) -> dict[str, StagedNetwork]:
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


def _facts(args: argparse.Namespace, net: StagedNetwork, threads: int, found: Sequence[Latency]) -> dict[str, Any]:
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


def _table(found: Sequence[Latency]) -> str:
    """Format one row per way to run; ratios are relative to the first, the uncut network."""
    facts = {one.name: one.facts(found[0]) for one in found}

    def milliseconds(which: str) -> Callable[[Latency], str]:
        return lambda one: f"{facts[one.name]['latency_ms'][which]:.1f}"

    cells: dict[str, Callable[[Latency], str]] = {
        "": lambda one: one.name,
        "mean ms": milliseconds("mean"),
        "median": milliseconds("median"),
        "p95": milliseconds("p95"),
        "p99": milliseconds("p99"),
        "of full": lambda one: f"{one.relative(found[0]):.2f}",
        "FPS": lambda one: f"{one.fps:.1f}",
        "FPS of full": lambda one: f"{one.relative_fps(found[0]):.2f}",
    }
    return columns(found, cells)


def _decoded(video: str, count: int) -> list[Image]:
    from clockseg.video import open_clip

    with open_clip(video) as clip:
        images = [frame.image for frame in islice(clip, count)]
    if len(images) < count:
        raise DataError(f"{video} has {len(images)} frames that can be decoded; give --frames {len(images)} or less.")
    return images
