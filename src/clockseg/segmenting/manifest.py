"""The manifest of a run: the state of each video, one JSON line per change, so that the run can be resumed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from clockseg.errors import ClocksegError, DataError, UsageError
from clockseg.files import whole

MANIFEST = "manifest.jsonl"
"""Its name in the output folder."""
State: TypeAlias = Literal["waiting", "running", "done", "failed"]


@dataclass(frozen=True)
class Entry:
    """The state of one video.

    ``input``: its absolute path as printable text; ``folder`` of its result, relative to the manifest; ``pieces`` into which it
    is cut, of which ``whole`` are complete, with so many ``frames``; ``error``: why it failed; ``setting``: network, schedule and
    options; ``identity`` of the input (``Clip.identity``), so that a replaced one is noticed.
    """

    input: str
    folder: str
    state: State = "waiting"
    pieces: int | None = None
    whole: int = 0
    frames: int | None = None
    error: str | None = None
    setting: dict[str, Any] = field(default_factory=dict)
    identity: str | None = None

    def line(self) -> str:
        """Return the entry as a line of the manifest."""
        return json.dumps(asdict(self))


def read_line(text: str) -> Entry | None:
    """Parse a line of the manifest; None for a broken one, such as the last line of a run that was killed."""
    try:
        entry = Entry(**json.loads(text))
    except (ValueError, TypeError, RecursionError):
        return None
    return entry if isinstance(entry.input, str) and _inside(entry.folder) else None


def _inside(folder: Any) -> bool:
    """Return True for a relative path that stays inside the output folder."""
    path = Path(folder) if isinstance(folder, str) else None
    return path is not None and bool(path.parts) and not path.is_absolute() and ".." not in path.parts


class Manifest:
    """The manifest of an output folder: each change appends a line, and the last line of a video counts. Opened by ``manifest``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.entries = read(path)

    def put(self, entry: Entry) -> None:
        """Record the state of a video."""
        self.entries[entry.input] = entry
        with writing(self._path), self._path.open("a", encoding="utf-8") as file:
            file.write(entry.line() + "\n")

    def compact(self) -> None:
        """Rewrite the file with one line per video, in the order of their first lines."""
        if self.entries:
            with writing(self._path), whole(self._path) as part:
                part.write_text("".join(f"{entry.line()}\n" for entry in self.entries.values()))


@contextmanager
def writing(path: str | os.PathLike[str], done: str = "written") -> Iterator[None]:
    """Raise the system's refusal to write as a ``DataError`` that names the path."""
    try:
        yield
    except OSError as error:
        if isinstance(error, ClocksegError):
            raise
        why = error.strerror or error
        raise DataError(f"{path}: can't be {done} ({why}). Give an --out that is writable and has room.") from error


@contextmanager
def manifest(out: Path) -> Iterator[Manifest]:
    """Open the manifest of the folder ``out``, which is created if needed, for this process alone.

    ``UsageError`` if another process is writing there; ``DataError`` if the folder can't be written.
    """
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out} is a file; give a folder.")
    with writing(out, "created"):
        out.mkdir(parents=True, exist_ok=True)
    with _alone(out):
        found = Manifest(out / MANIFEST)
        try:
            yield found
        finally:
            found.compact()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Lock the folder, where the system can; the lock ends with this process, however it ends."""
    try:
        from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock
    except ImportError:
        yield
        return
    held = os.open(folder, os.O_RDONLY)
    try:
        flock(held, LOCK_EX | LOCK_NB)
        yield
    except BlockingIOError as error:
        raise UsageError(f"{folder}: another run is writing there. Wait for it, or give another --out.") from error
    finally:
        # A forked process may still have the descriptor, and closing this one would leave the folder locked.
        flock(held, LOCK_UN)
        os.close(held)


def read(path: str | os.PathLike[str]) -> dict[str, Entry]:
    """Return the last entry of each video in a manifest (or in a folder's manifest) by the video's path; empty if there is none."""
    file = Path(path)
    file = file / MANIFEST if file.is_dir() else file
    lines = read_text(file, errors="replace").split("\n") if file.is_file() else []
    return {entry.input: entry for entry in map(read_line, lines) if entry is not None}


def read_text(path: Path, *, errors: str = "strict") -> str:
    """Read a text file that a run wrote; ``errors``: as of ``open``. ``DataError`` if it can't be read."""
    try:
        return path.read_text(errors=errors)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: can't be read ({error}). Give a folder that clockseg segment wrote.") from error
