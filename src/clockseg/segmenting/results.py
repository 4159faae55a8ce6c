"""Result folders: the files that ``segment`` writes for one input, and functions that read them."""

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
from clockseg.instances.sets import decoded
from clockseg.segmenting.manifest import MANIFEST, read_text, writing
from clockseg.showing.kind import Kind
from clockseg.types import Array, Labels
from clockseg.video import read_labels as _read_labels
from clockseg.video import read_values as _read_values

FILES = {
    "labels": "labels.mkv",
    "values": "values.mkv",
    "instances": "instances.jsonl",
    "overlay": "overlay.mp4",
    "trace": "trace.jsonl",
    "png": "png",
    "npy": "npy",
}
"""Kinds of output and their names in the folder; ``summary.json`` is always there."""
SUMMARY, REPORT = "summary.json", "report.html"
PIECE = "piece.json"
"""The file in a piece's folder that holds its result; a piece that has it is complete."""
LONGEST = 160
"""Most bytes of a result folder's name: temporary names add to it, and file systems take 255."""
_UNFIT = "[\x00-\x1f\x7f-\x9f/\\\\\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
"""Separators, control characters, characters that make a name look like another, and what is not UTF-8."""
WRITES: dict[Kind, tuple[str, ...]] = {
    "labels": ("labels", "overlay", "trace", "png"),
    "values": ("values", "overlay", "trace", "npy"),
    "instances": ("instances", "overlay", "trace"),
}
"""Kinds of files by the network's kind of output; the first three are the default."""


def read_labels(result: str | os.PathLike[str]) -> Iterator[Labels]:
    """Yield the label maps of a result folder (or of a ``labels.mkv``), uint8 [h, w] for each frame, in order."""
    return _read_labels(_file_of(result, FILES["labels"]))


def read_values(result: str | os.PathLike[str]) -> Iterator[Array]:
    """Yield the maps of numbers of a result folder (or of a ``values.mkv``), float32 [h, w] or [channels, h, w], in order."""
    return _read_values(_file_of(result, FILES["values"]))


def read_trace(result: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Read the trace of a result folder (or a ``trace.jsonl``): one dict for each frame.

    ``DataError`` names a line that is not JSON.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "trace.jsonl").write_text('{"fired": [true, true]}\\n{"fired": [true, false]}')
    ...     [line["fired"] for line in read_trace(folder)]
    [[True, True], [True, False]]
    """
    return [told for _, told in _lines(_file_of(result, FILES["trace"]))]


def read_instances(result: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """Yield the lines of a result folder's ``instances.jsonl`` (or of the file): frame, its size (W, H), and its instances, each
    with its ``mask``, bool [H, W].

    ``DataError`` names a line that is damaged.
    """
    for place, told in _lines(_file_of(result, FILES["instances"])):
        try:
            for one in told["instances"]:
                one["mask"] = decoded(one["segmentation"])
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{place}: no instances ({error}). Segment the video again.") from None
        yield told


def read_summary(result: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the summary of a result folder (or a ``summary.json``).

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "summary.json").write_text('{"frames": 250, "network_rate": 0.25}')
    ...     read_summary(folder)["network_rate"]
    0.25
    """
    path = _file_of(result, SUMMARY)
    found: dict[str, Any] = _json(read_text(path), path)
    return found


def check_result(folder: Path) -> None:
    """Raise ``DataError`` for a folder without a summary; it names some of the result folders in it, if there are any."""
    if not (folder / SUMMARY).is_file():
        inside = sorted(summary.parent.name for summary in folder.glob(f"*/{SUMMARY}"))
        such = f", such as one of those in it: {', '.join(inside[:5])}" if inside else ""
        fault = f"no {SUMMARY} in it" if folder.exists() else "no such folder"
        raise DataError(f"{folder}: {fault}. Give a folder that clockseg segment wrote{such}.")


def _file_of(result: str | os.PathLike[str], name: str) -> Path:
    """Return the path of a file of a result folder, or ``result`` itself if it is a file."""
    path = Path(result)
    if not path.is_dir():
        return path
    if not (path / name).exists():
        check_result(path)
    return path / name


def _lines(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the place of each line of a JSON lines file, for errors, and its content."""
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        place = f"{path}, line {number}"
        yield place, _json(line, place)


def _json(text: str, place: str | Path) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise DataError(f"{place}: not JSON ({error}). Segment the video again.") from None


def check_writes(write: Iterable[str] | None, kind: Kind = "labels") -> tuple[str, ...]:
    """Check the requested kinds of files for a network of this kind of output, and return them in a fixed order."""
    allowed = WRITES[kind]
    asked = set(allowed[:3] if write is None else write)
    unknown = sorted(asked - set(allowed))
    if unknown:
        gives = "maps of numbers, no labels" if kind == "values" else kind
        given = f", and the network gives {gives}" if set(unknown) <= set(FILES) else ""
        raise UsageError(f"can't write {', '.join(map(repr, unknown))}{given}; there are {', '.join(allowed)}.")
    return tuple(kind for kind in FILES if kind in asked)


def folder_name(text: str) -> str:
    """Return ``text`` as the name of a folder: no separators, no leading dot, no control characters, not too long.

    Bytes that are not UTF-8 become ``_``, and a long name is cut between characters.

    >>> folder_name("a/b\\n"), folder_name(".."), folder_name(".part"), len(folder_name("日" * 60))
    ('a_b_', '_', '_part', 53)
    """
    # Names are UTF-8 whatever the locale makes of them.
    name = re.sub(_UNFIT, "_", os.fsencode(text).decode(errors="surrogateescape"))
    name = re.sub(r"^\.+", "_", name).strip() or "_"
    # A video's result may lie in that of another, beside its files, and lies beside the manifest.
    name = f"{name}_" if name in (*FILES.values(), SUMMARY, REPORT, MANIFEST) else name
    return os.fsdecode(name.encode()[:LONGEST].decode(errors="ignore").encode())


def is_result(folder: Path) -> bool:
    """Return True for a folder that holds a result, complete or not."""
    if (folder / ".part").is_dir():
        return True
    try:
        return "source" in read_summary(folder)
    except (DataError, TypeError):
        return False


def free_name(name: Path, taken: set[Path]) -> Path:
    """Return the name, with ``-2``, ``-3`` and so on if it is ``taken``, and add it to those."""
    free, number = name, 2
    while free in taken:
        free, number = name.with_name(f"{name.name}-{number}"), number + 1
    taken.add(free)
    return free


@dataclass(frozen=True)
class ResultFolder:
    """The folder of one result while it is written: files are written into ``part``, and ``publish`` moves them out of it.

    ``made``: the folders that were created for it, innermost first. Several processes may write into it.
    """

    path: Path
    made: tuple[Path, ...] = ()

    @classmethod
    def begin(cls, path: Path, source: Path, *, keep: bool = False) -> ResultFolder:
        """Create the folder; ``keep``: complete pieces of an earlier run stay.

        ``UsageError`` if the result would overwrite its ``source``; ``DataError`` if the folder can't be created.
        """
        read, into = source.resolve(), path.resolve()
        if read == into or any(into / name in (read, *read.parents) for name in (*FILES.values(), SUMMARY)):
            raise UsageError(f"{path}: the result would be written over its input {source}; give another --out.")
        result = cls(path, tuple(folder for folder in (path, *path.parents) if not folder.exists()))
        with writing(path, "created"):
            path.mkdir(parents=True, exist_ok=True)
            if not keep:
                shutil.rmtree(result.part, ignore_errors=True)
            result.part.mkdir(exist_ok=True)
        return result

    def check_free(self, *, overwrite: bool, resume: bool | None = None) -> None:
        """Raise ``UsageError`` if the folder holds a result, complete or not, that is neither to be replaced nor resumed.

        ``resume``: None if the command has no ``--resume``.
        """
        old = [name for name in (*FILES.values(), SUMMARY) if (self.path / name).exists()]
        held = f"a result already ({', '.join(old)})" if old else "an unfinished result"
        if not overwrite and (old or (not resume and self.begun())):
            keep = "" if resume is None else ", or --resume to keep what is complete"
            raise UsageError(f"{self.path} holds {held}; give another --out, or --overwrite to replace it{keep}.")

    @property
    def part(self) -> Path:
        """The folder into which files are written until all are complete."""
        return self.path / ".part"

    def piece(self, number: int) -> Path:
        """Return the path of a piece's folder, which may not exist."""
        return self.part / f"{number:06d}"

    def begun(self) -> bool:
        """Return True if there are complete pieces that a later run can use."""
        return any(self.part.glob(f"*/{PIECE}"))

    def publish(self, made: Path, summary: dict[str, Any]) -> None:
        """Move the files in the folder ``made``, inside ``part``, into the result folder, replacing those of an older result.

        The summary is moved last, so that a folder with a summary is complete; then the pieces are removed.
        """
        with writing(self.path):
            (made / SUMMARY).write_text(json.dumps(summary, indent=1, allow_nan=False) + "\n")
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
        """Remove everything that was written, and the folders that were created, unless they hold something else by now."""
        shutil.rmtree(self.part, ignore_errors=True)
        with suppress(OSError):
            for folder in self.made:
                folder.rmdir()
