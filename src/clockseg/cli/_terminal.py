"""What reaches the terminal: names out of files, titles of networks and the like are shown there, never obeyed."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

# Control characters but for tab and newline, those of C1, and what turns the direction of writing or breaks lines.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def plain(text: str) -> str:
    """``text`` with every control character but tab and newline spelled out, so that a terminal shows it and does nothing.

    >>> plain("clip\\x1b[2J.mp4"), plain("a\\tb\\nc\\u202ed")
    ('clip\\\\x1b[2J.mp4', 'a\\tb\\nc\\\\u202ed')
    """
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def one_line(text: str) -> str:
    """``plain``, with newlines spelled out as well: a name never looks like a line of ours.

    >>> one_line("a\\nclockseg: all went well")
    'a\\\\nclockseg: all went well'
    """
    return plain(text).replace("\n", "\\n")


def indented(text: object) -> str:
    """``plain``, with lines after the first indented: what a name holds never looks like a message of ours.

    >>> indented("a\\nclockseg: all went well")
    'a\\n    clockseg: all went well'
    """
    return plain(str(text)).replace("\n", "\n    ")


class Plain:
    """A stream to which all is written ``plain``; in all else it is the stream ``behind`` it.

    >>> import io
    >>> behind = io.StringIO()
    >>> print("\\x1b[31m", file=Plain(behind))
    >>> behind.getvalue()
    '\\\\x1b[31m\\n'
    """

    def __init__(self, behind: TextIO) -> None:
        self.behind = behind

    def write(self, text: str) -> int:
        """Write ``text``; how much of it was taken."""
        self.behind.write(plain(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.behind, name)


def behind(stream: TextIO) -> TextIO:
    """The stream itself, for bars and the like that draw with control characters; what they show must be ``one_line``.

    >>> behind(sys.stdout) is sys.stdout
    True
    """
    return stream.behind if isinstance(stream, Plain) else stream


@contextmanager
def plain_output() -> Iterator[None]:
    """Inside the block everything that is printed is printed ``plain``, errors and warnings of libraries included.

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
        sys.stdout, sys.stderr = before
