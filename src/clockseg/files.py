"""Atomic writes: a file is written as ``.NAME.part`` and renamed once it is complete. Limits of input files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

MAX_PIXELS = 64_000_000
"""Pictures with more pixels are refused before they are decoded."""
MAX_HOURS = 100.0
"""A longer duration in a header is taken for an error."""


def part_name(path: Path) -> Path:
    """The temporary name of a file.

    >>> part_name(Path("out/overlay.mp4")).name
    '.overlay.mp4.part'
    """
    return path.with_name(f".{path.name}.part")


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """The temporary name to write ``path`` under; where the block ends well the file gets its own, in place of an older one.

    A block left by an exception, an interrupt included, leaves no part of it, and what was there before stays.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with whole(Path(folder) / "notes.txt") as part:
    ...         _ = part.write_text("all of it")
    ...     [file.name for file in Path(folder).iterdir()]
    ['notes.txt']
    """
    with whole_together(path) as (part,):
        yield part


@contextmanager
def whole_together(*paths: Path) -> Iterator[tuple[Path, ...]]:
    """The temporary names of files that mean something only together: all get theirs, or all stay as they were."""
    parts = {part_name(path): path for path in paths}
    try:
        yield tuple(parts)
        publish(parts)
    finally:
        for part in parts:
            with suppress(OSError):
                part.unlink(missing_ok=True)


def publish(names: Mapping[Path, Path]) -> None:
    """Rename each file to what it maps to, on the same disk: all of them, or, left by an exception, none.

    >>> publish({})
    """
    if len(names) == 1:
        for part, path in names.items():
            part.replace(path)
        return
    old = {path: path.with_name(f".{path.name}.old") for path in names.values() if path.exists()}
    done: list[Path] = []
    try:
        for path, aside in old.items():
            path.replace(aside)
        for part, path in names.items():
            done.append(path)
            part.replace(path)
    except BaseException:
        _restore(done, old)
        raise
    for aside in old.values():
        with suppress(OSError):
            aside.unlink()


def _restore(done: list[Path], old: Mapping[Path, Path]) -> None:
    for path in done:
        path.unlink(missing_ok=True)
    for path, aside in old.items():
        if aside.exists():
            aside.replace(path)
