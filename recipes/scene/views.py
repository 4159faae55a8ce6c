"""Random views of pictures, some of them mixed from two, with what the teacher says about the very same view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import cv2
import numpy as np

from clockseg.types import Array, Image, Size
from recipes.scene.pictures import Picture, read_picture
from recipes.scene.teacher import SIDE, Teaches
from recipes.street.augment import Augmentation, photometric

STRIDE = 4
"""Pixels of a view to one place of its probabilities."""


@dataclass(frozen=True)
class Views:
    """Draws views of pictures: a part of a picture, mirrored or not, with changes of light and camera.

    `size`: (width, height) at which the network sees a view; the teacher sees the same view as a square. `area`: the
    part's share of the picture, where more than 1 is all of it. `aspect`: by how much a view is stretched at most. `mix`:
    the share of views that are mixed from two, half by a rectangle (Yun et al., 2019), half by blending (Zhang et al., 2018).
    """

    pictures: Sequence[Picture]
    teacher: Teaches
    size: Size
    changes: Augmentation
    area: tuple[float, float] = (0.3, 1.1)
    aspect: float = 1.3
    mix: float = 0.2
    images: list[Image] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.images.extend(read_picture(picture) for picture in self.pictures)

    def __len__(self) -> int:
        return len(self.pictures)

    def rare(self) -> Array:
        """No class is preferred."""
        return np.empty(0, int)

    def draw(self, index: int, rare: Array, rng: np.random.Generator) -> tuple[Image, Array]:
        """A view of picture `index`: uint8 RGB [h, w, 3], and class probabilities, float16 [h / 4, w / 4, classes]."""
        square = self._part(index, rng)
        if rng.random() < self.mix:
            square = mixed(square, self._part(int(rng.integers(len(self))), rng), rng)
        square = photometric(square, self.changes, rng)
        view: Image = cv2.resize(square, self.size, interpolation=cv2.INTER_AREA)  # type: ignore[assignment]
        places = self.size[0] // STRIDE, self.size[1] // STRIDE
        soft = cv2.resize(self.teacher.probabilities(square), places, interpolation=cv2.INTER_LINEAR)
        return view, soft.astype(np.float16)

    def _part(self, index: int, rng: np.random.Generator) -> Image:
        image = self.images[index]
        height, width = image.shape[:2]
        area = width * height * rng.uniform(*self.area)
        aspect = self.size[0] / self.size[1] * self.aspect ** rng.uniform(-1, 1)
        wide, high = min(width, round((area * aspect) ** 0.5)), min(height, round((area / aspect) ** 0.5))
        left, top = int(rng.integers(width - wide + 1)), int(rng.integers(height - high + 1))
        part = image[top : top + high, left : left + wide]
        square: Image = cv2.resize(part[:, ::-1] if rng.random() < 0.5 else part, (SIDE, SIDE))  # type: ignore[assignment]
        return square


def mixed(one: Image, other: Image, rng: np.random.Generator) -> Image:
    """Return `one` with a rectangle of 15 to 50 percent of `other`, or with 10 to 50 percent of it blended in."""
    if rng.random() < 0.5:
        return cv2.addWeighted(other, weight := rng.uniform(0.1, 0.5), one, 1 - weight, 0)  # type: ignore[no-any-return]
    height, width = one.shape[:2]
    share, aspect = rng.uniform(0.15, 0.5), np.exp(rng.uniform(-0.5, 0.5))
    high = min(height, round(height * np.sqrt(share) * aspect))
    wide = min(width, round(width * np.sqrt(share) / aspect))
    top, left = int(rng.integers(height - high + 1)), int(rng.integers(width - wide + 1))
    place = slice(top, top + high), slice(left, left + wide)
    pasted = one.copy()
    pasted[place] = other[place]
    return pasted
