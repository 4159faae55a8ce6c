"""A result folder: what ``segment`` leaves for one input, and how to read it back."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clockseg.errors import DataError, UsageError
from clockseg.files import whole
from clockseg.segmenting.manifest import MANIFEST
from clockseg.types import Array, Labels
from clockseg.video import read_labels as _read_labels
from clockseg.video import read_values as _read_values

FILES = {
    "labels": "labels.mkv",
    "values": "values.mkv",
    "overlay": "overlay.mp4",
    "trace": "trace.jsonl",
    "png": "png",
    "npy": "npy",
}
"""What can be written, and its name in the folder; ``summary.json`` is always there."""
SUMMARY, REPORT = "summary.json", "report.html"
PIECE = "piece.json"
"""The file in the folder of a piece that tells what came of it: where it is, the piece is whole."""
LONGEST = 160
"""Bytes of a result folder's name, so that with what is written beside and inside it stays below what file systems take."""
_UNFIT = "[\x00-\x1f\x7f-\x9f/\\\\\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]"
"""Separators, control characters, and what makes a name look like another."""
_MARK = "job.json"
OF_LABELS, OF_VALUES = ("labels", "overlay", "trace", "png"), ("values", "overlay", "trace", "npy")
"""What of it suits a network that gives class ids, and one that gives maps of numbers, such as depth."""


def read_labels(result: str | os.PathLike[str]) -> Iterator[Labels]:
    """The label maps of a result folder (or of a ``labels.mkv``), one uint8 [h, w] a frame, in order.

    >>> import tempfile
    >>> import numpy as np
    >>> from clockseg.video import LabelWriter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with LabelWriter(f"{folder}/labels.mkv") as writer:
    ...         writer.append(np.array([[0, 7, 255]], np.uint8))
    ...     [labels.tolist() for labels in read_labels(folder)]
    [[[0, 7, 255]]]
    """
    path = Path(result)
    return _read_labels(path / FILES["labels"] if path.is_dir() else path)


def read_values(result: str | os.PathLike[str]) -> Iterator[Array]:
    """The maps of numbers of a result folder (or of a ``values.mkv``), float32 [h, w] or [channels, h, w] a frame, in order.

    >>> import tempfile
    >>> import numpy as np
    >>> from clockseg.video import ValueWriter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with ValueWriter(f"{folder}/values.mkv") as writer:
    ...         writer.append(np.array([[0.5, 2.25]]))
    ...     [values.tolist() for values in read_values(folder)]
    [[[0.5, 2.25]]]
    """
    path = Path(result)
    return _read_values(path / FILES["values"] if path.is_dir() else path)


def read_trace(result: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The trace of a result folder (or a ``trace.jsonl``): a dict a frame, as README describes them.

    A ``DataError`` names the line that is not JSON.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "trace.jsonl").write_text('{"fired": [true, true]}\\n{"fired": [true, false]}')
    ...     [line["fired"] for line in read_trace(folder)]
    [[True, True], [True, False]]
    """
    path = Path(result)
    path = path / FILES["trace"] if path.is_dir() else path
    lines = []
    for number, line in enumerate(_text(path).splitlines(), start=1):
        try:
            lines.append(json.loads(line))
        except ValueError as error:
            raise DataError(f"{path}, line {number}: not JSON ({error}). Segment the video again.") from None
    return lines


def read_summary(result: str | os.PathLike[str]) -> dict[str, Any]:
    """The summary of a result folder (or a ``summary.json``).

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "summary.json").write_text('{"frames": 250, "network_rate": 0.25}')
    ...     read_summary(folder)["network_rate"]
    0.25
    """
    path = Path(result)
    path = path / SUMMARY if path.is_dir() else path
    try:
        found: dict[str, Any] = json.loads(_text(path))
    except ValueError as error:
        raise DataError(f"{path}: not JSON ({error}). Segment the video again.") from None
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: can't be read ({error}). Give a folder that clockseg segment wrote.") from error


def check_writes(write: Iterable[str] | None, *, values: bool = False) -> tuple[str, ...]:
    """The kinds of files asked for, checked; by default labels, overlay and trace.

    ``values``: for a network that gives maps of numbers; then it is ``values`` that stands for ``labels``.

    >>> check_writes(["trace", "labels"]), check_writes(None, values=True)
    (('labels', 'trace'), ('values', 'overlay', 'trace'))
    """
    allowed = OF_VALUES if values else OF_LABELS
    asked = set(allowed[:3] if write is None else write)
    unknown = sorted(asked - set(allowed))
    if unknown:
        what = "maps of numbers, no labels" if values else "labels"
        given = f", and the network gives {what}" if set(unknown) <= set(FILES) else ""
        raise UsageError(f"can't write {', '.join(map(repr, unknown))}{given}; there are {', '.join(allowed)}.")
    return tuple(kind for kind in FILES if kind in asked)


def folder_name(text: str) -> str:
    """``text`` as the name of a folder: no separators, nothing hidden, no control characters, not too long.

    >>> folder_name("a/b\\n"), folder_name(".."), folder_name(".part"), len(folder_name("x" * 300))
    ('a_b_', '_', '_part', 160)
    """
    name = re.sub(_UNFIT, "_", text)
    name = re.sub(r"^\.+", "_", name).strip() or "_"
    # A video's result may lie in that of another, beside its files, and lies beside the manifest.
    name = f"{name}_" if name in (*FILES.values(), SUMMARY, REPORT, MANIFEST) else name
    return os.fsdecode(os.fsencode(name)[:LONGEST]) if len(os.fsencode(name)) > LONGEST else name


def clip_name(clip: str | os.PathLike[str]) -> str:
    """What the folder of a clip would like to be called: by its stem, and a folder of images by its name.

    >>> clip_name("a/x.mp4"), clip_name("/")
    ('x', 'clip')
    """
    path = Path(os.path.abspath(clip))
    return folder_name((path.name if path.is_dir() else path.stem) or "clip")


def apart(names: Iterable[Path], *, taken: Iterable[Path] = ()) -> Iterator[Path]:
    """The names, those that are ``taken`` or come again with ``-2``, ``-3`` and so on behind.

    >>> [name.name for name in apart([Path("x"), Path("x"), Path("y")], taken=[Path("y")])]
    ['x', 'x-2', 'y-2']
    """
    gone = set(taken)
    for name in names:
        free, number = name, 2
        while free in gone:
            free, number = name.with_name(f"{name.name}-{number}"), number + 1
        gone.add(free)
        yield free


@dataclass(frozen=True)
class ResultFolder:
    """The folder of one result in the making: all is written into ``part``, and comes out of it at ``publish``.

    ``made``: the folders that were made for it, innermost first. Plain, so that several processes may write into it.
    """

    path: Path
    made: tuple[Path, ...] = ()

    @classmethod
    def begin(
        cls, path: Path, source: Path, *, overwrite: bool, mark: dict[str, Any] | None = None, resume: bool = False
    ) -> ResultFolder:
        """Make the folder, ready to be written into.

        ``mark``: what the result will be of, as plain values; with ``resume``, pieces that a run of the same mark left whole
        stay. ``UsageError`` if there is a result already and ``overwrite`` is not set, or if the result would be written
        over its ``source``; ``DataError`` if the folder can't be made.
        """
        read, into = source.resolve(), path.resolve()
        if read == into or any(into / name in (read, *read.parents) for name in (*FILES.values(), SUMMARY)):
            raise UsageError(f"{path}: the result would be written over its input {source}; give another --out.")
        cls.check_free(path, overwrite=overwrite, resume=resume)
        result = cls(path, tuple(folder for folder in (path, *path.parents) if not folder.exists()))
        try:
            path.mkdir(parents=True, exist_ok=True)
            if not (resume and result._marked() == mark):
                shutil.rmtree(result.part, ignore_errors=True)
                result.part.mkdir()
                with whole(result.part / _MARK) as part:
                    part.write_text(json.dumps(mark))
        except OSError as error:
            raise DataError(f"{path}: can't be made ({error.strerror}). Give an --out that can be written.") from error
        return result

    @classmethod
    def check_free(cls, path: Path, *, overwrite: bool, resume: bool) -> None:
        """``UsageError`` if a result is there, or one that was begun, and it is neither to be replaced nor gone on with."""
        old = [name for name in (*FILES.values(), SUMMARY) if (path / name).exists()]
        if old and not overwrite:
            raise UsageError(
                f"{path} holds a result already ({', '.join(old)}); give another --out, --overwrite to replace it, or --resume "
                "to leave what is done."
            )
        if not (resume or overwrite) and cls(path).begun():
            raise UsageError(
                f"{path} holds an unfinished result; --resume goes on with it, --overwrite begins it anew."
            )

    @property
    def part(self) -> Path:
        """Where all is written until it is whole."""
        return self.path / ".part"

    def piece(self, number: int) -> Path:
        """The folder of a piece, there or not."""
        return self.part / f"{number:06d}"

    def begun(self) -> bool:
        """Whether there are pieces that are whole, for a later run to go on with."""
        return any(self.part.glob(f"*/{PIECE}"))

    def publish(self, made: Path, summary: dict[str, Any]) -> None:
        """Give the files in the folder ``made``, inside of ``part``, their names, in place of an older result's.

        The summary comes last: where there is one, the rest is there. The pieces go when all is done.
        """
        write_summary(made, summary)
        for name in (SUMMARY, REPORT):
            (self.path / name).unlink(missing_ok=True)
        for name in (*FILES.values(), SUMMARY):
            old, new = self.path / name, made / name
            if old.is_dir():
                shutil.rmtree(old)
            else:
                old.unlink(missing_ok=True)
            if new.exists():
                new.replace(old)
        shutil.rmtree(self.part, ignore_errors=True)

    def abandon(self) -> None:
        """Remove what was written, and the folders that were made for it, unless something else is in them by now."""
        shutil.rmtree(self.part, ignore_errors=True)
        with suppress(OSError):
            for folder in self.made:
                folder.rmdir()

    def _marked(self) -> Any:
        try:
            return json.loads((self.part / _MARK).read_text())
        except (OSError, ValueError):
            return None


def write_summary(folder: Path, summary: dict[str, Any]) -> None:
    """Write ``summary.json``."""
    (folder / SUMMARY).write_text(json.dumps(summary, indent=1, allow_nan=False) + "\n")
