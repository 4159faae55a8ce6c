"""Clip: frames in order, with labels for some, each decoded when it is asked for.

The other modules of this package find the files of a data set and return them as clips.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import islice
from pathlib import Path

import numpy as np

from clockseg.clockwork.network import StagedNetwork
from clockseg.datasets.classes import Classes, read_class_map
from clockseg.datasets.labels import read_labels_png
from clockseg.errors import DataError, UsageError
from clockseg.files import SourceFiles
from clockseg.types import Array, Image, Labels
from clockseg.video.clip import Clip as Video
from clockseg.video.clip import Frame
from clockseg.video.read import open_clip


def read_picture(path: Path) -> Image:
    """Read an image file, uint8 RGB [h, w, 3]; ``VideoError`` or ``DataError`` if it cannot be decoded completely."""
    with open_clip(path) as picture:
        frame = next(iter(picture))
        if picture.problems:
            raise DataError(f"picture {path}: {'; '.join(picture.problems)}.")
        return frame.image


def whole(array: Array, index: int) -> Array:
    """Return the whole frame: the view of a clip that is not cropped."""
    return array


@dataclass(frozen=True)
class Clip:
    """One clip; nothing is decoded before it is iterated. Clips can be pickled.

    Files must not change after they were first used: a pass raises ``InputChanged`` for a replaced file.

    ``images``: one file per frame, empty for a video (``path``). ``labels``: a file or None for each of them. ``classes``:
    the meaning of the labels, None without labels. Every ``every``-th frame is taken, at most ``limit`` of them.

    ``read_image``, ``read_labels``: read a file as a picture, uint8 RGB [h, w, 3], and as a label map of class
    ids, uint8 [h, w]. ``view(array, index)``: the visible part of frame ``index``, for its picture and its labels
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
            raise UsageError(
                f"{len(self.labels)} labels for {len(self.images)} images; give a file or None for each image."
            )

    def __iter__(self) -> Iterator[Frame]:
        return self.frames()

    @property
    def taken(self) -> range | None:
        """The indices of the selected frames; None for a video, whose length is only known at its end."""
        return range(0, len(self.images), self.every)[: self.limit] if self.images else None

    @property
    def labelled(self) -> int:
        """Number of selected frames that have labels."""
        return len(self.labelled_indices())

    def expected(self) -> int | None:
        """Return the number of selected frames, of a video as its header states it or at most ``limit``; None if nothing is known."""
        if self.taken is not None:
            return len(self.taken)
        with self.open() as video:
            return video.expected(self.every, self.limit)

    def frames(self, *, problem: Callable[[str], None] = lambda text: None, vectors: bool = False) -> Iterator[Frame]:
        """Yield the frames in order, each decoded when it is asked for; ``index`` counts before any subsampling.

        ``vectors``: with the motion vectors of a video of which every frame is taken, if its decoder exports them. ``problem``
        gets the path and a sentence, at the end, on whatever of a video could not be decoded. ``VideoError`` for a picture or video that
        cannot be decoded at all, ``DataError`` for labels that do not fit their picture or their classes.
        """
        return self._pictures() if self.images else self._video_frames(problem, vectors)

    def check_unchanged(self) -> None:
        """Raise ``InputChanged`` if a file was replaced since it was first used; for passes that stop early."""
        self._files.check()

    def open(self, *, vectors: bool = False) -> Video:
        """Open the video of this clip; ``InputChanged`` if the file was replaced."""
        self._files.check(self.path)
        # Motion vectors are from frame to frame, so they say nothing about subsampled frames.
        return open_clip(self.path, vectors=vectors and self.every == 1)

    def labelled_indices(self) -> list[int]:
        """Return the indices of selected frames that have labels."""
        return [index for index in self.taken or () if self.labels[index] is not None]

    def _video_frames(self, problem: Callable[[str], None], vectors: bool) -> Iterator[Frame]:
        with self.open(vectors=vectors) as video:
            kept = (frame for frame in video if frame.index % self.every == 0)
            yield from islice(kept, self.limit)
            for sentence in video.problems:
                problem(f"{self.path}: {sentence}")
            self._files.check(self.path)

    def _pictures(self) -> Iterator[Frame]:
        taken = self.taken or ()
        self._files.check(*(path for index in taken for path in self._paths(index)))
        for index in taken:
            yield self.frame(index)
        self._files.check()

    def _paths(self, index: int) -> tuple[Path, ...]:
        label = self.labels[index]
        return (self.images[index],) if label is None else (self.images[index], label)

    def frame(self, index: int) -> Frame:
        """Decode frame ``index`` of a clip of pictures; errors as in ``frames``."""
        self._files.check(*self._paths(index))
        image, label = self.read_image(self.images[index]), self.labels[index]
        labels = None if label is None else self._labels(label, image)
        self._files.check(*self._paths(index))
        period = 1 / Fraction(self.classes.fps) if self.classes is not None and self.classes.fps else None
        shown = None if labels is None else self.view(labels, index)
        return Frame(index, self.view(image, index), index if period else None, period, labels=shown)

    def _labels(self, path: Path, image: Image) -> Labels:
        labels = self.read_labels(path)
        if labels.shape != image.shape[:2]:
            raise DataError(
                f"label {path} is {labels.shape[1]}x{labels.shape[0]}, its picture {image.shape[1]}x{image.shape[0]}; "
                "both must have the same size."
            )
        if (classes := self.classes) is not None:
            there = np.flatnonzero(np.bincount(labels.ravel())).tolist()
            wrong = [str(label) for label in there if label >= len(classes.names) and label != classes.ignore]
            if wrong:
                raise DataError(
                    f"label {path} holds {', '.join(wrong[:5])}; there are {len(classes.names)} classes "
                    f"(0 to {len(classes.names) - 1}) and {classes.ignore} for pixels to ignore."
                )
        return labels


def renamed(clips: Sequence[Clip], file: Path, net: StagedNetwork) -> tuple[list[Clip], list[str]]:
    """Return the clips with the class map in ``file``, and a warning for classes that no class of the network is mapped to.

    ``DataError`` if the map doesn't fit the classes of the network and of the clips, ``UsageError`` if either names none.
    """
    mapped, network = read_class_map(file), () if net.sidecar is None else net.sidecar.classes
    if all(clip.classes is None for clip in clips):
        raise UsageError(f"--map {file}: none of the clips names its classes, so there is nothing to map to.")
    if not network:
        raise UsageError(f"--map renames classes, but network {net.name!r} names none.")
    found, warnings = list(clips), dict[str, None]()
    for index, clip in enumerate(clips):
        if clip.classes is None:
            continue
        classes = replace(clip.classes, renames=mapped)
        ids = classes.lookup(network)[: len(network)]
        missing = [name for id, name in enumerate(classes.names) if id not in ids]
        if len(missing) == len(classes.names):
            raise DataError(f"{clip.path}: no class of the network is mapped to any of its classes.")
        if missing:
            warnings[f"no class of the network is mapped to {', '.join(missing)}: they score 0 where they occur."] = (
                None
            )
        found[index] = replace(clip, classes=classes)
    return found, list(warnings)
