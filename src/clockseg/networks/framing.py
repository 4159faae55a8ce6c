"""Bringing frames to the size a network works at, and outputs back to the frame's size."""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Any

import numpy as np

from clockseg._errors import MissingDependency, UsageError
from clockseg._types import Array, Image, Size
from clockseg.graph.part import FRAME_SIZE, IMAGE, LABELS, Tensors


@dataclass(frozen=True)
class Framing:
    """How frames of any size meet a network of one working size.

    A frame is scaled, its aspect kept, to fit in ``width`` x ``height``, then padded right and below with ``pad_value``
    (RGB, 0..255) to a multiple of ``pad_multiple``; if ``fixed``, to exactly ``width`` x ``height``.

    >>> framing = Framing(480, 360, pad_multiple=32)
    >>> framing.scaled((960, 540)), framing.padded((960, 540))
    ((480, 270), (480, 288))
    """

    width: int
    height: int
    pad_multiple: int = 1
    pad_value: tuple[int, int, int] = (0, 0, 0)
    fixed: bool = False

    def scaled(self, size: Size) -> Size:
        """The size of a frame's picture inside the padding."""
        width, height = size
        scale = min(self.width / width, self.height / height)
        return max(1, round(width * scale)), max(1, round(height * scale))

    def padded(self, size: Size) -> Size:
        """The working size for a frame: a multiple of ``pad_multiple``."""
        if self.fixed:
            return self.width, self.height
        width, height = self.scaled(size)
        return -(-width // self.pad_multiple) * self.pad_multiple, -(-height // self.pad_multiple) * self.pad_multiple

    def prepare(self, image: Image) -> dict[str, Array]:
        """A frame, uint8 RGB [h, w, 3], as {"image": uint8 [1, H, W, 3]}; not copied if it has the working size."""
        _check(image)
        frame = (image.shape[1], image.shape[0])
        (width, height), (full_width, full_height) = self.scaled(frame), self.padded(frame)
        if frame != (width, height):
            image = _scale(image, (width, height))
        if (width, height) != (full_width, full_height):
            image = self._pad(image, (full_width, full_height))
        return {IMAGE: image[None]}

    def _pad(self, image: Image, size: Size) -> Image:
        height, width, _ = image.shape
        padded = np.empty((size[1], size[0], 3), np.uint8)
        padded[:height, :width] = image
        padded[height:] = self.pad_value
        padded[:height, width:] = self.pad_value
        return padded

    def restore(self, value: Tensors, image: Image) -> Array:
        """An output back at the frame's size, without padding, read-only.

        Labels: uint8 [h, w], by the nearest pixel. Anything else, [1, channels, H, W]: [channels, h, w], bilinear.
        """
        frame = (image.shape[1], image.shape[0])
        if LABELS in value:
            width, height = self.scaled(frame)
            found = value[LABELS][0, :height, :width]
            return _read_only(
                found
                if (width, height) == frame
                else _cv2().resize(found, frame, interpolation=_cv2().INTER_NEAREST_EXACT)
            )
        [output] = [array for name, array in value.items() if name != FRAME_SIZE]
        return _read_only(self._restore_raw(output, frame))

    def _restore_raw(self, output: Array, frame: Size) -> Array:
        if output.ndim != 4:
            return output
        (width, height), (full_width, full_height) = self.scaled(frame), self.padded(frame)
        _, _, rows, columns = output.shape
        window = output[
            0, :, : max(1, round(rows * height / full_height)), : max(1, round(columns * width / full_width))
        ]
        if window.shape[1:] == frame[::-1]:
            return window
        return np.stack([_cv2().resize(channel, frame, interpolation=_cv2().INTER_LINEAR) for channel in window])


@dataclass(frozen=True)
class OwnSize:
    """How frames of any size meet a network that takes any: as they are, padded to a multiple of ``pad_multiple``.

    >>> OwnSize(32).prepare(np.zeros((20, 40, 3), np.uint8))["image"].shape
    (1, 32, 64, 3)
    """

    pad_multiple: int = 1
    pad_value: tuple[int, int, int] = (0, 0, 0)

    def prepare(self, image: Image) -> dict[str, Array]:
        """As ``Framing.prepare``; without padding the frame isn't copied."""
        _check(image)
        return self._framing(image).prepare(image)

    def restore(self, value: Tensors, image: Image) -> Array:
        """As ``Framing.restore``."""
        return self._framing(image).restore(value, image)

    def _framing(self, image: Image) -> Framing:
        height, width = image.shape[:2]
        return Framing(width, height, self.pad_multiple, self.pad_value)


def _scale(image: Image, size: Size) -> Image:
    smaller = size[0] * size[1] < image.shape[0] * image.shape[1]
    cv2 = _cv2()
    found: Image = cv2.resize(image, size, interpolation=cv2.INTER_AREA if smaller else cv2.INTER_LINEAR)
    return found


def _read_only(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view


def _check(image: Any) -> None:
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        given = f"{image.dtype} {image.shape}" if isinstance(image, np.ndarray) else type(image).__name__
        raise UsageError(f"a frame is a numpy array, uint8 RGB [height, width, 3]; this is {given}.")
    if not image.size:
        raise UsageError(f"a frame must have pixels; this one is {image.shape[1]}x{image.shape[0]}.")


def _cv2() -> types.ModuleType:
    try:
        import cv2
    except ImportError as error:
        raise MissingDependency("scaling frames needs OpenCV: pip install opencv-python-headless") from error
    return cv2
