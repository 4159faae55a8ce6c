"""``clockseg live``: cameras, streams and pipes segmented as they come."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clockseg.cli._options import (
    above_zero,
    add_network_options,
    add_pixels_option,
    add_schedule_options,
    count,
    kinds,
    load_network,
    positive,
)
from clockseg.cli._table import align, percent, shown
from clockseg.cli._terminal import indented
from clockseg.errors import Ended, UsageError

if TYPE_CHECKING:
    from types import FrameType

    from clockseg.clockwork.network import StagedNetwork
    from clockseg.clockwork.schedule import Schedule
    from clockseg.live.channel import Channel, Shown
    from clockseg.live.run import Lived
    from clockseg.live.source import Source

_TOLD_SECONDS = 10.0
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``live`` and its options."""
    parser = commands.add_parser(
        "live",
        help="segment cameras, streams and pipes as they come",
        description="Segment sources live, all through one network. Without --schedule, stages fire as often as the machine "
        "has time for, where it pays most: when it is slow, there are fewer firings before frames are dropped. Ends when "
        "all sources are over, or at Ctrl-C, which is an end like any other: the summary is printed, files are whole, exit 0.",
    )
    parser.add_argument(
        "sources",
        nargs="+",
        metavar="SOURCE",
        help="a camera such as /dev/video0, a URL (rtsp, http(s), udp, rtp, tcp, rtmp; srt where FFmpeg has it), - for a pipe "
        "on standard input, or a video file, which is played at its own speed",
    )
    _add_live_options(parser)
    _add_output_options(parser)
    add_network_options(parser)
    add_schedule_options(parser, several=False, default="on time: a budget(fps=..) that follows the source")
    parser.set_defaults(run=run)


def _add_live_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("live")
    group.add_argument(
        "--latency",
        type=milliseconds,
        default=100.0,
        metavar="MS",
        help="the longest that a frame should take from its decoder to its labels, waiting included (default: 100)",
    )
    group.add_argument(
        "--drop",
        choices=("latest", "all"),
        default="latest",
        help="latest: a frame that would be later than that is given up for the newest; all: every frame is run, however late "
        "(default: latest)",
    )
    group.add_argument(
        "--reconnect",
        type=count,
        default=10,
        metavar="N",
        help="tries in a row, ever further apart, before a source that is gone is given up (default: 10)",
    )
    group.add_argument(
        "--option",
        action="append",
        metavar="NAME=VALUE",
        help="an option of FFmpeg for the source, such as video_size=1280x720, framerate=30, rtsp_transport=udp",
    )
    add_pixels_option(group)
    group.add_argument("--seconds", type=above_zero, metavar="S", help="end after so long")
    group.add_argument("--limit", type=positive, metavar="N", help="end each source after N frames")


def _add_output_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument(
        "--serve",
        metavar="[HOST:]PORT",
        help="a page to watch it on; for this machine alone, unless HOST is given: then its address holds a token",
    )
    group.add_argument("--out", type=Path, metavar="DIR", help="write a result folder for each source")
    group.add_argument(
        "--write",
        type=kinds,
        metavar="KINDS",
        help="with --out, beside the trace and the summary: of labels,overlay,png, or values,overlay,npy; with commas",
    )
    group.add_argument("--overwrite", action="store_true", help="replace results that are there")
    parser.add_argument("--quiet", action="store_true", help="no progress, warnings and the summary only")


def milliseconds(text: str) -> float:
    """A number of milliseconds from 0 on, for argparse.

    >>> milliseconds("0"), milliseconds("33.3")
    (0.0, 33.3)
    """
    return 0.0 if text == "0" else above_zero(text)


def run(args: argparse.Namespace) -> int:
    """Watch the sources; 1 if one was given up."""
    from clockseg.live import Until, live
    from clockseg.live.connection import parsed_options

    if args.write and args.out is None:
        raise UsageError("--write names files, and there is no --out to write them into. Give --out DIR.")
    options = parsed_options(args.option)
    net = load_network(args)
    name, schedule, carry = _schedule(args, net)
    with ExitStack() as stack:
        board = _board(args, net, name, stack)
        ending = stack.enter_context(_ending())
        progress = _Progress(quiet=args.quiet)

        def seen(number: int, channel: Channel, shown: Shown) -> None:
            progress.see(channel)
            if board is not None:
                board.show(number, channel, shown)

        lived = live(
            net,
            args.sources,
            schedule,
            carry=carry,
            name=name,
            latency_seconds=args.latency / 1000,
            drop=args.drop,
            reconnect=args.reconnect,
            options=options,
            max_pixels=args.max_pixels,
            out=args.out,
            write=args.write or (),
            overwrite=args.overwrite,
            until=Until(args.limit, args.seconds, ending),
            told=_warned,
            seen=seen,
        )
    return _told(lived, ending.number)


def _schedule(args: argparse.Namespace, net: StagedNetwork) -> tuple[str | None, Schedule | None, Any]:
    """The name and the schedule asked for, or none and the carry."""
    from clockseg.carry import parse_carry
    from clockseg.cli._options import parse_schedules

    if args.schedule is None:
        return None, None, None if args.carry is None else parse_carry(args.carry)
    [(name, schedule)] = parse_schedules([args.schedule], net, args.carry)
    return name, schedule, None


def _board(args: argparse.Namespace, net: StagedNetwork, name: str | None, stack: ExitStack) -> Any:
    """What the page shows, with the page served; None without --serve."""
    if args.serve is None:
        return None
    from clockseg.live.address import parse_address
    from clockseg.live.board import Board
    from clockseg.live.server import serving
    from clockseg.live.source import source

    board = Board(net, [source(text).name for text in args.sources], name or "on time")
    url = stack.enter_context(serving(board, parse_address(args.serve)))
    print(f"watch it on {url}", file=sys.stderr, flush=True)
    return board


class _Ending:
    """Whether a signal asked for the end, and which."""

    number: int | None = None

    def __call__(self) -> bool:
        return self.number is not None


@contextmanager
def _ending() -> Iterator[_Ending]:
    """The first signal asks for the end, and the run ends between two frames; a second one acts as it always does."""
    ending = _Ending()
    before: dict[int, Any] = {}

    def ask(number: int, frame: FrameType | None) -> None:
        ending.number = number
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


def _warned(source: Source, sentence: str) -> None:
    print(f"clockseg: {_named(source, sentence)}", file=sys.stderr, flush=True)


def _named(source: Source, text: object) -> str:
    """A sentence on a source, which names it."""
    return indented(text if str(text).startswith(source.name) else f"{source.name}: {text}")


class _Progress:
    """A line every ten seconds for each source."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._last: dict[int, float] = {}

    def see(self, channel: Channel) -> None:
        now = time.monotonic()
        last = self._last.setdefault(id(channel), now)
        if self._quiet or now - last < _TOLD_SECONDS:
            return
        self._last[id(channel)] = now
        median, p99 = (channel.latencies.quantile(share) for share in (0.5, 0.99))
        _warned(
            channel.source,
            f"{channel.figures.tally.frames} frames, {percent(channel.figures.tally.network_rate)} fired, "
            f"{_in_ms(median)} (99 %: {_in_ms(p99)}), {channel.dropped} dropped",
        )


def _told(lived: tuple[Lived, ...], number: int | None) -> int:
    """Print the summary; the exit code."""
    print(table(lived))
    for one in lived:
        if one.error is not None:
            print(f"clockseg: error: {_named(one.source, one.error)}", file=sys.stderr)
        for problem in one.summary["problems"] if one.error is None else ():
            print(f"clockseg: warning: {_named(one.source, problem)}", file=sys.stderr)
        if one.folder is not None:
            print(f"{indented(one.source.name)}: {one.folder}")
    if number is not None and number != signal.SIGINT:
        raise Ended(number)
    return 1 if any(one.error is not None for one in lived) else 0


_SKIPPED = "skipped at start"
_HEAD = ("source", "frames", "fps", "fired", "dropped", _SKIPPED, "latency: median", "99 %", "most", "reconnects")


def table(lived: Sequence[Lived]) -> str:
    """A row a source; without the frames skipped at the start where there are none."""
    rows = [_HEAD, *(_row(one) for one in lived)]
    if not any(one.summary["live"]["skipped_at_start"] for one in lived):
        skipped = _HEAD.index(_SKIPPED)
        rows = [(*row[:skipped], *row[skipped + 1 :]) for row in rows]
    return align(rows)


def _row(one: Lived) -> tuple[str, ...]:
    told = one.summary["live"]
    latency = told["latency_ms"]
    return (
        one.source.name,
        str(one.summary["frames"]),
        f"{one.summary['fps']:.1f}",
        percent(one.summary["network_rate"]),
        str(told["dropped"]),
        str(told["skipped_at_start"]),
        *(_in_ms(None if latency[key] is None else latency[key] / 1000) for key in ("median", "p99", "most")),
        str(told["reconnects"]),
    )


def _in_ms(seconds: float | None) -> str:
    return shown(seconds, lambda value: f"{1000 * value:.1f} ms")
