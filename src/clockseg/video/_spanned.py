"""The pictures of a span: decoding begins at a key frame before it, and ends with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from fractions import Fraction

import av
from av.container import InputContainer

from clockseg.video._decode import Damage, pictures
from clockseg.video.span import Span

Opened = Callable[[], AbstractContextManager[tuple[InputContainer, av.VideoStream]]]
"""Opens the file anew: the container, and the stream to decode."""
# How far before the start a seek aims, one after the other: to its very key frame, where the container has an index; and
# before any key frame that a search by bytes may have run past.
_BACK_SECONDS = (0, 2, 20)
# So many pictures in a row after the end: a single one may have a broken time, or come out of order.
_SURE = 8
# Containers in which times are right after a seek. In others, as in MPEG's program streams, they are guessed from there on.
_EXACT = ("mov,", "matroska", "avi", "flv", "nut", "ogg", "mpegts", "asf", "mxf")


def place_for(opened: Opened, start: Fraction) -> int | None:
    """Where to seek, in units of the stream, so that decoding begins at or before ``start``; None if no seek does that.

    Tried, not believed: what counts is the time of the first picture that is decoded after it.
    """
    for back in _BACK_SECONDS:
        with opened() as (container, stream):
            if not container.format.name.startswith(_EXACT):
                return None
            place = int((start - back) / _time_base(stream))
            try:
                container.seek(place, stream=stream)
            except (av.FFmpegError, OverflowError):
                continue
            first = next(pictures(container, stream, Damage()), None)
            if first is not None and _early_enough(first, stream, start):
                return place
    return None


def within(found: Iterator[av.VideoFrame], span: Span, damage: Damage, *, period: Fraction) -> Iterator[av.VideoFrame]:
    """Those of the pictures whose times are in the span, which may begin after them.

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


def _early_enough(picture: av.VideoFrame, stream: av.VideoStream, start: Fraction) -> bool:
    if picture.pts is None:
        return False
    seconds = picture.pts * _time_base(stream)
    # What an interlaced picture becomes depends on the one before it.
    return seconds < start or (seconds == start and not picture.interlaced_frame)


def _time_base(stream: av.VideoStream) -> Fraction:
    return stream.time_base or Fraction(1, av.time_base)
