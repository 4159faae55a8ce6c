"""Matching of instances from key frame to key frame: identities are kept where masks overlap and classes agree."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from clockseg.instances.sets import Instances, box_overlaps, overlaps
from clockseg.types import Array

LEAST = 0.1
"""Smallest overlap of two boxes that may be the same instance."""
PATIENCE = 3
"""Key frames in a row that may lack an instance before its identity is given up."""
LOST = 0.5
"""The weight of the overlap with a box expected at constant velocity, for instances out of sight: that of masks counts fully."""


def assignment(gains: Array) -> list[tuple[int, int]]:
    """Return the pairs (row, column) with the largest sum of ``gains`` [n, m], at most one a row and a column; exact.

    Shortest augmenting paths with potentials (Kuhn, 1955; Jonker and Volgenant, 1987), in O(n^2 m).

    >>> assignment(np.array([[3, 2], [2, 0]]))
    [(0, 1), (1, 0)]
    """
    cost = -np.asarray(gains, np.float64)
    if cost.shape[0] > cost.shape[1]:
        return sorted((row, column) for column, row in assignment(np.asarray(gains).T))
    rows, columns = cost.shape
    # Column 0 and row 0 are not real: a path begins there.
    above, left = np.zeros(rows + 1), np.zeros(columns + 1)
    taken = np.zeros(columns + 1, np.int64)
    for row in range(1, rows + 1):
        taken[0], column = row, 0
        least = np.full(columns + 1, np.inf)
        came, used = np.zeros(columns + 1, np.int64), np.zeros(columns + 1, bool)
        while taken[column]:
            used[column] = True
            here = taken[column]
            free = np.nonzero(~used)[0]
            reduced = cost[here - 1, free - 1] - above[here] - left[free]
            nearer = reduced < least[free]
            least[free[nearer]], came[free[nearer]] = reduced[nearer], column
            following = free[np.argmin(least[free])]
            step = least[following]
            above[taken[used]] += step
            left[used] -= step
            least[~used] -= step
            column = following
        while column:
            taken[column], column = taken[came[column]], came[column]
    return sorted((int(taken[column]) - 1, column - 1) for column in range(1, columns + 1) if taken[column])


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
        for row, column in assignment(gains) if gains.size else ():
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
