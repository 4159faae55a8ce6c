"""Where engines keep what they compiled, so that the next start is quick."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


def cache_directory() -> Path:
    """The folder of compiled networks: ``CLOCKSEG_CACHE``, or ``clockseg`` in the user's cache folder."""
    chosen = os.environ.get("CLOCKSEG_CACHE")
    return Path(chosen) if chosen else _user_cache() / "clockseg"


def _user_cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # nobody's home, as in containers: a place where nothing can be kept
        return Path(os.devnull)


def clear_cache() -> int:
    """Delete what engines have kept on disk, and forget which was the fastest; returns how many bytes that was."""
    folders = [cache_directory() / name for name in ("openvino", "tensorrt")]
    kept = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    remembered = [file for file in cache_directory().glob("*engines.json*") if file.is_file()]
    freed = sum(file.stat().st_size for file in (*kept, *remembered))
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    for file in remembered:
        file.unlink(missing_ok=True)
    return freed
