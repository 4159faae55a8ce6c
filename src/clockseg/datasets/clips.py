"""Clip: frames in order, with labels for some, decoded one by one when they are asked for.

The layouts beside this file find the files of a data set and say how they are read; what comes of them is always a Clip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from clockseg.datasets.classes import Classes
from clockseg.datasets.labels import read_labels_png
from clockseg.errors import DataError, UsageError
from clockseg.files import SourceFiles
from clockseg.types import Array, Image, Labels
from clockseg.video.clip import Clip as Video
from clockseg.video.read import open_clip


@dataclass(frozen=True, eq=False)
class ClipFrame:
    """One frame: ``index`` in the clip before any subsampling, uint8 RGB [h, w, 3], its label map [h, w] or None.

    ``pts_seconds``: a video's own times; those of pictures by the ``fps`` of their classes; None where nothing tells.
    ``vectors``: what a video's codec says of the motion (``clockseg.video.Frame``), None where nothing is known.
    """

    index: int
    image: Image
    labels: Labels | None
    pts_seconds: float | None = None
    vectors: Any = None


def ignore_problem(sentence: str) -> None:
    """Ignore a sentence on what could not be decoded."""


def read_picture(path: Path) -> Image:
    """The picture in an image file, uint8 RGB [h, w, 3]; ``VideoError`` or ``DataError`` if it can't be decoded whole."""
    with open_clip(path) as picture:
        frame = next(iter(picture))
        if picture.problems:
            raise DataError(f"picture {path}: {'; '.join(picture.problems)}.")
        return frame.image


def whole(array: Array, index: int) -> Array:
    """The view that shows all of every frame."""
    return array


@dataclass(frozen=True)
class Clip:
    """One clip; nothing is decoded before it is iterated. Clips can be pickled.

    Files must stay as they were when they were first looked at: a pass raises ``InputChanged`` for one that was replaced.

    ``images``: a file a frame, empty for a video (``path``). ``labels``: a file or None for each of them. ``classes``:
    what the labels mean, None without labels. Every ``every``-th frame is taken, and ``limit`` of these at most.

    ``read_image``, ``read_labels``: what turns a file into a picture, uint8 RGB [h, w, 3], and into a label map of class
    ids, uint8 [h, w]. ``view(array, index)``: the part of frame ``index`` that is shown, of its picture and of its labels
    alike. The three are functions or picklable callables.

    >>> pictures = tuple(Path(f"{number}.jpg") for number in range(5))
    >>> list(Clip("five", Path("five"), pictures, (None,) * 5, every=2).taken)
    [0, 2, 4]
    """

    name: str
    path: Path
    images: tuple[Path, ...] = ()
    labels: tuple[Path | None, ...] = ()
    classes: Classes | None = None
    every: int = 1
    limit: int | None = None
    read_image: Callable[[Path], Image] = read_picture
    read_labels: Callable[[Path], Labels] = read_labels_png
    view: Callable[[Array, int], Array] = whole
    _files: SourceFiles = field(default_factory=SourceFiles, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.every < 1 or (self.limit is not None and self.limit < 1):
            raise UsageError(f"every={self.every}, limit={self.limit}; both are whole numbers of at least 1.")
        if len(self.labels) != len(self.images):
            raise UsageError(f"{len(self.labels)} labels for {len(self.images)} images; give one a frame, or None.")

    def __iter__(self) -> Iterator[ClipFrame]:
        return self.frames()

    @property
    def taken(self) -> range | None:
        """The indices of the frames that are taken; None for a video, whose length is known at its end only."""
        return range(0, len(self.images), self.every)[: self.limit] if self.images else None

    @property
    def labelled(self) -> int:
        """Number of selected frames that have labels."""
        return len(self.labelled_indices())

    def frames(self, *, problem: Callable[[str], None] = ignore_problem, vectors: bool = False) -> Iterator[ClipFrame]:
        """The frames in order, each decoded when it is asked for; with their ``vectors`` if asked for.

        ``vectors``: those of a video of which every frame is taken, if its decoder tells them. ``problem`` is told, at the
        end, what of a video could not be decoded. ``VideoError`` for a picture or a video of which nothing can be,
        ``DataError`` for labels that don't fit their picture or their classes.
        """
        return self._pictures() if self.images else self._video_frames(problem, vectors)

    def check_unchanged(self) -> None:
        """Raise ``InputChanged`` if a file was replaced since it was first looked at; for passes that stop early."""
        self._files.check()

    def open(self, *, vectors: bool = False) -> Video:
        """The video of a clip that is one, opened; ``InputChanged`` if it is another one than before."""
        self._files.check(self.path)
        # Vectors lead from frame to frame: of frames at a distance they say nothing.
        return open_clip(self.path, vectors=vectors and self.every == 1)

    def labelled_indices(self) -> list[int]:
        """Return the indices of selected frames that have labels."""
        return [index for index in self.taken or () if self.labels[index] is not None]

    def _video_frames(self, problem: Callable[[str], None], vectors: bool) -> Iterator[ClipFrame]:
        with self.open(vectors=vectors) as video:
            kept = (frame for frame in video if frame.index % self.every == 0)
            for frame in islice(kept, self.limit):
                yield ClipFrame(frame.index, frame.image, None, frame.pts_seconds, frame.vectors)
            for sentence in video.problems:
                problem(sentence)
            self._files.check(self.path)

    def _pictures(self) -> Iterator[ClipFrame]:
        taken = self.taken or ()
        self._files.check(*(path for index in taken for path in self._paths(index)))
        for index in taken:
            yield self.frame(index)
        self._files.check()

    def _paths(self, index: int) -> tuple[Path, ...]:
        label = self.labels[index]
        return (self.images[index],) if label is None else (self.images[index], label)

    def frame(self, index: int) -> ClipFrame:
        """Frame ``index`` of a clip of pictures, decoded now; errors as of ``frames``."""
        self._files.check(*self._paths(index))
        image, label = self.read_image(self.images[index]), self.labels[index]
        labels = None if label is None else self._labels(label, image)
        self._files.check(*self._paths(index))
        seconds = index / self.classes.fps if self.classes is not None and self.classes.fps else None
        return ClipFrame(index, self.view(image, index), None if labels is None else self.view(labels, index), seconds)

    def _labels(self, path: Path, image: Image) -> Labels:
        labels = self.read_labels(path)
        if labels.shape != image.shape[:2]:
            raise DataError(
                f"label {path} is {labels.shape[1]}x{labels.shape[0]}, its picture {image.shape[1]}x{image.shape[0]}; "
                "labels have the size of their picture."
            )
        if self.classes is not None:
            _check_ids(labels, self.classes, path)
        return labels


def _check_ids(labels: Labels, classes: Classes, path: Path) -> None:
    there = np.flatnonzero(np.bincount(labels.ravel(), minlength=256))
    wrong = [int(label) for label in there if label >= len(classes.names) and label != classes.ignore]
    if wrong:
        raise DataError(
            f"label {path} holds {', '.join(map(str, wrong[:5]))}; there are {len(classes.names)} classes "
            f"(0 to {len(classes.names) - 1}) and {classes.ignore} for pixels to ignore."
        )
