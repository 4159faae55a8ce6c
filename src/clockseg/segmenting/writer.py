"""The files of a result: written piece by piece, each while its session runs, and joined."""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Self, TextIO, TypeAlias

import cv2
import numpy as np

from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.trace import Record
from clockseg.files import printable
from clockseg.instances.drawing import drawn as with_instances
from clockseg.instances.sets import Instances, instance_line
from clockseg.segmenting.results import FILES, folder_name, free_name
from clockseg.showing.kind import kind_of
from clockseg.types import Array, Size
from clockseg.video import Background, Clip, Frame, Heat, LabelWriter, ValueWriter, write_npy, write_png
from clockseg.video.drawing import STRIPS, Drawing
from clockseg.video.join import join, linked
from clockseg.video.maps import LARGEST
from clockseg.video.overlay import HEAT_COLOURS, colours_of

Append: TypeAlias = Callable[[Frame, Any, Record], None]


class ResultWriter:
    """Writes the files of one piece; ``append`` is called in the thread behind the session.

    ``folder`` is a temporary one, which the caller renames or removes. ``writes``: kinds of ``FILES``; ``fps`` of the video
    (None: unknown), of which each frame number ``every`` is taken; ``size``: (w, h) of the whole video's first frame, to which
    label maps and pictures are resized (None: of the first one here). Leaving a ``with`` block completes the files; after an
    exception they are incomplete.
    ``scale``: the numbers for the ends of the overlay's colours (None: they follow the numbers slowly).
    ``end_seconds``: the end of the last frame taken, None where frames have no times.
    """

    def __init__(
        self,
        folder: Path,
        writes: tuple[str, ...],
        net: StagedNetwork,
        *,
        fps: Fraction | None,
        every: int = 1,
        size: Size | None = None,
        strip: str = STRIPS[0],
        classes: Sequence[int] | None = None,
        scale: tuple[float, float] | None = None,
    ) -> None:
        fps = None if fps is None else fps / every
        self.end_seconds: float | None = None
        self._every, self._period_seconds = every, 0.0 if fps is None else float(1 / fps)
        self._appends: list[Append] = []
        self._values: ValueWriter | None = None
        self._drawing: Background[Frame, Any, Record] | None = None
        self._classes = classes
        with ExitStack() as stack:
            self._trace = stack.enter_context((folder / FILES["trace"]).open("w")) if "trace" in writes else None
            if "labels" in writes:
                labels = LabelWriter(folder / FILES["labels"], fps=fps, size=size)
                self._appends.append(_maps(stack.enter_context(labels)))
            if "values" in writes:
                self._values = ValueWriter(folder / FILES["values"], fps=fps, size=size)
                self._appends.append(_maps(stack.enter_context(self._values)))
            if "instances" in writes:
                self._appends.append(_lines(stack.enter_context((folder / FILES["instances"]).open("w")), net))
            if "overlay" in writes:
                video = stack.enter_context(_video(folder / FILES["overlay"], net, strip, fps, size))
                # A thread of its own: drawing and encoding take longer than all other files together.
                self._drawing = stack.enter_context(Background(_drawn(video, net, scale)))
                self._appends.append(self._drawing.put)
            if "png" in writes:
                self._appends.append(_pictures(folder / FILES["png"], write_png))
            if "npy" in writes:
                self._appends.append(_pictures(folder / FILES["npy"], write_npy))
            self._open = stack.pop_all()

    @property
    def problems(self) -> tuple[str, ...]:
        """One sentence for each kind of loss while writing."""
        clipped = 0 if self._values is None else self._values.clipped
        return (f"{clipped} numbers were too large for values.mkv and are {LARGEST:g} there",) if clipped else ()

    @property
    def drawing_seconds(self) -> float:
        """Seconds spent on the overlay, which has a thread of its own."""
        return 0.0 if self._drawing is None else self._drawing.seconds

    def append(self, frame: Frame, output: Any, record: Record, more: Mapping[str, Any] = {}) -> None:
        """Write one frame; its line of the trace comes last, with the seconds that the other files took (not the overlay).

        ``more``: fields to add to the line.
        """
        start = time.perf_counter()
        if self._every > 1:
            # It is shown until the next one taken, however long it lasted itself.
            frame = replace(frame, duration=None)
        if self._classes is not None:
            output = _only(output, self._classes)
        for append in self._appends:
            append(frame, output, record)
        if self._trace is not None:
            line = trace_line(frame, record, encode_seconds=time.perf_counter() - start, more=more)
            self._trace.write(line + "\n")
        if frame.pts_seconds is not None:
            self.end_seconds = frame.pts_seconds + (frame.duration_seconds or self._period_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: Any) -> None:
        self._open.__exit__(*raised)


def _only(output: Any, classes: Sequence[int]) -> Any:
    """Return the instances of these classes, or the label map with all other labels replaced by 255."""
    if isinstance(output, Instances):
        return output.only(np.isin(output.classes, classes))
    ids = np.arange(256)
    return cv2.LUT(np.asarray(output), np.where(np.isin(ids, classes), ids, 255).astype(np.uint8))


def _maps(video: LabelWriter | ValueWriter) -> Append:
    return lambda frame, output, record: video.append(
        output, frame.pts_seconds, duration_seconds=frame.duration_seconds
    )


def _lines(file: TextIO, net: StagedNetwork) -> Append:
    def append(frame: Frame, output: Instances, record: Record) -> None:
        file.write(instance_line(frame.index, output, net.classes) + "\n")

    return append


def _video(path: Path, net: StagedNetwork, strip: str, fps: Fraction | None, size: Size | None) -> Drawing:
    kind = kind_of(net)
    colours = HEAT_COLOURS if kind == "values" else colours_of(getattr(net.sidecar, "palette", ()))
    classes = net.classes if kind == "labels" else None
    return Drawing(path, net.names, colours, classes=classes, strip=strip, fps=fps, size=size)


def _drawn(video: Drawing, net: StagedNetwork, scale: tuple[float, float] | None) -> Append:
    kind, heat = kind_of(net), Heat(scale)

    def append(frame: Frame, output: Any, record: Record) -> None:
        if kind == "instances":
            output = with_instances(frame.image, output, net.classes)
        elif kind == "values":
            output = heat.levels(output)
        video.draw(frame, output, record.fired, record.fill)

    return append


def _pictures(folder: Path, write: Callable[[Array, Path], None]) -> Append:
    """Write one file per frame with ``write(output, path)``, named after the image, else by number; their suffix is the folder's name."""
    folder.mkdir(exist_ok=True)
    taken: set[Path] = set()

    def append(frame: Frame, output: Array, record: Record) -> None:
        stem = f"{frame.index:06d}" if frame.file is None else folder_name(Path(frame.file).stem)
        write(output, folder / f"{free_name(Path(stem), taken)}.{folder.name}")

    return append


def trace_line(frame: Frame, record: Record, *, encode_seconds: float, more: Mapping[str, Any]) -> str:
    """Return one line of ``trace.jsonl``, without its line break."""
    seconds = record.seconds
    base = frame.time_base
    return json.dumps(
        {
            "frame": frame.index,
            **({} if frame.file is None else {"file": printable(frame.file)}),
            "pts": frame.pts,
            "time_base": None if base is None else f"{base.numerator}/{base.denominator}",
            "pts_seconds": None if frame.pts_seconds is None else round(frame.pts_seconds, 6),
            "size": list(frame.size),
            "fill": record.fill,
            "fired": list(record.fired),
            "signal": [_finite(signal) for signal in record.signal],
            "carried": record.propagated,
            "seconds": {
                "decode": round(frame.decode_seconds, 6),
                "stages": [round(spent, 6) for spent in seconds.stages],
                **{name: round(getattr(seconds, name), 6) for name in ("clock", "motion", "fuse", "finish")},
                "encode": round(encode_seconds, 6),
            },
            **more,
        },
        allow_nan=False,
    )


def _finite(signal: float | None) -> float | None:
    """Return a clock's signal as JSON can hold it: None unless it is a finite number."""
    return round(float(signal), 6) if signal is not None and math.isfinite(signal) else None


def join_pieces(
    folders: Sequence[Path],
    starts: Sequence[int],
    made: Path,
    writes: Iterable[str],
    clip: Clip,
    start_seconds: Fraction | None,
    end_seconds: float | None,
) -> tuple[str, ...]:
    """Join the files in the ``folders`` of all pieces, in order, into the new folder ``made``; return what sound was lost.

    Frames are numbered consecutively from the ``starts`` of the pieces. The overlay gets the sound of the clip from
    ``start_seconds`` to ``end_seconds`` (None: all). The folders stay as they are.
    """
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    problems: tuple[str, ...] = ()
    for kind in writes:
        name = FILES[kind]
        every = [(folder / name, start) for folder, start in zip(folders, starts, strict=True)]
        found = [(path, start) for path, start in every if path.exists()]
        videos = [path for path, _ in found]
        if kind in ("trace", "instances"):
            _join_lines(found, made / name)
        elif kind in ("png", "npy"):
            _join_pictures(found, made / name)
        elif kind == "overlay":
            sound = clip.path if clip.has_audio and clip.kind == "video" else None
            problems = join(
                videos, made / name, audio_from=sound, start_seconds=start_seconds, audio_end_seconds=end_seconds
            )
        else:
            join(videos, made / name)
    return problems


def _join_lines(found: Iterable[tuple[Path, int]], path: Path) -> None:
    with path.open("w") as joined:
        for piece, start in found:
            with piece.open() as lines:
                for line in lines:
                    told = json.loads(line)
                    joined.write(json.dumps(told | {"frame": told["frame"] + start}) + "\n")


def _join_pictures(found: Iterable[tuple[Path, int]], path: Path) -> None:
    path.mkdir()
    for folder, start in found:
        for picture in folder.iterdir():
            # Only videos, whose frames have numbers for names, are cut into several pieces.
            name = f"{int(picture.stem) + start:06d}{picture.suffix}" if start else picture.name
            linked(picture, path / name)
