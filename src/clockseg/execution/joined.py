"""What runs together runs as one model, if that gives the same bits.

Which nodes an engine fuses may depend on where a model ends, and with them how its results are rounded. So a joint is
tried against the parts one by one, on a frame, when it first comes at a working size. It must give the same bits in all
tensors it has, and so must a witness: the same joint with the scores before the labels, since labels alone hide a
rounding for many frames. If it fails, one that gives all that is held is tried, one that gives all tensors that pass
between its parts, then the stages and the groups as two; failing that, the parts go on running one by one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

from clockseg.clockwork.network import Part, StagedNetwork, Value
from clockseg.clockwork.together import Keep, Made, Run, Took
from clockseg.errors import NetworkError
from clockseg.graph.joined import GraphJoined, Joint
from clockseg.graph.part import GraphPart, Tensors
from clockseg.types import Size

BYTES = 256_000_000
"""What a network's joints may hold in weights, beside those of its parts. What doesn't fit runs one by one: calls of the
engine are little beside the time of so large a network. None is dropped for another, or many schedules that take turns
would compile without end.
"""
SIZES = 10
"""Working sizes, and shapes of windows, that a part stays compiled for; the one not used for longest goes first."""
RUNS = 32
"""Runs of a network that may have a joint."""
Compiled: TypeAlias = Callable[[GraphPart], Part]
"""A part compiled; the very same for the same part."""


class Attempt(NamedTuple):
    """A joint, and another that tells what the first hides, to be tried with it; None where it hides nothing."""

    joint: Joint
    witness: Joint | None


class Verdict(NamedTuple):
    """How a run is run at one working size: as ``joint`` through ``part``, which holds ``bytes`` (None: otherwise).

    ``shares``: what its parts took apart; the seconds of the joint are told in these shares.
    """

    joint: Joint | None
    part: Part | None
    bytes: int
    shares: Took


@dataclass
class JoinedRun:
    """One run: tried at each working size when it first comes there. Threads may share it.

    ``otherwise`` runs it where no joint gives the same bits, ``room`` tells how many bytes a joint may hold.
    """

    run: Run
    attempts: tuple[Attempt, ...]
    apart: StagedNetwork = field(repr=False)
    compiled: Compiled = field(repr=False)
    otherwise: Callable[[Run, Value, Mapping[str, Value]], Made] = field(repr=False)
    room: Callable[[], int] = field(repr=False)
    verdicts: dict[Size, Verdict] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __call__(self, trunk: Value, values: Mapping[str, Value]) -> Made:
        if not self.attempts:
            return self.apart.apart(self.run, trunk, values)
        first = self.attempts[0].joint
        given = first.values(self.run, trunk, values)
        size = first.part.frame_size(given)
        with self.lock:
            if size not in self.verdicts:
                return self._judge(size, trunk, values, given)
        joint, part, _, shares = self.verdicts[size]
        if joint is None or part is None:
            return self.otherwise(self.run, trunk, values)
        start = time.perf_counter()
        value = part(*given)
        return joint.made(value, self.run, shares.scaled(time.perf_counter() - start))

    def _judge(self, size: Size, trunk: Value, values: Mapping[str, Value], given: list[Tensors]) -> Made:
        """Try the joints, for good. The parts' own values are given this time, so that no seconds have compiling in them."""
        self.apart.apart(self.run, trunk, values)
        wanted = self.apart.apart(self.run, trunk, values)
        found = (self._tried(attempt, size, given, wanted) for attempt in self.attempts)
        verdict = next(filter(None, found), None)
        if verdict is None:
            self.otherwise(self.run, trunk, values)
        self.verdicts[size] = verdict or Verdict(None, None, 0, wanted.took)
        return wanted

    def _tried(self, attempt: Attempt, size: Size, given: list[Tensors], wanted: Made) -> Verdict | None:
        """The joint compiled, if it fits and it and its witness give the parts' own bits."""
        joint, part = attempt.joint, self.compiled(attempt.joint.part)
        try:
            bytes = 0 if part is self.apart.whole else len(joint.part.build(size).model)
            tries = [(joint, part)] if bytes <= self.room() else []
            if tries and attempt.witness is not None:
                tries.append((attempt.witness, self.compiled(attempt.witness.part)))
            same = (_same(one.made(run(*given), self.run, wanted.took), wanted) for one, run in tries)
            return Verdict(joint, part, bytes, wanted.took) if tries and all(same) else None
        except NetworkError:  # the engine can't compile it
            return None


def _same(made: Made, wanted: Made) -> bool:
    """Whether all that ``made`` has are the bits of ``wanted``."""
    outputs = [] if made.output is None else [(made.output, wanted.output)]
    pairs = [
        *zip(made.trunks, wanted.trunks, strict=True),
        *zip(made.held, wanted.held, strict=True),
        *((value, wanted.groups[name]) for name, value in made.groups.items()),
        *outputs,
    ]
    return all(_equal(array, other[name]) for value, other in pairs for name, array in value.items())


def _equal(a: Any, b: Any) -> bool:
    return bool(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())


@dataclass
class Joined:
    """Runs the parts of ``apart`` together, by the joints of ``graphs``, each compiled when it is first needed."""

    apart: StagedNetwork
    graphs: GraphJoined
    compiled: Compiled = field(repr=False)
    runs: dict[Run, JoinedRun] = field(default_factory=dict, repr=False)
    known: set[Hashable] = field(default_factory=set, repr=False)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def stands_for(self, net: StagedNetwork) -> bool:
        """Whether ``net`` is made of the very parts that it runs."""
        own = self.apart
        return net.stages is own.stages and net.groups is own.groups and net.finish is own.finish

    def is_new(self, what: Hashable) -> bool:
        """Whether it is asked for the first time about ``what``."""
        with self.lock:
            new = what not in self.known
            self.known.add(what)
        return new

    def __call__(self, run: Run, trunk: Value, values: Mapping[str, Value]) -> Made:
        with self.lock:
            found = self.runs.get(run)
            if found is None and len(self.runs) < RUNS:
                found = self.runs[run] = self._joined(run)
        return self.apart.apart(run, trunk, values) if found is None else found(trunk, values)

    def _joined(self, run: Run) -> JoinedRun:
        attempts = (self._attempt(run._replace(keep=keep)) for keep in dict.fromkeys(self._keeps(run)))
        return JoinedRun(run, tuple(filter(None, attempts)), self.apart, self.compiled, self._in_two, self._room)

    def _keeps(self, run: Run) -> tuple[Keep, Keep, Keep]:
        """What joints give: what is read again; all that is held as well; everything."""
        names = [group.name for group in self.apart.groups]
        full = Keep.all(len(self.apart), names).of(run.stages, run.groups)
        return run.keep, run.keep._replace(held=full.held, groups=full.groups), full

    def _attempt(self, run: Run) -> Attempt | None:
        joint = self.graphs.joint(run)
        if joint is None:
            return None
        keep = run.keep
        if run.finish and self.apart.groups:
            keep = keep._replace(groups=keep.groups | {self.apart.last})
        elif run.finish:
            keep = keep._replace(held=keep.held | {len(self.apart) - 1})
        witness = None if keep == run.keep else self.graphs.joint(run._replace(keep=keep))
        return Attempt(joint, witness)

    def _in_two(self, run: Run, trunk: Value, values: Mapping[str, Value]) -> Made:
        """The stages together, then the groups together."""
        if not run.stages or not run.groups:
            return self.apart.apart(run, trunk, values)
        none, held = range(0), frozenset(run.stages)
        first = self(Run(run.stages, (), False, run.keep._replace(held=held, groups=frozenset())), trunk, values)
        names = (self.apart.stages[index].name for index in run.stages)
        shown = {**values, **dict(zip(names, first.held, strict=True))}
        then = self(Run(none, run.groups, run.finish, run.keep.of(none, run.groups)), None, shown)
        took = Took(first.took.stages, then.took.fuse, then.took.finish)
        return Made(first.trunks, first.held, then.groups, then.output, took)

    def _room(self) -> int:
        """Bytes that joints may still take; each is compiled for a few sizes at most."""
        held = (one.bytes for run in tuple(self.runs.values()) for one in tuple(run.verdicts.values())[-SIZES:])
        return BYTES - sum(held)


def joined(net: StagedNetwork, made: StagedNetwork, compiled: Compiled) -> StagedNetwork:
    """``made``, which is ``net`` compiled by ``compiled``, with what runs its parts together."""
    graphs = net.joined
    if not isinstance(graphs, GraphJoined) or not graphs.is_of(net):
        return made
    return replace(made, joined=Joined(made, graphs, compiled))
