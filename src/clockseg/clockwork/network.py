"""A network as a row of stages, what fuses them, and what finishes the output.

Nothing here knows an array library or an engine: parts are callables, values between them are opaque. Stages may be
functions on strings (see ``tests/test_tiny.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from clockseg.clockwork.lazy import Executor
from clockseg.errors import UsageError

Value: TypeAlias = Any
Part: TypeAlias = Callable[..., Value]
"""What an engine compiles: values in, one value out."""


def same(value: Value) -> Value:
    """The identity: what a part is when there is nothing to do.

    >>> same("h1")
    'h1'
    """
    return value


def as_it_is(output: Value, image: Any) -> Value:
    """The default ``restore``: the output needs no bringing back to the frame's size."""
    return output


@dataclass(frozen=True)
class Stage:
    """One stage: a body on the trunk, and a head whose output is what is held.

    ``body``: the trunk of the stage before (for stage 1: the prepared frame) -> this stage's trunk.
    ``head``: trunk -> what other parts read of this stage; the session holds it while the stage does not fire.
    ``scores``: held -> this stage's own score map [1, classes, h, w], which clocks watch; None if it has none.
    ``features``: trunk -> the array that clocks watch as features.
    """

    name: str
    body: Part
    head: Part = same
    scores: Part | None = same
    features: Part = same


@dataclass(frozen=True)
class Group:
    """A part that fuses what several stages hold; runs again only when something it reads fired or was moved.

    ``reads`` names stages (their held value) and earlier groups, in the order ``function`` takes them.
    """

    name: str
    reads: tuple[str, ...]
    function: Part


@dataclass(frozen=True)
class Correction:
    """What mends a score map that was moved, on frames on which not every stage fires (trained by ``train stale``).

    ``part``: what it reads of this frame, the fused value as moved, {"unexplained": float32 [1, 1, h, w], 0..1} -> what
    ``finish`` gives. ``reads``: the stage whose trunk it reads, which has to fire; None: the prepared frame.
    """

    part: Part
    reads: str | None = None


@dataclass(frozen=True)
class StagedNetwork:
    """A network cut into stages (paper, section 4; the cut rule is ``clockseg.graph``).

    ``finish`` turns the last group's value (without groups: what the last stage holds) into the output, ``prepare``
    a frame into what stage 1 reads, ``restore`` an output back to the frame's size. ``whole`` is the uncut network:
    prepared frame -> the same as ``finish`` gives; the oracle that cut schedules are measured against. ``sidecar``: what
    its file says of it (``clockseg.graph.sidecar.Sidecar``: classes, palette, recommended schedule), if it is from one.
    ``executor``: makes what runs the parts in a session, from a network and a schedule; None: they run one by one.
    For a fused value that is moved by the carry: ``fused`` takes from what ``finish`` reads that which is worth moving,
    ``conclude`` makes the output of it (None: ``finish`` does), ``correction`` makes a better one.

    >>> net = StagedNetwork("two", (Stage("a", "A{}".format), Stage("b", "B{}".format)),
    ...                     (Group("sum", ("a", "b"), "{}+{}".format),))
    >>> net("x")
    'Ax+BAx'
    """

    name: str
    stages: tuple[Stage, ...]
    groups: tuple[Group, ...] = ()
    finish: Part = same
    prepare: Callable[[Any], Value] = same
    restore: Callable[[Value, Any], Any] = as_it_is
    whole: Part | None = None
    sidecar: Any = None
    engine: str = "python"
    executor: Callable[[StagedNetwork, Any], Executor] | None = field(default=None, repr=False, compare=False)
    fused: Part = same
    conclude: Part | None = None
    correction: Correction | None = None

    def __post_init__(self) -> None:
        if not self.stages:
            raise UsageError(f"network {self.name!r} has no stages; give at least one Stage.")
        known: list[str] = []
        for stage in self.stages:
            known.append(_new(stage.name, known, self.name))
        for group in self.groups:
            missing = [name for name in group.reads if name not in known]
            if missing or not group.reads:
                raise UsageError(
                    f"group {group.name!r} of network {self.name!r} reads {missing or 'nothing'}; "
                    f"it may read stages and earlier groups: {', '.join(known)}."
                )
            known.append(_new(group.name, known, self.name))
        reads = None if self.correction is None else self.correction.reads
        if reads is not None and reads not in (stage.name for stage in self.stages):
            raise UsageError(
                f"the correction of network {self.name!r} reads {reads!r}; give one of its stages, or None."
            )

    def __len__(self) -> int:
        """The number of stages."""
        return len(self.stages)

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of its classes, by id; none where it has no sidecar."""
        return () if self.sidecar is None else tuple(self.sidecar.classes)

    def __call__(self, image: Any) -> Any:
        """Run every stage once: the frame oracle's output for this frame."""
        trunk = self.prepare(image)
        values: dict[str, Value] = {}
        for stage in self.stages:
            trunk = stage.body(trunk)
            values[stage.name] = stage.head(trunk)
        for group in self.groups:
            values[group.name] = group.function(*(values[name] for name in group.reads))
        return self.restore(self.finish(values[self.last]), image)

    @property
    def last(self) -> str:
        """The name of what ``finish`` reads: the last group, or the last stage where there are no groups."""
        return self.groups[-1].name if self.groups else self.stages[-1].name

    def map(self, fn: Callable[[str, Part], Part]) -> StagedNetwork:
        """This network with every part replaced by ``fn(name, part)``: bodies, heads, groups, finish, and what else it has.

        How engines and timers are written. Names are ``STAGE.body``, ``STAGE.head``, the group's, ``finish``, ``whole``,
        ``conclude`` and ``correction``.

        >>> net = StagedNetwork("one", (Stage("a", str.upper),))
        >>> net.map(lambda name, part: (lambda value: f"{name}({part(value)})"))("x")
        'finish(a.head(a.body(X)))'
        """
        stages = tuple(
            replace(s, body=fn(f"{s.name}.body", s.body), head=fn(f"{s.name}.head", s.head)) for s in self.stages
        )
        groups = tuple(replace(g, function=fn(g.name, g.function)) for g in self.groups)
        whole = None if self.whole is None else fn("whole", self.whole)
        made = replace(self, stages=stages, groups=groups, finish=fn("finish", self.finish), whole=whole, executor=None)
        if self.conclude is not None:
            made = replace(made, conclude=fn("conclude", self.conclude))
        if self.correction is not None:
            correction = replace(self.correction, part=fn("correction", self.correction.part))
            made = replace(made, correction=correction)
        return made

    def uncut(self) -> StagedNetwork:
        """The network as it was before it was cut, as a single stage: what time and agreement are measured against.

        Where ``whole`` is None, all stages in one.
        """
        whole = self.whole or replace(self, prepare=same, restore=as_it_is).__call__
        alone = (Stage("whole", whole, scores=None),)
        return replace(
            self,
            stages=alone,
            groups=(),
            finish=same,
            executor=None,
            fused=same,
            conclude=None,
            correction=None,
        )


def _new(name: str, known: list[str], network: str) -> str:
    if name in known:
        raise UsageError(
            f"network {network!r} has two parts named {name!r}; stages and groups need names of their own."
        )
    return name
