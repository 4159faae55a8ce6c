"""The cache folder, and what was measured or checked on this machine: notes in JSON files."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from clockseg.errors import UsageError
from clockseg.files import whole

LIMIT = "CLOCKSEG_CACHE_BYTES"
"""The environment variable that limits the bytes of the cache; 0 switches it off."""
NAMED = "networks"
"""The subfolder of networks that were cut by name; they are no cache of an engine, so the limit does not count them."""
DEFAULT_BYTES = 1_000_000_000
MOST_NOTES = 1000
"""Notes that a file in the cache folder keeps."""


def cache_directory() -> Path:
    """Return the folder of compiled networks: ``CLOCKSEG_CACHE``, or ``clockseg`` in the user's cache folder."""
    chosen = os.environ.get("CLOCKSEG_CACHE")
    return Path(chosen) if chosen else _user_cache() / "clockseg"


def _user_cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # the user has no home, as in containers: return a path that cannot become a folder
        return Path(os.devnull)


def cache_limit() -> int:
    """Return the most bytes that compiled networks may take on disk: ``CLOCKSEG_CACHE_BYTES``, by default 1 GB.

    >>> cache_limit()
    1000000000
    """
    given = os.environ.get(LIMIT, "")
    try:
        limit = int(given) if given else DEFAULT_BYTES
    except ValueError:
        limit = -1
    if limit < 0:
        raise UsageError(f"{LIMIT}={given!r} must be a number of bytes, such as 2000000000, or 0 for no cache on disk.")
    return limit


def read_notes(file: str) -> dict[str, Any]:
    """Return what was measured or checked on this machine, as ``file`` in the cache folder keeps it; a damaged file counts as empty."""
    try:
        found = json.loads((cache_directory() / file).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def add_note(file: str, key: str, value: Any) -> None:
    """Keep ``value`` (plain JSON) under ``key``; the oldest notes are dropped first. A folder that can't be written to is ignored."""
    notes = {**read_notes(file), key: value}
    text = json.dumps(dict(list(notes.items())[-MOST_NOTES:]), indent=1)
    path = cache_directory() / file
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole(path) as part:
            part.write_text(text, encoding="utf-8")
