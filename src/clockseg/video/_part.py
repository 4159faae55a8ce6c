"""A video file in the making: under a temporary name beside its own until it is whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import av

from clockseg.errors import VideoError
from clockseg.files import part_name, whole
from clockseg.video._decode import reason
from clockseg.video.containers import open_for_writing

CONTAINERS: dict[str, dict[str, Any]] = {
    ".mkv": {"container_format": "matroska", "options": {}},
    # The index in front; and the movie's clock as fine as the pictures', or the time of the first is rounded.
    ".mp4": {"container_format": "mp4", "options": {"movflags": "+faststart", "movie_timescale": "90000"}},
}
"""How ``Part`` makes a container of each ending."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns what the system or FFmpeg raises while writing into a VideoError that names the file."""
    try:
        yield
    except VideoError:
        raise
    except (av.FFmpegError, OSError) as error:
        raise VideoError(
            f"{path}: cannot be written ({reason(error)}). Give a folder that can be written and has room."
        ) from error


@contextmanager
def written(path: Path) -> Iterator[Path]:
    """As ``whole``, with errors as of ``writing``."""
    with writing(path), whole(path) as part:
        yield part


class Part:
    """An output container written as ``.NAME.part`` in the folder of ``path``.

    ``finish`` gives it its name, ``discard`` removes it. VideoError if the folder can't be written.
    """

    def __init__(self, path: str | os.PathLike[str], *, container_format: str, options: dict[str, str]) -> None:
        self.path = Path(path)
        self.temporary = part_name(self.path)
        with self.errors():
            # FFmpeg opens the file only at the first packet; better to fail now.
            self.temporary.open("wb").close()
            self.container = open_for_writing(
                f"file:{self.temporary}",
                format=container_format,
                # No random identifiers and no version strings: the same input gives the same bytes.
                container_options={"fflags": "+bitexact", **options},
            )

    def errors(self) -> AbstractContextManager[None]:
        """As ``writing``, of this file."""
        return writing(self.path)

    def finish(self) -> None:
        """Completes the file and gives it its name."""
        try:
            with self.errors():
                self.container.close()
                self.temporary.replace(self.path)
        except VideoError:
            self.discard()
            raise

    def discard(self) -> None:
        """Removes the unfinished file; an older file of the same name stays as it was."""
        with suppress(av.FFmpegError, OSError):
            self.container.close()
        with suppress(OSError):
            self.temporary.unlink(missing_ok=True)
