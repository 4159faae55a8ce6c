"""Instance heads: the raw outputs of the usual instance networks, and how instances are decoded from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from clockseg.carry.motion import by_channels, sampled
from clockseg.errors import NetworkError
from clockseg.instances.sets import INSIDE, Instances
from clockseg.libraries import opencv
from clockseg.types import FRAME_SIZE, Array, Size

MOST = 100
"""Instances per frame at most, those with the highest scores."""
MOST_ROWS = 1000
"""Boxes at most that enter suppression, those with the highest scores."""
MOST_CELLS = 16_000_000
"""Cells of all masks of a frame at most; larger masks are scaled down."""


@dataclass(frozen=True)
class Head:
    """The layout of an instance network's outputs, and the thresholds that apply.

    ``layout``: one of ``_LAYOUTS``. ``outputs``: the names of the tensors in the order of that layout. ``score``: the least score
    of an instance, ``overlap``: the largest overlap of two boxes of a class before the lower one is suppressed, both 0..1.
    """

    layout: str
    outputs: tuple[str, ...]
    score: float = 0.25
    overlap: float = 0.7

    def __post_init__(self) -> None:
        _, roles = _LAYOUTS.get(self.layout, (None, ()))
        if not roles or len(self.outputs) != len(roles) or not all(isinstance(one, str) for one in self.outputs):
            known = "; ".join(f"{name}: {', '.join(of)}" for name, (_, of) in _LAYOUTS.items())
            raise NetworkError(
                f"instances have the layout {self.layout!r} with the outputs {', '.join(map(str, self.outputs))}; "
                f"the layouts and their outputs are {known}."
            )
        if not (0 <= self.score <= 1 and 0 <= self.overlap <= 1):
            raise NetworkError(f"instances have score {self.score} and overlap {self.overlap}; both are 0 to 1.")

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Head:
        """Make a head of the sidecar's field ``instances``; ``NetworkError`` if it doesn't fit."""
        try:
            return cls(**{**data, "outputs": tuple(data["outputs"])})
        except (TypeError, KeyError) as error:
            raise NetworkError(
                f"the sidecar's instances are {dict(data)}; they need layout and outputs, and may have score and overlap."
            ) from error

    def facts(self) -> dict[str, Any]:
        """Return the fields as plain values for the sidecar."""
        return asdict(self) | {"outputs": list(self.outputs)}

    def decode(self, value: Mapping[str, Array], picture: Size, frame: Size) -> Instances:
        """Return the instances that the raw outputs hold.

        ``value``: the outputs by name, with the working size under ``FRAME_SIZE``. ``picture``: (W, H) of the picture within the
        working size, left and above its padding; ``frame``: (W, H) of the frame itself.
        """
        arrays = [np.asarray(value[name]) for name in self.outputs]
        width, height = (int(side) for side in value[FRAME_SIZE])
        view = _View((width, height), picture, frame)
        decode, _ = _LAYOUTS[self.layout]
        return decode(self, arrays, view)


@dataclass(frozen=True)
class _View:
    """The working size, the picture within it, and the frame, each (W, H)."""

    working: Size
    picture: Size
    frame: Size

    def cells(self, planes: Array) -> Array:
        """Return maps over the working size, [n, h, w], over the picture alone, with the channels last: float32 [h, w, n]."""
        planes = np.ascontiguousarray(planes.transpose(1, 2, 0), np.float32)
        height, width, count = planes.shape
        across = width * self.picture[0] / self.working[0]
        down = height * self.picture[1] / self.working[1]
        step = max(1.0, (across * down * count / MOST_CELLS) ** 0.5)
        columns, rows = max(1, round(across / step)), max(1, round(down / step))
        if (columns, rows) == (across, down):
            return planes[:rows, :columns]
        x = (np.arange(columns, dtype=np.float32) + 0.5) * np.float32(across / columns) - 0.5
        y = (np.arange(rows, dtype=np.float32) + 0.5) * np.float32(down / rows) - 0.5
        places = np.stack(np.meshgrid(x, y), axis=2).astype(np.float32)
        return by_channels(sampled, (planes,), places) if count else planes

    def instances(self, soft: Array, classes: Array, scores: Array, boxes: Array) -> Instances:
        """Return instances of masks over the picture; ``boxes`` in pixels of the working size crop them."""
        scale = np.divide(self.frame, self.picture).astype(np.float32)
        boxes = np.clip(boxes * np.tile(scale, 2), 0, np.tile(np.array(self.frame, np.float32), 2))
        cropped = Instances.of(_cropped(soft, boxes, self.frame), classes, scores, self.frame, boxes=boxes)
        return cropped.only((cropped.soft >= INSIDE).any(axis=(0, 1)))


def _cropped(soft: Array, boxes: Array, frame: Size) -> Array:
    """Return the masks, empty outside of their boxes; a box smaller than a cell leaves the cell around its centre."""
    height, width, _ = soft.shape
    cell = np.array([frame[0] / width, frame[1] / height], np.float32)
    x, y = ((np.arange(count) + 0.5) * side for count, side in zip((width, height), cell, strict=True))
    centres = (boxes[:, :2] + boxes[:, 2:]) / 2
    left, top = np.minimum(boxes[:, :2], centres - cell / 2).T
    right, bottom = np.maximum(boxes[:, 2:], centres + cell / 2).T
    across = (x[:, None] >= left) & (x[:, None] <= right)
    down = (y[:, None] >= top) & (y[:, None] <= bottom)
    return np.asarray(soft * (across[None] & down[:, None]), np.float32)


def _sigmoid(values: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-np.clip(values, -60, 60))), np.float32)


def _corners(boxes: Array) -> Array:
    """Return boxes of centre and sides as boxes of corners."""
    return np.concatenate([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], axis=1)


def _best(scores: Array, least: float, most: int) -> Array:
    """Return the indices of the highest scores from ``least`` on, the highest first."""
    order = np.argsort(-scores, kind="stable")[:most]
    return order[scores[order] >= least]


def suppressed(boxes: Array, classes: Array, scores: Array, overlap: float) -> Array:
    """Return the indices of boxes, sorted by score, that no better box of their class overlaps by more than ``overlap``."""
    sides = np.concatenate([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], axis=1)
    found = opencv().dnn.NMSBoxesBatched(sides.tolist(), scores.tolist(), classes.tolist(), -1.0, overlap)
    return np.asarray(found, np.int64).reshape(-1)[:MOST]


def is_channels_first(rows: tuple[int, ...], cells: tuple[int, ...]) -> bool:
    """Return True if a YOLO's rows are [channels, anchors]: there is an anchor for each cell at strides 8, 16 and 32.

    ``cells``: height and width of the prototypes, at stride 4. Where neither side has that number, the shorter one is channels.

    >>> is_channels_first((116, 84), (16, 16)), is_channels_first((8400, 116), (160, 160))
    (True, False)
    """
    anchors = anchors_of(cells)
    return rows[1] == anchors if anchors in rows else rows[0] < rows[1]


def anchors_of(cells: tuple[int, ...]) -> int:
    """Return the number of cells of a YOLO at strides 8, 16 and 32; ``cells``: height and width at stride 4."""
    return sum(-(-cells[0] // step) * -(-cells[1] // step) for step in (2, 4, 8))


def _yolo(head: Head, arrays: list[Array], view: _View) -> Instances:
    """Decode [1, 4 + classes + m, boxes] (or its transpose) and prototypes [1, m, h, w]."""
    rows, prototypes = arrays[0][0].astype(np.float32), arrays[1]
    rows = rows.T if is_channels_first(rows.shape, prototypes.shape[2:]) else rows
    return _from_rows(head, rows, prototypes, view)


def _yolov5(head: Head, arrays: list[Array], view: _View) -> Instances:
    """Decode [1, boxes, 5 + classes + m], whose fifth column weighs the class scores, and prototypes [1, m, h, w]."""
    rows, prototypes = arrays[0][0].astype(np.float32), arrays[1]
    last = rows.shape[1] - prototypes.shape[1]
    rows[:, 5:last] *= rows[:, 4:5]
    return _from_rows(head, np.delete(rows, 4, axis=1), prototypes, view)


def _from_rows(head: Head, rows: Array, prototypes: Array, view: _View) -> Instances:
    """Return the instances of rows of box, class scores and coefficients that no better one of their class overlaps."""
    last = rows.shape[1] - prototypes.shape[1]
    rows = rows[_best(rows[:, 4:last].max(axis=1), head.score, MOST_ROWS)]
    boxes, kinds, scores = _corners(rows[:, :4]), rows[:, 4:last].argmax(axis=1), rows[:, 4:last].max(axis=1)
    kept = suppressed(boxes, kinds, scores, head.overlap)
    soft = _of_prototypes(rows[kept][:, last:], prototypes, view)
    return view.instances(soft, kinds[kept], scores[kept], boxes[kept])


def _of_prototypes(coefficients: Array, prototypes: Array, view: _View) -> Array:
    """Return masks that are sums of prototypes [1, m, h, w]; ``coefficients``: [n, m]."""
    return _sigmoid(view.cells(prototypes[0]) @ coefficients.T)


def _suppressed_yolo(head: Head, arrays: list[Array], view: _View) -> Instances:
    """Decode [1, boxes, 6 + m], corners, score, class and coefficients, and prototypes [1, m, h, w]."""
    rows = arrays[0][0].astype(np.float32)
    rows = rows[_best(rows[:, 4], head.score, MOST)]
    return view.instances(_of_prototypes(rows[:, 6:], arrays[1], view), rows[:, 5], rows[:, 4], rows[:, :4])


def _detr(head: Head, arrays: list[Array], view: _View) -> Instances:
    """Decode boxes [1, queries, 4] of 0..1, logits [1, queries, classes] and mask logits [1, queries, h, w]."""
    boxes, logits, masks = (array[0].astype(np.float32) for array in arrays)
    scores = _sigmoid(logits)
    kept = _best(scores.max(axis=1), head.score, MOST)
    corners = _corners(boxes[kept]) * np.tile(np.array(view.working, np.float32), 2)
    soft = _sigmoid(view.cells(masks[kept]))
    return view.instances(soft, scores[kept].argmax(axis=1), scores[kept].max(axis=1), corners)


def _queries(head: Head, arrays: list[Array], view: _View) -> Instances:
    """Decode logits [1, queries, classes + 1], the last for no object, and mask logits [1, queries, h, w]."""
    logits, masks = (array[0].astype(np.float32) for array in arrays)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares = (powers / powers.sum(axis=1, keepdims=True))[:, :-1]
    kept = _best(shares.max(axis=1), head.score, MOST)
    soft = _sigmoid(view.cells(masks[kept]))
    inside = soft >= INSIDE
    sure = (soft * inside).sum(axis=(0, 1)) / np.maximum(inside.sum(axis=(0, 1)), 1)
    scores = shares[kept].max(axis=1) * sure
    kinds, enough = shares[kept].argmax(axis=1), scores >= head.score
    return Instances.of(soft[..., enough], kinds[enough], scores[enough], view.frame)


def _rcnn(head: Head, arrays: list[Array], view: _View) -> Instances:
    """Decode boxes [n, 4], labels [n], scores [n] and masks [n, 1, h, w] over the whole working size, 0..1."""
    boxes, labels, scores, masks = arrays
    kept = _best(scores, head.score, MOST)
    soft = view.cells(masks[kept, 0])
    return view.instances(soft, labels[kept], scores[kept], boxes[kept].astype(np.float32))


_LAYOUTS: dict[str, tuple[Callable[[Head, list[Array], _View], Instances], tuple[str, ...]]] = {
    "yolo": (_yolo, ("boxes with class scores and coefficients", "prototypes")),
    "yolov5": (_yolov5, ("boxes with objectness, class scores and coefficients", "prototypes")),
    "yolo-suppressed": (_suppressed_yolo, ("boxes with score, class and coefficients", "prototypes")),
    "detr": (_detr, ("boxes", "logits", "masks")),
    "queries": (_queries, ("logits", "masks")),
    "rcnn": (_rcnn, ("boxes", "labels", "scores", "masks")),
}
"""The layouts of instance heads: how each is decoded, and its outputs."""
