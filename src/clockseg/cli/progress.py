"""Progress: bars on a terminal, plain lines otherwise."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from clockseg.cli.terminal import behind, one_line, say

if TYPE_CHECKING:
    from clockseg.clockwork.trace import Progress

PLAIN_SECONDS = 10.0
"""Seconds between two plain lines."""
Tellers: TypeAlias = "tuple[Callable[[str, Progress], None], Callable[[str], None]]"
"""Two functions: one to call with the progress of a video, one to call when it has ended."""


@contextmanager
def shown(source: str, *, quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """Yield a function to call with each frame's progress."""
    with together(1, quiet=quiet) as (update, _):
        yield partial(update, source)


@contextmanager
def together(videos: int, *, quiet: bool) -> Iterator[Tellers]:
    """Yield the two functions for so many videos, several of which may be in progress at once."""
    if quiet:
        yield (lambda source, progress: None), (lambda source: None)
    elif sys.stderr.isatty():
        with _bars(videos) as both:
            yield both
    else:
        lines = _Lines(videos)
        yield lines.update, lines.ended


class Seldom:
    """True at most every ten seconds for each key, from ten seconds after its first time on."""

    def __init__(self) -> None:
        self._last: dict[Any, float] = {}

    def __call__(self, key: Any = None) -> bool:
        now = time.monotonic()
        if now - self._last.setdefault(key, now) < PLAIN_SECONDS:
            return False
        self._last[key] = now
        return True


class _Speed:
    """Frames per second of this run: what was done before the first report of a video, as in a run resumed, is left out."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._before: dict[str, int] = {}
        self._done: dict[str, int] = {}

    def see(self, source: str, progress: Progress) -> None:
        self._before.setdefault(source, progress.done - 1)
        self._done[source] = progress.done

    def fps(self, *sources: str) -> float:
        """Return the rate of these videos; without any, that of all."""
        frames = sum(self._done[source] - self._before[source] for source in sources or self._done)
        return frames / max(time.monotonic() - self._start, 1e-9)

    def frames(self) -> int:
        """Return the frames of all videos, those of earlier runs included."""
        return sum(self._done.values())


class _Lines:
    """One line every ten seconds, so that logs stay short."""

    def __init__(self, videos: int) -> None:
        self._videos, self._ended = videos, 0
        self._running: set[str] = set()
        self._speed, self._seldom = _Speed(), Seldom()
        self._seldom()

    def update(self, source: str, progress: Progress) -> None:
        self._running.add(source)
        self._speed.see(source, progress)
        if self._seldom():
            say(self._alone(source, progress) if self._videos == 1 else self._all())

    def ended(self, source: str) -> None:
        self._ended += 1
        self._running.discard(source)

    def _alone(self, source: str, progress: Progress) -> str:
        of = f" of about {progress.expected}" if progress.expected else ""
        return f"{source}: {progress.done}{of} frames, {_state(progress, self._speed.fps(source))}"

    def _all(self) -> str:
        return (
            f"{self._ended} of {self._videos} videos done, {len(self._running)} in progress, {self._speed.frames()} frames, "
            f"{self._speed.fps():.1f} FPS"
        )


def _state(progress: Progress, fps: float) -> str:
    rates = (100 * (1.0 if rate is None else rate) for rate in progress.tally.fire_rate.values())
    return f"{fps:.1f} FPS, stages fire {' '.join(f'{rate:.0f}' for rate in rates)} %"


@contextmanager
def _bars(videos: int) -> Iterator[Tellers]:
    """A bar for each video in progress, and one for all of several videos."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[state]}"), TimeRemainingColumn())
    speed = _Speed()
    with Bar(*columns, console=Console(file=behind(sys.stderr)), transient=True) as bar:
        all = None if videos == 1 else bar.add_task(f"{videos} videos", total=videos, state="")
        tasks: dict[str, Any] = {}

        def update(source: str, progress: Progress) -> None:
            if source not in tasks:
                tasks[source] = bar.add_task(escape(one_line(source)), total=None, state="")
            speed.see(source, progress)
            # Headers lie: a clip may have more frames than it said.
            total = max(progress.expected, progress.done) if progress.expected else None
            state = _state(progress, speed.fps(source))
            bar.update(tasks[source], completed=progress.done, total=total, state=state)

        def ended(source: str) -> None:
            if source in tasks:
                bar.remove_task(tasks.pop(source))
            if all is not None:
                bar.advance(all)

        yield update, ended


def counting(unit: str, *, quiet: bool) -> Callable[[str, int, int], None]:
    """Return a function to report how far a training is with gathering its samples: at most one line every ten seconds."""
    seldom = Seldom()

    def tell(what: str, done: int, of: int) -> None:
        if seldom() and not quiet:
            say(f"{what}: {done} of about {of} {unit}")

    return tell


def status_line(name: str, *, quiet: bool) -> Callable[[str], None]:
    """Return a function that shows sentences on one line of a terminal, each in place of the one before."""

    def tell(text: str) -> None:
        if sys.stderr.isatty() and not quiet:
            print(f"\r{one_line(f'{name}: {text}')}\033[K", end="\r", file=behind(sys.stderr), flush=True)

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
