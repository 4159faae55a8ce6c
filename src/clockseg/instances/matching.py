"""Matching of instances from key frame to key frame: identities are kept where masks overlap and classes agree."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from clockseg.instances.sets import Instances, box_overlaps, overlaps
from clockseg.libraries import opencv
from clockseg.types import Array

LEAST = 0.1
"""Smallest overlap of two boxes that may be the same instance."""
PATIENCE = 3
"""Key frames in a row that may lack an instance before its identity is given up."""
LOST = 0.5
"""The weight of the overlap with a box expected at constant velocity, for instances out of sight: that of masks counts fully."""


def assignment(gains: Array) -> list[tuple[int, int]]:
    """Return the pairs (row, column) with the largest sum of ``gains`` [n, m], at most one a row and a column; exact.

    It is the transport of one unit from each row to a column (Rubner et al., The Earth Mover's Distance, IJCV 2000).

    >>> assignment(np.array([[3, 2], [2, 0]]))
    [(0, 1), (1, 0)]
    """
    if not gains.size:
        return []
    cv2, cost = opencv(), np.float32(gains.max() - gains)
    rows, columns = (np.ones((count, 1), np.float32) for count in gains.shape)
    _, _, flow = cv2.EMD(rows, columns, cv2.DIST_USER, cost)
    return [(int(row), int(column)) for row, column in np.argwhere(flow > 0.5)]


@dataclass(frozen=True)
class Track:
    """The class of an identity, its last box, its change per frame, the frame of that box, and the key frames that lacked it since."""

    kind: int
    box: Array
    velocity: Array
    frame: int
    missed: int = 0


@dataclass
class Tracker:
    """Identities from key frame to key frame, counted from 1.

    ``tracks``: by identity; ``most``: the highest that was given; ``frame``: the number of the current frame, which the caller
    counts.
    """

    tracks: dict[int, Track] = field(default_factory=dict)
    most: int = 0
    frame: int = 0

    def see(self, found: Instances, expected: Instances | None) -> Instances:
        """Return the instances of a key frame with identities.

        ``expected``: those of the key frame before, moved to this one, None if nothing is known (the first frame, a cut).
        """
        if expected is None or (expected.soft.shape[:2] != found.soft.shape[:2]):
            expected, self.tracks = found.only(slice(0)), {}
        known, tracks = list(self.tracks), list(self.tracks.values())
        boxes = np.array([track.box + track.velocity * (self.frame - track.frame) for track in tracks]).reshape(-1, 4)
        gains = LOST * box_overlaps(boxes, found.boxes)
        for one, seen in zip(map(int, expected.ids), overlaps(expected.soft, found.soft), strict=True):
            row = known.index(one)
            gains[row] = np.maximum(gains[row], seen)
        kinds = np.array([track.kind for track in tracks], np.int64)
        gains = np.where((kinds[:, None] == found.classes[None]) & (gains >= LOST * LEAST), gains, 0)
        ids = np.zeros(len(found), np.int64)
        for row, column in assignment(gains):
            if gains[row, column] > 0:
                ids[column] = known[row]
        new = ids == 0
        ids[new] = self.most + 1 + np.arange(new.sum())
        self.most += int(new.sum())
        made = replace(found, ids=ids)
        self._keep(made)
        return made

    def _keep(self, found: Instances) -> None:
        missing = {one: replace(track, missed=track.missed + 1) for one, track in self.tracks.items()}
        now = {}
        for one, kind, box in zip(map(int, found.ids), map(int, found.classes), found.boxes, strict=True):
            last = self.tracks.get(one)
            passed = 0 if last is None else self.frame - last.frame
            velocity = np.zeros(4) if last is None or passed <= 0 else (box - last.box) / passed
            now[one] = Track(kind, box, velocity, self.frame)
        self.tracks = {one: track for one, track in missing.items() if track.missed <= PATIENCE} | now
