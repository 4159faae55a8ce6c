"""Bringing frames to the size a network works at, and outputs back to the frame's size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from clockseg.errors import UsageError
from clockseg.graph.part import LABELS, Tensors, tensors
from clockseg.libraries import opencv
from clockseg.types import IMAGE, PICTURE_SIZE, Array, Image, Size


@dataclass(frozen=True)
class Framing:
    """The fitting of frames of any size to a network of one working size.

    A frame is scaled, its aspect kept, to fit in ``width`` x ``height`` (0 x 0: it keeps its own size), then padded right and
    below with ``pad_value`` (RGB, 0..255) to a multiple of ``pad_multiple``; if ``fixed``, to exactly ``width`` x ``height``.

    >>> framing = Framing(480, 360, pad_multiple=32)
    >>> framing.scaled((960, 540)), framing.padded((960, 540))
    ((480, 270), (480, 288))
    """

    width: int = 0
    height: int = 0
    pad_multiple: int = 1
    pad_value: tuple[int, int, int] = (0, 0, 0)
    fixed: bool = False

    def scaled(self, size: Size) -> Size:
        """Return the size to which a frame is scaled, without padding."""
        if not self.width:
            return size
        width, height = size
        scale = min(self.width / width, self.height / height)
        return max(1, round(width * scale)), max(1, round(height * scale))

    def padded(self, size: Size) -> Size:
        """Return the working size for a frame: a multiple of ``pad_multiple``."""
        if self.fixed:
            return self.width, self.height
        width, height = self.scaled(size)
        return -(-width // self.pad_multiple) * self.pad_multiple, -(-height // self.pad_multiple) * self.pad_multiple

    def prepare(self, image: Image) -> dict[str, Array]:
        """Scale and pad a frame, uint8 RGB [h, w, 3], to {"image": uint8 [1, H, W, 3], ..}; not copied at the working size."""
        check_frame(image)
        frame = (image.shape[1], image.shape[0])
        (width, height), (full_width, full_height) = self.scaled(frame), self.padded(frame)
        if frame != (width, height):
            smaller = width * height < frame[0] * frame[1]
            how = opencv().INTER_AREA if smaller else opencv().INTER_LINEAR
            image = opencv().resize(image, (width, height), interpolation=how)
        if (width, height) != (full_width, full_height):
            below, right = full_height - height, full_width - width
            image = opencv().copyMakeBorder(image, 0, below, 0, right, opencv().BORDER_CONSTANT, value=self.pad_value)
        return {IMAGE: image[None], PICTURE_SIZE: np.array((width, height))}

    def restore(self, value: Tensors, image: Image) -> Array:
        """Bring an output back to the frame's size, without padding, read-only.

        Labels: uint8 [h, w], by the nearest pixel. Maps of floats, [1, channels, H, W] or [1, H, W]: float [channels, h, w] or
        [h, w], bilinear. Anything else, such as a vector, as it is.
        """
        frame = (image.shape[1], image.shape[0])
        if LABELS in value:
            width, height = self.scaled(frame)
            found = value[LABELS][0, :height, :width]
            if (width, height) != frame:
                found = opencv().resize(found, frame, interpolation=opencv().INTER_NEAREST_EXACT)
        else:
            [output] = tensors(value).values()
            found = self._restore_floats(output, frame) if self._is_map(output, frame) else output
        view = found.view()
        view.flags.writeable = False
        return view

    def _is_map(self, output: Array, frame: Size) -> bool:
        if output.dtype.kind != "f" or output.ndim not in (3, 4) or not output.size:
            return False
        (width, height), (rows, columns) = self.padded(frame), output.shape[-2:]
        # Tokens [1, n, channels] aren't one: a map has about the same stride across as down.
        down, across = height / rows, width / columns
        return output.ndim == 4 or abs(down - across) <= 0.25 * max(down, across)

    def _restore_floats(self, output: Array, frame: Size) -> Array:
        """Scale the padded map to the frame's scale, then cut it: the padding may end within a pixel of the map."""
        planes = output.reshape(-1, *output.shape[-2:])
        planes = planes.astype(np.float32) if planes.dtype == np.float16 else planes
        pairs = zip(frame, self.scaled(frame), self.padded(frame), strict=True)
        full = tuple(round(padded * side / scaled) for side, scaled, padded in pairs)
        if planes.shape[:0:-1] != full:
            planes = np.stack([opencv().resize(plane, full, interpolation=opencv().INTER_LINEAR) for plane in planes])
        window = planes[:, : frame[1], : frame[0]]
        return window if output.ndim == 4 else window[0]


def check_frame(image: Any) -> None:
    """Raise ``UsageError`` unless ``image`` is a frame: a numpy array, uint8 [h, w, 3], that has pixels."""
    if image is None:
        raise UsageError(
            "None is not a frame: the capture gave no frame. Stop the loop, or check that the camera or file can be read."
        )
    given = f"{image.dtype} {list(image.shape)}" if isinstance(image, np.ndarray) else type(image).__name__
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.shape[2:] != (3,) or not image.size:
        raise UsageError(f"a frame is a numpy array, uint8 [height, width, 3], with pixels; this is {given}.")
