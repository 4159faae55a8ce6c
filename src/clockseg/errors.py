"""Every error clockseg raises on purpose.

    ClocksegError                 exit code 1
    ├── UsageError                exit code 2, a ValueError: a wrong argument, name, option or schedule
    ├── DataError                 a ValueError: a file or folder that isn't what it should be
    │   └── NetworkError          a network file, its sidecar or its graph
    ├── TrainingError             an ArithmeticError: a training that diverged
    ├── VideoError                an OSError: a video that can't be read or written
    └── MissingDependency         an ImportError: what to install

Messages say what was given, what is allowed, and what to do.
"""

from __future__ import annotations

import difflib
import operator
import sysconfig
import traceback
from collections.abc import Iterable
from itertools import dropwhile
from pathlib import Path
from typing import Any, SupportsIndex


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, else the name of its type.

    >>> first_line(ValueError("one\\ntwo")), first_line(KeyError())
    ('one', 'KeyError')
    """
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


class ClocksegError(Exception):
    """Base class of clockseg's errors; ``exit_code`` is the exit code of the command line."""

    exit_code = 1


class UsageError(ClocksegError, ValueError):
    """A wrong argument, name, option or schedule."""

    exit_code = 2


class DataError(ClocksegError, ValueError):
    """A file or folder that is missing, damaged or not of the expected kind."""


class NetworkError(DataError):
    """A network file, its sidecar or its graph can't be used."""


class TrainingError(ClocksegError, ArithmeticError):
    """A training that diverged: its loss is no longer finite."""


class VideoError(ClocksegError, OSError):
    """A video that can't be read or written."""


class MissingDependency(ClocksegError, ImportError):
    """A required library is not installed; the message says how to install it."""


class Ended(KeyboardInterrupt):
    """The system asked the process to end, by the signal of this number: it cleans up, as after an interrupt."""

    @property
    def exit_code(self) -> int:
        """Exit code that shells expect of a process ended by a signal."""
        return 128 + int(self.args[0])


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint for an error about an unknown name: the nearest known names, or all of them.

    >>> nearest("alternatin", ["alternating", "exponential"])
    'Did you mean alternating?'
    >>> nearest("x", ["a", "b"])
    'Known: a, b.'
    """
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=3)
    return f"Did you mean {', '.join(close)}?" if close else f"Known: {', '.join(names)}."


def install(extra: str) -> str:
    """Return the command that installs an extra; it is run in a clone because no package index has clockseg."""
    return f"pip install '.[{extra}]' in the clone"


def fault(error: BaseException, called: Any = None) -> str:
    """Return an error from code of the user's own with its place, such as "mine.py, line 5, in clock: KeyError: 3"; else "".

    The place is the last line that it passed through after clockseg, but for installed libraries. ``called``: the function that
    clockseg called, which is the place of an error in the call itself, such as too many arguments.
    """
    ours = Path(__file__).parent
    installed = [Path(path) for name, path in sysconfig.get_paths().items() if "lib" in name]
    lines = dropwhile(lambda one: ours not in Path(one.filename).parents, traceback.extract_tb(error.__traceback__))
    places = [(one.filename, one.lineno, one.name) for one in lines]
    if (code := getattr(called, "__code__", None)) is not None:
        places.insert(0, (code.co_filename, code.co_firstlineno, code.co_name))
    outside = [
        one for one in places if not one[0].startswith("<") and not {ours, *installed} & set(Path(one[0]).parents)
    ]
    if not outside:
        return ""
    file, line, name = outside[-1]
    inside = "" if name == "<module>" else f", in {name}"
    return f"{Path(file).name}, line {line}{inside}: {type(error).__name__}: {error}"


def user_message(error: Exception) -> str:
    """Return the text of an error for the user: its own, or the ``fault``; "" if it comes from clockseg unforeseen."""
    own = isinstance(error, ClocksegError | OSError)
    return str(error) or type(error).__name__ if own else fault(error)


def tell_fault(error: Exception, what: str, called: Any = None) -> None:
    """Raise ``UsageError``, which says that ``what`` failed and its ``fault``, if ``error`` comes from code of the user's own.

    Do nothing if it comes from elsewhere, or already is a ``ClocksegError``.
    """
    told = fault(error, called)
    if told and not isinstance(error, ClocksegError):
        raise UsageError(f"{what}: {told}") from error


def whole_number(value: Any, what: str, *, least: int = 1) -> int:
    """Return ``value`` if it is a whole number of at least ``least``; else raise ``UsageError``."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex) or operator.index(value) < least:
        raise UsageError(f"{what} is {value!r}; it must be a whole number of at least {least}.")
    return operator.index(value)


def number(value: Any, what: str) -> float:
    """Return ``value`` as a float if it is a number and not NaN; else raise ``UsageError``."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        raise UsageError(f"{what} is {value!r}; it must be a number, such as 0.25.")
    return float(value)
