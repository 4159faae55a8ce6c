"""Identity of input files: inputs are opened several times, and a file that was replaced in between must be noticed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from clockseg.errors import VideoError


class InputChanged(VideoError):
    """A file was replaced or written to while it was being read: its results would mix two versions."""


class FileIdentity(NamedTuple):
    """Values that stay the same as long as a file and its content do; all None if there is no file.

    The device is left out: the same file of a network share has another one on every machine.
    """

    inode: int | None = None
    bytes: int | None = None
    modified_ns: int | None = None


def file_identity(path: str | os.PathLike[str]) -> FileIdentity:
    """Return the identity of the file that ``path`` leads to, links followed.

    >>> file_identity("no-such-file.mp4")
    FileIdentity(inode=None, bytes=None, modified_ns=None)
    """
    try:
        found = Path(path).stat()
    except (OSError, ValueError):
        return FileIdentity()
    return FileIdentity(found.st_ino, found.st_size, found.st_mtime_ns)


class SourceFiles:
    """Files that belong to one input, each with the identity it had when it was first seen. Can be pickled.

    >>> files = SourceFiles([Path("no-such-file.mp4")])
    >>> files.check()
    """

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
