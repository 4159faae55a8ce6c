"""The uncut network and schedules on the same frames, each frame through all of them before the next.

They share whatever else the machine does meanwhile, so that their seconds can be compared.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import frame_oracle
from clockseg.clockwork.session import Session
from clockseg.clockwork.trace import Tally
from clockseg.engines.priced import Meter
from clockseg.evaluation.energy import counting
from clockseg.evaluation.spent import Spent


class Interleaving:
    """One clip through the uncut ``net`` and ``sessions``; in that order ``tallies``, who fired and what it took,
    and ``spent``, what else it cost on the frames after the first.

    >>> from clockseg.clockwork.network import Stage
    >>> net = StagedNetwork("one", (Stage("a", len),))
    >>> runs = Interleaving(net, [Session(net, frame_oracle)])
    >>> runs(["x", "y"]), [tally.frames for tally in runs.tallies]
    ([2, 2], [1, 1])
    """

    def __init__(self, net: StagedNetwork, sessions: Sequence[Session]) -> None:
        self.sessions = [Session(net.uncut(), frame_oracle), *sessions]
        self.tallies = [Tally(tuple(stage.name for stage in session.net.stages)) for session in self.sessions]
        self.spent = [Spent() for _ in self.sessions]
        self._meters = [Meter(session.net) for session in self.sessions]
        self._energy = counting(net.engine)

    @property
    def reads_vectors(self) -> bool:
        """Whether any of them moves what is held by what the codec says, so that frames have to come with it."""
        return any(session.schedule.carry.reads_vectors for session in self.sessions)

    def __call__(self, image: Any, *, vectors: Any = None) -> list[Any]:
        """The outputs for this frame: of the uncut network, then of every session; ``vectors``: see ``session.step``."""
        done = self.tallies[0].frames
        outputs: list[Any] = [None] * len(self.sessions)
        order = list(range(len(self.sessions)))
        # Who runs after whom matters to caches. A shuffle, not a rotation: that would fall in step with fixed periods.
        random.Random(done).shuffle(order)
        self._compile(image)
        for index in order:
            self._energy.spent()
            outputs[index] = self.sessions[index](image, vectors=vectors)
            joules, record = self._energy.spent(), self.sessions[index].record
            self.tallies[index] = self.tallies[index].add(record, first=done == 0)
            if done:
                self.spent[index] = self.spent[index].add(self._meters[index].frame(record, image), joules)
        return outputs

    def _compile(self, image: Any) -> None:
        """Frames of another size than before: engines compile for it now, and not in what is timed."""
        memory = self.sessions[0].memory
        if memory is None or memory.shape != np.shape(image):
            for net in {id(session.net): session.net for session in self.sessions}.values():
                net(image)
