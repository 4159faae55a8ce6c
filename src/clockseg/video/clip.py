"""Clip: the frames of a video file, an image or a folder of images."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Literal, Self

import numpy as np

from clockseg.carry.codec import Vectors
from clockseg.errors import UsageError, VideoError
from clockseg.files import SourceFiles, changed
from clockseg.types import Image, Labels, Size
from clockseg.video.colour import Decoded
from clockseg.video.decode import ALLOWED, Damage


@dataclass(frozen=True)
class Span:
    """Frames with ``start`` <= time < ``end``, exact seconds on the video's own time line; UsageError if it is empty.

    None: from its beginning, to its end. Of a video whose times go back (joined recordings) only the first stretch counts.
    """

    start: Fraction | None = None
    end: Fraction | None = None

    def __post_init__(self) -> None:
        if self.start is not None and self.end is not None and self.end <= self.start:
            raise UsageError(f"the span {self} is empty. Give an end after its start.")

    def __str__(self) -> str:
        since = "the beginning" if self.start is None else f"{float(self.start):g} s"
        until = "the end" if self.end is None else f"{float(self.end):g} s"
        return f"from {since} to {until}"

    def holds(self, seconds: Fraction) -> bool:
        """Return True if a time lies in the span."""
        return (self.start is None or seconds >= self.start) and (self.end is None or seconds < self.end)


WHOLE = Span()
"""All of a video."""


@dataclass(frozen=True, eq=False)
class Frame:
    """One picture of a clip.

    ``index`` counts the decoded frames of the input, or of the span of it that was asked for, from 0. ``picture``: uint8 RGB
    [h, w, 3], C-contiguous, turned upright, or ``Decoded``, which becomes that where it is read; ``image`` reads it. ``pts``
    is the input's own timestamp in units of ``time_base`` (seconds); it and ``pts_seconds`` are None where the input has no
    times (images, raw streams). ``duration``, in the same units: how long it is shown, where the input says.
    ``decode_seconds`` is what decoding it took. ``vectors``: what the codec says of its motion, where asked for; None where
    it tells nothing. ``pixel_aspect``: the width of a pixel by its height; the picture is as stored, a player stretches it.
    ``file``: the name of the image file, None for frames of a video. ``labels``: uint8 [h, w], the label map that a data set
    has for it, None without one.
    """

    index: int
    picture: Image | Decoded
    pts: int | None = None
    time_base: Fraction | None = None
    decode_seconds: float = 0.0
    vectors: Vectors | None = None
    duration: int | None = None
    pixel_aspect: Fraction = Fraction(1)
    file: str | None = None
    labels: Labels | None = None

    @property
    def image(self) -> Image:
        """The picture, uint8 RGB [h, w, 3]."""
        return np.asarray(self.picture)

    @property
    def pts_seconds(self) -> float | None:
        """Time of the frame in seconds, on the input's own time line."""
        return self._seconds(self.pts)

    @property
    def duration_seconds(self) -> float | None:
        """Duration of the frame in seconds; None if the input doesn't say."""
        return self._seconds(self.duration)

    def _seconds(self, units: int | None) -> float | None:
        return None if units is None or self.time_base is None else float(units * self.time_base)

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) in pixels."""
        height, width = self.picture.shape[:2]
        return width, height


class Clip(ABC):
    """The frames of one input, in order. It can be iterated several times; each pass decodes again.

    ``name`` (the stem), ``path``, ``kind`` ("video" or "images"), ``fps`` (average, None if unknown), ``frames_hint``
    (an estimate for a progress bar), ``duration_seconds``, ``has_audio``; ``size`` (w, h) and ``pixel_aspect`` of the first
    frame. After a pass ``problems`` says what could not be decoded; it is empty if all was well. Iterating raises VideoError
    only if not one frame can be decoded. Made by :func:`open_clip`.
    """

    kind: Literal["video", "images"]
    fps: Fraction | None = None
    frames_hint: int | None = None
    duration_seconds: float | None = None
    has_audio = False

    def __init__(self, path: Path, files: SourceFiles, span: Span = WHOLE) -> None:
        self.path, self._files, self._span = path, files, span
        # "." and ".." have no name of their own; a link keeps the name it was given by.
        named = path.resolve() if path.name in ("", "..") else path
        self.name = named.name if path.is_dir() else named.stem
        self._damage = Damage()

    @abstractmethod
    def _decoded(self, damage: Damage) -> Iterator[Frame]:
        """Decode the files again, and record losses in ``damage``."""

    def __iter__(self) -> Iterator[Frame]:
        self._damage = Damage()
        return self._frames(self._damage)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:  # noqa: B027  # files are open during a pass only
        pass

    @property
    def identity(self) -> str:
        """A short text that identifies the files of the clip as they were when it was opened."""
        return self._files.digest

    def check_unchanged(self, identity: str | None = None) -> None:
        """Raise ``InputChanged`` if the files were replaced or written to since the clip was opened.

        A pass checks this by itself where it begins and where it ends; call it after a pass that stopped early.
        ``identity``: of the clip as it was opened earlier, perhaps by another process, which must be the same.
        """
        if identity is not None and identity != self.identity:
            raise changed(self.path)
        self._files.check()

    @property
    def problems(self) -> tuple[str, ...]:
        """One sentence for each loss in the last pass."""
        return self._damage.sentences()

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) of the first frame, upright; that frame is decoded. VideoError if there is none."""
        return self._first[0]

    @property
    def pixel_aspect(self) -> Fraction:
        """Width of a pixel over its height in the first frame, upright; that frame is decoded."""
        return self._first[1]

    @cached_property
    def _first(self) -> tuple[Size, Fraction]:
        frame = next(self._frames(Damage()))
        return frame.size, frame.pixel_aspect

    def expected(self, every: int = 1, limit: int | None = None) -> int | None:
        """Return how many frames there are if every n-th is taken, at most ``limit``: an estimate; None if nothing is known."""
        return len(range(0, self.frames_hint, every)[:limit]) if self.frames_hint else limit

    def _frames(self, damage: Damage) -> Iterator[Frame]:
        self._files.check()
        start = perf_counter()
        for frame in self._decoded(damage):
            yield replace(frame, decode_seconds=perf_counter() - start)
            start = perf_counter()
        self._files.check()
        if not damage.frames:
            why = "; ".join(text for text in damage.sentences() if "ends at" not in text)
            why = f" ({why})" if why else ""
            if self._span != WHOLE:
                raise VideoError(f"{self.path}: no frame in it {self._span}{why}. Give another part.")
            raise VideoError(f"{self.path}: no frame in it could be decoded{why}. {ALLOWED}")
