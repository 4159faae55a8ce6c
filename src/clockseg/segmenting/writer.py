"""The files of a piece, written while its session runs."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, TextIO, TypeAlias

import av
import cv2
import numpy as np

from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.trace import Record
from clockseg.evaluation.values import gives_numbers
from clockseg.files import printable
from clockseg.instances.drawing import drawn as with_instances
from clockseg.instances.network import gives_instances
from clockseg.instances.sets import Instances
from clockseg.instances.writing import instance_line
from clockseg.segmenting.results import FILES, folder_name
from clockseg.types import Array, Image, Labels, Size
from clockseg.video import (
    Activity,
    Background,
    Band,
    Frame,
    Heat,
    LabelWriter,
    Legend,
    OverlayWriter,
    Strip,
    ValueWriter,
    overlay,
    write_npy,
    write_png,
)
from clockseg.video.colour import matrix_for
from clockseg.video.maps import LARGEST
from clockseg.video.output import CloseOrAbort
from clockseg.video.overlay import HEAT_COLOURS, palette
from clockseg.video.planar import FORMAT, Decoded, Tint, ToPlanes, even, planes_of, put

Append: TypeAlias = Callable[[Frame, Any, Record], None]
STRIPS = ("activity", "stages")
"""What may be drawn below the overlay to show when the network ran; the first is the default."""
ENCODER_THREADS = 2
"""Threads of the overlay's encoder on every machine: the bytes it writes depend on their number."""
_FRAME = '{"frame": '


class ResultWriter(CloseOrAbort):
    """Writes the files of one piece; ``append`` is called in the thread behind the session.

    ``folder`` is a temporary one, which the caller renames or removes. ``writes``: kinds of ``FILES``; ``fps`` of the video
    (None: unknown), of which each frame number ``every`` is taken; ``size``: (w, h) of the whole video's first frame, to which
    label maps and pictures are resized (None: of the first one here). Leaving a ``with`` block completes the files; after an
    exception they are incomplete.
    ``scale``: the numbers for the ends of the overlay's colours (None: they follow the numbers slowly).
    ``end_seconds``: the end of the last frame taken, None where frames have no times. ``files``: the names of the images.
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
        self.files: list[str] = []
        self._appends: list[Append] = []
        self._values: ValueWriter | None = None
        self._drawing: Background[Frame, Any, Record] | None = None
        self._kept = None if classes is None else only(classes)
        self._instances = None if classes is None or not gives_instances(net) else tuple(classes)
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
                high = None if size is None else (size[0], size[1] + _Bands(size, net, strip).height)
                video = OverlayWriter(folder / FILES["overlay"], fps=fps, threads=ENCODER_THREADS, size=high)
                drawing = _Overlay(stack.enter_context(video), net, size, strip, scale)
                # A thread of its own: drawing and encoding take longer than all other files together.
                self._drawing = stack.enter_context(Background(drawing))
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
        if self._instances is not None:
            output = output.only(np.isin(output.classes, self._instances))
        elif self._kept is not None:
            output = cv2.LUT(np.asarray(output), self._kept)
        if frame.file is not None:
            self.files.append(printable(frame.file))
        for append in self._appends:
            append(frame, output, record)
        if self._trace is not None:
            line = trace_line(frame, record, encode_seconds=time.perf_counter() - start, more=more)
            self._trace.write(line + "\n")
        if frame.pts_seconds is not None:
            self.end_seconds = frame.pts_seconds + (frame.duration_seconds or self._period_seconds)

    def close(self) -> None:
        """Complete the files."""
        self._open.close()

    def abort(self) -> None:
        """Close the files as they are."""
        aborted = RuntimeError("aborted")
        self._open.__exit__(type(aborted), aborted, None)


def only(classes: Iterable[int]) -> Labels:
    """Return the table, uint8 [256], that keeps these ids and makes all others 255.

    >>> only([0, 2])[:4].tolist()
    [0, 255, 2, 255]
    """
    table = np.full(256, 255, np.uint8)
    kept = list(classes)
    table[kept] = kept
    return table


def _maps(video: LabelWriter | ValueWriter) -> Append:
    return lambda frame, output, record: video.append(
        output, frame.pts_seconds, duration_seconds=frame.duration_seconds
    )


def _lines(file: TextIO, net: StagedNetwork) -> Append:
    def append(frame: Frame, output: Instances, record: Record) -> None:
        file.write(instance_line(frame.index, output, net.classes) + "\n")

    return append


def _pictures(folder: Path, write: Callable[[Array, Path], None]) -> Append:
    """Write one file per frame with ``write(output, path)``, named after the image, else by number; their suffix is the folder's name."""
    folder.mkdir(exist_ok=True)
    taken: set[str] = set()

    def append(frame: Frame, output: Array, record: Record) -> None:
        name = stem = f"{frame.index:06d}" if frame.file is None else folder_name(Path(frame.file).stem)
        number = 2
        while name in taken:
            name, number = f"{stem}-{number}", number + 1
        if frame.file is not None:
            taken.add(name)
        write(output, folder / f"{name}.{folder.name}")

    return append


class _Bands:
    """The bands below the picture: the legend of a network with classes, and the bar of when the network ran."""

    def __init__(self, size: Size, net: StagedNetwork, strip: str) -> None:
        names = [stage.name for stage in net.stages]
        self._strip: Band = Strip(size, names) if strip == "stages" else Activity(size, len(names))
        self._legend = None if gives_numbers(net) or gives_instances(net) else Legend(size, net.classes, colours(net))
        self.height = self._strip.height + (0 if self._legend is None else self._legend.height)

    def draw(self, output: Array, record: Record) -> Image:
        """Draw them after one more frame, uint8 RGB [height, w, 3]."""
        strip = self._strip.draw(record.fired, record.fill)
        return strip if self._legend is None else np.concatenate([self._legend.draw(output), strip])


class _Overlay:
    """The picture with masks or numbers drawn over it, and what stands below it.

    Frames of the first one's size are drawn on the planes that the decoder gave; others are drawn in RGB and fitted in.
    """

    def __init__(
        self, video: OverlayWriter, net: StagedNetwork, size: Size | None, strip: str, scale: tuple[float, float] | None
    ) -> None:
        self._video, self._net, self._strip, self._size = video, net, strip, size
        self._heat = Heat(scale) if gives_numbers(net) else None
        self._instances = gives_instances(net)
        self._palette = np.asarray(HEAT_COLOURS if self._heat is not None else colours(net), np.uint8)[:255]
        self._bands: _Bands | None = None

    def __call__(self, frame: Frame, output: Any, record: Record) -> None:
        if self._bands is None:
            self._size = self._size or frame.size
            self._bands = _Bands(self._size, self._net, self._strip)
            matrix = matrix_for(self._size[1] + self._size[1] % 2 + self._bands.height)
            self._planes, self._tint = ToPlanes(matrix), Tint(self._palette, matrix)
        below = self._bands.draw(output, record)
        if self._instances:
            self._put(frame, stacked(with_instances(frame.image, output, self._net.classes), below))
            return
        ids = output if self._heat is None else self._heat.levels(output if output.ndim == 2 else output[0])
        drawn: Image | av.VideoFrame
        if frame.size == self._size:
            drawn = self._drawn(frame, ids, below)
        else:
            drawn = stacked(overlay(frame.image, ids, self._palette), below)
        self._put(frame, drawn)

    def _put(self, frame: Frame, drawn: Image | av.VideoFrame) -> None:
        self._video.append(
            drawn,
            frame.pts_seconds,
            duration_seconds=frame.duration_seconds,
            pixel_aspect=frame.pixel_aspect,
        )

    def _drawn(self, frame: Frame, ids: Labels, below: Image) -> av.VideoFrame:
        if isinstance(frame.picture, Decoded) and even(frame.size):
            picture = self._planes.picture(frame.picture.frame)
        else:
            picture, ids = planes_of(self._planes.rgb(padded(frame.image))), padded(ids)
        band = planes_of(self._planes.rgb(padded(below)))
        height, width = picture.y.shape
        drawn = av.VideoFrame(width, height + band.y.shape[0], FORMAT)
        out = planes_of(drawn)
        self._tint.draw(picture, ids, out)
        put(band, out, height)
        return drawn


def padded(image: Array) -> Array:
    """Return a picture or labels with even sides: the last row and column are repeated if they are odd.

    >>> padded(np.zeros((3, 4), np.uint8)).shape
    (4, 4)
    """
    height, width = image.shape[:2]
    if even((width, height)):
        return image
    return np.asarray(cv2.copyMakeBorder(image, 0, height % 2, 0, width % 2, cv2.BORDER_REPLICATE))


def colours(net: StagedNetwork) -> Sequence[Sequence[int]]:
    """Return the RGB colours of a network's classes, by id."""
    found: Sequence[Sequence[int]] = (net.sidecar and net.sidecar.palette) or palette(255)
    return found


def stacked(picture: Image, below: Image) -> Image:
    """Return the picture with a band below it; a picture of another width (frames changed size) is scaled to the band's.

    >>> stacked(np.zeros((10, 20, 3), np.uint8), np.zeros((4, 40, 3), np.uint8)).shape
    (24, 40, 3)
    """
    width = below.shape[1]
    if picture.shape[1] != width:
        height = max(1, round(picture.shape[0] * width / picture.shape[1]))
        picture = np.asarray(cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA), np.uint8)
    return np.concatenate([picture, below])


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
                "clock": round(seconds.clock, 6),
                "motion": round(seconds.motion, 6),
                "fuse": round(seconds.fuse, 6),
                "finish": round(seconds.finish, 6),
                "encode": round(encode_seconds, 6),
            },
            **more,
        },
        allow_nan=False,
    )


def renumbered(line: str, by: int) -> str:
    """Return a line that ``trace_line`` made with ``by`` added to its frame number.

    >>> renumbered('{"frame": 2, "pts": 1}', 100)
    '{"frame": 102, "pts": 1}'
    """
    number, comma, rest = line.removeprefix(_FRAME).partition(",")
    return f"{_FRAME}{int(number) + by}{comma}{rest}"


def _finite(signal: float | None) -> float | None:
    """Return a clock's signal as JSON can hold it: None unless it is a finite number."""
    return round(float(signal), 6) if signal is not None and math.isfinite(signal) else None
