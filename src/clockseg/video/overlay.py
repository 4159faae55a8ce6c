"""The overlay video: masks or numbers drawn over the picture, encoded as H.264 in MP4."""

from __future__ import annotations

import colorsys
import os
from collections.abc import Mapping, Sequence
from fractions import Fraction

import av
import cv2
import numpy as np
import numpy.typing as npt
from av.video.reformatter import ColorRange, Colorspace

from clockseg.errors import UsageError, VideoError
from clockseg.types import Array, Image, Labels, Size
from clockseg.video.colour import matrix_for
from clockseg.video.output import FrameWriter, writing
from clockseg.video.planar import ToPlanes

Colour = tuple[int, int, int]


def palette(classes: int) -> tuple[Colour, ...]:
    """Return well separated RGB colours, always the same for a class id.

    >>> palette(2)
    ((214, 81, 81), (81, 120, 214))
    """
    golden = 0.6180339887
    hues = ((golden * k) % 1 for k in range(classes))
    return tuple(
        (round(255 * r), round(255 * g), round(255 * b))
        for r, g, b in (colorsys.hsv_to_rgb(hue, 0.62, 0.84) for hue in hues)
    )


def colours_of(own: Sequence[Sequence[int]], classes: int = 0) -> Sequence[Sequence[int]]:
    """Return a network's ``own`` colours; if it has none, those of ``palette`` for so many ``classes``, or for all ids if 0.

    >>> colours_of([], 1), colours_of([[1, 2, 3]], 1), len(colours_of([]))
    (((214, 81, 81),), [[1, 2, 3]], 255)
    """
    return own or palette(classes or 255)


Palette = npt.NDArray[np.uint8] | Sequence[Sequence[int]]


def overlay(image: Image, labels: Labels, palette: Palette, *, opacity: float = 0.5) -> Image:
    """Tint a picture, uint8 RGB [h, w, 3], by class; ``labels`` is uint8 [h, w], ``palette`` [classes, 3] RGB.

    Pixels of no class (255, or any id beyond the palette) are left clear. UsageError if the sizes differ.

    >>> overlay(np.zeros((1, 2, 3), np.uint8), np.array([[0, 255]], np.uint8), [[200, 100, 0]]).tolist()
    [[[100, 50, 0], [0, 0, 0]]]
    """
    colours = np.asarray(palette, dtype=np.uint8).reshape(-1, 3)[:255]
    if image.shape[:2] != labels.shape:
        raise UsageError(f"the picture is {image.shape[:2]}, the labels are {labels.shape} (h, w). Give one size.")
    table = np.zeros((256, 1, 3), np.uint8)
    table[: len(colours), 0] = colours
    blend = cv2.addWeighted(image, 1 - opacity, cv2.applyColorMap(labels, table), opacity, 0)
    if int(labels.max(initial=0)) >= len(colours):
        clear = cv2.compare(labels, float(len(colours)), cv2.CMP_GE)
        cv2.copyTo(image, clear, blend)
    return np.asarray(blend, dtype=np.uint8)


ENDS = (1.0, 99.0)
"""Percentiles of a map that are drawn in the darkest and the brightest colour."""
_FOLLOW = 0.1
"""The weight of a new frame in the ends of the scale: colours must not flicker with a single bright spot."""
SAMPLED = 20_000
"""About how many numbers of a map the percentiles are taken from."""
HEAT_COLOURS: Array = cv2.applyColorMap(np.arange(255, dtype=np.uint8)[:, None], cv2.COLORMAP_VIRIDIS)[:, 0, ::-1]
"""RGB of the numbers of ``Heat.levels``."""


class Heat:
    """Draws the first channel of each map. ``scale``: the numbers for the darkest and the brightest colour.

    Without one, the scale follows the values slowly.

    >>> Heat()(np.zeros((1, 2, 3), np.uint8), np.array([[0.0, 9.0]])).tolist()
    [[[34, 0, 42], [126, 116, 18]]]
    """

    def __init__(self, scale: tuple[float, float] | None = None) -> None:
        self._fixed = scale is not None
        self._ends: Array | None = None if scale is None else np.array(scale, np.float64)

    def __call__(self, image: Image, values: Array) -> Image:
        """Tint a picture, uint8 RGB [h, w, 3], by ``values``, float [h, w] or [channels, h, w]; clear where they are not finite."""
        return overlay(image, self.levels(values), HEAT_COLOURS)

    def levels(self, values: Array) -> Labels:
        """Return the number of the colour of each value, uint8 [h, w], 0 to 254; 255 where it is not finite."""
        values = values if values.ndim == 2 else values[0]
        known = np.isfinite(values)
        self._move(values[known])
        low, high = (0.0, 0.0) if self._ends is None else self._ends
        scaled = (np.where(known, values, low) - low) / max(high - low, 1e-12)
        return np.where(known, np.clip(scaled * 254, 0, 254), 255).astype(np.uint8)

    def _move(self, values: Array) -> None:
        if self._fixed or not values.size:
            return
        now = np.percentile(values[:: max(1, values.size // SAMPLED)], ENDS)
        self._ends = now if self._ends is None else self._ends + _FOLLOW * (now - self._ends)


_TIME_BASE = Fraction(1, 90_000)
_ENCODER = "libx264"
# No B-frames: they make FFmpeg's readers misstate the duration of a variable rate, and the file start with an edit list.
# With deblocking, which the preset leaves out: a fifth of the bytes at the same quality, for a twentieth of the time.
# And no macroblock tree: x264's reads memory that it never wrote, and the bytes come out otherwise now and then.
_OPTIONS = {"preset": "ultrafast", "crf": "28", "bf": "0", "x264-params": "mbtree=0:no-deblock=0"}
# On every machine: the bytes depend on their number.
_THREADS = 2
# ITU-T H.273 numbers.
_BT709, _BT601 = 1, 6


class OverlayWriter(FrameWriter):
    """Writes RGB pictures as H.264, yuv420p, in MP4 with its index in front.

    Times are the input's: variable rates stay variable, and frames without a time follow at ``fps``, or 25. ``size`` (w, h),
    or else the first picture, sets the size; odd sides are made even by repeating an edge pixel, and pictures of another
    size are fitted in on black, aspect kept. ``options``: further options of the encoder. The file
    gets its name at ``close``; without any frame there is none. Leaving a ``with`` block closes, or aborts after an exception.
    VideoError if the file can't be written. ``clockseg.video.join`` adds the sound of the input.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with OverlayWriter(f"{folder}/overlay.mp4", fps=25) as writer:
    ...         writer.append(np.zeros((35, 47, 3), np.uint8), 0.0)
    ...     sorted(os.listdir(folder))
    ['overlay.mp4']
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        fps: Fraction | float | None = None,
        size: Size | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(path, ".mp4", fps, _TIME_BASE)
        self._size, self._options = size, options or {}

    def append(
        self,
        image: Image | av.VideoFrame,
        pts_seconds: float | None = None,
        *,
        duration_seconds: float | None = None,
        pixel_aspect: Fraction = Fraction(1),
    ) -> None:
        """Add one picture, uint8 RGB [h, w, 3], or a frame of yuv420p with even sides and the matrix of its height.

        ``duration_seconds``: how long it lasts if no other follows. ``pixel_aspect``: the width of a pixel by its height, for
        the player; that of the first picture counts.
        """
        if isinstance(image, av.VideoFrame):
            size = image.width, image.height
        else:
            if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or not image.size:
                raise UsageError(f"the picture is {image.dtype} {list(image.shape)}. Give uint8 RGB [h, w, 3].")
            size = image.shape[1], image.shape[0]
        with writing(self._part.path):
            stream = self._stream = self._stream or self._start(self._size or size, pixel_aspect)
            if not isinstance(image, av.VideoFrame):
                image = self._encoded.rgb(fitted(image, (stream.width, stream.height)))
            self._put(image, pts_seconds, duration_seconds)

    def _start(self, size: Size, pixel_aspect: Fraction) -> av.VideoStream:
        """Add the stream."""
        width, height = (side + side % 2 for side in size)
        if _ENCODER not in av.codecs_available:
            raise VideoError(
                f"this build of PyAV has no {_ENCODER}, which overlays need. Install PyAV's own build (pip install --force-reinstall av), "
                "or write no overlay."
            )
        options = {**_OPTIONS, **self._options}
        stream: av.VideoStream = self._part.container.add_stream(_ENCODER, rate=self._fps, options=options)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        context = stream.codec_context
        context.time_base, context.thread_count = _TIME_BASE, _THREADS
        context.color_range, context.color_primaries, context.color_trc = ColorRange.MPEG, _BT709, _BT709
        context.sample_aspect_ratio = pixel_aspect
        matrix = matrix_for(height)
        context.colorspace = _BT709 if matrix is Colorspace.ITU709 else _BT601
        self._encoded = ToPlanes(matrix)
        return stream


def fitted(image: Image, size: tuple[int, int]) -> Image:
    """Fit a picture to ``size`` (w, h): repeat an edge pixel if it is one too small, else scale it and pad it with black.

    >>> fitted(np.ones((3, 5, 3), np.uint8), (6, 4)).shape
    (4, 6, 3)
    """
    height, width = image.shape[:2]
    if (width, height) == size:
        return np.ascontiguousarray(image)
    right, below = size[0] - width, size[1] - height
    if {right, below} <= {0, 1}:
        return np.asarray(cv2.copyMakeBorder(image, 0, below, 0, right, cv2.BORDER_REPLICATE), dtype=np.uint8)
    scale = min(size[0] / width, size[1] / height)
    inner = max(1, round(width * scale)), max(1, round(height * scale))
    canvas = np.zeros((size[1], size[0], 3), np.uint8)
    canvas[: inner[1], : inner[0]] = cv2.resize(image, inner, interpolation=cv2.INTER_AREA)
    return canvas
