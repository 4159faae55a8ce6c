"""Text for the terminal: messages, progress, results, tables and units, with control characters made harmless."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, TextIO, TypeVar, cast

from clockseg.evaluation.tables import percent as percent
from clockseg.evaluation.tables import shown as shown

if TYPE_CHECKING:
    from clockseg.evaluation.tally import Progress

T = TypeVar("T")
PAUSE, TERMINAL_PAUSE = 10.0, 0.1
"""Seconds between two lines of a log, and between two on a terminal."""
# Control characters but for tab and newline, those of C1, and what turns the direction of writing or breaks lines.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def plain(text: str) -> str:
    """Escape every control character except tab and newline, so that names from files cannot control the terminal.

    >>> plain("clip\\x1b[2J.mp4"), plain("a\\tb\\nc\\u202ed")
    ('clip\\\\x1b[2J.mp4', 'a\\tb\\nc\\\\u202ed')
    """
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def one_line(text: str) -> str:
    """Escape like ``plain``, newlines included, so that a name cannot look like a line of our output."""
    return plain(text).replace("\n", "\\n")


def indented(text: object) -> str:
    """Escape like ``plain`` and indent lines after the first, so that a name cannot look like a message of ours."""
    return plain(str(text)).replace("\n", "\n    ")


class Plain:
    """A text stream that escapes what is written (``plain``) and otherwise behaves like the stream ``behind`` it."""

    showing: ClassVar[TextIO | None] = None
    """The terminal that shows a status line, which is erased before anything else is written."""

    def __init__(self, behind: TextIO) -> None:
        self.behind = behind

    def write(self, text: str) -> int:
        """Write ``text`` and return its length."""
        erase()
        self.behind.write(plain(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.behind, name)


def status(text: str) -> None:
    """Show a line on the terminal behind standard error, in place of the one before, until something else is printed."""
    if isinstance(sys.stderr, Plain):
        columns = shutil.get_terminal_size().columns
        Plain.showing = sys.stderr.behind
        print(f"\r{one_line(text)[: columns - 1]}\033[K", end="", file=Plain.showing, flush=True)


def erase() -> None:
    """Erase the status line, if one is shown."""
    if Plain.showing is not None:
        print("\r\033[K", end="", file=Plain.showing, flush=True)
        Plain.showing = None


@contextmanager
def plain_output() -> Iterator[None]:
    """Escape everything printed inside the block, errors and warnings of libraries included."""
    before = sys.stdout, sys.stderr
    # A stream is None where the process was started without it.
    sys.stdout, sys.stderr = (cast(TextIO, stream and Plain(stream)) for stream in before)
    try:
        yield
    finally:
        erase()
        sys.stdout, sys.stderr = before


def say(text: object) -> None:
    """Print a message on standard error."""
    print(f"clockseg: {indented(text)}", file=sys.stderr, flush=True)


def warn(text: object) -> None:
    """Print a warning on standard error."""
    say(f"warning: {text}")


def fail(text: object) -> None:
    """Print an error on standard error."""
    say(f"error: {text}")


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


def counting(unit: str, *, quiet: bool) -> Callable[[str, int, int], None]:
    """Return a function to report how far a training is with gathering its samples."""
    line = Line(quiet=quiet)
    return lambda what, done, of: line.show(lambda: f"{what}: {done} of about {of} {unit}")


def print_result(args: argparse.Namespace, facts: Mapping[str, Any], text: Callable[[], str]) -> None:
    """Print ``facts`` as one JSON object if ``--json`` was given, else the text."""
    print(json.dumps(facts, allow_nan=False) if args.json else text())


def align(rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """Format rows of cells as aligned lines: the first ``left`` columns left-aligned, the others right-aligned.

    >>> print(align([["schedule", "ms"], ["alternating", "9.1"]]))
    schedule      ms
    alternating  9.1
    """
    texts = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(*texts, strict=True)]
    lines = []
    for row in texts:
        gaps = [" " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)]
        cells = [
            cell + gap if place < left else gap + cell for place, (cell, gap) in enumerate(zip(row, gaps, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _width(text: str) -> int:
    """Return the columns that a terminal needs for the text; Chinese letters, for example, take two each."""
    return sum(2 if unicodedata.east_asian_width(one) in "WF" else not unicodedata.combining(one) for one in text)


def columns(items: Iterable[T], cells: Mapping[str, Callable[[T], str]], *, left: int = 1) -> str:
    """Format a table with one row per item; ``cells``: for each heading, the text of an item below it."""
    return align([list(cells), *([cell(item) for cell in cells.values()] for item in items)], left=left)


def count(number: float) -> str:
    """Format a large count in readable units."""
    if not number:
        return "0"
    return f"{number / 1e9:.3f} G" if number >= 1e8 else f"{number / 1e6:.3f} M"


def in_bytes(number: int) -> str:
    """Format bytes in readable units."""
    return f"{number / 1e6:.1f} MB" if number >= 1e6 else f"{number / 1e3:.1f} kB"


def sides(shape: tuple[int, ...]) -> str:
    """Format a shape on one line."""
    return "x".join(map(str, shape))
