"""Text for the terminal: messages, results, tables, figures with units, and control characters made harmless."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, TextIO, TypeVar, cast

from clockseg.evaluation.tables import percent as percent
from clockseg.evaluation.tables import shown as shown

T = TypeVar("T")
# Control characters but for tab and newline, those of C1, and what turns the direction of writing or breaks lines.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def plain(text: str) -> str:
    """Escape every control character except tab and newline, so that names from files cannot control the terminal.

    >>> plain("clip\\x1b[2J.mp4"), plain("a\\tb\\nc\\u202ed")
    ('clip\\\\x1b[2J.mp4', 'a\\tb\\nc\\\\u202ed')
    """
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def one_line(text: str) -> str:
    """Escape like ``plain``, newlines included, so that a name cannot look like a line of our output.

    >>> one_line("a\\nclockseg: all went well")
    'a\\\\nclockseg: all went well'
    """
    return plain(text).replace("\n", "\\n")


def indented(text: object) -> str:
    """Escape like ``plain`` and indent lines after the first, so that a name cannot look like a message of ours.

    >>> indented("a\\nclockseg: all went well")
    'a\\n    clockseg: all went well'
    """
    return plain(str(text)).replace("\n", "\n    ")


class Plain:
    """A text stream that escapes what is written (``plain``) and otherwise behaves like the stream ``behind`` it.

    >>> import io
    >>> behind = io.StringIO()
    >>> print("\\x1b[31m", file=Plain(behind))
    >>> behind.getvalue()
    '\\\\x1b[31m\\n'
    """

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
    """Escape everything printed inside the block, errors and warnings of libraries included.

    >>> with plain_output():
    ...     print("\\x07")
    \\x07
    """
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


def print_result(args: argparse.Namespace, facts: Mapping[str, Any], text: Callable[[], str]) -> None:
    """Print ``facts`` as one JSON object if ``--json`` was given, else the text.

    >>> print_result(argparse.Namespace(json=True), {"frames": 3}, lambda: "3 frames")
    {"frames": 3}
    """
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
    """Format a table with one row per item; ``cells``: for each heading, the text of an item below it.

    >>> print(columns([2, 10], {"n": str, "square": lambda n: str(n * n)}))
    n   square
    2        4
    10     100
    """
    return align([list(cells), *([cell(item) for cell in cells.values()] for item in items)], left=left)


def count(number: float) -> str:
    """Format a large count in readable units.

    >>> count(1_234_000_000), count(56_000), count(0)
    ('1.234 G', '0.056 M', '0')
    """
    if not number:
        return "0"
    return f"{number / 1e9:.3f} G" if number >= 1e8 else f"{number / 1e6:.3f} M"


def in_bytes(number: int) -> str:
    """Format bytes in readable units.

    >>> in_bytes(1_300_000), in_bytes(512)
    ('1.3 MB', '0.5 kB')
    """
    return f"{number / 1e6:.1f} MB" if number >= 1e6 else f"{number / 1e3:.1f} kB"


def sides(shape: tuple[int, ...]) -> str:
    """Format a shape on one line.

    >>> sides((1, 3, 24, 32))
    '1x3x24x32'
    """
    return "x".join(map(str, shape))
