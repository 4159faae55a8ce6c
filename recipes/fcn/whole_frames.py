"""Frames to train on as they are, whole or in halves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import overload

import cv2
import numpy as np

from clockseg.networks.framing import Framing
from clockseg.types import Array, Image, Labels, Size
from recipes.frames import Frame, Frames

OVERLAP = 210
"""Pixels that a half reaches into the other (the authors' training on Cityscapes): a little more than half of what fc6 sees."""


@dataclass(frozen=True)
class WholeFrames:
    """Gives frames without any change; scaled to fit into `working` (width, height) if that is given."""

    frames: Frames
    working: Size | None = None

    def __len__(self) -> int:
        return len(self.frames.frames)

    def rare(self) -> Array:
        """No class is preferred."""
        return np.empty(0, int)

    def draw(self, index: int, rare: Array, rng: np.random.Generator) -> tuple[Image, Labels]:
        """Frame `index`: picture [h, w, 3] uint8 RGB and labels [h, w] uint8."""
        frame = self.frames.frames[index]
        if self.working is None:
            return frame.image, frame.labels
        width, height = Framing(*self.working).scaled((frame.image.shape[1], frame.image.shape[0]))
        smaller = width < frame.image.shape[1]
        image = cv2.resize(frame.image, (width, height), interpolation=cv2.INTER_AREA if smaller else cv2.INTER_LINEAR)
        return image, cv2.resize(frame.labels, (width, height), interpolation=cv2.INTER_NEAREST)


@dataclass(frozen=True, eq=False)
class Halves(Sequence[Frame]):
    """The left and right half of each frame, `OVERLAP` pixels wider than a half; there the labels are ignored, so that
    each pixel of the frame is learned from once."""

    whole: Sequence[Frame]
    ignore: int

    def __len__(self) -> int:
        return 2 * len(self.whole)

    @overload
    def __getitem__(self, index: int) -> Frame: ...
    @overload
    def __getitem__(self, index: slice) -> list[Frame]: ...
    def __getitem__(self, index: int | slice) -> Frame | list[Frame]:
        if isinstance(index, slice):
            return [self[number] for number in range(len(self))[index]]
        number = range(len(self))[index]
        frame = self.whole[number // 2]
        middle, width = frame.labels.shape[1] // 2, frame.labels.shape[1]
        labels = frame.labels.copy()
        if number % 2:
            first, last = max(0, middle - OVERLAP), width
            labels[:, :middle] = self.ignore
        else:
            first, last = 0, min(width, middle + OVERLAP)
            labels[:, middle:] = self.ignore
        return Frame(frame.clip, frame.image[:, first:last].copy(), labels[:, first:last].copy())


def halved(frames: Frames) -> Frames:
    """The same data in halves."""
    return replace(frames, frames=Halves(frames.frames, frames.classes.ignore))
