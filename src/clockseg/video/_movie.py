"""The frames of a video file: decoded, made whole, in order, within the span asked for, and in RGB."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
from av.container import InputContainer

from clockseg.errors import VideoError
from clockseg.video._colour import ToRGB
from clockseg.video._decode import Damage, checked_stream, open_input, pictures, reason, video_stream
from clockseg.video._fields import progressive
from clockseg.video._order import in_order, misordered
from clockseg.video._orientation import turned
from clockseg.video._spanned import place_for, within
from clockseg.video._vectors import OPTIONS, THREADS, exports, vectors_of
from clockseg.video.frame import Frame
from clockseg.video.span import WHOLE, Span


@dataclass(frozen=True)
class Movie:
    """A video file, and what of it is asked for: see ``open_clip``. ``fps`` places pictures that have no times."""

    path: Path
    max_pixels: int
    fps: Fraction | None = None
    vectors: bool = False
    span: Span = WHOLE
    number: int | None = None

    def frames(self, damage: Damage) -> Iterator[Frame]:
        """Decodes it anew, and notes what can't be."""
        to_rgb = ToRGB(self.max_pixels)
        place = None if self.span.start is None else place_for(self._opened, self.span.start)
        with self._opened() as (container, stream):
            if place is not None:
                container.seek(place, stream=stream)
            asked = self.vectors and exports(stream)
            found = progressive(pictures(container, stream, damage, threads=THREADS if asked else "AUTO"))
            if misordered(container, stream):
                found = in_order(found)
            if self.span != WHOLE:
                found = within(found, self.span, damage, period=1 / (self.fps or Fraction(25)))
            for index, picture in enumerate(found):
                try:
                    image = to_rgb(picture)
                except (av.FFmpegError, ValueError, VideoError) as error:
                    damage.stopped = reason(error)
                    return
                damage.take(picture)
                vectors = vectors_of(picture, index, stream, to_rgb) if asked else None
                aspect = stream.sample_aspect_ratio or Fraction(1)
                yield Frame(
                    index,
                    image,
                    picture.pts,
                    picture.time_base or stream.time_base,
                    vectors=vectors,
                    duration=picture.duration or None,
                    pixel_aspect=1 / aspect if turned(to_rgb.matrix) else aspect,
                )

    @contextmanager
    def _opened(self) -> Iterator[tuple[InputContainer, av.VideoStream]]:
        """The file opened anew, and the stream to decode."""
        with open_input(self.path, max_pixels=self.max_pixels) as container:
            wanted = video_stream(container, self.number)
            options = OPTIONS if self.vectors and wanted is not None and exports(wanted) else None
            yield container, checked_stream(self.path, container, self.max_pixels, options, number=self.number)
