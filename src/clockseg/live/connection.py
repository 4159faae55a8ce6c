"""Connection: a source that is open, and the frames that come from it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction

import av
from av.container import InputContainer

from clockseg.errors import UsageError, VideoError
from clockseg.files import MAX_PIXELS
from clockseg.live.line import Arrived
from clockseg.live.source import ALLOWED, Source
from clockseg.video import Clip, Frame, open_clip
from clockseg.video.colour import ToRGB
from clockseg.video.decode import Damage, checked_stream, open_for_reading, pictures, reason
from clockseg.video.fields import deinterlaced
from clockseg.video.movie import VECTOR_THREADS

SILENCE_SECONDS = 10.0
"""After so long without an answer or a packet, a URL counts as gone."""
_PROBE = {"analyzeduration": "1000000", "probesize": "1000000", "pattern_type": "none"}
_OPTIONS = {"rtsp": {"rtsp_transport": "tcp"}, "rtsps": {"rtsp_transport": "tcp"}}


class Gone(VideoError):
    """A source that can't be watched, however often it is tried."""


@dataclass
class Connection:
    """An open source. ``fps``: as it says itself, None if it doesn't. ``frames``: those that come, once, till it ends.

    ``over``: whether there is nothing to come back for once the frames have ended; ``why``: what ended them.
    """

    fps: Fraction | None
    frames: Iterator[Arrived]
    _over: Callable[[], bool] = field(repr=False)
    _why: Callable[[], str] = field(repr=False)

    @property
    def over(self) -> bool:
        """True if the source has ended by itself, as a file or a pipe does."""
        return self._over()

    @property
    def why(self) -> str:
        """Reason for the end, a sentence; "" if it simply ended."""
        return self._why()


@contextmanager
def connect(
    source: Source,
    pause: Callable[[float], bool],
    *,
    options: Mapping[str, str] | None = None,
    max_pixels: int = MAX_PIXELS,
) -> Iterator[Connection]:
    """Opens ``source``; ``pause(seconds)`` waits, and tells whether to stop.

    A file comes at its own speed, all else as it comes. ``options``: FFmpeg's, such as {"video_size": "1280x720"}; protocols
    other than the source's own are not among them. ``Gone`` or ``VideoError`` if it can't be opened.
    """
    if source.kind == "file":
        with _clip(source, max_pixels) as clip:
            yield Connection(clip.fps, played(clip, pause), lambda: True, lambda: "; ".join(clip.problems))
            clip.check_unchanged()
        return
    container = _opened(source, dict(options or {}), max_pixels)
    with container:
        try:
            stream = checked_stream(source.name, container, max_pixels)
        except VideoError as error:
            raise Gone(str(error)) from error
        damage, ends = Damage(), source.kind == "pipe" or bool(container.duration)
        frames = received(container, stream, damage, max_pixels)
        if ends and source.kind == "url":
            frames = paced(frames, pause)
        rate = stream.average_rate or stream.guessed_rate
        yield Connection(
            rate or None, frames, lambda: ends and damage.stopped is None, lambda: "; ".join(damage.sentences())
        )


def played(
    clip: Clip, pause: Callable[[float], bool], *, now: Callable[[], float] = time.perf_counter
) -> Iterator[Arrived]:
    """The frames of ``clip`` at its own speed: each comes when it is due, or when it is decoded, if that is later."""
    if clip.kind == "images":
        raise Gone(f"{clip.path}: pictures have no speed of their own; give clockseg segment pictures.")
    period = float(1 / (clip.fps or 25))
    return paced((Arrived(frame, now()) for frame in clip), pause, period=period, now=now)


def paced(
    frames: Iterator[Arrived],
    pause: Callable[[float], bool],
    *,
    period: float = 0.04,
    now: Callable[[], float] = time.perf_counter,
) -> Iterator[Arrived]:
    """The frames, each held back until it is due by its own time, which is when it counts as come.

    One without a time is due a ``period`` after the one before, as after a jump in the times of over a second.
    """
    due: float | None = None
    before: float | None = None
    for arrived in frames:
        at = arrived.frame.pts_seconds
        step = period if at is None or before is None else at - before
        due = arrived.seconds if due is None else due + (step if 0 <= step <= 1 else period)
        before = at
        if pause(due - now()):
            return
        yield arrived._replace(seconds=due)


def received(container: InputContainer, stream: av.VideoStream, damage: Damage, max_pixels: int) -> Iterator[Arrived]:
    """The frames as they come. A decoder with a thread a frame would hold back as many frames, so it has one a slice."""
    to_rgb = ToRGB(max_pixels)
    for index, picture in enumerate(deinterlaced(pictures(container, stream, damage, threads=VECTOR_THREADS))):
        came = time.perf_counter()
        try:
            image = to_rgb(picture)
        except (av.FFmpegError, ValueError, VideoError) as error:
            damage.stopped = reason(error)
            return
        damage.take(picture)
        base = picture.time_base or stream.time_base
        aspect = stream.sample_aspect_ratio or Fraction(1)
        yield Arrived(Frame(index, image, picture.pts, base, time.perf_counter() - came, pixel_aspect=aspect), came)


def _clip(source: Source, max_pixels: int) -> Clip:
    try:
        return open_clip(source.given, max_pixels=max_pixels)
    except VideoError as error:
        raise Gone(str(error)) from error


def _opened(source: Source, options: dict[str, str], max_pixels: int) -> InputContainer:
    if source.kind == "pipe" and (sys.stdin is None or sys.stdin.isatty()):
        raise Gone(f"it is no pipe. {ALLOWED}")
    given = {**_PROBE, **_OPTIONS.get(source.given.partition(":")[0].lower(), {}), **options}
    # Last, so that no option lets a stream or a playlist lead anywhere else.
    given |= {"protocol_whitelist": source.protocols, "max_pixels": str(max_pixels)}
    place = "pipe:0" if source.kind == "pipe" else source.given
    try:
        return open_for_reading(
            place,
            format="v4l2" if source.kind == "camera" else None,
            container_options=given,
            timeout=SILENCE_SECONDS if source.kind == "url" else None,
        )
    except (av.ProtocolNotFoundError, av.DemuxerNotFoundError) as error:
        raise Gone(f"this build of FFmpeg can't open it ({reason(error)}). {ALLOWED}") from error
    except av.ExitError as error:
        raise VideoError(f"no answer within {SILENCE_SECONDS:g} s") from error
    except (av.FFmpegError, ValueError) as error:
        raise VideoError(f"it can't be opened ({reason(error)})") from error


def parsed_options(texts: list[str] | None) -> dict[str, str]:
    """FFmpeg's options as NAME=VALUE.

    >>> parsed_options(["video_size=640x480"])
    {'video_size': '640x480'}
    """
    found = {}
    for text in texts or []:
        name, given, value = text.partition("=")
        if not (given and name.isidentifier()):
            raise UsageError(f"option {text!r}; give FFmpeg's options as NAME=VALUE, such as video_size=1280x720.")
        if name in _OURS:
            raise UsageError(f"option {name} is not to be changed: what a stream may lead to is fixed by its kind.")
        found[name] = value
    return found


_OURS = frozenset({"protocol_whitelist", "protocol_blacklist", "format_whitelist", "codec_whitelist", "max_pixels"})
