"""``clockseg live``: cameras, streams and pipes, segmented in real time."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clockseg.cli.loading import load_network, parse_schedules
from clockseg.cli.options import above_zero, add_network_options, add_options, add_schedule_options, count, from_zero
from clockseg.cli.terminal import Line, columns, fail, one_line, percent, say, shown, warn
from clockseg.errors import Ended, UsageError
from clockseg.networks import ANY_VIDEO

if TYPE_CHECKING:
    from types import FrameType

    from clockseg.clockwork.network import StagedNetwork
    from clockseg.clockwork.schedule import Schedule
    from clockseg.live.channel import Channel, Shown
    from clockseg.live.run import LiveResult
    from clockseg.live.sources import Source

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


HELP = "segment cameras, streams and pipes in real time"
DESCRIPTION = """Segment live sources, all through one network. Without --schedule, stages fire as often as the machine
allows, on the frames where it helps most: a slow machine fires less often before it drops frames. The run ends when all sources
have ended, or at Ctrl-C, which is a normal end: the summary is printed, files are complete, and the exit code is 0."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``clockseg live``."""
    parser.add_argument(
        "sources",
        nargs="+",
        metavar="SOURCE",
        help="a camera such as /dev/video0, a URL (rtsp, http(s), udp, rtp, tcp, rtmp; srt if FFmpeg supports it), - for a pipe "
        "on standard input, or a video file. Files are played at their own speed, and so are piped files that state their duration",
    )
    _add_live_options(parser.add_argument_group("live"))
    _add_output_options(parser.add_argument_group("output"))
    add_options(parser, "--quiet", help="print warnings and the summary only, no progress")
    add_network_options(parser, default=ANY_VIDEO)
    add_schedule_options(
        parser,
        default="a budget(fps=..) that follows the source, with warp(flow), or interpolate(flow) under --lookahead",
    )


def _add_live_options(group: argparse._ArgumentGroup) -> None:
    help = "latency target from decoded frame to labels, waiting included (default: 100)"
    group.add_argument("--latency", type=from_zero, default=100.0, metavar="MS", help=help)
    help = (
        "interpolate from the key frames on both sides, which delays every frame by up to N frames (default: 0, warp from "
        "the last key frame)"
    )
    group.add_argument("--lookahead", type=count, default=0, metavar="N", help=help)
    help = (
        "latest: drop frames that have waited longer than the target if a newer one is there; all: process every frame, however late "
        "(default: latest)"
    )
    group.add_argument("--drop", choices=("latest", "all"), default="latest", help=help)
    help = "consecutive attempts, with growing pauses, before a lost source is given up (default: 10)"
    group.add_argument("--reconnect", type=count, default=10, metavar="N", help=help)
    help = (
        "an FFmpeg option for the source, such as video_size=1280x720, framerate=30 or rtsp_transport=udp; repeatable"
    )
    group.add_argument("--option", action="append", metavar="NAME=VALUE", help=help)
    add_options(group, "--max-pixels")
    group.add_argument("--seconds", type=above_zero, metavar="S", help="stop this many seconds after the first frame")
    add_options(group, "--limit", help="stop each source after N frames")


def _add_output_options(group: argparse._ArgumentGroup) -> None:
    help = (
        "serve a page to watch the results, to this machine only; with HOST also to others, protected by a token in the "
        "address"
    )
    group.add_argument("--serve", metavar="[HOST:]PORT", help=help)
    group.add_argument("--out", type=Path, metavar="DIR", help="write a result folder per source")
    help = (
        "with --out: further outputs besides trace and summary, a comma-separated subset of labels,overlay,png, or of "
        "values,overlay,npy"
    )
    add_options(group, "--write", help=help)
    add_options(group, "--overwrite")


def run(args: argparse.Namespace) -> int:
    """Process the sources; 1 if one was given up."""
    from clockseg.live import Until, live
    from clockseg.live.sources import parsed_options

    if args.write and args.out is None:
        raise UsageError("--write needs a folder to write to. Add --out DIR.")
    options = parsed_options(args.option)
    net = load_network(args, instances=True)
    name, schedule, carry = _schedule(args, net)
    with ExitStack() as stack:
        board = _board(args, net, name, stack)
        ending = stack.enter_context(_ending())
        lines = [Line(quiet=args.quiet, in_place=len(args.sources) == 1) for _ in args.sources]

        def seen(number: int, channel: Channel, shown: Shown) -> None:
            lines[number].show(lambda: _progress(channel))
            if board is not None:
                board.show(number, channel, shown)

        same = ("lookahead", "drop", "reconnect", "max_pixels", "out", "overwrite")
        lived = live(
            net,
            args.sources,
            schedule,
            carry=carry,
            name=name,
            latency_seconds=args.latency / 1000,
            options=options,
            write=args.write or (),
            until=Until(args.limit, args.seconds, lambda: bool(ending)),
            on_message=lambda source, sentence: say(_named(source, sentence)),
            on_frame=seen,
            **{name: getattr(args, name) for name in same},
        )
    return _told(lived, *ending[:1])


def _schedule(args: argparse.Namespace, net: StagedNetwork) -> tuple[str | None, Schedule | None, Any]:
    """Return the name and schedule asked for; without --schedule, only the carry."""
    from clockseg.carry import parse_carry

    if args.schedule is None:
        return None, None, None if args.carry is None else parse_carry(args.carry)
    [(name, schedule)] = parse_schedules([args.schedule], net, args.carry)
    return name, schedule, None


def _board(args: argparse.Namespace, net: StagedNetwork, name: str | None, stack: ExitStack) -> Any:
    """Start the page and return what it shows; None without --serve."""
    if args.serve is None:
        return None
    from clockseg.live.server import Board, parse_address, serving
    from clockseg.live.sources import source

    board = Board(net, [source(text).name for text in args.sources], name or "on time")
    url = stack.enter_context(serving(board, parse_address(args.serve)))
    say(f"watch it on {url}")
    return board


@contextmanager
def _ending() -> Iterator[list[int]]:
    """Yield a list that gets the number of the first signal, which ends the run between two frames; a second one acts as usual."""
    ending: list[int] = []
    before: dict[int, Any] = {}

    def ask(number: int, frame: FrameType | None) -> None:
        ending.append(number)
        for known, handler in before.items():
            signal.signal(known, handler)

    for name in _SIGNALS:
        known = getattr(signal, name, None)
        if known is not None and signal.getsignal(known) not in (signal.SIG_IGN, None):
            before[known] = signal.signal(known, ask)
    try:
        yield ending
    finally:
        for known, handler in before.items():
            signal.signal(known, handler)


def _named(source: Source, text: object) -> str:
    """Prefix a sentence with the name of its source, unless it starts with it."""
    return str(text) if str(text).startswith(source.name) else f"{source.name}: {text}"


def _progress(channel: Channel) -> str:
    median, p99 = (channel.latencies.quantile(share) for share in (0.5, 0.99))
    tally = channel.figures.tally
    return (
        f"{channel.source.name}: {tally.frames} frames, {percent(tally.network_rate)} fired, "
        f"{_in_ms(median)} (99 %: {_in_ms(p99)}), {channel.dropped} dropped"
    )


def _told(lived: tuple[LiveResult, ...], number: int = signal.SIGINT) -> int:
    """Print the summary and return the exit code."""
    watched = [one for one in lived if one.summary["frames"] or one.error is None]
    if watched:
        print(table(watched))
    for one in lived:
        if one.error is not None:
            fail(_named(one.source, one.error))
        for problem in one.summary["problems"] if one.error is None else ():
            warn(_named(one.source, problem))
        if one.folder is not None:
            print(f"{one_line(one.source.name)}: {one.folder}")
    if number != signal.SIGINT:
        raise Ended(number)
    return 1 if any(one.error is not None or _cut_short(one) for one in lived) else 0


def _cut_short(one: LiveResult) -> bool:
    """Return True for a file or a pipe that was not decoded to its end; other sources may end at any time."""
    return one.source.kind in ("file", "pipe") and bool(one.summary["problems"])


def table(lived: Sequence[LiveResult]) -> str:
    """Format one row per source; the column of frames skipped at the start only if there are any."""

    def live(name: str) -> Callable[[LiveResult], str]:
        return lambda one: str(one.summary["live"][name])

    def latency(name: str) -> Callable[[LiveResult], str]:
        return lambda one: shown(one.summary["live"]["latency_ms"][name], lambda value: f"{value:.1f} ms")

    skipped = any(one.summary["live"]["skipped_at_start"] for one in lived)
    cells: dict[str, Callable[[LiveResult], str]] = {
        "source": lambda one: one.source.name,
        "frames": lambda one: str(one.summary["frames"]),
        "FPS": lambda one: f"{one.summary['fps']:.1f}",
        "fired": lambda one: percent(one.summary["network_rate"]),
        "dropped": live("dropped"),
        **({"skipped at start": live("skipped_at_start")} if skipped else {}),
        "latency: median": latency("median"),
        "99 %": latency("p99"),
        "most": latency("most"),
        "reconnects": live("reconnects"),
    }
    return columns(lived, cells)


def _in_ms(seconds: float | None) -> str:
    return shown(seconds, lambda value: f"{1000 * value:.1f} ms")
