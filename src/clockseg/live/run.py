"""Live runs: one network on the frames of several sources, the frame that has waited longest first."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Self

from clockseg.carry import Carry, Codec, Flow, Interpolate, Warp, at_once
from clockseg.clocks.rates import carried
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Schedule, ScheduleLike, schedule_for
from clockseg.clockwork.trace import Record
from clockseg.errors import DataError, UsageError
from clockseg.files import MAX_PIXELS
from clockseg.live.channel import Channel, Shown
from clockseg.live.feed import Drop, Feed
from clockseg.live.on_time import OnTime, Room
from clockseg.live.sources import ALLOWED, Source, connect, source
from clockseg.segmenting.results import ResultFolder, check_writes, free_name
from clockseg.segmenting.writer import ResultWriter
from clockseg.showing.kind import kind_of
from clockseg.video import Background, Frame, InputChanged

SHARE = 0.8
"""The share of the time between frames that the network may take; decoding, writing and showing need the rest."""
_LOOK_SECONDS, _PATIENCE_SECONDS = 0.1, 1.0


@dataclass(frozen=True)
class LiveResult:
    """Result of a source: its summary (docs/live.md), its result folder if there is one, and the error if it was given up."""

    source: Source
    summary: dict[str, Any]
    folder: Path | None = None
    error: Exception | None = None


@dataclass(frozen=True)
class Until:
    """The end of a run: after ``frames`` of each source, ``seconds`` (None: no limit), or when ``stop`` returns True.

    Seconds count from when the first frame was run, and until then from the start.
    """

    frames: int | None = None
    seconds: float | None = None
    stop: Callable[[], bool] = lambda: False


class Recorder:
    """The result folder of one source, with its trace and the kinds of files in ``write`` (as of ``segment``).

    ``put`` every frame that was run, then ``publish``. If the encoder can't keep up, ``put`` waits, so that memory does not
    grow. Leaving a ``with`` block removes what was not published.
    """

    def __init__(
        self, folder: Path, source: Source, net: StagedNetwork, *, write: Sequence[str] = (), overwrite: bool = False
    ) -> None:
        self._writes = check_writes(("trace", *write), kind_of(net))
        self._net = net
        read = Path(source.given if source.kind == "file" else os.devnull)
        ResultFolder(folder).check_free(overwrite=overwrite)
        self._result = ResultFolder.begin(folder, read)
        self._made = self._result.part / "live"
        self._open = ExitStack()
        self._writing: Background[Frame, Any, Record, Mapping[str, Any]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: Any) -> None:
        try:
            self._open.__exit__(*raised)
        finally:
            self._result.abandon()

    def put(self, shown: Shown, fps: float) -> None:
        """Write one more frame; ``fps``: the approximate frame rate of the source."""
        if self._writing is None:
            self._made.mkdir()
            out = ResultWriter(self._made, self._writes, self._net, fps=Fraction(fps).limit_denominator(1000))
            self._writing = self._open.enter_context(Background(self._open.enter_context(out).append))
        latency = shown.latency_seconds
        times = {
            "arrived_seconds": round(shown.arrived_seconds, 6),
            "latency_seconds": None if latency is None else round(latency, 6),
            "dropped": shown.dropped,
        }
        self._writing.put(shown.frame, shown.output, shown.record, times)

    def publish(self, summary: Mapping[str, Any]) -> Path | None:
        """Complete the files, rename them into place, and return their folder; None if there was no frame."""
        if self._writing is None:
            return None
        self._open.close()
        self._result.publish(self._made, dict(summary))
        return self._result.path


def live(
    net: StagedNetwork,
    sources: Sequence[str],
    schedule: ScheduleLike | None = None,
    *,
    carry: Carry | None = None,
    name: str | None = None,
    latency_seconds: float = 0.1,
    lookahead: int = 0,
    drop: Drop = "latest",
    reconnect: int = 10,
    options: Mapping[str, str] | None = None,
    max_pixels: int = MAX_PIXELS,
    out: Path | None = None,
    write: Sequence[str] = (),
    overwrite: bool = False,
    until: Until = Until(),
    on_message: Callable[[Source, str], None] = lambda source, sentence: None,
    on_frame: Callable[[int, Channel, Shown], None] = lambda number, channel, shown: None,
) -> tuple[LiveResult, ...]:
    """Run ``net`` on live ``sources`` (see ``source``) until all are over, or ``until``; return the result of each, in order.

    ``schedule``: None for ``OnTime``, which fires as often as the machine has time for. ``carry``: None for the schedule's own,
    without one interpolate(flow) with a lookahead and warp(flow) without. ``lookahead``: the most frames by which an output may
    come later than its frame, for the carry interpolate; with 0, warp takes its place.
    ``latency_seconds``: the longest that a frame should take from its arrival to its labels, waiting included. ``drop``:
    "latest" drops frames that would be later than that, for the newest; "all" runs every one. ``reconnect``: attempts in a
    row before a source is given up. ``out``: a folder for result folders, with the trace, the summary, and the kinds of files
    in ``write``. ``on_message`` is called (in any thread) with news of a source, ``on_frame`` with each output.
    """
    found = [source(text) for text in sources]
    _check(found, latency_seconds, lookahead)
    schedule, carry = _carrying(schedule, carry, len(net), lookahead, partial(on_message, found[0]))
    with ExitStack() as stack:
        changed, began = threading.Condition(), time.perf_counter()
        recorders = [stack.enter_context(one) for one in _recorders(found, net, out, write, overwrite=overwrite)]
        channels = list[Channel]()
        made = partial(_schedule, schedule, carry, channels, latency_seconds)
        for one in found:
            opening = partial(connect, one, options=options, max_pixels=max_pixels)
            news = partial(on_message, one)
            feed = Feed(
                opening, drop, latency_seconds=latency_seconds, changed=changed, tries=reconnect, on_message=news
            )
            channels.append(Channel(one, feed, net, made, began=began, lookahead=lookahead, limit=until.frames))
        stack.callback(_stop, channels)
        for number, shown in _outputs(channels, changed, until):
            if recorders:
                recorders[number].put(shown, channels[number].fps)
            on_frame(number, channels[number], shown)
        wall = time.perf_counter() - began
        summaries = [channel.summary(name, latency_seconds, wall) for channel in channels]
        kept: Sequence[Recorder | None] = recorders or [None] * len(channels)
        return tuple(map(_result, channels, kept, summaries))


def _check(found: Sequence[Source], latency_seconds: float, lookahead: int) -> None:
    if not found:
        raise UsageError(f"no source. {ALLOWED}")
    if [one.kind for one in found].count("pipe") > 1:
        raise UsageError("- is given twice, but there is only one standard input.")
    if not 0 <= latency_seconds <= 60:
        raise UsageError(f"a latency of {latency_seconds:g} s; give 0 to 60 s.")
    if lookahead < 0:
        raise UsageError(f"a lookahead of {lookahead} frames; give 0 or more.")


def _recorders(
    found: Sequence[Source], net: StagedNetwork, out: Path | None, write: Sequence[str], *, overwrite: bool
) -> Iterator[Recorder]:
    """Yield the recorder of each source, none without the folder ``out``."""
    if out is not None:
        taken = set[Path]()
        for one in found:
            yield Recorder(out / free_name(Path(one.stem), taken), one, net, write=write, overwrite=overwrite)
    elif write:
        raise UsageError(f"write {', '.join(write)} without a folder; give one.")


def _carrying(
    schedule: ScheduleLike | None, carry: Carry | None, stages: int, lookahead: int, tell: Callable[[str], None]
) -> tuple[Schedule | None, Carry]:
    """Return the schedule and the carry for this lookahead; ``tell`` receives a sentence if another carry is used."""
    found = None if schedule is None else schedule_for(schedule, stages)
    default = found.carry if found is not None else Interpolate(Flow()) if lookahead else Warp(Flow())
    asked = default if carry is None else carry
    if isinstance(asked, Warp | Interpolate) and isinstance(asked.motion, Codec):
        raise UsageError(
            f"{asked}: the codec's motion vectors refer to frames that may be dropped. Use the motion estimator flow."
        )
    if lookahead and not isinstance(asked, Interpolate):
        raise UsageError(
            f"a lookahead with the carry {asked}, which needs none. Use interpolate(flow), or no lookahead."
        )
    if not lookahead and isinstance(asked, Interpolate):
        tell(
            f"{asked} needs frames ahead; live uses {at_once(asked)} instead. --lookahead N allows N frames of latency."
        )
        asked = at_once(asked)
    return None if found is None else replace(found, carry=asked), asked


def _schedule(
    given: Schedule | None, carry: Carry, channels: Sequence[Channel], latency_seconds: float, channel: Channel
) -> ScheduleLike:
    """Return the schedule of one channel: the one given, or as many firings as time allows, shared with the other channels."""
    if given is not None:
        return given

    def room() -> Room:
        together = sum(one.fps for one in channels if not one.feed.done or one is channel)
        latency = max(latency_seconds, 1 / channel.fps)
        return Room(together / SHARE, latency - channel.age(), latency)

    return carried(OnTime(room), carry)


def _outputs(channels: Sequence[Channel], changed: threading.Condition, until: Until) -> Iterator[tuple[int, Shown]]:
    """Run the frame that has waited longest until the run is to end; yield each output with the number of its channel."""
    for channel in channels:
        channel.feed.start()
    began, seconds = time.perf_counter(), math.inf if until.seconds is None else until.seconds
    ran = False
    while not until.stop() and time.perf_counter() < began + seconds:
        waiting = [(since, number) for number, one in enumerate(channels) if (since := one.waiting_since) is not None]
        if waiting:
            _, number = min(waiting)
            yield from ((number, shown) for shown in channels[number].step())
            if not ran:
                began, ran = time.perf_counter(), True
        elif all(channel.over for channel in channels):
            break
        else:
            with changed:
                if all(channel.waiting_since is None for channel in channels):
                    changed.wait(_LOOK_SECONDS)
    for number, channel in enumerate(channels):
        yield from ((number, shown) for shown in channel.end())


def _stop(channels: Sequence[Channel]) -> None:
    for channel in channels:
        channel.feed.stop()
    until = time.perf_counter() + _PATIENCE_SECONDS
    for channel in channels:
        channel.feed.join(until - time.perf_counter())


def _result(channel: Channel, recorder: Recorder | None, facts: dict[str, Any]) -> LiveResult:
    error, folder = channel.error, None
    if channel.figures.tally.frames == 0 and error is None and channel.feed.done:
        hint = "; of MP4 files that have their index at the end, give the name" if channel.source.kind == "pipe" else ""
        error = DataError(f"not one frame came{hint}")
    if recorder is not None and not isinstance(error, InputChanged):
        folder = recorder.publish(facts)
    return LiveResult(channel.source, facts, folder, error)
