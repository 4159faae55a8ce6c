"""A staged network: a chain of stages, the groups that fuse them, and the function that finishes the output.

Nothing here depends on an array library or an engine: parts are callables, and the values between them are opaque. Stages
may be functions on strings (see ``tests/test_tiny.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

from clockseg.clockwork.lazy import Executor
from clockseg.errors import UsageError

Value: TypeAlias = Any
Part: TypeAlias = Callable[..., Value]
"""A function of one or more values that returns one value."""


def same(value: Value, *others: Any) -> Value:
    """Return the first value: the default for parts that do nothing."""
    return value


@dataclass(frozen=True)
class Stage:
    """One stage: a body, which computes its trunk, and a head, whose output is cached while the stage holds.

    ``body``: the trunk of the stage before (for stage 1: the prepared frame) -> this stage's trunk.
    ``head``: trunk -> the value that other parts read of this stage; cached while the stage does not fire.
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
    """A part that fuses the values of several stages; it runs again only when a value that it reads has changed.

    ``reads``: names of stages (their held values) and earlier groups, in the order of the arguments of ``function``.
    """

    name: str
    reads: tuple[str, ...]
    function: Part


_OWN_PARTS = ("finish", "whole", "conclude")


@dataclass(frozen=True)
class StagedNetwork:
    """A network cut into stages (paper, section 4; the cut rule is ``clockseg.graph``).

    ``prepare`` turns a frame into the input of stage 1, ``finish`` turns the value of the last group (without groups: of the
    last stage) into the output, and ``restore`` resizes an output to the frame's size. ``whole``: the uncut network, from the
    prepared frame to the same output; the oracle that schedules are measured against. ``sidecar``: the description from its
    sidecar file (``clockseg.graph.sidecar.Sidecar``: classes, palette, recommended schedule); None if there is none.
    ``executor``: returns a session's executor, from the network and a schedule; None: parts run one by one.
    ``fused``: extracts the scores that can be interpolated from the input of ``finish``, and ``conclude`` makes the output from
    them (None: ``finish`` does).

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
    restore: Callable[[Value, Any], Any] = same
    whole: Part | None = None
    sidecar: Any = None
    engine: str = "python"
    executor: Callable[[StagedNetwork, Any], Executor] | None = field(default=None, repr=False, compare=False)
    fused: Part = same
    conclude: Part | None = None

    def __post_init__(self) -> None:
        if not self.stages:
            raise UsageError(f"network {self.name!r} has no stages; give at least one Stage.")
        known = list(self.names)
        for group in self.groups:
            missing = [name for name in group.reads if name not in known]
            if missing or not group.reads:
                raise UsageError(
                    f"group {group.name!r} of network {self.name!r} reads {missing or 'nothing'}; "
                    f"it may read stages and earlier groups: {', '.join(known)}."
                )
            known.append(group.name)
        taken = [*known, *(group.name for group in self.groups if group.name in _OWN_PARTS)]
        if twice := [name for name in known if taken.count(name) > 1]:
            raise UsageError(
                f"network {self.name!r} has two parts named {twice[0]!r}; give each stage and group its own name."
            )

    def __len__(self) -> int:
        return len(self.stages)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of its stages, in order."""
        return tuple(stage.name for stage in self.stages)

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """The names of its classes by id; empty without a sidecar."""
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

    @cached_property
    def last(self) -> str:
        """The name of the part whose value ``finish`` reads: the last group, or the last stage without groups."""
        return self.groups[-1].name if self.groups else self.stages[-1].name

    @property
    def parts(self) -> dict[str, Part]:
        """Its parts by name: ``STAGE.body``, ``STAGE.head``, the group's name, ``finish``, and the optional ones that it has."""
        found: dict[str, Part] = {}
        for stage in self.stages:
            found |= {f"{stage.name}.body": stage.body, f"{stage.name}.head": stage.head}
        found |= {group.name: group.function for group in self.groups}
        own = {name: getattr(self, name) for name in _OWN_PARTS}
        return found | {name: part for name, part in own.items() if part is not None}

    def map(self, fn: Callable[[str, Part], Part]) -> StagedNetwork:
        """Return this network with each of its ``parts`` replaced by ``fn(name, part)``; engines and timers are written this way.

        >>> net = StagedNetwork("one", (Stage("a", str.upper),))
        >>> net.map(lambda name, part: (lambda value: f"{name}({part(value)})"))("x")
        'finish(a.head(a.body(X)))'
        """
        made = {name: fn(name, part) for name, part in self.parts.items()}
        stages = tuple(
            replace(one, body=made[f"{one.name}.body"], head=made[f"{one.name}.head"]) for one in self.stages
        )
        groups = tuple(replace(one, function=made[one.name]) for one in self.groups)
        own: dict[str, Any] = {name: made[name] for name in _OWN_PARTS if name in made}
        return replace(self, stages=stages, groups=groups, executor=None, **own)

    def uncut(self) -> StagedNetwork:
        """Return the original network as a single stage, or without ``whole`` all stages as one: the reference for time and agreement."""
        whole = self.whole or replace(self, prepare=same, restore=same)
        alone = replace(self, stages=(Stage("whole", whole, scores=None),), groups=(), finish=same, executor=None)
        return replace(alone, fused=same, conclude=None)
