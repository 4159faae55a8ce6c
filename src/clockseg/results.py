"""A result folder: what ``segment`` leaves for one input, and how to read it back."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clockseg._errors import DataError, UsageError
from clockseg._types import Array, Labels
from clockseg._whole_file import whole
from clockseg.trace import Record
from clockseg.video import Frame
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
_MARK, _FRAME = "job.json", '{"frame": '
OF_LABELS, OF_VALUES = ("labels", "overlay", "trace", "png"), ("values", "overlay", "trace", "npy")
"""What of it suits a network that gives class ids, and one that gives maps of numbers, such as depth."""


def read_labels(result: str | os.PathLike[str]) -> Iterator[Labels]:
    """The label maps of a result folder (or of a ``labels.mkv``), one uint8 [h, w] a frame, in order."""
    path = Path(result)
    return _read_labels(path / FILES["labels"] if path.is_dir() else path)


def read_values(result: str | os.PathLike[str]) -> Iterator[Array]:
    """The maps of numbers of a result folder (or of a ``values.mkv``), float32 [h, w] or [channels, h, w] a frame, in order."""
    path = Path(result)
    return _read_values(path / FILES["values"] if path.is_dir() else path)


def read_trace(result: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The trace of a result folder (or a ``trace.jsonl``): a dict a frame, as README describes them.

    A ``DataError`` names the line that is not JSON.
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
    """The summary of a result folder (or a ``summary.json``)."""
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


def folders(inputs: Sequence[str | os.PathLike[str]], out: Path) -> list[Path]:
    """A folder in ``out`` for each input, by its stem; a second input of the same stem gets ``-2``.

    >>> [folder.name for folder in folders(["a/x.mp4", "b/x.avi", "clip.v2/"], Path("out"))]
    ['x', 'x-2', 'clip']
    """
    found: list[Path] = []
    for source in inputs:
        path = Path(os.path.abspath(source))
        stem = (path.name if path.is_dir() else path.stem) or "clip"
        folder, number = out / stem, 2
        while folder in found:
            folder, number = out / f"{stem}-{number}", number + 1
        found.append(folder)
    return found


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
        old = [name for name in (*FILES.values(), SUMMARY) if (path / name).exists()]
        if old and not overwrite:
            raise UsageError(
                f"{path} holds a result already ({', '.join(old)}); give another --out, or --overwrite to replace it."
            )
        if not (resume or overwrite) and cls(path).begun():
            raise UsageError(
                f"{path} holds an unfinished result; --resume goes on with it, --overwrite begins it anew."
            )
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


def trace_line(frame: Frame, record: Record, *, encode_seconds: float) -> str:
    """One line of ``trace.jsonl``, without its end."""
    seconds = record.seconds
    base = frame.time_base
    return json.dumps(
        {
            "frame": frame.index,
            "pts": frame.pts,
            "time_base": None if base is None else f"{base.numerator}/{base.denominator}",
            "pts_seconds": None if frame.pts_seconds is None else round(frame.pts_seconds, 6),
            "size": list(frame.size),
            "fill": record.fill,
            "fired": list(record.fired),
            "signal": [_finite(signal) for signal in record.signal],
            "carried": record.carried,
            "share": [round(part, 4) for part in record.share],
            "seconds": {
                "decode": round(frame.decode_seconds, 6),
                "stages": [round(spent, 6) for spent in seconds.stages],
                "clock": round(seconds.clock, 6),
                "motion": round(seconds.motion, 6),
                "fuse": round(seconds.fuse, 6),
                "finish": round(seconds.finish, 6),
                "encode": round(encode_seconds, 6),
            },
        },
        allow_nan=False,
    )


def renumbered(line: str, by: int) -> str:
    """A line of a trace that ``trace_line`` made, with a frame number higher ``by`` so many.

    >>> renumbered('{"frame": 2, "pts": 1}', 100)
    '{"frame": 102, "pts": 1}'
    """
    number, comma, rest = line.removeprefix(_FRAME).partition(",")
    return f"{_FRAME}{int(number) + by}{comma}{rest}"


def _finite(signal: float | None) -> float | None:
    """What JSON can say of a clock's signal; not a number is none."""
    return round(float(signal), 6) if signal is not None and math.isfinite(signal) else None


def write_summary(folder: Path, summary: dict[str, Any]) -> None:
    """Write ``summary.json``."""
    (folder / SUMMARY).write_text(json.dumps(summary, indent=1, allow_nan=False) + "\n")
