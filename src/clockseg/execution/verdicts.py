"""Verdicts on disk: whether fused parts reproduce the bits of single parts, so that it is not checked again at each start."""

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
"""Verdicts that are kept; the oldest goes first."""


class Known(NamedTuple):
    """The attempt that gave the same bits (None: none did), and the seconds of the calls one by one."""

    attempt: int | None
    shares: tuple[float, ...]


def key(*facts: Any) -> str:
    """Return all that a verdict depends on as a short text: models, as bytes, and what can be told as text."""
    digest = hashlib.sha256()
    for fact in facts:
        digest.update(fact if isinstance(fact, bytes) else repr(fact).encode())
    return digest.hexdigest()[:32]


def recall(key: str, calls: int, attempts: int) -> Known | None:
    """Return what is known under ``key`` for so many calls and attempts; a damaged file is as none."""
    found: Any = _read().get(key)
    try:
        attempt, shares = found["attempt"], tuple(map(float, found["shares"]))
    except (TypeError, KeyError, ValueError):
        return None
    fits = attempt is None or (isinstance(attempt, int) and 0 <= attempt < attempts)
    return Known(attempt, shares) if fits and len(shares) == calls else None


def remember(key: str, attempt: int | None, shares: Sequence[float]) -> None:
    """Keep a verdict; a cache folder that can't be written to isn't worth failing for."""
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
