"""Files that a command is asked to write: what can't be written is refused before the work, not after it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from clockseg._errors import DataError, UsageError


def check_new_files(*files: Path, overwrite: bool) -> None:
    """Make the folders of ``files``; each is new, or a file that ``overwrite`` allows to be replaced.

    ``UsageError`` for one that is there already or is a folder, ``DataError`` where nothing can be written.

    >>> check_new_files(Path("."), overwrite=True)
    Traceback (most recent call last):
        ...
    clockseg._errors.UsageError: . is a folder; give the name of a file.
    """
    for file in files:
        if file.is_dir():
            raise UsageError(f"{file} is a folder; give the name of a file.")
        if file.exists() and not overwrite:
            raise UsageError(f"{file} is there already; give --overwrite to replace it, or another name.")
    for folder in {file.parent for file in files}:
        _check_folder(folder)


def _check_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise DataError(f"{folder}: nothing can be written there ({error.strerror}). Give another folder.") from error
