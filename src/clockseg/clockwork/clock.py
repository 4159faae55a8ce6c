"""Clocks: each frame, one clock per stage decides whether that stage fires (paper, section 4); facts that clocks declare."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias, TypeGuard, cast

import numpy as np

from clockseg.errors import UsageError, nearest, tell_fault, whole_number


class Watch(NamedTuple):
    """A map that a clock can watch: the picture, or the score map or features of stage ``stage`` (1 is the first)."""

    of: str
    stage: int = 0


PICTURE = Watch("picture")


class View(NamedTuple):
    """One watched map at this frame, at this stage's last firing, and at the previous frame."""

    now: Any
    reference: Any
    previous: Any


class Tick(NamedTuple):
    """The information that a clock gets at frame ``t`` (counted from the last fill).

    ``stage``: the stage to decide for (1 is the first). ``watched``, ``reference``, ``previous``: the watched map now,
    at this stage's last firing, and at the previous frame; the watched map is the score map of the stage before, or the
    picture for stage 1. ``views``: all maps that the clock watches. ``since``: frames since this stage last fired (1 right
    after a firing). ``fires``: the number of its firings since the fill, which counts as 0.

    ``motion``: the motion since the previous frame, and ``travel``: the motion since the frame from which this stage's cached
    value was computed (``clockseg.carry.Motion``; None under a carry that estimates no motion). ``output``: the network's last
    output as ``finish`` returned it. ``classes``: class names by id, if known. ``last_seconds``: seconds that network, clocks and
    motion took on the previous frame.
    """

    t: int
    stage: int
    image: Any
    watched: Any
    reference: Any
    previous: Any
    since: int
    fires: int
    motion: Any = None
    views: Mapping[Watch, View] = {}
    travel: Any = None
    output: Any = None
    classes: Sequence[str] = ()
    last_seconds: float = 0.0

    def at(self, watch: Watch) -> Tick:
        """Return this tick with another map as the watched one; ``UsageError`` if the clock does not watch it."""
        if watch not in self.views:
            watched = ", ".join(map(repr, self.views)) or "nothing"
            raise UsageError(
                f"tick.at({watch!r}): the clock of stage {self.stage} watches {watched}; add this map to those that watches(stage) returns."
            )
        now, reference, previous = self.views[watch]
        return self._replace(watched=now, reference=reference, previous=previous)


class Decision(NamedTuple):
    """A clock's answer.

    ``fire``: True if the stage fires. ``signal``: the number that was compared with the threshold, for the trace. ``refill``:
    True drops all cached values (after a scene cut) and runs the frame as a first one; clocks keep their states.
    """

    fire: bool
    signal: float | None = None
    refill: bool = False


class Clock(Protocol):
    """Decides for one stage at each frame after a fill: any object that is called with a tick and its own state.

    ``state`` is None at first; the session keeps it. Nothing else is required. A clock may declare ``Facts`` as attributes.
    """

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """Return the decision and the state for the next tick."""
        ...


@dataclass(frozen=True)
class Every:
    """A clock that fires when t = 0 mod ``period``: the paper's fixed rate (section 4.2).

    >>> [Every(2)(Tick(t, 1, None, None, None, None, 1, 0), None)[0].fire for t in range(1, 5)]
    [False, True, False, True]
    """

    period: int
    watches: ClassVar[frozenset[Watch]] = frozenset()

    def __post_init__(self) -> None:
        whole_number(self.period, "a period")

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        return Decision(tick.t % self.period == 0), None

    def __str__(self) -> str:
        return f"every({self.period})"


ALWAYS = Every(1)


ClockLike: TypeAlias = Clock | Callable[..., bool | Decision]
"""A clock, or a plain function of the tick."""


@dataclass(frozen=True)
class Plain:
    """A clock made from a function of the tick that returns a bool or a ``Decision``; it has no state.

    ``gates_after``: see ``Facts``, which the function may declare as attributes. ``threshold``: passed to a function that has
    a parameter of this name; by default that parameter's own default.

    >>> Plain(lambda tick, threshold=0.5: tick.fires >= threshold).threshold
    0.5
    """

    function: Callable[..., bool | Decision]
    gates_after: int | None = None
    threshold: float | None = None

    def __post_init__(self) -> None:
        if self.gates_after is None:
            object.__setattr__(self, "gates_after", getattr(self.function, "gates_after", None))
        parameter = inspect.signature(self.function).parameters.get("threshold")
        if self.threshold is None and parameter is not None and parameter.default is not parameter.empty:
            object.__setattr__(self, "threshold", parameter.default)

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        answer = self.function(tick) if self.threshold is None else self.function(tick, threshold=self.threshold)
        return _decision(answer, self), None

    def __getattr__(self, name: str) -> Any:
        if name not in Facts._fields:
            raise AttributeError(name)
        return getattr(self.function, name)


def _parameters(function: Any) -> list[inspect.Parameter]:
    """Return the positional parameters without a default, and ``state`` whether or not it has one."""
    try:
        found = [one for one in inspect.signature(function).parameters.values() if one.kind <= one.VAR_POSITIONAL]
    except (TypeError, ValueError):
        return []
    return [one for one in found if one.kind < one.VAR_POSITIONAL and (one.default is one.empty or one.name == "state")]


def is_clock(given: Any) -> TypeGuard[ClockLike]:
    """Return True for an object that is called with a tick and a state, and for a function whose one argument is ``tick``.

    >>> is_clock(Every(2)), is_clock(lambda tick: True), is_clock(lambda stages: None), is_clock(Every)
    (True, True, False, False)
    """
    if isinstance(given, type) or not callable(given):
        return False
    needed = _parameters(given)
    return len(needed) == 2 or (len(needed) == 1 and needed[0].name == "tick")


def as_clock(given: ClockLike) -> Clock:
    """Return a clock unchanged, or make one from a function of the tick."""
    if isinstance(given, type):
        raise UsageError(f"{given.__name__} is a class, not a clock; give an instance, {given.__name__}(..).")
    if not is_clock(given):
        shown = name_of(given) if inspect.isfunction(given) else repr(given)
        raise UsageError(f"{shown} is not a clock; give a function of (tick), by this name, or of (tick, state).")
    return cast(Clock, given) if len(_parameters(given)) == 2 else Plain(cast(Callable[..., bool | Decision], given))


def name_of(clock: Any) -> str:
    """Return the name of a clock's function or class, for messages."""
    code = clock.function if isinstance(clock, Plain) else clock
    code = code.func if isinstance(code, partial) else code
    return str(getattr(code, "__qualname__", type(code).__qualname__))


def ask(clock: Clock, tick: Tick, state: Any) -> tuple[Decision, Any]:
    """Return a clock's decision and next state; ``UsageError`` with name, file and line if a clock of the user's fails."""
    try:
        answer = clock(tick, state)
    except Exception as error:
        tell_fault(error, f"the clock {name_of(clock)} of stage {tick.stage} failed at frame {tick.t}")
        raise
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise UsageError(
            f"the clock {name_of(clock)} of stage {tick.stage} returned {answer!r} at frame {tick.t}; return a pair: the "
            "decision and the state."
        )
    return _decision(answer[0], clock), answer[1]


def _decision(answer: Any, clock: Any) -> Decision:
    """Return a clock's answer as a ``Decision`` of plain values; ``UsageError`` if it is neither one nor True or False."""
    fire, signal, refill = answer if isinstance(answer, Decision) else (answer, None, False)
    if type(fire) is bool and refill is False and (signal is None or type(signal) is float):
        return answer if type(answer) is Decision else Decision(fire)
    if (
        not _is_number(fire, "bui")
        or not _is_number(refill, "bui")
        or not (signal is None or _is_number(signal, "buif"))
    ):
        given = type(answer).__name__
        if isinstance(answer, Decision):
            given = "a Decision of " + ", ".join(type(value).__name__ for value in answer)
        raise UsageError(
            f"the clock {name_of(clock)} returned {given}; return True, False or a Decision, whose signal is a number or None."
        )
    return Decision(bool(fire), None if signal is None else float(signal), bool(refill))


def _is_number(value: Any, kinds: str) -> bool:
    """Return True for a number of NumPy's ``kinds`` of types, and for an array of no dimensions that holds one."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError):
        return False
    return array.ndim == 0 and array.dtype.kind in kinds


class Facts(NamedTuple):
    """The attributes that a clock may declare, with their defaults.

    ``watches``: the maps that it reads, or a method that returns those that it reads to decide for a stage (None: the score map of
    the stage before, for stage 1 the picture; for a combinator none of its own). ``parts``: the clocks that a combinator is made of; their
    declarations hold for it too. ``gates_after``: the number of stages that always run; the clock decides for those after them
    (0: for the whole network; None: for the last stage only). ``threshold``: the number that its signal is compared with; it
    can be tuned if it is a dataclass field or a function's parameter. ``below``: True if it fires when the signal is below the
    threshold. ``period``: it fires on every ``period``-th frame and reads nothing but the frame number. ``needs_motion``: it
    reads ``tick.motion`` or ``tick.travel``. ``not_replayable``: why its decisions can't be replayed from a recording; empty if
    they can. ``labels_suffice``: it reads only the argmax of score maps, so a recording may keep label maps instead.
    ``classes``: names or ids that the network must have. ``files``: files it was loaded from; ``--resume`` requires them to be
    unchanged.
    """

    watches: Callable[[int], Collection[Watch]] | Collection[Watch] | None = None
    parts: tuple[Clock, ...] = ()
    gates_after: int | None = None
    threshold: float | None = None
    below: bool = False
    period: int | None = None
    needs_motion: bool = False
    not_replayable: str = ""
    labels_suffice: bool = False
    classes: tuple[str | int, ...] = ()
    files: tuple[Path, ...] = ()


def facts(clock: Clock) -> Facts:
    """Return the facts that this clock itself declares, with the defaults for the others."""
    return Facts(**{name: getattr(clock, name) for name in Facts._fields if hasattr(clock, name)})


def walk(clock: Clock) -> Iterator[Clock]:
    """Yield the clock and all clocks that it is made of, however deep."""
    yield clock
    for part in facts(clock).parts:
        yield from walk(part)


def declared_gate(clock: Clock) -> int | None:
    """Return ``Facts.gates_after`` as a clock or its parts declare it, None if none does; ``UsageError`` if they disagree."""
    found = {
        whole_number(after, f"gates_after (or watch=) of {name_of(one)}", least=0)
        for one in walk(clock)
        if (after := facts(one).gates_after) is not None
    }
    if len(found) > 1:
        raise UsageError(
            f"{clock} combines clocks that decide for different stages (gates_after is {sorted(found)}); "
            "give all of them the same gates_after, which built-in clocks take as watch=."
        )
    return next(iter(found), None)


def own_watches(clock: Clock, stage: int) -> frozenset[Watch]:
    """Return the maps that a clock itself reads, without those that its parts read."""
    declared = facts(clock)
    if declared.watches is not None:
        return frozenset(declared.watches(stage) if callable(declared.watches) else declared.watches)
    return frozenset() if declared.parts else frozenset({Watch("scores", stage - 1) if stage > 1 else PICTURE})


def watches(clock: Clock, stage: int) -> frozenset[Watch]:
    """Return the maps that a clock and its parts read when they decide for ``stage``."""
    return frozenset[Watch]().union(*(own_watches(one, stage) for one in walk(clock)))


def class_ids(classes: Sequence[str | int], names: Sequence[str]) -> tuple[int, ...]:
    """Return the ids of ``classes``, names or ids, in a network whose classes have these ``names`` by id (none: unknown).

    >>> class_ids(("road", 2), ["sky", "road", "car"])
    (1, 2)
    """
    for one in classes:
        if isinstance(one, str) and one not in names:
            told = nearest(one, names) if names else "Its classes have no names: give ids, such as classes=(9, 10)."
            raise UsageError(f"the network has no class {one!r}. {told}")
        if isinstance(one, int) and names and one >= len(names):
            raise UsageError(f"the network has no class {one}; its ids are 0 to {len(names) - 1}.")
    return tuple(one if isinstance(one, int) else list(names).index(one) for one in classes)
