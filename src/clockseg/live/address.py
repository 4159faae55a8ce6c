"""The address of the page: host, port, the token that protects it, and the names under which it may be asked for."""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
import socket
from dataclasses import dataclass, field

from clockseg.errors import UsageError

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Address:
    """``host`` and ``port`` (0: a free one); ``token``: must come with every request, "" if only this machine can connect.

    >>> parse_address("8080").token, len(parse_address("0.0.0.0:8080").token) > 30
    ('', True)
    """

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

        >>> address = parse_address("8080")
        >>> address.answers_to("localhost:8080"), address.answers_to("evil.example:8080"), address.answers_to(None)
        (True, False, False)
        """
        found = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]/@\s]+)(?::\d{1,5})?", named or "")
        return bool(self.token) or (found is not None and _loopback(found[1].strip("[]").lower().rstrip(".")))

    def admits(self, authorization: str | None) -> bool:
        """Return True if a request with this Authorization header brings the token, or none is needed.

        >>> Address("0.0.0.0", 8080, "secret").admits("Bearer secret"), Address("0.0.0.0", 8080, "secret").admits(None)
        (True, False)
        """
        return not self.token or hmac.compare_digest(f"Bearer {self.token}".encode(), (authorization or "").encode())


def parse_address(text: str) -> Address:
    """Return the address that ``[HOST:]PORT`` names: this machine's own, or that of another host with a new token.

    >>> parse_address("8080").host, parse_address("[::1]:0").host, parse_address("example.org:99999")
    Traceback (most recent call last):
        ...
    clockseg.errors.UsageError: --serve example.org:99999; give a port from 0 (any free one) to 65535, or HOST:PORT, such as
    8080, 0.0.0.0:8080, [::1]:8080.
    """
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
