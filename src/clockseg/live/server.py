"""The page on which a run is watched: the state of each source, and the HTTP server that sends it to those who may see it.

A slow page misses frames; the run never waits for one.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import re
import secrets
import socket
import socketserver
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from importlib.resources import files
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import cv2
import numpy as np

from clockseg.clockwork.network import StagedNetwork
from clockseg.errors import UsageError
from clockseg.instances.drawing import drawn
from clockseg.live.channel import Channel, Shown
from clockseg.showing.kind import kind_of
from clockseg.types import Array, Size
from clockseg.video import Heat
from clockseg.video.overlay import colours_of

HISTORY = 900
"""The most past frames of a source whose records a page shows when it is opened."""
WIDEST = 960
"""The largest width in pixels of a picture in a page: a JPEG of it takes a few milliseconds."""
MOST_FPS = 15
WAIT_SECONDS = 5.0
"""A page gets the state of its source after so long even without a new frame."""
LOOPBACK = "127.0.0.1"
MOST_THREADS = 96
"""Threads of the process, of which each request has one, from which on requests are dropped."""
QUIET_SECONDS = 20.0
"""A connection without any traffic for so long is closed."""
_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/live.css": ("live.css", "text/css; charset=utf-8"),
    "/live.js": ("live.js", "text/javascript; charset=utf-8"),
}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Moment(NamedTuple):
    """One frame's record, as sent to pages.

    ``number``: of the frame, from 1; ``fired``: bit s for stage s; ``latency_ms``: None of a frame that had to wait until the
    network was compiled; ``dropped``: frames given up before it.
    """

    number: int
    fired: int
    fill: bool
    latency_ms: float | None
    dropped: int


class _Encoded(NamedTuple):
    """The pictures of a frame, of ``size`` (w, h): a JPEG, and a grey PNG of the class ids, empty if the output is no labels."""

    number: int
    at: float
    size: Size
    pictures: tuple[bytes, bytes]


@dataclass
class _View:
    """The newest frame of a source, its history, and its pictures, which are encoded once for all pages."""

    channel: Channel | None = None
    newest: Shown | None = None
    moments: deque[Moment] = field(default_factory=lambda: deque(maxlen=HISTORY))
    encoded: _Encoded | None = None
    encoding: threading.Lock = field(default_factory=threading.Lock)
    heat: Heat = field(default_factory=Heat)

    @property
    def number(self) -> int:
        """Number of the newest frame; 0 before the first."""
        return self.moments[-1].number if self.moments else 0


class Board:
    """``show`` each frame (cheap: nothing is drawn or encoded for it); ``message`` returns what is new to a page.

    ``names``: of the sources; ``schedule``: the one they run on.
    """

    def __init__(self, net: StagedNetwork, names: Sequence[str], schedule: str) -> None:
        self._net, self._names, self._schedule = net, tuple(names), schedule
        self._kind = kind_of(net)
        self._changed = threading.Condition()
        self._views = [_View() for _ in names]

    def __len__(self) -> int:
        """The number of sources."""
        return len(self._names)

    def about(self) -> dict[str, Any]:
        """Return what does not change: sources, stages, classes and their colours."""
        classes = list(self._net.classes)
        colours = colours_of(getattr(self._net.sidecar, "palette", ()), len(classes))
        return {
            "sources": list(self._names),
            "stages": [stage.name for stage in self._net.stages],
            "classes": classes,
            "palette": [list(colour) for colour in colours],
            "network": self._net.name,
            "engine": self._net.engine,
            "schedule": self._schedule,
            "history": HISTORY,
        }

    def show(self, source: int, channel: Channel, shown: Shown) -> None:
        """Add a frame of a source."""
        record, view = shown.record, self._views[source]
        with self._changed:
            moment = Moment(
                view.number + 1,
                sum(bool(fires) << stage for stage, fires in enumerate(record.fired)),
                record.fill,
                None if shown.latency_seconds is None else round(1000 * shown.latency_seconds, 2),
                shown.dropped,
            )
            view.channel, view.newest = channel, shown
            view.moments.append(moment)
            self._changed.notify_all()

    def message(self, source: int, after: int) -> bytes:
        """Return what is new of a source since frame number ``after``; wait for it at most ``WAIT_SECONDS``.

        The length of a JSON text (4 bytes, big endian), the text, a JPEG, and a PNG whose grey is the class id (empty without
        labels). The text has the bytes of both pictures, which are empty if there is nothing new, the ``number`` of the frame,
        the ``moments`` since ``after``, and the ``state``.
        """
        view = self._views[source]
        with self._changed:
            new = self._changed.wait_for(lambda: view.number > after, WAIT_SECONDS)
        found = self._encoded(view, after) if new else None
        pictures = (b"", b"") if found is None else found.pictures
        text = {"state": _state(view.channel), "picture": len(pictures[0]), "masks": len(pictures[1])}
        if found is not None:
            with self._changed:
                moments = [moment for moment in view.moments if after < moment.number <= found.number]
            text |= {"number": found.number, "size": found.size, "moments": moments}
        head = json.dumps(text, allow_nan=False).encode()
        return b"".join((len(head).to_bytes(4, "big"), head, *pictures))

    def _encoded(self, view: _View, after: int) -> _Encoded | None:
        """Return the pictures of a frame newer than ``after``, encoded at most ``MOST_FPS`` times a second; None before the first."""
        with view.encoding:
            last = view.encoded
            if last is not None and last.number > after:
                return last
            if last is not None:
                time.sleep(max(0.0, last.at + 1 / MOST_FPS - time.monotonic()))
            with self._changed:
                number, newest = view.number, view.newest
            if newest is not None:
                view.encoded = _Encoded(number, time.monotonic(), *self._drawn(view.heat, newest))
            return view.encoded

    def _drawn(self, heat: Heat, shown: Shown) -> tuple[Size, tuple[bytes, bytes]]:
        image = shown.frame.image
        if self._kind == "values":
            image = heat(image, shown.output)
        elif self._kind == "instances":
            image = drawn(image, shown.output, self._net.classes)
        height, width = image.shape[:2]
        scale = min(1.0, WIDEST / width)
        size = max(1, round(width * scale)), max(1, round(height * scale))
        small = cv2.resize(image, size, interpolation=cv2.INTER_AREA) if scale < 1 else image
        picture = _bytes(".jpg", cv2.cvtColor(small, cv2.COLOR_RGB2BGR), cv2.IMWRITE_JPEG_QUALITY, 82)
        if self._kind != "labels":
            return size, (picture, b"")
        labels = cv2.resize(np.asarray(shown.output), size, interpolation=cv2.INTER_NEAREST)
        return size, (picture, _bytes(".png", labels, cv2.IMWRITE_PNG_COMPRESSION, 1))


def _state(channel: Channel | None) -> dict[str, Any]:
    """Return the state of a source."""
    if channel is None:
        return {"state": "connecting"}
    tally = channel.figures.tally
    return {
        "state": channel.feed.state,
        "trouble": channel.feed.trouble if channel.feed.state in ("connecting", "failed") else "",
        "frames": tally.frames,
        "dropped": channel.dropped,
        "reconnects": channel.feed.reconnects,
        "source_fps": round(channel.fps, 2),
        "network_rate": tally.network_rate,
        "latency_ms": channel.latencies.facts(),
    }


def _bytes(kind: str, image: Array, *options: int) -> bytes:
    _, encoded = cv2.imencode(kind, image, options)
    return encoded.tobytes()


@dataclass(frozen=True)
class Address:
    """``host`` and ``port`` (0: a free one); ``token``: must come with every request, "" if only this machine can connect."""

    host: str
    port: int
    token: str = field(default="", repr=False)

    def url(self, port: int) -> str:
        """Return the URL to open in a browser, with the token, which is shown nowhere else."""
        host = socket.gethostname() if self.host in ("0.0.0.0", "::") else self.host
        place = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
        return f"{place}#{self.token}" if self.token else place

    def answers_to(self, named: str | None) -> bool:
        """Return True if a request with this Host header is meant for this address: any is that brings the token.

        Without a token, a web page elsewhere may let a name of its own lead here (DNS rebinding), and would then read what is
        here as its own; it can't choose the name under which a browser asks.
        """
        found = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]/@\s]+)(?::\d{1,5})?", named or "")
        return bool(self.token) or (found is not None and _loopback(found[1].strip("[]").lower().rstrip(".")))

    def admits(self, authorization: str | None) -> bool:
        """Return True if a request with this Authorization header brings the token, or none is needed."""
        return not self.token or hmac.compare_digest(f"Bearer {self.token}".encode(), (authorization or "").encode())


def parse_address(text: str) -> Address:
    """Return the address that ``[HOST:]PORT`` names: this machine's own, or that of another host with a new token."""
    found = re.fullmatch(r"(?:(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9.-]+):)?(\d{1,5})", text)
    if found is None or int(found[2]) > 65535:
        raise UsageError(
            f"--serve {text}; give a port from 0 (any free one) to 65535, or HOST:PORT, such as 8080, 0.0.0.0:8080, [::1]:8080."
        )
    host = (found[1] or LOOPBACK).strip("[]").lower()
    return Address(host, int(found[2]), "" if _loopback(host) else secrets.token_urlsafe(32))


def _loopback(host: str) -> bool:
    # Of names only this one: any other may lead elsewhere tomorrow.
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@contextmanager
def serving(board: Board, address: Address) -> Iterator[str]:
    """Serve the page in the background while the block runs; gives its URL, which holds the token if there is one.

    ``UsageError`` if it can't be served there.
    """
    try:
        server = _Server(address, board)
    except (OSError, UnicodeError) as error:
        raise UsageError(
            f"the page can't be served on {address.host}, port {address.port} ({getattr(error, 'strerror', None) or error}). "
            "Give another --serve; port 0 takes any that is free."
        ) from error
    thread = threading.Thread(target=server.serve_forever, name="clockseg-serve", daemon=True)
    thread.start()
    try:
        yield address.url(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()


class _Server(socketserver.ThreadingTCPServer):
    """A server that, other than ``http.server.HTTPServer``, does not look up this machine's name, which may take seconds."""

    allow_reuse_address = daemon_threads = True
    block_on_close = False

    def __init__(self, address: Address, board: Board) -> None:
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        self.address, self.board = address, board
        self.about = json.dumps(board.about()).encode()
        super().__init__((address.host, address.port), _Handler)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Return False to drop a request if there are too many."""
        return threading.active_count() < MOST_THREADS

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore connections that were closed by the other side."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "clockseg", ""
    timeout = QUIET_SECONDS

    def do_GET(self) -> None:
        """Answer with the page's files, which everybody may see, or, to those with the token, with what it shows."""
        asked = urlsplit(self.path)
        address, hosts = self.server.address, self.headers.get_all("Host") or [""]
        if len(hosts) != 1 or not address.answers_to(hosts[0]):
            self._answer(HTTPStatus.MISDIRECTED_REQUEST, b"This is not the host that you asked for.")
        elif asked.path in _FILES:
            name, kind = _FILES[asked.path]
            self._answer(HTTPStatus.OK, (files("clockseg.live") / "page" / name).read_bytes(), kind)
        elif not address.admits(self.headers.get("Authorization")):
            self._answer(HTTPStatus.FORBIDDEN, b"Open the address that clockseg live printed: it holds the token.")
        elif asked.path == "/about":
            self._answer(HTTPStatus.OK, self.server.about, "application/json")
        elif asked.path == "/new":
            self._new(parse_qs(asked.query))
        else:
            self._answer(HTTPStatus.NOT_FOUND, b"There is nothing here.")

    def _new(self, query: dict[str, list[str]]) -> None:
        board = self.server.board
        try:
            source, after = (int(query[name][0]) for name in ("source", "after"))
        except (KeyError, ValueError):
            source = after = -1
        if 0 <= source < len(board) and after >= 0:
            self._answer(HTTPStatus.OK, board.message(source, after), "application/octet-stream")
        else:
            self._answer(HTTPStatus.BAD_REQUEST, b"Ask for /new?source=N&after=NUMBER.")

    def _answer(self, status: HTTPStatus, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
        self.send_response(status)
        for name, value in (_HEADERS | {"Content-Type": kind, "Content-Length": str(len(body))}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""
