"""Motion vectors that a video codec exports with a frame."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from clockseg.libraries import opencv
from clockseg.types import Array

CELL = 8
"""Side in pixels of the smallest block that FFmpeg exports."""
BLOCK = np.dtype(
    [(name, np.int32) for name in ("source", "w", "h", "dst_x", "dst_y", "motion_x", "motion_y", "motion_scale")]
)
"""The fields of FFmpeg's ``AVMotionVector`` that are kept."""
STRAIGHT = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)


@dataclass(frozen=True, eq=False)
class Vectors:
    """The motion vectors of one frame, as the decoder exports them.

    ``index``: the frame's number in its clip. ``blocks``: ``BLOCK`` [blocks], the centre of each, its sides and its
    vector times a scale; empty for an intra frame. ``size``: (w, h) of the coded picture. ``upright``: (a, b, c, d, e, f), with
    which the pixel (x, y) of the upright picture is (ax + by + c, dx + ey + f) in the coded one. ``reordered``: True if
    frames of this stream may refer to later ones (B-frames), whose vectors are not used.

    >>> Vectors(3, np.zeros(0, BLOCK), (64, 48)).known
    0.0
    """

    index: int
    blocks: Array
    size: tuple[int, int]
    upright: tuple[float, ...] = STRAIGHT
    reordered: bool = False

    @property
    def known(self) -> float:
        """The share of the picture in blocks that refer to earlier frames, 0..1."""
        return float(self.cells[1].mean())

    @cached_property
    def cells(self) -> tuple[Array, Array]:
        """The vectors into earlier frames, float32 [h, w, 2] in pixels, on cells of 8 pixels; bool [h, w], True for cells with one."""
        rows, columns = -(-self.size[1] // CELL), -(-self.size[0] // CELL)
        flow, known = np.zeros((rows, columns, 2), np.float32), np.zeros((rows, columns), bool)
        blocks = self.blocks[self.blocks["source"] < 0]
        wide, high = blocks["w"] > CELL, blocks["h"] > CELL
        left, top = (blocks["dst_x"] - blocks["w"] // 2) // CELL, (blocks["dst_y"] - blocks["h"] // 2) // CELL
        scale = blocks["motion_scale"].astype(np.float32)
        vectors = np.stack([blocks["motion_x"] / scale, blocks["motion_y"] / scale], 1)
        for right, below, there in ((0, 0, True), (1, 0, wide), (0, 1, high), (1, 1, wide & high)):
            x, y = left + right, top + below
            # A coded picture may have a margin that isn't shown.
            inside = there & (x >= 0) & (y >= 0) & (x < columns) & (y < rows)
            flow[y[inside], x[inside]] = vectors[inside]
            known[y[inside], x[inside]] = True
        return flow, known

    def flow(self, width: int, height: int) -> Array:
        """Return ``cells`` with its holes filled, over the upright picture at this size.

        float32 [height, width, 2], in pixels of that size.
        """
        a, b, c, d, e, f = self.upright
        turned = (self.size[1], self.size[0]) if a == 0 else self.size
        x, y = turned[0] / width, turned[1] / height
        # The centre of pixel (i, j) is at ((i + 0.5) x, (j + 0.5) y) of the upright picture, and that of cell 0 at half a cell.
        matrix = np.array([[a * x, b * y, (a * x + b * y) / 2 + c], [d * x, e * y, (d * x + e * y) / 2 + f]]) / CELL
        matrix[:, 2] -= 0.5
        # Places go from the upright picture to the coded one, vectors back: by the transpose.
        cells, turn = filled(*self.cells), np.array([[a / x, b / y], [d / x, e / y]], np.float32)
        cells = cells @ turn
        cv2 = opencv()
        how = {"flags": cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP, "borderMode": cv2.BORDER_REPLICATE}
        return np.asarray(cv2.warpAffine(cells, matrix, (width, height), **how))


def filled(flow: Array, known: Array) -> Array:
    """Fill the cells of ``flow`` [h, w, 2] that aren't ``known`` [h, w] with the mean over growing neighbourhoods.

    >>> filled(np.float32([[[2, 0], [9, 9]]]), np.array([[True, False]])).tolist()
    [[[2.0, 0.0], [2.0, 0.0]]]
    """
    cv2 = opencv()
    flow, weight, side = np.where(known[..., None], flow, np.float32(0)), known.astype(np.float32), 3
    if not known.any():
        return flow
    while not weight.all():
        near = cv2.blur(weight, (side, side), borderType=cv2.BORDER_CONSTANT)
        total = cv2.blur(flow, (side, side), borderType=cv2.BORDER_CONSTANT)
        holes = (weight == 0) & (near > 1e-6)
        flow[holes] = total[holes] / near[holes, None]
        weight[holes] = 1
        side = 2 * side - 1
    return flow
