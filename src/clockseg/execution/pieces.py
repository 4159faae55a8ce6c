"""Division of a batch of calls into pieces that may run as one model each, and the tensors that each has to output."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from clockseg.execution.liveness import Live
from clockseg.graph.part import AsFloats, GraphPart, Pick

Takes: TypeAlias = tuple[tuple[int, ...], ...]
"""For each call of a batch, the places of the calls whose values it takes."""


class Piece(NamedTuple):
    """Calls that run as one model, by their places in the batch, or one by one if ``keep`` is None.

    ``span``: these and the selections from them, in order. ``keep``: the tensors that are read outside of it.
    """

    calls: tuple[int, ...]
    span: tuple[int, ...] = ()
    keep: frozenset[str] | None = None


@dataclass
class _Open:
    """The piece that is being gathered: graph-backed ``calls``, and selections from them (``picks``).

    ``before``: other calls that do not depend on these, which run first; ``after``: those that do.
    """

    calls: list[int] = field(default_factory=list)
    picks: list[int] = field(default_factory=list)
    before: list[int] = field(default_factory=list)
    after: list[int] = field(default_factory=list)


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

    def pieces(self, failed: Container[tuple[int, ...]] = ()) -> list[Piece]:
        """Return pieces of all calls, in an order in which they can run.

        ``failed``: calls that can't run as one. Stages and groups are then tried as two pieces; failing that they run alone.
        """
        fusable, split = {i for i, name in enumerate(self.names) if name in self.fusable}, False
        while True:
            found = self._divided(fusable, split)
            bad = [piece.calls for piece in found if piece.calls in failed]
            if not bad:
                return found
            mixed = any(len({self._is_stage(i) for i in calls}) > 1 for calls in bad)
            fusable, split = (fusable, True) if mixed else (fusable.difference(*bad), split)

    def _is_stage(self, i: int) -> bool:
        return self.names[i].endswith(".body")

    def _divided(self, fusable: set[int], split: bool) -> list[Piece]:
        """Gather graph-backed calls in order, until one of them has to begin another piece."""
        found: list[Piece] = []
        piece, chains = _Open(), 0
        for i, name in enumerate(self.names):
            inside = any(j in piece.calls or j in piece.picks for j in self.takes[i])
            waits = any(j in piece.after for j in self.takes[i])
            if i in fusable:
                # A stage that reads what the previous frame left begins a chain: tensors of two frames have the same names.
                # Groups run with the stages, unless they read several chains.
                stage = self._is_stage(i)
                chains += stage and not inside
                follows = any(map(self._is_stage, piece.calls)) and (split or chains > 1)
                if piece.calls and (waits or (not inside if stage else follows)):
                    found += self._closed(piece)
                    piece = _Open()
                piece.calls.append(i)
            elif inside and isinstance(self.parts.get(name), Pick):
                piece.picks.append(i)
            else:
                (piece.after if inside or waits else piece.before).append(i)
        return [*found, *self._closed(piece)]

    def _closed(self, piece: _Open) -> Iterator[Piece]:
        """Yield the piece, and the calls to run one by one before and after it."""
        several = len(piece.calls) > 1
        before = [*piece.before, *([] if several else piece.calls)]
        if before:
            yield Piece(tuple(before))
        if several:
            keep = (tensor for i in piece.calls for tensor in self._wanted(i, set(piece.calls)))
            yield Piece(tuple(piece.calls), tuple(sorted(piece.calls + piece.picks)), frozenset(keep))
        if piece.picks or piece.after:
            yield Piece((*piece.picks, *piece.after))

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
