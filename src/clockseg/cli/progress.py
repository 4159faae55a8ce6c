"""Progress on standard error: a line that is rewritten on a terminal, and otherwise a line every ten seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from clockseg.cli.terminal import say, status

if TYPE_CHECKING:
    from clockseg.clockwork.trace import Progress

PAUSE, TERMINAL_PAUSE = 10.0, 0.1
"""Seconds between two lines of a log, and between two on a terminal."""


class Line:
    """One line of progress; nothing if ``quiet``. ``in_place``: rewritten on a terminal, where its last text is erased."""

    def __init__(self, *, quiet: bool, in_place: bool = True) -> None:
        self._quiet, self._in_place = quiet, in_place and sys.stderr.isatty()
        self._last = time.monotonic()

    def show(self, text: Callable[[], str]) -> None:
        """Show the text that the function returns, unless the last one was just shown."""
        now = time.monotonic()
        if self._quiet or now - self._last < (TERMINAL_PAUSE if self._in_place else PAUSE):
            return
        self._last = now
        (status if self._in_place else say)(text())


class Watch:
    """The progress of several videos, of which some may be in progress at once."""

    def __init__(self, videos: int, *, quiet: bool) -> None:
        self._line, self._videos, self._ended = Line(quiet=quiet), videos, 0
        self._start = time.monotonic()
        self._before: dict[str, int] = {}
        self._done: dict[str, int] = {}

    def update(self, source: str, progress: Progress) -> None:
        """Show the progress of one video."""
        # What was done before the first report of a video, as in a run that is resumed, does not count for its speed.
        self._before.setdefault(source, progress.done - 1)
        self._done[source] = progress.done
        self._line.show(self._all if self._videos > 1 else lambda: self._alone(source, progress))

    def ended(self) -> None:
        """Count a video that has ended."""
        self._ended += 1

    def _fps(self) -> float:
        frames = sum(self._done.values()) - sum(self._before.values())
        return frames / max(time.monotonic() - self._start, 1e-9)

    def _alone(self, source: str, progress: Progress) -> str:
        fps = self._fps()
        rates = (100 * (1.0 if rate is None else rate) for rate in progress.tally.fire_rate.values())
        text = f"{fps:.1f} FPS, stages fire {' '.join(f'{rate:.0f}' for rate in rates)} %"
        if not progress.expected:
            return f"{source}: {progress.done} frames, {text}"
        left = max(0, progress.expected - progress.done) / max(fps, 1e-9)
        return f"{source}: {progress.done} of about {progress.expected} frames, {text}, {left:.0f} s left"

    def _all(self) -> str:
        frames, running = sum(self._done.values()), len(self._done) - self._ended
        return (
            f"{self._ended} of {self._videos} videos done, {max(0, running)} in progress, {frames} frames, "
            f"{self._fps():.1f} FPS"
        )


def shown(source: str, *, quiet: bool) -> Callable[[Progress], None]:
    """Return a function to call with each frame's progress."""
    return partial(Watch(1, quiet=quiet).update, source)


def counting(unit: str, *, quiet: bool) -> Callable[[str, int, int], None]:
    """Return a function to report how far a training is with gathering its samples."""
    line = Line(quiet=quiet)
    return lambda what, done, of: line.show(lambda: f"{what}: {done} of about {of} {unit}")
