"""The overlay video of a run: class ids drawn over each picture, and the bands below it, encoded as H.264 in MP4."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from fractions import Fraction

import av
import cv2
import numpy as np
from av.video.reformatter import ColorRange, Colorspace, VideoReformatter

from clockseg.errors import UsageError, VideoError
from clockseg.types import Array, Image, Labels, Size
from clockseg.video.clip import Frame
from clockseg.video.colour import Decoded, matrix_for, matrix_of, planes_of
from clockseg.video.output import FrameWriter, writing
from clockseg.video.overlay import Bar, Legend, Palette, overlay, tinted

FORMAT = "yuv420p"
# Luma weights of red and blue of the matrices that an overlay may have (ITU-R BT.601 and BT.709).
_WEIGHTS = {Colorspace.ITU601: (0.299, 0.114), Colorspace.ITU709: (0.2126, 0.0722)}


class ToPlanes:
    """Converts decoded pictures, RGB and colours to ``FORMAT`` in one matrix, limited range."""

    def __init__(self, matrix: Colorspace) -> None:
        self.matrix = matrix
        self._reformatter = VideoReformatter()

    def picture(self, decoded: av.VideoFrame) -> list[Array]:
        """Return the planes of a decoded picture of even sides, converted only if it has another matrix."""
        source = matrix_of(decoded)
        if source is not self.matrix:
            decoded = self._reformatter.reformat(
                decoded, format=FORMAT, src_colorspace=source, dst_colorspace=self.matrix, threads=1
            )
        return planes_of(decoded)

    def rgb(self, image: Image) -> av.VideoFrame:
        """Convert a picture, uint8 RGB [h, w, 3] with even sides."""
        return self._reformatter.reformat(
            av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24"),
            format=FORMAT,
            dst_colorspace=self.matrix,
            dst_color_range=ColorRange.MPEG,
            threads=1,
        )

    def colours(self, palette: Array) -> list[Array]:
        """Return the values of RGB colours, uint8 [classes, 3], in each plane, uint8 [classes, 1]."""
        red, blue = _WEIGHTS[self.matrix]
        y = palette @ (red, 1 - red - blue, blue)
        u, v = (palette[:, 2] - y) / (2 - 2 * blue), (palette[:, 0] - y) / (2 - 2 * red)
        limited = (16 + y * 219 / 255, 128 + u * 224 / 255, 128 + v * 224 / 255)
        return [np.rint(one)[:, None].astype(np.uint8) for one in limited]


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
    size are fitted in on black, aspect kept. ``options``: further options of the encoder. The file gets its name at ``close``;
    without any frame there is none. Leaving a ``with`` block closes, or aborts after an exception. VideoError if the file can't
    be written. ``clockseg.video.join`` adds the sound of the input.
    """

    _ending = ".mp4"

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        fps: Fraction | float | None = None,
        size: Size | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(path, fps=fps, size=size)
        self._options = options or {}

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
        with writing(self._path):
            stream = self._stream = self._stream or self._start(self._size or size, pixel_aspect)
            if not isinstance(image, av.VideoFrame):
                image = self._planes.rgb(fitted(image, (stream.width, stream.height)))
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
        stream = self._started(_ENCODER, FORMAT, (width, height), options=options, threads=_THREADS)
        context = stream.codec_context
        context.color_range, context.color_primaries, context.color_trc = ColorRange.MPEG, _BT709, _BT709
        context.sample_aspect_ratio = pixel_aspect
        matrix = matrix_for(height)
        context.colorspace = _BT709 if matrix is Colorspace.ITU709 else _BT601
        self._planes = ToPlanes(matrix)
        return stream


def fitted(image: Image, size: tuple[int, int]) -> Image:
    """Fit a picture to ``size`` (w, h): repeat an edge pixel if it is one too small, else scale it and pad it with black."""
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


STRIPS = ("activity", "stages")
"""The bars that show below the picture when the network ran; the first is the default."""


class Drawing(OverlayWriter):
    """An overlay video with bands: when the ``stages`` (their names) fired, as one of ``STRIPS``, and a legend.

    ``palette``: RGB by id; ``classes``: their names, None for no legend. ``size``: (w, h) of the pictures without bands (None:
    of the first one). What the decoder gave as planes of that size is drawn on them, other frames in RGB, and fitted in.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        stages: Sequence[str],
        palette: Palette,
        *,
        classes: Sequence[str] | None = None,
        strip: str = STRIPS[0],
        fps: Fraction | None = None,
        size: Size | None = None,
    ) -> None:
        super().__init__(path, fps=fps, size=size)
        self._stages, self._strip, self._classes = stages, strip, classes
        self._palette = np.asarray(palette, np.uint8)[:255]
        self._bands: tuple[Bar, Legend | None] | None = None

    def draw(self, frame: Frame, drawn: Labels | Image, fired: Sequence[bool], fill: bool) -> None:
        """Add one frame; ``drawn``: class ids, uint8 [h, w], or the picture if it is drawn already, uint8 RGB [h, w, 3]."""
        bar, legend = self._bands = self._bands or self._begin(*(self._size or frame.size), frame.pixel_aspect)
        below = bar.draw(fired, fill)
        if legend is not None:
            below = np.concatenate([legend.draw(drawn, fill=fill), below])
        picture: Image | av.VideoFrame
        if drawn.ndim == 2 and isinstance(frame.picture, Decoded) and frame.size == self._inner:
            picture = self._on_planes(frame.picture, drawn, below)
        else:
            image = drawn if drawn.ndim == 3 else overlay(frame.image, drawn, self._palette)
            picture = np.concatenate([fitted(image, self._inner), below])
        self.append(picture, frame.pts_seconds, duration_seconds=frame.duration_seconds)

    def _begin(self, width: int, height: int, pixel_aspect: Fraction) -> tuple[Bar, Legend | None]:
        size = self._inner = width + width % 2, height + height % 2
        bar = Bar(size, self._stages, per_stage=self._strip == "stages")
        legend = None if self._classes is None else Legend(size, self._classes, self._palette)
        below = bar.height + (0 if legend is None else legend.height)
        with writing(self._path):
            self._stream = self._start((size[0], size[1] + below), pixel_aspect)
        self._colours = self._planes.colours(self._palette)
        return bar, legend

    def _on_planes(self, picture: Decoded, ids: Labels, below: Image) -> av.VideoFrame:
        drawn = av.VideoFrame(ids.shape[1], len(ids) + len(below), FORMAT)
        # Chroma goes by every other pixel.
        halved = np.ascontiguousarray(ids[::2, ::2])
        planes = self._planes.picture(picture.frame), planes_of(self._planes.rgb(below)), planes_of(drawn)
        for given, band, out, labels, colours in zip(*planes, (ids, halved, halved), self._colours, strict=True):
            tinted(given, labels, colours, out=out[: len(given)])
            out[len(given) :] = band
        return drawn
