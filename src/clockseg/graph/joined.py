"""Several parts of a network as one graph: what runs together runs as one model.

In one model nothing is handed from part to part, an addition is fused into the convolution before it again, and an
engine is called once. Tensors that nobody reads again need not be given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clockseg.clockwork.network import Group, Part, Stage, StagedNetwork, Value
from clockseg.clockwork.together import Made, Run, Took
from clockseg.errors import UsageError
from clockseg.graph.part import FRAME_SIZE, IMAGE, GraphPart, Pick, Tensors
from clockseg.graph.rule import Division

MakePart = Callable[[str, Sequence[str], Sequence[str], Sequence[str]], GraphPart]
"""A part from its name, the tensors it reads, those it gives, and the network's output if it gives that (else none)."""


@dataclass(frozen=True)
class Joint:
    """One part in place of several: its value is a dict with the tensors of all of them.

    ``reads``: the stages and groups whose values it takes, after the trunk if there are stages in it. ``trunks``,
    ``held``, ``groups`` and ``output``: the names of the tensors that belong to each.
    """

    part: GraphPart
    reads: tuple[str, ...]
    trunks: tuple[tuple[str, ...], ...]
    held: tuple[tuple[str, ...], ...]
    groups: Mapping[str, tuple[str, ...]]
    output: tuple[str, ...]

    def values(self, run: Run, trunk: Value, values: Mapping[str, Value]) -> list[Tensors]:
        """What the part is called with."""
        return [*([trunk] if run.stages else []), *(values[name] for name in self.reads)]

    def made(self, value: Tensors, run: Run, took: Took) -> Made:
        """What the part gave, as the parts it stands for would have."""
        return Made(
            tuple(_taken(value, names) for names in self.trunks),
            tuple(_taken(value, names) for names in self.held),
            {name: _taken(value, names) for name, names in self.groups.items()},
            _taken(value, self.output) if run.finish else None,
            took,
        )


def _taken(value: Tensors, names: Sequence[str]) -> dict[str, Any]:
    return {name: value[name] for name in (*names, FRAME_SIZE) if name in value}


@dataclass(frozen=True)
class GraphJoined:
    """Makes joints of the graph-backed parts ``stages``, ``groups`` and ``finish``, which ``division`` tells of.

    ``frame``: the name of the network's input. ``output``: the names under which it is given. ``whole``: the uncut
    network, if it computes the very same graph. Nothing is built before an engine asks for it.
    """

    stages: tuple[Stage, ...]
    groups: tuple[Group, ...]
    finish: Part
    division: Division
    frame: str
    output: tuple[str, ...]
    make: MakePart = field(repr=False)
    whole: GraphPart | None = None

    def is_of(self, net: StagedNetwork) -> bool:
        """Whether ``net`` is made of these parts."""
        return net.stages is self.stages and net.groups is self.groups and net.finish is self.finish

    def stands_for(self, net: StagedNetwork) -> bool:
        """Never: a graph runs nothing. ``engines.joined.Joined`` does."""
        return False

    def is_new(self, what: object) -> bool:
        """Never: there is nothing to compile."""
        return False

    def __call__(self, run: Run, trunk: Value, values: Mapping[str, Value]) -> Made:
        raise UsageError("these parts are graphs and not compiled; compile the network with an engine first.")

    def joint(self, run: Run) -> Joint | None:
        """The parts of ``run`` as one; None where they are fewer than two, or nothing of them is read again."""
        parts = self._parts(run)
        if len(parts) < 2 or not (run.finish or self._kept(run)):
            return None
        made = {tensor for part in parts for tensor in part.made}
        inputs = tuple(dict.fromkeys(tensor for part in parts for tensor in part.inputs if tensor not in made))
        return Joint(
            self._part(run, inputs),
            self._reads(run),
            tuple(self.stages[index].body.outputs for index in run.stages),  # type: ignore[attr-defined]
            tuple(self.division.stages[index].held for index in run.stages),
            {group.name: group.function.outputs for group in self._groups(run)},  # type: ignore[attr-defined]
            self.output,
        )

    def _groups(self, run: Run) -> list[Group]:
        return [group for group in self.groups if group.name in run.groups]

    def _parts(self, run: Run) -> list[GraphPart]:
        bodies = [self.stages[index].body for index in run.stages]
        functions = [group.function for group in self._groups(run)]
        finish = [self.finish] if run.finish else []
        return [part for part in (*bodies, *functions, *finish) if isinstance(part, GraphPart)]

    def _part(self, run: Run, inputs: tuple[str, ...]) -> GraphPart:
        outputs = self._kept(run)
        if self.whole is not None and not outputs and run.finish and inputs == (IMAGE,):
            return self.whole
        finished: tuple[str, ...] = ()
        if run.finish and self.output != (self.division.output,):
            finished = (self.division.output,)
        elif run.finish:
            outputs = tuple(dict.fromkeys([*outputs, self.division.output]))
        names = [self.stages[index].name for index in run.stages] + [group.name for group in self._groups(run)]
        given = [self.frame if tensor == IMAGE else tensor for tensor in inputs]
        return self.make(" & ".join(names), given, outputs, finished)

    def _kept(self, run: Run) -> tuple[str, ...]:
        """The tensors that are read again."""
        read = {tensor for part in self._readers() for tensor in part}
        found: list[str] = []
        for index in run.stages:
            cut = self.division.stages[index]
            found += cut.trunk if index in run.keep.trunks else ()
            found += (tensor for tensor in cut.held if tensor in read) if index in run.keep.held else ()
            found += (cut.scores,) if cut.scores and index in run.keep.scores else ()
        for group in self.division.groups:
            found += group.outputs if group.name in run.groups and group.name in run.keep.groups else ()
        return tuple(dict.fromkeys(found))

    def _readers(self) -> Iterable[tuple[str, ...]]:
        for group in self.division.groups:
            yield group.inputs
        if isinstance(self.finish, GraphPart):
            yield self.finish.inputs
        elif isinstance(self.finish, Pick):
            yield self.finish.names

    def _reads(self, run: Run) -> tuple[str, ...]:
        """The stages and groups outside of it whose values it takes."""
        inside = {self.stages[index].name for index in run.stages}
        found: list[str] = []
        for group in self._groups(run):
            found += (name for name in group.reads if name not in inside)
            inside.add(group.name)
        last = self.groups[-1].name if self.groups else self.stages[-1].name
        if run.finish and last not in inside:
            found.append(last)
        return tuple(dict.fromkeys(found))
