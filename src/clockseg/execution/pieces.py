"""Division of a batch of calls into pieces that may run as one model each, and the tensors that each has to output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from clockseg.execution.liveness import Live
from clockseg.graph.part import AsFloats, GraphPart, Pick

Takes: TypeAlias = tuple[tuple[int, ...], ...]
"""For each call of a batch, the places of the calls whose values it takes."""


class Piece(NamedTuple):
    """Calls by their places in the batch, in order: of one model and selections from it, or to run one by one.

    ``joint``: the graph-backed ones as one model; None: one by one. ``halves``: the pieces to run instead if the engine gives
    other bits for the joint: its stages and its groups.
    """

    calls: tuple[int, ...]
    joint: Any = None
    halves: tuple[Piece, ...] = ()


@dataclass(frozen=True)
class Batch:
    """A batch of calls: their ``names``, "" for those of others than the network's parts, and what each ``takes``.

    ``parts``: the network's by name; ``fusable``: the names of the graph-backed ones that may run with others. ``live``: what
    later batches read. ``join`` returns the joint of the parts of these names that gives these tensors.
    """

    names: tuple[str, ...]
    takes: Takes
    parts: Mapping[str, Any]
    fusable: frozenset[str]
    live: Live
    join: Callable[[tuple[str, ...], frozenset[str]], Any]

    def pieces(self) -> list[Piece]:
        """Return pieces of all calls, in an order in which they can run.

        Calls are on levels, above those of the calls that have to run before them: graph-backed ones, and selections from them,
        on odd ones, and calls that run between models on even ones.
        """
        levels: list[int] = []
        for name, takes in zip(self.names, self.takes, strict=True):
            level = max((levels[j] for j in takes), default=0)
            if name in self.fusable:
                level |= 1
            elif not isinstance(self.parts.get(name), Pick):
                level += level % 2
            levels.append(level)
        return [self._piece([i for i, one in enumerate(levels) if one == level]) for level in sorted(set(levels))]

    def _piece(self, calls: Sequence[int]) -> Piece:
        """Return the piece of these calls: one model if several of them are graph-backed."""
        models = tuple(i for i in calls if self.names[i] in self.fusable)
        if len(models) < 2:
            return Piece(tuple(calls))
        keep = frozenset(tensor for i in models for tensor in self._wanted(i, models))
        stages = [i for i in calls if self.names[i].endswith((".body", ".head"))]
        groups = [i for i in calls if i not in stages]
        halves = (self._piece(stages), self._piece(groups)) if stages and groups else ()
        return Piece(tuple(calls), self.join(tuple(self.names[i] for i in models), keep), halves)

    def _wanted(self, i: int, inside: Sequence[int]) -> set[str]:
        """Return the tensors of call ``i`` that are read by others than the calls ``inside`` a piece."""
        part = self.parts[self.names[i]]
        outputs = set(part.names if isinstance(part, Pick) else part.outputs)
        found: set[str] = set()
        for j, name in enumerate(self.names):
            if i in self.takes[j] and j not in inside:
                pick = isinstance(self.parts.get(name), Pick)
                found |= self._wanted(j, inside) if pick else _read_by(self.parts.get(name), outputs)
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
