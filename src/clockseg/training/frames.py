"""The labelled frames of a folder of clips, held in memory for training."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from clockseg._errors import DataError
from clockseg._types import Array, Image, Labels
from clockseg.datasets import Classes, Clip, read_clips


@dataclass(frozen=True, eq=False)
class Frame:
    """A picture, uint8 RGB [h, w, 3], and its labels, uint8 [h, w], from the clip of that name."""

    clip: str
    image: Image
    labels: Labels


@dataclass(frozen=True, eq=False)
class Frames:
    """Labelled frames and what their labels mean."""

    frames: tuple[Frame, ...]
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


def read_frames(data: Path) -> Frames:
    """Every labelled frame of a folder of clips (CLIP/images/*, CLIP/labels/*.png, classes.json beside the clips)."""
    clips = read_clips(data)
    frames = tuple(frame for clip in clips for frame in _labelled(clip))
    known = next((clip.classes for clip in clips if clip.classes is not None), None)
    if not frames or known is None:
        raise DataError(
            f"{data} holds no labelled frame; training reads CLIP/images/NAME.jpg with CLIP/labels/NAME.png "
            "and a classes.json beside the clips."
        )
    if len(known.names) < 2 or len(known.palette) != len(known.names):
        raise DataError(
            f"{data}: classes.json names {len(known.names)} classes and {len(known.palette)} colours; "
            "training needs at least two classes and a colour for each."
        )
    return Frames(frames, known)


def _labelled(clip: Clip) -> list[Frame]:
    """Frames without labels are not decoded."""
    pairs = [(image, label) for image, label in zip(clip.images, clip.labels) if label is not None]
    if not pairs:
        return []
    images, labels = zip(*pairs)
    return [
        Frame(clip.name, frame.image, frame.labels)
        for frame in replace(clip, images=images, labels=labels)
        if frame.labels is not None
    ]
