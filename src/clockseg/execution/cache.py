"""The cache folder: notes of what was measured or checked on this machine, and compiled models, which make the next start quick.

The size of the models is limited: the least recently used is deleted first.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from clockseg.errors import UsageError
from clockseg.files import whole

LIMIT = "CLOCKSEG_CACHE_BYTES"
"""The environment variable that limits the bytes of the cache; 0 switches it off."""
NAMED = "networks"
"""The subfolder of networks that were cut by name; they are no cache of an engine, so the limit does not count them."""
MODELS = "openvino"
"""The subfolder of compiled models; OpenVINO is the one engine that stores them."""
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


def model_folder(digest: str) -> Path | None:
    """Return the cache folder of one model, marked as used now; None if there is no cache or it can't be written to.

    ``digest``: of the model, in hexadecimal. The engine itself checks whether what lies there fits its version, its options
    and the processor.
    """
    if cache_limit() == 0:
        return None
    folder = cache_directory() / MODELS / digest[:32]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
    except OSError:
        return None
    return folder


def prune() -> None:
    """Delete the least recently used models until the cache is within its limit.

    Other processes may prune or read at the same time: what one of them deletes first is passed over, and an engine that
    finds a file missing or incomplete compiles again.
    """
    entries = [(entry, _bytes(entry)) for entry in sorted(_entries(), key=_used)]
    excess = sum(size for _, size in entries) - cache_limit()
    for entry, size in entries:
        if excess > 0:
            _delete(entry)
            excess -= size


def clear_cache() -> int:
    """Delete all compiled and downloaded networks on disk and the measured speeds of engines; return the bytes freed."""
    named = (cache_directory().glob(f"*{name}.json*") for name in ("engines", "fused", "multiply-adds", "upsampling"))
    remembered = [file for files in named for file in files if file.is_file()]
    freed = 0
    for entry in (*_entries(), *remembered, cache_directory() / NAMED):
        freed += _bytes(entry)
        _delete(entry)
    return freed


def _entries() -> list[Path]:
    """The folders of models, and files that older versions wrote."""
    return list((cache_directory() / MODELS).glob("*"))


def _used(entry: Path) -> float:
    try:
        return entry.stat().st_mtime
    except OSError:
        return 0.0


def _bytes(entry: Path) -> int:
    size = 0
    for file in (entry, *entry.rglob("*")):
        with contextlib.suppress(OSError):
            size += file.stat().st_size if file.is_file() else 0
    return size


def _delete(entry: Path) -> None:
    shutil.rmtree(entry, ignore_errors=True)
    with contextlib.suppress(OSError):
        entry.unlink()
