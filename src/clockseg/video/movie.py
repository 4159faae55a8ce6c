"""The frames of a video file: decoded, in order, deinterlaced, within the requested span, and in RGB."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from time import perf_counter

import av
import numpy as np
from av.container import InputContainer
from av.sidedata.motionvectors import MotionVectors
from av.sidedata.sidedata import Type

from clockseg.carry.vectors import BLOCK, Vectors
from clockseg.errors import VideoError
from clockseg.files import SourceFiles
from clockseg.video.clip import WHOLE, Clip, Frame, Span
from clockseg.video.colour import ToRGB
from clockseg.video.decode import Damage, checked_stream, ends_early, open_input, pictures, reason
from clockseg.video.sequence import deinterlaced, in_order, within
from clockseg.video.upright import crop_of

# FFmpeg's decoders that export motion vectors: those of HEVC, VP9 and AV1 don't.
_EXPORTING = {"h264", "mpeg1video", "mpeg2video", "mpegvideo", "mpeg4", "h263", "flv", "msmpeg4", "wmv1", "wmv2"}
# How far before the start a seek aims, one after the other: to its very key frame, where the container has an index; and
# before any key frame that a search by bytes may have run past.
_BACK_SECONDS = (0, 2, 20)
# Containers in which times are right after a seek. In others, as in MPEG's program streams, they are guessed from there on.
_EXACT = ("mov,", "matroska", "avi", "flv", "nut", "ogg", "mpegts", "asf", "mxf")


class Movie(Clip):
    """The frames of a video file, which the caller has open as ``container``; ``vectors`` and ``span`` as of ``open_clip``."""

    kind = "video"

    def __init__(
        self,
        path: Path,
        files: SourceFiles,
        container: InputContainer,
        *,
        max_pixels: int,
        vectors: bool = False,
        span: Span = WHOLE,
    ) -> None:
        super().__init__(path, files, span)
        self._max_pixels = max_pixels
        stream = checked_stream(path, container, max_pixels)
        self._vectors = vectors and stream.codec_context.name in _EXPORTING
        self.has_audio = bool(container.streams.audio)
        rates = (stream.average_rate, stream.guessed_rate, stream.base_rate)
        # Of a stream without times the average is FFmpeg's own default.
        self.fps = next(filter(None, rates if stream.start_time is not None else rates[1:]), None)
        duration, start = None, 0.0
        if stream.time_base is not None:
            duration = None if stream.duration is None else float(stream.duration * stream.time_base)
            start = float((stream.start_time or 0) * stream.time_base)
        if duration is None and container.duration is not None:
            duration = container.duration / av.time_base
        frames: int | None = stream.frames or None
        if duration is not None and span != WHOLE:
            duration, frames = span.length_seconds(start, duration), None
        self.duration_seconds = duration
        self.frames_hint = frames or (round(duration * self.fps) if duration and self.fps else None)

    def _decoded(self, damage: Damage) -> Iterator[Frame]:
        place = None if self._span.start is None else self._place(self._span.start)
        with self._opened() as (container, stream):
            to_rgb = ToRGB(self._max_pixels, crop_of(container, stream))
            if place is not None:
                container.seek(place, stream=stream)
            reordered = bool(stream.codec_context.has_b_frames)
            # A thread per frame is twice as fast as one per slice. But with B-frames a picture comes out while another
            # thread may still decode it, and its vectors are read too early.
            threads = "SLICE" if self._vectors and reordered else "AUTO"
            found = deinterlaced(pictures(container, stream, damage, threads=threads))
            if container.format.name == "avi" and reordered:  # times follow the order of packets
                found = in_order(found)
            if self._span != WHOLE:
                found = within(found, self._span, damage, period=1 / (self.fps or Fraction(25)))
            yield from converted(found, stream, to_rgb, damage, vectors=self._vectors)
            if self._span.end is None and not damage.stopped and ends_early(self.path):
                damage.stopped = "the file is cut short"

    @contextmanager
    def _opened(self) -> Iterator[tuple[InputContainer, av.VideoStream]]:
        """Open the file again; yield the container and the stream to decode."""
        with open_input(self.path, max_pixels=self._max_pixels) as container:
            stream = checked_stream(self.path, container, self._max_pixels)
            if self._vectors:
                stream.codec_context.options |= {"flags2": "+export_mvs"}
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
            image = to_rgb.lazily(picture) if lazily else to_rgb(picture)
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
            vectors=_vectors(picture, index, stream, to_rgb) if vectors else None,
            duration=picture.duration or None,
            pixel_aspect=1 / aspect if to_rgb.upright.swapped else aspect,
        )


def _vectors(picture: av.VideoFrame, index: int, stream: av.VideoStream, to_rgb: ToRGB) -> Vectors:
    """Return the motion vectors of frame ``index``, which ``to_rgb`` has just converted."""
    listed = to_rgb.side_data.of(picture)
    data = None if listed is None else listed.get(Type.MOTION_VECTORS)
    told = data.to_ndarray() if isinstance(data, MotionVectors) else np.zeros(0, BLOCK)
    # A copy: what FFmpeg gave goes with its frame.
    blocks = np.empty(len(told), BLOCK)
    for name in BLOCK.names or ():
        blocks[name] = told[name]
    size, reordered = (picture.width, picture.height), bool(stream.codec_context.has_b_frames)
    return Vectors(index, blocks, size, to_rgb.upright.axes(size), reordered)
