"""Random views of pictures with the teacher's class probabilities, some of them mixed from two pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np

from clockseg.networks.framing import Framing
from clockseg.types import Array, Image, Size
from recipes.scene.pictures import Picture, read_picture
from recipes.scene.teacher import GRID, soft_file
from recipes.street.augment import Augmentation, photometric, random_affine
from recipes.street.network import GREY

STRIDE = 4
"""Pixels of a view to one place of its probabilities."""
CHANNELS = 4
"""Channels that OpenCV moves at once."""


@dataclass(frozen=True)
class SoftViews:
    """Draws views of pictures at `size` (width, height).

    `working`: into which a whole picture is fitted at scale 1. `mix`: the share of views that get a part of another
    picture, half of them a rectangle (Yun et al., 2019), half some of its classes (Olsson et al., 2021).
    """

    pictures: Sequence[Picture]
    cache: Path
    size: Size
    working: Size
    settings: Augmentation
    mix: float
    images: list[Image] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.images.extend(read_picture(picture) for picture in self.pictures)

    def __len__(self) -> int:
        return len(self.pictures)

    def rare(self) -> Array:
        """No class is preferred."""
        return np.empty(0, int)

    def draw(self, index: int, rare: Array, rng: np.random.Generator) -> tuple[Image, Array]:
        """A view of picture `index`: uint8 RGB [h, w, 3], and class probabilities, float16 [h / 4, w / 4, classes].

        Probabilities are 0 for all classes outside of the picture.
        """
        image, soft = self._geometry(index, rng)
        if rng.random() < self.mix:
            other, other_soft = self._geometry(int(rng.integers(len(self))), rng)
            mask = rectangle(soft.shape, rng) if rng.random() < 0.5 else some_classes(other_soft, rng)
            soft = np.where(mask[..., None], other_soft, soft)
            image = np.where(mask.repeat(STRIDE, 0).repeat(STRIDE, 1)[..., None], other, image)
        return photometric(image, self.settings, rng), soft.astype(np.float16)

    def _geometry(self, index: int, rng: np.random.Generator) -> tuple[Image, Array]:
        picture = self.images[index]
        height, width = picture.shape[:2]
        base = Framing(*self.working).scaled((width, height))[0] / width
        matrix = random_affine((height, width), self.size, base, self.settings, None, rng)
        image = cv2.warpAffine(picture, matrix, self.size, flags=cv2.INTER_LINEAR, borderValue=GREY)
        soft = np.load(soft_file(self.cache, self.pictures[index])).astype(np.float32)
        return image, moved(
            soft, soft_matrix(matrix, (width, height)), (self.size[0] // STRIDE, self.size[1] // STRIDE)
        )  # type: ignore[return-value]


def soft_matrix(matrix: Array, size: Size) -> Array:
    """Return the 2x3 matrix that moves the teacher's grid as `matrix` moves a picture of `size` (width, height).

    Coordinates are of the middles of pixels, and of places of the grid; both sides of the grid are 128.
    """
    width, height = size
    picture = np.array(
        [[width / GRID, 0, width / GRID / 2 - 0.5], [0, height / GRID, height / GRID / 2 - 0.5], [0, 0, 1]]
    )
    view = np.array([[1 / STRIDE, 0, 0.5 / STRIDE - 0.5], [0, 1 / STRIDE, 0.5 / STRIDE - 0.5], [0, 0, 1]])
    made: Array = (view @ np.vstack([matrix, [0, 0, 1]]) @ picture)[:2]
    return made


def moved(soft: Array, matrix: Array, size: Size) -> Array:
    """Return probabilities moved by a 2x3 matrix into `size` (width, height); zero outside."""
    parts = [
        cv2.warpAffine(np.ascontiguousarray(soft[..., first : first + CHANNELS]), matrix, size, flags=cv2.INTER_LINEAR)
        for first in range(0, soft.shape[2], CHANNELS)
    ]
    return np.concatenate(parts, axis=2)


def rectangle(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Return a mask [h, w] of a rectangle that covers 15 to 50 percent."""
    height, width = shape[:2]
    share, aspect = rng.uniform(0.15, 0.5), np.exp(rng.uniform(-0.5, 0.5))
    high = min(height, round(height * np.sqrt(share) * aspect))
    wide = min(width, round(width * np.sqrt(share) / aspect))
    top, left = int(rng.integers(height - high + 1)), int(rng.integers(width - wide + 1))
    mask = np.zeros((height, width), bool)
    mask[top : top + high, left : left + wide] = True
    return mask


def some_classes(soft: Array, rng: np.random.Generator) -> Array:
    """Return a mask [h, w] of the places of a random half of the likeliest classes."""
    labels, known = soft.argmax(2), soft.sum(2) > 0.5
    there = np.unique(labels[known])
    chosen = rng.permutation(there)[: max(1, len(there) // 2)]
    return np.isin(labels, chosen) & known
