"""Atomic writes: a file is written as ``.NAME.part`` and renamed once it is complete. Identity and limits of input files.

Inputs are opened several times, and a file that was replaced in between must be noticed.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

from clockseg.errors import DataError, VideoError

MAX_PIXELS = 64_000_000
"""Pictures with more pixels are refused before they are decoded."""
MAX_HOURS = 100.0
"""A longer duration in a header is taken for an error."""


def printable(text: str) -> str:
    r"""Return a path as text that any reader of UTF-8 takes: bytes that are not UTF-8 become ``\xNN``.

    >>> print(printable("a\udce6.mp4"), printable("日.mp4"))
    a\xe6.mp4 日.mp4
    """
    return os.fsencode(text).decode(errors="backslashreplace")


def from_printable(text: str) -> str:
    r"""Return the path of which ``printable`` made ``text``.

    >>> from_printable(r"a\xe6.mp4") == "a\udce6.mp4", from_printable("日.mp4")
    (True, '日.mp4')
    """
    if os.path.lexists(text):
        return text
    return os.fsdecode(re.sub(rb"\\x([0-9a-f]{2})", lambda found: bytes.fromhex(found[1].decode()), os.fsencode(text)))


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Yield a temporary name to write ``path`` under; the file is renamed, in place of an older one, where the block ends well.

    After an exception, an interrupt included, the temporary file is removed and the older one stays. In one ``with`` statement,
    several files are renamed only after all of them are complete.
    """
    part = path.with_name(f".{path.name}.part")
    try:
        yield part
        part.replace(path)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


@contextmanager
def folder_beside(path: Path, advice: str) -> Iterator[Path]:
    """Yield a temporary folder beside ``path``, whose parents are made; ``DataError``, with ``advice``, if that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=".part.", dir=path.parent))
    except OSError as error:
        raise DataError(f"{path.parent}: nothing can be written there ({error.strerror}). {advice}") from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class InputChanged(VideoError):
    """A file was replaced or written to while it was being read: its results would mix two versions."""


FileIdentity: TypeAlias = tuple[int, ...]
"""Inode, bytes and time of change in ns: the same as long as a file and its content are. Empty if there is no file.

The device is left out: the same file of a network share has another one on every machine.
"""


def file_identity(path: str | os.PathLike[str]) -> FileIdentity:
    """Return the identity of the file that ``path`` leads to, links followed."""
    try:
        found = Path(path).stat()
    except (OSError, ValueError):
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns


class SourceFiles:
    """Files that belong to one input, each with the identity it had when it was first seen. Can be pickled."""

    def __init__(self, paths: Iterable[Path] = ()) -> None:
        self._identities = {path: file_identity(path) for path in paths}

    @property
    def digest(self) -> str:
        """A short text that changes if any of the files does."""
        told = [(path.name, *identity) for path, identity in self._identities.items()]
        return hashlib.blake2b(repr(told).encode(errors="surrogateescape"), digest_size=16).hexdigest()

    def check(self, *paths: Path) -> None:
        """Raise ``InputChanged`` if one of ``paths`` (default: any file) is another one than when it was first seen."""
        for path in paths or tuple(self._identities):
            now = file_identity(path)
            if self._identities.setdefault(path, now) != now:
                raise changed(path)


def changed(path: str | os.PathLike[str]) -> InputChanged:
    """Return the error for a file that is not the one it was when it was first seen."""
    return InputChanged(
        f"{path}: it was replaced or written to while it was being read, so the results would mix two versions. "
        "Nothing was kept; run again once the file stays as it is."
    )
