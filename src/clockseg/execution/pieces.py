"""Division of a batch of calls into pieces that may run as one model each, and the tensors that each has to output."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from clockseg.execution.liveness import Live
from clockseg.graph.part import AsFloats, GraphPart, Pick, Take

Takes: TypeAlias = tuple[tuple[int, ...], ...]
"""For each call of a batch, the places of the calls whose values it takes."""


class Piece(NamedTuple):
    """Calls that run as one model, by their places in the batch, or one by one if ``keep`` is None.

    ``span``: these and the selections from them, in order. ``keep``: the tensors that are read outside of it.
    """

    calls: tuple[int, ...]
    span: tuple[int, ...] = ()
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

    def pieces(self, failed: Container[tuple[int, ...]] = ()) -> list[Piece]:
        """Return pieces of all calls, in an order in which they can run; ``failed``: calls that can't run as one."""
        members: dict[Any, list[int]] = {}
        for i, place in self._places().items():
            members.setdefault(place, []).append(i)
        joined = [calls for found in members.values() for calls in self._tried(tuple(found), failed)]
        inside = {i for calls in joined for i in calls}
        alone = [(i,) for i in range(len(self.names)) if i not in inside]
        pieces: list[Piece] = []
        for calls in _ordered([*joined, *alone], self.takes, self._picks()):
            if len(calls) > 1:
                pieces.append(self._piece(calls))
            elif pieces and pieces[-1].keep is None:
                pieces[-1] = Piece(pieces[-1].calls + calls)
            else:
                pieces.append(Piece(calls))
        return pieces

    def _tried(self, calls: tuple[int, ...], failed: Container[tuple[int, ...]]) -> Iterator[tuple[int, ...]]:
        """Yield the calls as one piece; if that failed, stages and groups as two."""
        if len(calls) > 1 and calls not in failed:
            yield calls
        elif len(calls) > 1:
            stages = tuple(i for i in calls if self.names[i].endswith(".body"))
            if 0 < len(stages) < len(calls):
                yield from self._tried(stages, failed)
                yield from self._tried(tuple(i for i in calls if i not in stages), failed)

    def _picks(self) -> set[int]:
        """The calls that select tensors from a value."""
        return {i for i, name in enumerate(self.names) if isinstance(self.parts.get(name), Pick)}

    def _places(self) -> dict[int, Any]:
        """Return, for each fusable call, the piece that it belongs to.

        Stages that follow one another are a chain; a stage that reads what the previous frame left begins another, since
        tensors of two frames have the same names. Groups and finish go with the chain if there is only one. What depends
        on a fusable call through something that isn't a selection comes a wave later.
        """
        waves: list[int] = []
        reached: list[bool] = []
        chains: dict[int, int] = {}
        for i, name in enumerate(self.names):
            wave = max((waves[j] + self._interrupts(j, reached) for j in self.takes[i]), default=0)
            waves.append(wave)
            reached.append(name in self.fusable or any(reached[j] for j in self.takes[i]))
            if name in self.fusable and name.endswith(".body"):
                source = next((j for j in self.takes[i] if j in chains), None)
                chains[i] = i if source is None else chains[source]
        several = {wave: len({chains[i] for i in chains if waves[i] == wave}) > 1 for wave in set(waves)}
        found: dict[int, Any] = {}
        for i, name in enumerate(self.names):
            if name in self.fusable:
                wave = waves[i]
                alone = next((chains[j] for j in chains if waves[j] == wave), -1)
                fuses = -1 if several[wave] else alone
                found[i] = wave, chains.get(i, fuses)
        return found

    def _interrupts(self, i: int, reached: Sequence[bool]) -> bool:
        """Return True for a call that separates two pieces: of a function that reads the value of a fusable call."""
        name = self.names[i]
        return reached[i] and name not in self.fusable and not isinstance(self.parts.get(name), Pick)

    def _piece(self, calls: tuple[int, ...]) -> Piece:
        inside = set(calls)
        picks = (i for i in self._picks() if inside.intersection(self.takes[i]))
        keep = (tensor for i in calls for tensor in self._wanted(i, inside))
        return Piece(calls, tuple(sorted({*calls, *picks})), frozenset(keep))

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
    return {part.name} if isinstance(part, Take | AsFloats) else set(every)


def _ordered(
    units: Sequence[tuple[int, ...]], takes: Sequence[tuple[int, ...]], picks: Container[int]
) -> Iterator[tuple[int, ...]]:
    """Yield each unit after those whose values it takes; a piece may take selections from itself."""
    left, done = sorted(units), set[int]()

    def ready(unit: tuple[int, ...]) -> bool:
        there = done.union(unit)
        needed = {j for i in unit for j in takes[i]} - there
        return all(j in picks and any(k in unit for k in takes[j]) for j in needed)

    while left:
        unit = next(filter(ready, left))
        yield unit
        left.remove(unit)
        done.update(unit)
