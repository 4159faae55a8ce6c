"""Random views of labelled frames: geometry, pasted objects of rare classes, light and colour, camera.

Everything is OpenCV on uint8, which releases the interpreter's lock, so threads keep a GPU (or CPUs) busy.
Labels are only ever moved by nearest neighbour; what no label is known for is `ignore`.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from clockseg.types import Array, Image, Labels
from recipes.frames import Frame, Frames
from recipes.street.network import GREY


@dataclass(frozen=True)
class Augmentation:
    """The strength of the augmentation. Probabilities are shares of the views; `scale` is a factor on the
    size at which the network sees a whole frame."""

    scale: tuple[float, float] = (0.55, 1.8)
    aspect: float = 1.15
    degrees: float = 4.0
    rare: float = 0.4  # views centred on a pixel of a rare class
    paste: float = 0.4  # views with objects of another view pasted in
    colour: float = 0.85
    shade: float = 0.3
    blur: float = 0.2
    noise: float = 0.3
    jpeg: float = 0.2


@dataclass(frozen=True)
class Views:
    """Draws views of `frames` at `size` (width, height); `base` is the scale at which a whole frame is seen."""

    frames: Frames
    size: tuple[int, int]
    base: float
    settings: Augmentation = Augmentation()
    rare_share: float = 0.03

    def __len__(self) -> int:
        return len(self.frames.frames)

    def rare(self) -> Array:
        """Ids of the classes with less than `rare_share` of the pixels."""
        return np.flatnonzero(self.frames.shares() < self.rare_share)

    def draw(self, index: int, rare: Array, rng: np.random.Generator) -> tuple[Image, Labels]:
        """A view of frame `index`: picture [h, w, 3] uint8 RGB and labels [h, w] uint8."""
        image, labels = self._geometry(self.frames.frames[index], rare, rng)
        if rng.random() < self.settings.paste:
            other = self.frames.frames[int(rng.integers(len(self.frames.frames)))]
            image, labels = paste(image, labels, *self._geometry(other, rare, rng), rare, rng)
        return photometric(image, self.settings, rng), labels

    def _geometry(self, frame: Frame, rare: Array, rng: np.random.Generator) -> tuple[Image, Labels]:
        centre = rare_place(frame.labels, rare, rng) if rng.random() < self.settings.rare else None
        matrix = random_affine(frame.labels.shape, self.size, self.base, self.settings, centre, rng)
        image = cv2.warpAffine(frame.image, matrix, self.size, flags=cv2.INTER_LINEAR, borderValue=GREY)
        labels = cv2.warpAffine(
            frame.labels, matrix, self.size, flags=cv2.INTER_NEAREST, borderValue=self.frames.classes.ignore
        )
        return image, labels


def rare_place(labels: Labels, rare: Array, rng: np.random.Generator) -> tuple[float, float] | None:
    """(x, y) of a random pixel of a random rare class of this frame, or None if it shows none."""
    small = labels[::4, ::4]
    here = np.intersect1d(np.unique(small), rare)
    if not len(here):
        return None
    ys, xs = np.nonzero(small == rng.choice(here))
    pick = rng.integers(len(ys))
    return float(xs[pick] * 4), float(ys[pick] * 4)


def random_affine(
    shape: tuple[int, ...],
    size: tuple[int, int],
    base: float,
    settings: Augmentation,
    centre: tuple[float, float] | None,
    rng: np.random.Generator,
) -> Array:
    """The 2x3 matrix from a frame of `shape` (h, w) to a view of `size`: flip, turn, scale, and a place to look at."""
    scale = base * np.exp(rng.uniform(*np.log(settings.scale)))
    aspect = np.exp(rng.uniform(-1, 1) * np.log(settings.aspect) / 2)
    angle = np.deg2rad(rng.uniform(-settings.degrees, settings.degrees))
    flip = -1.0 if rng.random() < 0.5 else 1.0
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    linear = turn @ np.diag([flip * scale * aspect, scale / aspect])
    half = np.array([size[0] / scale / aspect, size[1] / scale * aspect]) / 2
    extent = np.array([shape[1], shape[0]], float)
    place = rng.uniform(np.minimum(half, extent / 2), np.maximum(extent - half, extent / 2))
    if centre is not None:
        place = np.array(centre) + rng.uniform(-0.7, 0.7, 2) * half
        place = np.clip(place, np.minimum(half, extent / 2), np.maximum(extent - half, extent / 2))
    return np.column_stack([linear, np.array(size) / 2 - linear @ place])


def paste(
    image: Image, labels: Labels, other: Image, other_labels: Labels, rare: Array, rng: np.random.Generator
) -> tuple[Image, Labels]:
    """Pastes what `other` shows of a random half of the rare classes (ClassMix, Olsson et al., 2021)."""
    chosen = rare[rng.random(len(rare)) < 0.5]
    mask = np.isin(other_labels, chosen)
    return np.where(mask[..., None], other, image), np.where(mask, other_labels, labels)


def photometric(image: Image, settings: Augmentation, rng: np.random.Generator) -> Image:
    """Colour, shade, blur, noise and compression, each by its own probability."""
    for share, change in (
        (settings.colour, colour),
        (settings.shade, shade),
        (settings.blur, blur),
        (settings.noise, noise),
        (settings.jpeg, jpeg),
    ):
        if rng.random() < share:
            image = change(image, rng)
    return image


def colour(image: Image, rng: np.random.Generator) -> Image:
    """Contrast, brightness, saturation, hue and white balance as one matrix, then gamma as a table."""
    luma = np.array([0.299, 0.587, 0.114])
    saturation = rng.uniform(0.0, 0.3) if rng.random() < 0.08 else rng.uniform(0.5, 1.6)
    matrix = saturation * np.eye(3) + (1 - saturation) * luma[None]
    matrix = hue_turn(rng.uniform(-0.35, 0.35)) @ matrix
    matrix = np.diag(rng.uniform(0.88, 1.12, 3)) @ matrix * rng.uniform(0.6, 1.5)
    mean = np.array(cv2.mean(image)[:3])
    shift = mean.mean() * rng.uniform(0.7, 1.3) - (matrix @ mean).mean()
    gamma = np.exp(rng.uniform(-0.5, 0.5))
    table = (255 * (np.arange(256) / 255) ** gamma).astype(np.uint8)
    changed: Image = cv2.LUT(cv2.transform(image, np.column_stack([matrix, np.full(3, shift)])), table)
    return changed


def hue_turn(angle: float) -> Array:
    """The 3x3 rotation of RGB by `angle` (radians) about the grey axis."""
    c, s = np.cos(angle), np.sin(angle) / np.sqrt(3)
    cross = np.array([[0, -s, s], [s, 0, -s], [-s, s, 0]])
    turn: Array = c * np.eye(3) + (1 - c) / 3 + cross
    return turn


def shade(image: Image, rng: np.random.Generator) -> Image:
    """A smooth random field of light and shadow."""
    small = np.exp(rng.uniform(-0.7, 0.7, (rng.integers(2, 5), rng.integers(2, 6)))).astype(np.float32)
    field = cv2.resize(small, image.shape[1::-1], interpolation=cv2.INTER_CUBIC)
    shaded: Image = cv2.multiply(image, cv2.merge([field] * 3), dtype=cv2.CV_8U)
    return shaded


def blur(image: Image, rng: np.random.Generator) -> Image:
    """Out of focus."""
    blurred: Image = cv2.GaussianBlur(image, (0, 0), rng.uniform(0.4, 1.6))
    return blurred


def noise(image: Image, rng: np.random.Generator) -> Image:
    """Sensor noise: normal, the same for all channels or not."""
    plain = rng.standard_normal((image.shape[0] // 2 + 1, image.shape[1], 3), dtype=np.float32)
    tile = np.concatenate([plain, plain[::-1, ::-1]])[: image.shape[0]] * np.float32(rng.uniform(2, 12))
    noisy: Image = cv2.add(image, tile, dtype=cv2.CV_8U)
    return noisy


def jpeg(image: Image, rng: np.random.Generator) -> Image:
    """Compressed and decompressed."""
    _, data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, int(rng.integers(25, 85))])
    read_back: Image = cv2.imdecode(data, cv2.IMREAD_COLOR)  # type: ignore[assignment]
    return read_back
