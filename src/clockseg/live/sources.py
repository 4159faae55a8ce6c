"""Sources of live frames: the protocols that FFmpeg may open for each, and the frames that arrive from them."""

from __future__ import annotations

import os
import re
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

import av
from av.container import InputContainer

from clockseg.errors import UsageError, VideoError
from clockseg.files import MAX_PIXELS
from clockseg.segmenting.results import folder_name
from clockseg.video import Frame, open_clip
from clockseg.video.colour import ToRGB
from clockseg.video.decode import Damage, checked_stream, open_for_reading, pictures, reason
from clockseg.video.movie import converted, deinterlaced

_WEB = "http,https,httpproxy,tcp,tls,crypto"
SCHEMES = {
    "http": _WEB,
    "https": _WEB,
    "rtsp": "rtsp,rtp,srtp,udp,tcp",
    "rtsps": "rtsps,rtsp,rtp,srtp,udp,tcp,tls",
    "rtmp": "rtmp,tcp",
    "rtmps": "rtmps,rtmp,tcp,tls",
    "udp": "udp",
    "rtp": "rtp,udp",
    "tcp": "tcp",
    "srt": "srt",
}
"""Schemes of URLs that are opened, and for each the only protocols that its streams and playlists may lead to."""
_NEEDS_HOST = ("http", "https", "rtsp", "rtsps", "rtmp", "rtmps")
ALLOWED = f"Give a video file, - for a pipe, a camera such as /dev/video0, or a URL of {', '.join(SCHEMES)}."
Kind = Literal["file", "pipe", "camera", "url"]
SILENCE_SECONDS = 10.0
"""After so long without an answer or a packet, a URL counts as gone."""
_PROBE = {"analyzeduration": "1000000", "probesize": "1000000", "pattern_type": "none"}
_OPTIONS = {"rtsp": {"rtsp_transport": "tcp"}, "rtsps": {"rtsp_transport": "tcp"}}
_FIXED = frozenset({"protocol_whitelist", "protocol_blacklist", "format_whitelist", "codec_whitelist", "max_pixels"})
"""Options of FFmpeg that a user can't set."""


@dataclass(frozen=True)
class Source:
    """A source as ``given``, its ``kind``, and the ``name`` to show: a URL without user, password and query."""

    given: str
    kind: Kind
    name: str

    @property
    def protocols(self) -> str:
        """FFmpeg's protocol whitelist for the source."""
        if self.kind == "url":
            return SCHEMES[urlsplit(self.given).scheme.lower()]
        return "pipe" if self.kind == "pipe" else "file"

    @property
    def stem(self) -> str:
        """Name of its result folder.

        >>> source("rtsp://me:secret@cam.local:554/front/1").stem, source("-").stem, source("/dev/video0").stem
        ('cam.local-554-front-1', 'pipe', 'video0')
        """
        if self.kind == "file":
            return folder_name(Path(os.path.abspath(self.given)).stem)
        if self.kind == "pipe":
            return "pipe"
        name = Path(self.given).name if self.kind == "camera" else self.name.partition("://")[2]
        return folder_name(re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-"))


def source(text: str) -> Source:
    """Return the source that ``text`` names; ``UsageError`` for a URL of a scheme that is not opened.

    >>> source("https://user:pass@example.org/live.m3u8?token=1").name
    'https://example.org/live.m3u8'
    >>> source("drive.mp4").kind, source("-").kind, source("/dev/video2").kind
    ('file', 'pipe', 'camera')
    """
    if text == "-":
        return Source(text, "pipe", "standard input")
    if re.fullmatch(r"/dev/(video\d+|v4l/.+)", text):
        return Source(text, "camera", text)
    scheme, found, _ = text.partition("://")
    if not found or not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", scheme):
        return Source(text, "file", text)
    if scheme.lower() not in SCHEMES:
        raise UsageError(f"{scheme}:// is not a protocol that can be read. {ALLOWED}")
    return Source(text.replace(scheme, scheme.lower(), 1), "url", _without_secrets(text))


def _without_secrets(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise UsageError(f"a URL that can't be read ({error}). {ALLOWED}") from None
    if not host and parts.scheme in _NEEDS_HOST:
        raise UsageError(f"{url} names no host. {ALLOWED}")
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}{'' if port is None else f':{port}'}{parts.path}"


class Arrived(NamedTuple):
    """A frame, the time at which it was decoded (of ``time.perf_counter``), and the number of its connection, from 0."""

    frame: Frame
    seconds: float
    connection: int = 0


class Connection(NamedTuple):
    """An open source.

    ``fps``: as the source states it, or None; ``frames``: those that come, once, until it ends. After that, ``over`` returns
    True if the source ended by itself, as a file or a pipe does, and ``why`` the reason for the end, "" if there is none.
    """

    fps: Fraction | None
    frames: Iterator[Arrived]
    over: Callable[[], bool]
    why: Callable[[], str]


@contextmanager
def connect(
    source: Source,
    pause: Callable[[float], bool],
    ready: Callable[[], object] = lambda: None,
    *,
    options: Mapping[str, str] | None = None,
    max_pixels: int = MAX_PIXELS,
) -> Iterator[Connection]:
    """Open ``source``; ``pause(seconds)`` waits and returns True to stop; ``ready`` waits until the first frame was run.

    A source that states its duration is a recording, and is played at its own speed; frames of others are taken as they arrive.
    ``options``: FFmpeg's, such as {"video_size": "1280x720"}; protocols other than the source's own are not among them.
    ``VideoError`` if it can't be opened.
    """
    if source.kind == "file":
        if not Path(source.given).exists():
            raise VideoError(f"{source.given}: no such file. {ALLOWED}")
        with open_clip(source.given, max_pixels=max_pixels) as clip:
            if clip.kind == "images":
                raise VideoError(f"{clip.path}: images have no frame rate; use clockseg segment for images.")
            arriving = (Arrived(frame, time.perf_counter()) for frame in clip)
            frames = paced(arriving, pause, ready, period=float(1 / (clip.fps or 25)))
            yield Connection(clip.fps, frames, lambda: True, lambda: "; ".join(clip.problems))
            clip.check_unchanged()
        return
    container = _opened(source, dict(options or {}), max_pixels)
    with container:
        stream = checked_stream(source.name, container, max_pixels)
        damage, pipe, recorded = Damage(), source.kind == "pipe", bool(container.duration)
        frames = received(container, stream, damage, max_pixels)
        if recorded:
            frames = paced(frames, pause, ready)
        rate = stream.average_rate or stream.guessed_rate
        yield Connection(
            rate or None,
            frames,
            lambda: pipe or (recorded and damage.stopped is None),  # a pipe can't be opened again
            lambda: "; ".join(damage.sentences()),
        )


def paced(
    frames: Iterator[Arrived],
    pause: Callable[[float], bool],
    ready: Callable[[], object] = lambda: None,
    *,
    period: float = 0.04,
    now: Callable[[], float] = time.perf_counter,
) -> Iterator[Arrived]:
    """Yield the frames, each held back until it is due by its own time, which then counts as its arrival.

    One without a time is due a ``period`` after the one before, as after a jump in the times of over a second. Time begins
    when ``ready`` returns after the first one: nothing is lost while the network is compiled.
    """
    due: float | None = None
    before: float | None = None
    for arrived in frames:
        at = arrived.frame.pts_seconds
        if due is None:
            yield arrived
            ready()
            due = now()
        else:
            step = period if at is None or before is None else at - before
            due += step if 0 <= step <= 1 else period
            if pause(due - now()):
                return
            yield arrived._replace(seconds=due)
        before = at


def received(container: InputContainer, stream: av.VideoStream, damage: Damage, max_pixels: int) -> Iterator[Arrived]:
    """Yield the frames as they come, in RGB, so that the thread of the network need not convert them.

    A decoder with a thread per frame would delay them, so it has one per slice.
    """
    found = deinterlaced(pictures(container, stream, damage, threads="SLICE"))
    for frame in converted(found, stream, ToRGB(max_pixels), damage):
        yield Arrived(frame, time.perf_counter() - frame.decode_seconds)


def _opened(source: Source, options: dict[str, str], max_pixels: int) -> InputContainer:
    if source.kind == "pipe" and (sys.stdin is None or sys.stdin.isatty()):
        raise VideoError(f"standard input is not a pipe. {ALLOWED}")
    given = {**_PROBE, **_OPTIONS.get(source.given.partition(":")[0].lower(), {}), **options}
    # Last, so that no option lets a stream or a playlist lead anywhere else.
    given |= {"protocol_whitelist": source.protocols, "max_pixels": str(max_pixels)}
    place = "pipe:0" if source.kind == "pipe" else source.given
    begun = time.monotonic()
    try:
        return open_for_reading(
            place,
            format="v4l2" if source.kind == "camera" else None,
            container_options=given,
            timeout=SILENCE_SECONDS if source.kind == "url" else None,
        )
    except (av.ProtocolNotFoundError, av.DemuxerNotFoundError) as error:
        raise VideoError(f"this build of FFmpeg can't open it ({reason(error)}). {ALLOWED}") from error
    except (av.FFmpegError, ValueError) as error:
        raise _unopened(source, error, time.monotonic() - begun) from error


def _unopened(source: Source, error: Exception, seconds: float) -> VideoError:
    """Return the error to raise for a source that FFmpeg could not open in so many ``seconds``."""
    why = reason(error)
    if source.kind == "pipe":
        return VideoError(
            f"no video can be read from it ({why}). The command that writes to it failed, or its format can't be piped: of MP4 "
            "files that have their index at the end, give the name."
        )
    if source.kind == "camera":
        here = ", ".join(sorted(map(str, Path("/dev").glob("video*")))) or "none"
        return VideoError(f"the camera can't be opened ({why}). Cameras on this machine: {here}.")
    try:
        socket.getaddrinfo(urlsplit(source.given).hostname, None)
    except (OSError, UnicodeError) as unknown:
        return VideoError(f"unknown host ({reason(unknown)}). Check the address and the network connection.")
    if isinstance(error, av.HTTPClientError):
        return VideoError(f"the server refuses it ({why}). Check the path, the user and the password.")
    if seconds >= SILENCE_SECONDS:  # RTSP reports the end of its wait as invalid data
        return VideoError(f"no answer within {SILENCE_SECONDS:g} s")
    return VideoError(f"it can't be opened ({why})")


def parsed_options(texts: list[str] | None) -> dict[str, str]:
    """Return FFmpeg's options from texts NAME=VALUE.

    >>> parsed_options(["video_size=640x480"])
    {'video_size': '640x480'}
    """
    found = {}
    for text in texts or []:
        name, given, value = text.partition("=")
        if not (given and name.isidentifier()):
            raise UsageError(f"option {text!r}; give FFmpeg's options as NAME=VALUE, such as video_size=1280x720.")
        if name in _FIXED:
            raise UsageError(f"option {name} can't be set: the protocols that a stream may open are fixed by its kind.")
        found[name] = value
    return found
