"""A clip that is being segmented piece by piece, some of them at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from operator import add

from clockseg.clockwork.trace import Progress
from clockseg.segmenting.inputs import Input
from clockseg.segmenting.job import Piece
from clockseg.segmenting.piece_run import PieceResult
from clockseg.segmenting.segmentation import Planned


@dataclass
class UnderWay:
    """A clip of many on its way: its pieces that wait, are run (``running`` of them) and are whole."""

    input: Input
    planned: Planned | None = None
    waiting: list[Piece] = field(default_factory=list)
    results: dict[int, PieceResult] = field(default_factory=dict)
    now: dict[int, Progress] = field(default_factory=dict)
    running: int = 0
    finishing: bool = False

    @property
    def frames(self) -> int:
        return sum(result.figures.tally.frames for result in self.results.values())

    def seen(self, piece: Piece | None, progress: Progress) -> Progress:
        """How far the clip is, now that one of its pieces is so far; the tally is that of the pieces under way."""
        if piece is None or self.planned is None:
            return progress
        self.now[piece.number] = progress
        done = self.frames + sum(one.done for one in self.now.values())
        tally = reduce(add, (one.tally for one in self.now.values()))
        return Progress(progress.clip, done, self.planned.expected, tally)
