"""Serves the page on which a run is watched, with Python's own HTTP server, to those who may see it."""

from __future__ import annotations

import hmac
import ipaddress
import json
import re
import secrets
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, urlsplit

from clockseg.errors import UsageError
from clockseg.live.board import Board

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
