"""The instances of one frame, their masks as maps that are warped and averaged, and as the run lengths of COCO in JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from clockseg.carry.motion import Motion
from clockseg.libraries import opencv
from clockseg.showing.maps import Maps, Part
from clockseg.types import Array, Labels, Size

INSIDE = 0.5
"""A pixel belongs to an instance from this value of its mask on."""
SPECK = 0.003
"""Share of a moved mask from which on one of its components is kept."""
UNKNOWN = -1
"""The identity of an instance that has not been matched yet."""


@dataclass(frozen=True, eq=False)
class Instances:
    """The instances of a frame.

    ``classes``: int64 [n], ids of classes. ``scores``: float32 [n], 0..1. ``boxes``: float32 [n, 4], left, top, right and
    bottom in pixels of the frame. ``soft``: float32 [h, w, n], 0..1, the masks on a grid that covers the whole frame and may be
    coarser than it. ``size``: (W, H) of the frame. ``ids``: int64 [n], identities, which stay the same from frame to frame;
    ``UNKNOWN`` before they are matched.

    >>> one = Instances.of(np.float32([[[1], [0]]]), [3], [0.9], (4, 2))
    >>> one.boxes.tolist(), one.mask(0).tolist()
    ([[0.0, 0.0, 2.0, 2.0]], [[True, True, False, False], [True, True, False, False]])
    """

    classes: Array
    scores: Array
    boxes: Array
    soft: Array
    size: Size
    ids: Array

    @classmethod
    def of(cls, soft: Array, classes: Any, scores: Any, size: Size, *, boxes: Any = None, ids: Any = None) -> Instances:
        """Make instances; boxes that are not given are the bounds of the masks, identities are unknown."""
        kinds = np.asarray(classes, np.int64).reshape(-1)
        found = cls(
            kinds,
            np.asarray(scores, np.float32).reshape(-1),
            np.zeros((len(kinds), 4), np.float32) if boxes is None else np.asarray(boxes, np.float32).reshape(-1, 4),
            np.asarray(soft, np.float32),
            size,
            np.full(len(kinds), UNKNOWN) if ids is None else np.asarray(ids, np.int64).reshape(-1),
        )
        return found if boxes is not None else found.bounded()

    def __len__(self) -> int:
        """The number of instances."""
        return len(self.classes)

    def only(self, which: Any) -> Instances:
        """Return the instances that an index array or a mask of bools selects."""
        found = {name: getattr(self, name)[which] for name in ("classes", "scores", "boxes", "ids")}
        return replace(self, soft=self.soft[..., which], **found)

    def mask(self, index: int) -> Array:
        """Return the mask of one instance at the size of the frame, bool [H, W]."""
        cv2 = opencv()
        found = cv2.resize(self.soft[..., index], self.size, interpolation=cv2.INTER_LINEAR)
        return np.asarray(found >= INSIDE)

    def bounded(self) -> Instances:
        """Return the instances with the bounds of their masks as boxes; those without any mask are left out."""
        inside: Array = self.soft >= INSIDE
        across, down = (np.asarray(np.any(inside, axis=axis)) for axis in (0, 1))
        there = np.asarray(np.any(across, axis=0))
        kept = self if there.all() else self.only(there)
        if not len(kept):
            return kept
        across, down = across[:, there], down[:, there]
        wide, high = self.size[0] / len(across), self.size[1] / len(down)
        left, right = across.argmax(axis=0) * wide, self.size[0] - across[::-1].argmax(axis=0) * wide
        top, bottom = down.argmax(axis=0) * high, self.size[1] - down[::-1].argmax(axis=0) * high
        return replace(kept, boxes=np.stack([left, top, right, bottom], axis=1).astype(np.float32))


class InstanceMaps(Maps):
    """The masks of instances with their identities, as one plane whose channels are the instances. ``given``: the instances."""

    @classmethod
    def of(cls, value: Any) -> InstanceMaps:
        """Take the masks of ``Instances``."""
        return cls({"masks": value.soft}, value)

    def value(self) -> Instances:
        """Return the instances with these masks, and the bounds of the masks as boxes unless they are as given."""
        found: Instances = self.given
        plane = self.planes["masks"]
        return found if plane is found.soft else replace(found, soft=without_specks(plane)).bounded()

    def moved(self, motion: Motion) -> Maps:
        """Return the masks warped along ``motion``."""
        return super().moved(motion) if len(self.given) else self

    def averaged(self, parts: Sequence[Part]) -> Maps:
        """Return the weighted mean of the masks of each identity; a part that lacks one counts as an empty mask of it.

        So an instance that only one key frame has is shown where that one has more weight.
        """
        known: dict[int, Instances] = {}
        for part in parts:
            given = part.maps.given
            known |= {int(one): given.only([n]) for n, one in enumerate(given.ids) if int(one) not in known}
        if not known:
            return self
        order = {one: number for number, one in enumerate(known)}
        same = [one._replace(maps=replace(one.maps, planes={"masks": _placed(one.maps, order)})) for one in parts]
        made = Maps.averaged(same[0].maps, same)
        axes = {"classes": 0, "scores": 0, "boxes": 0, "soft": 2, "ids": 0}
        joined = {name: np.concatenate([getattr(one, name) for one in known.values()], axes[name]) for name in axes}
        return InstanceMaps(made.planes, replace(self.given, **joined))


def _placed(maps: Maps, order: dict[int, int]) -> Array:
    """Return the masks in the order of all identities, with empty masks for those that these maps lack."""
    plane = maps.planes["masks"]
    found = np.zeros((*plane.shape[:2], len(order)), np.float32)
    for channel, one in enumerate(maps.given.ids):
        found[..., order[int(one)]] = plane[..., channel]
    return found


def within(mask: Array) -> tuple[slice, slice]:
    """Return the rows and columns in which a mask, bool [h, w], lies."""
    left, top, width, height = opencv().boundingRect(np.ascontiguousarray(mask).view(np.uint8))
    return slice(top, top + height), slice(left, left + width)


def without_specks(soft: Array) -> Array:
    """Return masks, float32 [h, w, n], without components of less than the share ``SPECK`` of their mask; ``soft`` stays.

    Motion tears such specks off, and a single one would stretch the box.
    """
    cv2 = opencv()
    found = soft
    for index in range(soft.shape[2]):
        inside = (soft[..., index] >= INSIDE).astype(np.uint8)
        count, labels, facts, _ = cv2.connectedComponentsWithStats(inside)
        areas = facts[:, cv2.CC_STAT_AREA]
        small = areas < SPECK * areas[1:].sum()
        small[0] = False
        if count > 2 and small.any():
            found = soft.copy() if found is soft else found
            found[..., index][small[labels]] = 0
    return found


def overlaps(first: Array, second: Array) -> Array:
    """Return the intersection over union of each pair of masks, [h, w, n] and [h, w, m]: float32 [n, m]."""
    cells = first.shape[0] * first.shape[1]
    one, other = ((masks.reshape(cells, masks.shape[2]) >= INSIDE).astype(np.float32) for masks in (first, second))
    both = one.T @ other
    either = one.sum(axis=0)[:, None] + other.sum(axis=0)[None] - both
    return np.asarray(both / np.maximum(either, 1), np.float32)


def box_overlaps(first: Array, second: Array) -> Array:
    """Return the intersection over union of each pair of boxes, [n, 4] and [m, 4]: [n, m]."""
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, 2:], second[None, :, 2:])
    both = np.clip(high - low, 0, None).prod(axis=2)
    areas = [np.clip(boxes[:, 2:] - boxes[:, :2], 0, None).prod(axis=1) for boxes in (first, second)]
    return np.asarray(both / np.maximum(areas[0][:, None] + areas[1][None] - both, 1e-9))


def encoded(mask: Array) -> dict[str, Any]:
    """Return a mask, bool [h, w], as COCO's compressed run-length encoding: {"size": [h, w], "counts": text}.

    Runs go down the columns, the first one is of pixels outside; from the fourth on, each is told by its difference to the one
    two before. Numbers are written in groups of five bits, the lowest first (``rleToString`` of the COCO API).

    >>> encoded(np.array([[0, 1], [0, 1]], bool))
    {'size': [2, 2], 'counts': '22'}
    """
    mask = np.asarray(mask, bool)
    columns = within(mask)[1]
    changes = np.nonzero(np.diff(mask[:, columns].ravel(order="F"), prepend=False, append=False))[0]
    changes += columns.start * mask.shape[0]
    end = [] if changes.size and changes[-1] == mask.size else [mask.size]
    runs = np.diff(np.concatenate([[0], changes, end])).astype(np.int64).tolist()
    text = []
    for index, run in enumerate(runs):
        number = run - runs[index - 2] if index > 2 else run
        more = True
        while more:
            bits = number & 31
            number >>= 5
            more = number != (-1 if bits & 16 else 0)
            text.append(chr(bits + 48 + (32 if more else 0)))
    return {"size": list(mask.shape), "counts": "".join(text)}


def decoded(told: dict[str, Any]) -> Array:
    """Return the mask, bool [h, w], of a run-length encoding as ``encoded`` makes it."""
    runs: list[int] = []
    number = shift = 0
    for character in told["counts"]:
        bits = ord(character) - 48
        number |= (bits & 31) << shift
        shift += 5
        if not bits & 32:
            number -= (1 << shift) if bits & 16 else 0
            runs.append(number + runs[-2] if len(runs) > 2 else number)
            number = shift = 0
    height, width = told["size"]
    inside = np.arange(len(runs)) % 2 == 1
    return np.repeat(inside, runs).reshape(height, width, order="F")


def instance_line(frame: int, found: Instances, names: Sequence[str]) -> str:
    """Return one line of ``instances.jsonl``, without its line break.

    Each instance has the fields of COCO results (``category_id``, ``score``, ``bbox`` as left, top, width and height,
    ``segmentation``), the name of its class, and its identity as ``track_id``.
    """
    entries = []
    for index in range(len(found)):
        left, top, right, bottom = (round(float(side), 2) for side in found.boxes[index])
        kind = int(found.classes[index])
        entries.append(
            {
                "image_id": frame,
                "track_id": int(found.ids[index]),
                "category_id": kind,
                "category": names[kind] if 0 <= kind < len(names) else f"class {kind}",
                "score": round(float(found.scores[index]), 4),
                "bbox": [left, top, round(right - left, 2), round(bottom - top, 2)],
                "segmentation": encoded(found.mask(index)),
            }
        )
    return json.dumps({"frame": frame, "size": list(found.size), "instances": entries}, allow_nan=False)


def class_map(entries: Iterable[dict[str, Any]], size: Size) -> Labels:
    """Return the ids of the classes of instances as ``read_instances`` gives them, uint8 [H, W], 255 outside; ``size``: (W, H)."""
    found: Labels = np.full((size[1], size[0]), 255, np.uint8)
    for one in sorted(entries, key=lambda one: float(one["score"])):
        found[one["mask"]] = one["category_id"]
    return found
