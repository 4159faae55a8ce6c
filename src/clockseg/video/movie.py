"""The frames of a video file: decoded, in order, deinterlaced, within the requested span, and in RGB."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, repeat
from pathlib import Path
from time import perf_counter

import av
import numpy as np
from av.container import InputContainer
from av.sidedata.motionvectors import MotionVectors
from av.sidedata.sidedata import Type

from clockseg.carry.vectors import BLOCK, Vectors
from clockseg.errors import VideoError
from clockseg.types import Size
from clockseg.video.clip import WHOLE, Frame, Span
from clockseg.video.colour import ToRGB
from clockseg.video.decode import Damage, checked_stream, ends_early, open_input, pictures, reason
from clockseg.video.fields import deinterlaced
from clockseg.video.planar import decoded
from clockseg.video.side_data import NO_CROP, Crop, Turn, crop_of

# More than any encoder reorders by.
_AHEAD = 8


def misordered(container: InputContainer, stream: av.VideoStream) -> bool:
    """Return True if times follow the order of packets rather than that of pictures: H.264 with B-frames in AVI."""
    return container.format.name == "avi" and bool(stream.codec_context.has_b_frames)


def in_order(found: Iterator[av.VideoFrame]) -> Iterator[av.VideoFrame]:
    """Yield the pictures as they come, with their times sorted."""
    waiting: deque[av.VideoFrame] = deque()
    times: list[int] = []
    for picture in chain(found, repeat(None, _AHEAD)):
        if picture is not None:
            waiting.append(picture)
            if picture.pts is not None:
                heapq.heappush(times, picture.pts)
        if waiting and (picture is None or len(waiting) > _AHEAD):
            first = waiting.popleft()
            first.pts = None if first.pts is None else heapq.heappop(times)
            yield first


EXPORTING = frozenset(
    {"h264", "mpeg1video", "mpeg2video", "mpegvideo", "mpeg4", "h263", "flv", "msmpeg4", "wmv1", "wmv2"}
)
"""FFmpeg's decoders that export motion vectors: those of HEVC, VP9 and AV1 don't."""
VECTOR_OPTIONS = {"flags2": "+export_mvs"}


def exports(stream: av.VideoStream) -> bool:
    """Return True if the decoder of this stream exports motion vectors."""
    return stream.codec_context.name in EXPORTING


def vector_threads(stream: av.VideoStream) -> str:
    """Return the kind of threads with which the motion vectors of a stream are complete.

    A thread per frame is twice as fast as one per slice. But with B-frames a picture comes out while another thread may still
    decode it, and its vectors are read too early.
    """
    return "SLICE" if stream.codec_context.has_b_frames else "AUTO"


def vectors_of(picture: av.VideoFrame, index: int, stream: av.VideoStream, to_rgb: ToRGB) -> Vectors:
    """Return the motion vectors of frame ``index``, which ``to_rgb`` has just converted."""
    listed = to_rgb.side_data.of(picture)
    data = None if listed is None else listed.get(Type.MOTION_VECTORS)
    told = data.to_ndarray() if isinstance(data, MotionVectors) else np.zeros(0, BLOCK)
    # A copy: what FFmpeg gave goes with its frame.
    blocks = np.empty(len(told), BLOCK)
    for name in BLOCK.names or ():
        blocks[name] = told[name]
    size, reordered = (picture.width, picture.height), bool(stream.codec_context.has_b_frames)
    return Vectors(index, blocks, size, coded_axes(size, to_rgb.turn, to_rgb.crop), reordered)


def coded_axes(size: Size, turn: Turn, crop: Crop = NO_CROP) -> tuple[float, ...]:
    """Return the affine map from the upright, cropped picture to the coded one of ``size`` (w, h): see ``Vectors``.

    >>> coded_axes((4, 2), Turn(swapped=True, mirrored=True))  # a quarter turn clockwise: the right edge, x = 2, was the top
    (0, 1, 0, -1, 0, 2)
    """
    left, right, top, bottom = crop.within(size)
    leftwards, upwards = (turn.flipped, turn.mirrored) if turn.swapped else (turn.mirrored, turn.flipped)
    x, at_x = (-1, size[0] - right) if leftwards else (1, left)
    y, at_y = (-1, size[1] - bottom) if upwards else (1, top)
    return (0, x, at_x, y, 0, at_y) if turn.swapped else (x, 0, at_x, 0, y, at_y)


# How far before the start a seek aims, one after the other: to its very key frame, where the container has an index; and
# before any key frame that a search by bytes may have run past.
_BACK_SECONDS = (0, 2, 20)
# So many pictures in a row after the end: a single one may have a broken time, or come out of order.
_SURE = 8
# Containers in which times are right after a seek. In others, as in MPEG's program streams, they are guessed from there on.
_EXACT = ("mov,", "matroska", "avi", "flv", "nut", "ogg", "mpegts", "asf", "mxf")


def within(found: Iterator[av.VideoFrame], span: Span, damage: Damage, *, period: Fraction) -> Iterator[av.VideoFrame]:
    """Yield the pictures whose times lie in the span; earlier ones are skipped.

    A picture without a time comes a ``period`` after the one before. What was lost before the span counts as no loss.
    """
    seconds, inside, beyond = -period, span.start is None, 0
    for picture in found:
        timed = picture.pts is not None and picture.time_base is not None
        seconds = picture.pts * picture.time_base if timed else seconds + period
        beyond = beyond + 1 if span.end is not None and seconds >= span.end else 0
        if beyond == _SURE:
            return
        if span.holds(seconds):
            if not inside:
                damage.forget()
            inside = True
            yield picture


def converted(
    found: Iterator[av.VideoFrame],
    stream: av.VideoStream,
    to_rgb: ToRGB,
    damage: Damage,
    *,
    vectors: bool = False,
    lazily: bool = True,
) -> Iterator[Frame]:
    """Yield the pictures as frames; one that can't be converted ends them.

    ``decode_seconds`` is what converting took. ``lazily``: pictures that can be are converted to RGB where they are read.
    """
    for index, picture in enumerate(found):
        begun = perf_counter()
        try:
            image = decoded(picture, to_rgb) if lazily else to_rgb(picture)
        except (av.FFmpegError, ValueError, VideoError) as error:
            damage.stopped = reason(error)
            return
        damage.take(picture)
        aspect = stream.sample_aspect_ratio or Fraction(1)
        yield Frame(
            index,
            image,
            picture.pts,
            picture.time_base or stream.time_base,
            perf_counter() - begun,
            vectors=vectors_of(picture, index, stream, to_rgb) if vectors else None,
            duration=picture.duration or None,
            pixel_aspect=1 / aspect if to_rgb.turn.swapped else aspect,
        )


@dataclass(frozen=True)
class Movie:
    """A video file with the options of ``open_clip``. ``fps`` is used for pictures without times."""

    path: Path
    max_pixels: int
    fps: Fraction | None = None
    vectors: bool = False
    span: Span = WHOLE

    def frames(self, damage: Damage) -> Iterator[Frame]:
        """Decode the file again, and record losses in ``damage``."""
        place = None if self.span.start is None else self._place(self.span.start)
        with self._opened() as (container, stream):
            to_rgb = ToRGB(self.max_pixels, crop_of(container, stream))
            if place is not None:
                container.seek(place, stream=stream)
            asked = self.vectors and exports(stream)
            found = deinterlaced(
                pictures(container, stream, damage, threads=vector_threads(stream) if asked else "AUTO")
            )
            if misordered(container, stream):
                found = in_order(found)
            if self.span != WHOLE:
                found = within(found, self.span, damage, period=1 / (self.fps or Fraction(25)))
            yield from converted(found, stream, to_rgb, damage, vectors=asked)
            if self.span.end is None and not damage.stopped and ends_early(self.path):
                damage.stopped = "the file is cut short"

    @contextmanager
    def _opened(self) -> Iterator[tuple[InputContainer, av.VideoStream]]:
        """Open the file again; yield the container and the stream to decode."""
        with open_input(self.path, max_pixels=self.max_pixels) as container:
            stream = checked_stream(self.path, container, self.max_pixels)
            if self.vectors and exports(stream):
                stream.codec_context.options |= VECTOR_OPTIONS
            yield container, stream

    def _place(self, start: Fraction) -> int | None:
        """Return a position to seek to, in units of the stream, from which decoding begins at or before ``start``; None if there is none.

        A seek is tried, not trusted: the time of the first picture decoded after it counts.
        """
        for back in _BACK_SECONDS:
            with self._opened() as (container, stream):
                if not container.format.name.startswith(_EXACT):
                    return None
                base = stream.time_base or Fraction(1, av.time_base)
                place = int((start - back) / base)
                try:
                    container.seek(place, stream=stream)
                except (av.FFmpegError, OverflowError):
                    continue
                first = next(pictures(container, stream, Damage()), None)
                # What an interlaced picture becomes depends on the one before it.
                if first is not None and first.pts is not None:
                    seconds = first.pts * base
                    if seconds < start or (seconds == start and not first.interlaced_frame):
                        return place
        return None
