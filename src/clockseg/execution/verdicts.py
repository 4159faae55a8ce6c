"""Verdicts on disk: the checks that fused parts reproduce the bits of single parts, which start-up need not repeat."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from clockseg.execution.cache import cache_directory, cache_limit
from clockseg.files import whole

FILE = "fused.json"
"""The file in the cache folder."""
MOST = 1000
"""Number of verdicts that are kept; the oldest are dropped first."""


class Known(NamedTuple):
    """The attempt that gave the same bits (None: none did), and the seconds of the calls one by one."""

    attempt: int | None
    shares: tuple[float, ...]


def key(*facts: Any) -> str:
    """Return a hash of everything that a verdict depends on: bytes of models, and objects by their ``repr``."""
    digest = hashlib.sha256()
    for fact in facts:
        digest.update(fact if isinstance(fact, bytes) else repr(fact).encode())
    return digest.hexdigest()[:32]


def recall(key: str, calls: int, attempts: int) -> Known | None:
    """Return the verdict stored under ``key``, if it fits these numbers of calls and attempts; a damaged file counts as empty."""
    found: Any = _read().get(key)
    try:
        attempt, shares = found["attempt"], tuple(map(float, found["shares"]))
    except (TypeError, KeyError, ValueError):
        return None
    fits = attempt is None or (isinstance(attempt, int) and 0 <= attempt < attempts)
    return Known(attempt, shares) if fits and len(shares) == calls else None


def remember(key: str, attempt: int | None, shares: Sequence[float]) -> None:
    """Store a verdict; a cache folder that can't be written to is ignored."""
    if cache_limit() == 0:
        return
    file = cache_directory() / FILE
    found = {**_read(), key: {"attempt": attempt, "shares": list(shares)}}
    text = json.dumps(dict(list(found.items())[-MOST:]))
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with whole(file) as part:
            part.write_text(text, encoding="utf-8")


def _read() -> dict[str, Any]:
    try:
        found = json.loads((cache_directory() / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
