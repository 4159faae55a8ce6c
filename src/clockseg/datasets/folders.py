"""Files and folders of data sets: their contents in natural order, and errors on what is missing."""

from __future__ import annotations

import os
from pathlib import Path

from clockseg.errors import DataError
from clockseg.video.images import IMAGE_SUFFIXES, natural_key

SEE_DOCS = "docs/datasets.md says where to get the data set, and shows what goes where."


def entries(folder: Path) -> list[Path]:
    """Return the entries of a folder in natural order, without hidden files; empty if the folder does not exist."""
    try:
        found = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise DataError(f"{folder}: can't be read ({error.strerror}).") from None
    return sorted(found, key=lambda entry: natural_key(entry.name))


def files(folder: Path, suffixes: tuple[str, ...] = IMAGE_SUFFIXES, *, what: str = "") -> tuple[Path, ...]:
    """Return the files in a folder with one of these suffixes, in natural order; if ``what`` says what they are, at least one."""
    found = tuple(file for file in entries(folder) if file.suffix.lower() in suffixes and file.is_file())
    if what and not found:
        raise missing(folder, what)
    return found


def folders(folder: Path) -> tuple[Path, ...]:
    """Return the folders in a folder, in natural order."""
    return tuple(entry for entry in entries(folder) if entry.is_dir())


def name_of(path: Path) -> str:
    """Return the name of a clip: its folder's name, or its file's without suffix."""
    return absolute(path).name if path.is_dir() else path.stem


def absolute(path: Path) -> Path:
    """Return the absolute path without following links, because other files lie next to the link, not next to its target."""
    return Path(os.path.abspath(path))


def missing(path: Path, what: str) -> DataError:
    """Return the error about a missing file or folder of a data set; ``what``: its contents."""
    return DataError(f"{path} is missing: {what}. {SEE_DOCS}")


def required(path: Path, what: str) -> Path:
    """Return ``path`` if it is a file or folder, else raise the error of ``missing``."""
    if not path.exists():
        raise missing(path, what)
    return path


def read_lines(path: Path) -> list[str]:
    """Return the lines of a text file without empty lines and comments (#)."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise DataError(f"{path} can't be read as a text file ({reason}).") from None
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return [line for line in lines if line]
