"""Scores of heads: their agreement with the network's output, and how well their changes tell its changes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from clockseg.clocks.maps import change, labels, relative_difference
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import frame_oracle
from clockseg.clockwork.step import fill
from clockseg.evaluation.metrics import Confusion, confusion, finite
from clockseg.networks.framing import Framing, OwnSize
from clockseg.training.frames import Part, Warn, rank_correlation
from clockseg.training.head_cells import Grid
from clockseg.types import Array, Image, Labels

GAPS = (1, 2, 4, 8)
"""Frames between which changes are compared: a clock looks back to its last firing."""
FEWEST = 6
"""Pairs of frames that a rank correlation needs."""


class Change(NamedTuple):
    """The changes between two frames ``gap`` apart: of the output's labels, of the head's labels, and of the features."""

    gap: int
    output: float
    head: float
    features: float


@dataclass
class HeadScore:
    """The results of one stage's head on held-out frames; ``agreement``: with the output's labels at the cells' centres."""

    agreement: Confusion
    changes: list[Change] = field(default_factory=list)

    def facts(self) -> dict[str, Any]:
        """Return plain values; None where nothing was measured."""
        mean_iu, pixel_acc = finite(self.agreement.mean_iu_of()), finite(self.agreement.pixel_acc)
        return {
            "agreement": {"mean_iu": mean_iu, "pixel_acc": pixel_acc},
            "pairs": len(self.changes),
            "correlation": {name: self._correlation(name) for name in ("head", "features")},
        }

    def _correlation(self, signal: str) -> float | None:
        """Return the mean over gaps of the rank correlation with the output: all changes grow with the gap."""
        found = []
        for gap in GAPS:
            some = [one for one in self.changes if one.gap == gap]
            if len(some) >= FEWEST:
                found.append(rank_correlation([getattr(one, signal) for one in some], [one.output for one in some]))
        known = [value for value in found if value is not None]
        return sum(known) / len(known) if known else None


class _Seen(NamedTuple):
    """One frame: its output, and per stage the head's labels and the features."""

    output: Labels
    heads: tuple[Array, ...]
    features: tuple[Array, ...]

    @classmethod
    def of(cls, net: StagedNetwork, stages: Sequence[int], image: Image) -> _Seen:
        output, memory = fill(net, frame_oracle(len(net)), image)
        pairs = [(net.stages[index], memory.stages[index]) for index in stages]
        heads = (labels(stage.scores(kept.held.value)) for stage, kept in pairs if stage.scores)
        return cls(output, tuple(heads), tuple(stage.features(kept.trunk.value) for stage, kept in pairs))


def score_heads(
    net: StagedNetwork,
    framing: Framing | OwnSize,
    stages: Sequence[int],
    parts: Sequence[Part],
    *,
    classes: int,
    warn: Warn,
    progress: Callable[[str, int, int], None],
) -> list[HeadScore]:
    """Return the scores of the heads of ``stages`` (0 is the first) on the frames of ``parts``."""
    scores = [HeadScore(Confusion.none(classes)) for _ in stages]
    total, done = sum(len(part.places) for part in parts), 0
    for part in parts:
        past: deque[_Seen] = deque(maxlen=max(GAPS))
        for image in part.images(warn):
            now = _Seen.of(net, stages, image)
            if past and past[-1].output.shape != now.output.shape:
                past.clear()
            for score, found in zip(scores, now.heads, strict=True):
                grid = Grid.of((found.shape[1], found.shape[2]), framing, now.output.shape[1::-1])
                rows, columns = grid.shape
                score.agreement += confusion(grid.centres(now.output), found[0, :rows, :columns], classes)
            for gap in GAPS:
                if len(past) >= gap:
                    _compare(scores, now, past[-gap], gap)
            past.append(now)
            done += 1
            progress("scoring", done, total)
    return scores


def _compare(scores: Sequence[HeadScore], now: _Seen, before: _Seen, gap: int) -> None:
    output = change(now.output, before.output)
    for index, score in enumerate(scores):
        head = change(now.heads[index], before.heads[index])
        features = relative_difference(now.features[index], before.features[index])
        score.changes.append(Change(gap, output, head, features))
