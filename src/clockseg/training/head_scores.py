"""Scores of heads: their agreement with the network's output, and the correlation of their changes with its changes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from clockseg.clocks.maps import change, labels, relative_difference
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import frame_oracle
from clockseg.clockwork.step import fill
from clockseg.evaluation.metrics import Confusion, confusion, finite
from clockseg.networks.framing import Framing, OwnSize
from clockseg.training.frames import Part
from clockseg.training.head_cells import Grid
from clockseg.types import Array, Image, Labels

GAPS = (1, 2, 4, 8)
"""Frames between which changes are compared: a clock looks back to its last firing."""
FEWEST = 6
"""Pairs of a gap below which their order says nothing."""


@dataclass
class HeadScore:
    """The results of one stage's head on held-out frames.

    ``agreement``: its labels against the output's at the cells' centres. For each pair of frames, so many frames apart
    (``gap``): how much the labels of the ``head``, the ``features`` and the labels of the ``output`` changed in between.
    """

    stage: str
    classes: int
    agreement: Confusion
    gap: list[int] = field(default_factory=list)
    head: list[float] = field(default_factory=list)
    features: list[float] = field(default_factory=list)
    output: list[float] = field(default_factory=list)

    def facts(self) -> dict[str, Any]:
        """Plain values; None where there is nothing to tell."""
        return {
            "agreement": {
                "mean_iu": finite(self.agreement.mean_iu_of()),
                "pixel_acc": finite(self.agreement.pixel_acc),
            },
            "pairs": len(self.output),
            "correlation": {"head": self._correlation(self.head), "features": self._correlation(self.features)},
        }

    def _correlation(self, signal: Sequence[float]) -> float | None:
        """With the output's change, the mean over gaps: between gaps all changes grow, which says nothing of a signal."""
        found = []
        for gap in sorted(set(self.gap)):
            at = [index for index, each in enumerate(self.gap) if each == gap]
            if len(at) < FEWEST:
                continue
            found.append(rank_correlation([signal[index] for index in at], [self.output[index] for index in at]))
        known = [value for value in found if value is not None]
        return sum(known) / len(known) if known else None


class _Seen(NamedTuple):
    """One frame: its output, and per stage the head's labels and the features."""

    output: Labels
    heads: tuple[Array, ...]
    features: tuple[Array, ...]


def score_heads(
    net: StagedNetwork,
    framing: Framing | OwnSize,
    stages: Sequence[int],
    parts: Iterable[Part],
    *,
    classes: int,
    warn: Callable[[str], None],
    done: Callable[[], None] = lambda: None,
) -> tuple[HeadScore, ...]:
    """The scores of the heads of ``stages`` (0 is the first) on the frames of ``parts``, part by part."""
    scores = tuple(HeadScore(net.stages[index].name, classes, Confusion.none(classes)) for index in stages)
    for part in parts:
        past: deque[_Seen] = deque(maxlen=max(GAPS))
        for image in part.images(warn):
            now = _look(net, stages, image)
            if past and past[-1].output.shape != now.output.shape:
                past.clear()
            _agree(scores, now, framing)
            for gap in GAPS:
                if len(past) >= gap:
                    _compare(scores, now, past[-gap], gap)
            past.append(now)
            done()
    return scores


def _look(net: StagedNetwork, stages: Sequence[int], image: Image) -> _Seen:
    output, memory = fill(net, frame_oracle(len(net)), image)
    heads, features = [], []
    for index in stages:
        stage, kept = net.stages[index], memory.stages[index]
        heads.append(labels(stage.scores(kept.held.value)))  # type: ignore[misc]  # networks with heads have scores
        features.append(stage.features(kept.trunk.value))
    return _Seen(output, tuple(heads), tuple(features))


def _agree(scores: Sequence[HeadScore], now: _Seen, framing: Framing | OwnSize) -> None:
    frame = (now.output.shape[1], now.output.shape[0])
    for score, found in zip(scores, now.heads, strict=True):
        grid = Grid.of((found.shape[1], found.shape[2]), framing, frame)
        rows, columns = grid.shape
        score.agreement += confusion(grid.centres(now.output), found[0, :rows, :columns], score.classes)


def _compare(scores: Sequence[HeadScore], now: _Seen, before: _Seen, gap: int) -> None:
    output = change(now.output, before.output)
    for index, score in enumerate(scores):
        score.gap.append(gap)
        score.output.append(output)
        score.head.append(change(now.heads[index], before.heads[index]))
        score.features.append(relative_difference(now.features[index], before.features[index]))


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Spearman's rank correlation, -1..1: 1 where one is larger whenever the other is; None where either never changes.

    >>> round(rank_correlation([1, 2, 3, 4], [1, 4, 9, 100]), 6), rank_correlation([1, 1], [1, 2])
    (1.0, None)
    """
    if len(a) < 2:
        return None
    first, second = _ranks(a), _ranks(b)
    spread = float(first.std() * second.std())
    return None if spread == 0 else float(((first - first.mean()) * (second - second.mean())).mean() / spread)


def _ranks(values: Sequence[float]) -> Array:
    """Each value's place in order; equal values share the mean of theirs."""
    _, place, count = np.unique(np.asarray(values, np.float64), return_inverse=True, return_counts=True)
    ranks: Array = (np.cumsum(count) - (count - 1) / 2)[place]
    return ranks
