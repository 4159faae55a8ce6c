"""Progress: a bar on a terminal, plain lines otherwise."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from clockseg.cli._terminal import behind, indented, one_line

if TYPE_CHECKING:
    from clockseg.clockwork.trace import Progress

PLAIN_SECONDS = 10.0
"""Seconds between two plain lines."""


@contextmanager
def shown(source: str, *, quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """Yield a function to call with each frame's progress."""
    if quiet:
        yield lambda progress: None
    elif sys.stderr.isatty():
        with _bar(source) as update:
            yield update
    else:
        yield _Lines(source)


@contextmanager
def together(videos: int, *, quiet: bool) -> Iterator[tuple[Callable[[str, Progress], None], Callable[[str], None]]]:
    """Yield two functions for several videos at once: one to call with the progress of a video, one when it has ended."""
    if quiet:
        yield (lambda source, progress: None), (lambda source: None)
    elif sys.stderr.isatty():
        with _bars(videos) as both:
            yield both
    else:
        lines = _ManyLines(videos)
        yield lines.update, lines.ended


class _ManyLines:
    """One line every ten seconds for all videos together."""

    def __init__(self, videos: int) -> None:
        self._videos, self._done, self._frames = videos, 0, 0
        self._running: dict[str, Progress] = {}
        self._start = self._last = time.monotonic()

    def update(self, source: str, progress: Progress) -> None:
        self._running[source] = progress
        now = time.monotonic()
        if now - self._last < PLAIN_SECONDS:
            return
        self._last = now
        frames = self._frames + sum(one.done for one in self._running.values())
        print(
            f"clockseg: {self._done} of {self._videos} videos done, {len(self._running)} in progress, {frames} frames, "
            f"{frames / (now - self._start):.1f} fps",
            file=sys.stderr,
            flush=True,
        )

    def ended(self, source: str) -> None:
        self._done += 1
        progress = self._running.pop(source, None)
        self._frames += 0 if progress is None else progress.done


class _Lines:
    """One line every ten seconds, so that logs stay short."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._start = self._last = time.monotonic()

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if now - self._last < PLAIN_SECONDS:
            return
        self._last = now
        of = f" of about {progress.expected}" if progress.expected else ""
        print(
            f"clockseg: {indented(self._source)}: {progress.done}{of} frames, {_state(progress, now - self._start)}",
            file=sys.stderr,
            flush=True,
        )


def _state(progress: Progress, seconds: float) -> str:
    fps = progress.done / seconds if seconds else 0.0
    rates = (100 * (1.0 if rate is None else rate) for rate in progress.tally.fire_rate.values())
    return f"{fps:.1f} fps, stages fire {' '.join(f'{rate:.0f}' for rate in rates)} %"


@contextmanager
def _bars(videos: int) -> Iterator[tuple[Callable[[str, Progress], None], Callable[[str], None]]]:
    """One bar for all videos, and one for each in progress."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[state]}"), TimeRemainingColumn())
    start = time.monotonic()
    with Bar(*columns, console=Console(file=behind(sys.stderr)), transient=True) as bar:
        all = bar.add_task(f"{videos} videos", total=videos, state="")
        tasks: dict[str, Any] = {}

        def update(source: str, progress: Progress) -> None:
            if source not in tasks:
                tasks[source] = bar.add_task(escape(one_line(source)), total=None, state="")
            total = max(progress.expected, progress.done) if progress.expected else None
            state = _state(progress, time.monotonic() - start)
            bar.update(tasks[source], completed=progress.done, total=total, state=state)

        def ended(source: str) -> None:
            if source in tasks:
                bar.remove_task(tasks.pop(source))
            bar.advance(all)

        yield update, ended


@contextmanager
def _bar(source: str) -> Iterator[Callable[[Progress], None]]:
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[state]}"), TimeRemainingColumn())
    start = time.monotonic()
    with Bar(*columns, console=Console(file=behind(sys.stderr)), transient=True) as bar:
        task = bar.add_task(escape(one_line(source)), total=None, state="")

        def update(progress: Progress) -> None:
            # Headers lie: a clip may have more frames than it said.
            total = max(progress.expected, progress.done) if progress.expected else None
            bar.update(task, completed=progress.done, total=total, state=_state(progress, time.monotonic() - start))

        yield update


def counting(unit: str, *, quiet: bool) -> Callable[[str, int, int], None]:
    """Return a function to report how far a training is with gathering its samples: at most one line every ten seconds."""
    last = time.monotonic()

    def tell(what: str, done: int, of: int) -> None:
        nonlocal last
        if not quiet and time.monotonic() - last > PLAIN_SECONDS:
            last = time.monotonic()
            print(f"clockseg: {what}: {done} of about {of} {unit}", file=sys.stderr, flush=True)

    return tell


def watched(line: Callable[[dict[str, Any]], str | None], *, quiet: bool) -> Callable[[dict[str, Any]], None]:
    """Return a function that prints ``line`` of each entry of a log to standard error; nothing if it is None or ``quiet``.

    >>> watched(lambda entry: entry["event"], quiet=True)({"event": "step"})
    """

    def say(entry: dict[str, Any]) -> None:
        text = None if quiet else line(entry)
        if text is not None:
            print(text, file=sys.stderr, flush=True)

    return say
