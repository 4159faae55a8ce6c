"""Sources of live frames, and the protocols that FFmpeg may open for each."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from clockseg.errors import UsageError
from clockseg.segmenting.results import folder_name

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


@dataclass(frozen=True)
class Source:
    """A source as ``given``, its ``kind``, and the ``name`` to show: a URL without user, password and query."""

    given: str
    kind: Kind
    name: str

    @property
    def protocols(self) -> str:
        """FFmpeg's protocol whitelist for the source.

        >>> source("udp://127.0.0.1:9000").protocols
        'udp'
        """
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
