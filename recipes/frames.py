"""The labelled frames of a data set, for training: held in memory, or decoded one by one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import overload

import numpy as np

from clockseg.datasets import Classes, Clip, Layout, read_data
from clockseg.errors import DataError
from clockseg.types import Array, Image, Labels


@dataclass(frozen=True, eq=False)
class Frame:
    """A picture, uint8 RGB [h, w, 3], and its labels, uint8 [h, w], from the clip of that name."""

    clip: str
    image: Image
    labels: Labels


@dataclass(frozen=True, eq=False)
class Frames:
    """Labelled frames and what their labels mean."""

    frames: Sequence[Frame]
    classes: Classes

    def of(self, clips: Collection[str]) -> Frames:
        """Only the frames of these clips."""
        return self._kept(tuple(frame for frame in self.frames if frame.clip in clips))

    def without(self, clips: Collection[str]) -> Frames:
        """All but the frames of these clips."""
        return self._kept(tuple(frame for frame in self.frames if frame.clip not in clips))

    def shares(self) -> Array:
        """Share of each class among all labelled pixels, float [classes]."""
        counts = np.zeros(256)
        for frame in self.frames:
            counts += np.bincount(frame.labels.ravel(), minlength=256)
        counts = counts[: len(self.classes.names)]
        shares: Array = counts / max(counts.sum(), 1.0)
        return shares

    def _kept(self, kept: tuple[Frame, ...]) -> Frames:
        if not kept:
            clips = sorted({frame.clip for frame in self.frames})
            raise DataError(f"no labelled frame is left to use; the clips with labels are {', '.join(clips)}.")
        return replace(self, frames=kept)


@dataclass(frozen=True, eq=False)
class OnDisk(Sequence[Frame]):
    """Frames of clips that are decoded each time they are asked for: for data sets larger than memory."""

    places: tuple[tuple[Clip, int], ...]

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, index: int) -> Frame: ...
    @overload
    def __getitem__(self, index: slice) -> OnDisk: ...
    def __getitem__(self, index: int | slice) -> Frame | OnDisk:
        if isinstance(index, slice):
            return OnDisk(self.places[index])
        clip, number = self.places[index]
        frame = clip.frame(number)
        if frame.labels is None:
            raise DataError(f"frame {number} of clip {clip.name} has no labels.")
        return Frame(clip.name, frame.image, frame.labels)


def read_frames(data: Path, *, layout: str | Layout | None = None, in_memory: bool = True) -> Frames:
    """Every labelled frame of a data set; `layout` as for `read_data`. Frames without labels are not decoded.

    `DataError` if there are none, or if its clips don't all have the same classes. With `in_memory` unset a frame that
    can't be decoded is told when its turn comes.
    """
    clips = read_data(data, layout=layout)
    frames = OnDisk(tuple((clip, index) for clip in clips for index in clip.labelled_indices()))
    known = {
        (clip.classes.names, clip.classes.ignore): clip.classes for clip in clips if clip.labelled and clip.classes
    }
    if not frames or not known:
        raise DataError(
            f"{data} holds no labelled frame; training reads CLIP/images/NAME.jpg with CLIP/labels/NAME.png "
            "and a classes.json beside the clips, or another --layout."
        )
    if len(known) > 1:
        raise DataError(
            f"{data}: its clips have {len(known)} different sets of classes; a network has one. Train on one."
        )
    (classes,) = known.values()
    if len(classes.names) < 2 or len(classes.palette) not in (0, len(classes.names)):
        raise DataError(
            f"{data}: its classes are {len(classes.names)}, with {len(classes.palette)} colours; "
            "training needs at least two classes and a colour for each, or none."
        )
    return Frames(frames if not in_memory else tuple(frames), classes)
