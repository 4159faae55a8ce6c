"""Scores of instances over a video, against exact masks and identities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from clockseg.instances.network import assignment
from clockseg.types import Array

LEAST = 0.5
"""Overlap from which an instance is taken for a true one in counting identities."""
Masks = Mapping[int, Array]
"""Masks of a frame by identity, bool [h, w] each."""


@dataclass
class Score:
    """Sums over the frames of videos.

    ``overlap``: of the intersection over union of true instances with those matched to them, 0 if none; ``objects``: true
    instances, one for each frame; ``kept``: those matched under the identity that their object had most often; ``switches``:
    changes of an object's identity from one frame on which it is matched to the next; ``false``: instances matched to none.
    """

    overlap: float = 0.0
    objects: int = 0
    kept: int = 0
    switches: int = 0
    false: int = 0
    _seen: dict[int, list[int]] = field(default_factory=dict)

    def see(self, found: Masks, truth: Masks) -> None:
        """Add a frame."""
        names, true = list(found), list(truth)
        gains = np.array([[_overlap(found[one], truth[other]) for one in names] for other in true])
        pairs = [pair for pair in assignment(gains) if gains[pair] > 0]
        self.objects += len(true)
        self.false += len(names) - len(pairs)
        for row, column in pairs:
            self.overlap += float(gains[row, column])
            if gains[row, column] >= LEAST:
                self._seen.setdefault(true[row], []).append(names[column])

    def end(self) -> None:
        """End a video: identities of the next one are others."""
        for seen in self._seen.values():
            self.kept += max(seen.count(one) for one in set(seen))
            self.switches += sum(one != other for one, other in pairwise(seen))
        self._seen = {}

    @property
    def j(self) -> float:
        """J: the mean intersection over union of true instances, 0..1 (Perazzi et al., 2016)."""
        return self.overlap / max(1, self.objects)

    @property
    def identities(self) -> float:
        """The share of true instances that have their object's identity, 0..1."""
        return self.kept / max(1, self.objects)


def _overlap(one: Array, other: Array) -> float:
    either = np.count_nonzero(one | other)
    return np.count_nonzero(one & other) / either if either else 0.0


def score(frames: Iterable[tuple[Masks, Masks]]) -> Score:
    """Return the score of one video from pairs of found and true masks.

    >>> mask = np.ones((2, 2), bool)
    >>> one = score([({7: mask}, {1: mask}), ({8: mask}, {1: mask})])
    >>> one.j, one.identities, one.switches
    (1.0, 0.5, 1)
    """
    found = Score()
    for pair in frames:
        found.see(*pair)
    found.end()
    return found
