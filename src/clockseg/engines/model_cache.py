"""Compiled models on disk, which make the next start quick. Their size is limited: the least recently used is deleted first."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from clockseg.execution.cache import NAMED, cache_directory, cache_limit

KINDS = ("openvino", "tensorrt", "cuts")
"""The subfolders of the cache: one for each engine that stores compiled models, and one for how networks are cut."""


def model_folder(kind: str, digest: str) -> Path | None:
    """Return the cache folder of one model, marked as used now; None if there is no cache or it can't be written to.

    ``kind``: one of ``KINDS``; ``digest``: of the model, in hexadecimal. An engine itself checks whether what lies there fits
    its version, its options and the processor.
    """
    if cache_limit() == 0:
        return None
    folder = cache_directory() / kind / digest[:32]
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
    named = (cache_directory().glob(f"*{name}.json*") for name in ("engines", "fused", "prices", "upsampling"))
    remembered = [file for files in named for file in files if file.is_file()]
    freed = 0
    for entry in (*_entries(), *remembered, cache_directory() / NAMED):
        freed += _bytes(entry)
        _delete(entry)
    return freed


def _entries() -> list[Path]:
    """The folders of models, and files that older versions wrote."""
    return [entry for kind in KINDS for entry in (cache_directory() / kind).glob("*")]


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
