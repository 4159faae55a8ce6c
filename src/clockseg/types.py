"""Shapes and the few names that everything else speaks in."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Image: TypeAlias = npt.NDArray[np.uint8]
"""A frame's picture: uint8 RGB, [h, w, 3]."""
Labels: TypeAlias = npt.NDArray[np.uint8]
"""A label map: class ids, uint8, [h, w]."""
Size: TypeAlias = tuple[int, int]
"""WIDTH, HEIGHT in pixels."""
IMAGE = "image"
"""The frame in a network's value: uint8 RGB, [1, h, w, 3], scaled and padded."""
PICTURE_SIZE = "picture size"
"""Beside it, the size of the picture in its padding: int64, [2], width and height."""
FRAME_SIZE = "frame size"
"""In a value of the network, the working size of the frame that it belongs to: int64, [2], width and height."""
