"""Division of a batch of calls into pieces that may run as one model each, and the tensors that each has to output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from clockseg.execution.liveness import Live
from clockseg.graph.part import AsFloats, GraphPart, Pick

Takes: TypeAlias = tuple[tuple[int, ...], ...]
"""For each call of a batch, the places of the calls whose values it takes."""


class Piece(NamedTuple):
    """Calls by their places in the batch, in order: of one model and selections from it, or to run one by one.

    ``keep``: the tensors of the model that are read outside of it; None: one by one.
    """

    calls: tuple[int, ...]
    keep: frozenset[str] | None = None


@dataclass(frozen=True)
class Batch:
    """A batch of calls: their ``names``, "" for those of others than the network's parts, and what each ``takes``.

    ``parts``: the network's by name; ``fusable``: the names of the graph-backed ones that may run with others. ``live``: what
    later batches read (None: everything).
    """

    names: tuple[str, ...]
    takes: Takes
    parts: Mapping[str, Any]
    fusable: frozenset[str]
    live: Live | None

    def pieces(self) -> list[Piece]:
        """Return pieces of all calls, level by level, in an order in which they can run."""
        levels = self._levels()
        return [self._piece([i for i, one in enumerate(levels) if one == level]) for level in sorted(set(levels))]

    def halves(self, piece: Piece) -> list[Piece]:
        """Return the pieces to try if a piece can't run as one model: its stages and its groups, or failing that calls alone."""
        stages = [i for i in piece.calls if self.names[i].endswith((".body", ".head"))]
        groups = [i for i in piece.calls if i not in stages]
        if self._models(stages) and self._models(groups):
            return [self._piece(stages), self._piece(groups)]
        return [Piece(piece.calls)]

    def _models(self, calls: Iterable[int]) -> list[int]:
        return [i for i in calls if self.names[i] in self.fusable]

    def _piece(self, calls: Sequence[int]) -> Piece:
        """Return the piece of these calls: one model if several of them are graph-backed."""
        models = self._models(calls)
        if len(models) < 2:
            return Piece(tuple(calls))
        return Piece(tuple(calls), frozenset(tensor for i in models for tensor in self._wanted(i, set(models))))

    def _levels(self) -> list[int]:
        """Return a level for each call, above the levels of calls that have to run before it.

        Graph-backed calls, and selections from them, have odd levels; calls that run between models have even ones.
        """
        levels: list[int] = []
        chains: list[int] = []
        for i, name in enumerate(self.names):
            level = max((levels[j] for j in self.takes[i]), default=0)
            inside = any(levels[j] % 2 for j in self.takes[i])
            if name not in self.fusable:
                selects = isinstance(self.parts.get(name), Pick)
                levels.append(level if selects else level + level % 2)
                continue
            level |= 1
            if name.endswith(".body"):
                # A stage that reads what the previous frame left begins a chain: tensors of two frames have the same names.
                if not inside:
                    level = max(level, chains[-1] + 2 if chains else 1)
                    chains.append(level)
            elif level in chains and len(chains) > 1:
                # Groups run with the stages, unless they read several chains.
                level += 2
            levels.append(level)
        return levels

    def _wanted(self, i: int, inside: set[int]) -> set[str]:
        """Return the tensors of call ``i`` that are read by others than the calls ``inside`` a piece."""
        part = self.parts[self.names[i]]
        outputs = set(part.names if isinstance(part, Pick) else part.outputs)
        found: set[str] = set()
        for j, name in enumerate(self.names):
            if i in self.takes[j] and j not in inside:
                pick = isinstance(self.parts.get(name), Pick)
                found |= self._wanted(j, inside) if pick else _read_by(self.parts.get(name), outputs)
        if self.live is None:
            return outputs
        for name in self.live.get(self.names[i], ()):
            found |= _read_by(self.parts.get(name), outputs)
        return found & outputs


def _read_by(part: Any, every: Iterable[str]) -> set[str]:
    """Return the tensors that a part reads; for a function that is unknown, so ``every`` one."""
    if isinstance(part, GraphPart):
        return set(part.inputs)
    if isinstance(part, Pick):
        return set(part.names)
    return {part.name} if isinstance(part, AsFloats) else set(every)
