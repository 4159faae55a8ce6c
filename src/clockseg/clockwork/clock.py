"""Clocks: each frame, one clock per stage decides whether that stage fires (paper, section 4)."""

from __future__ import annotations

import dataclasses
import inspect
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeGuard, cast

from clockseg.errors import ClocksegError, UsageError, nearest, whole_number


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

    ``stage``: the stage it decides for (1 is the first). ``watched``, ``reference``, ``previous``: the watched map now,
    at this stage's last firing, and at the previous frame; the watched map is the score map of the stage before, for
    stage 1 the picture. ``since``: frames since this stage last fired (1 right after a firing). ``fires``: its firings
    since the fill. ``seconds``: wall time. ``views``: every map that the clock declares to watch.

    Under a carry that estimates motion (``clockseg.carry.Motion``; else None), ``motion`` is that since the previous frame
    and ``travel`` that since the frame from which this stage's cached value was computed. ``output``: the network's last
    output as ``finish`` returned it. ``classes``: the names of the network's classes, by id, if known. ``took``: the
    network's seconds on the previous frame.
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
    seconds: float = 0.0
    views: Mapping[Watch, View] = {}
    travel: Any = None
    output: Any = None
    classes: Sequence[str] = ()
    took: float = 0.0

    def at(self, watch: Watch) -> Tick:
        """Return this tick with another map as the watched one."""
        now, reference, previous = self.views[watch]
        return self._replace(watched=now, reference=reference, previous=previous)


class Decision(NamedTuple):
    """A clock's answer; ``signal`` is the number that the trace shows against the threshold.

    ``fire``: True if the stage fires. ``refill``: no cached value is worth keeping (a scene cut), so the frame is run like a
    first one. Clocks keep their states.
    """

    fire: bool
    signal: float | None = None
    refill: bool = False


class Clock(Protocol):
    """Decides for one stage at each frame after a fill: any object that is called with a tick and its own state.

    ``state`` is None at first; the session keeps it. Nothing else is required. A clock may declare ``Facts`` as attributes,
    and ``watches(stage)``, the maps it reads, which is a set of ``Watch`` (default: the map that ``tick.watched`` is).
    """

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """Return the decision and the state for the next tick."""
        ...


ClockLike: TypeAlias = Clock | Callable[..., bool | Decision]
"""A clock, or a plain function of the tick."""


class Facts(NamedTuple):
    """The attributes that a clock may declare, and what holds if it does not.

    ``parts``: the clocks it is made of; all that is declared here is then collected from them as well. ``after``: the stage
    behind which it gates (0: it gates the whole network; None: only the last stage). ``threshold``: its signal is compared
    with it; a dataclass or a function with this field or parameter can be tuned. ``below``: it fires where the signal is
    under the threshold. ``period``: it fires at every so many frames and reads nothing else. ``needs_motion``: it reads
    ``tick.motion`` or ``tick.travel``. ``not_replayable``: the reason why its answers can't be had from a recording.
    ``labels_suffice``: of score maps it reads the argmax only, so a recording may keep label maps. ``classes``: names or
    ids that the network must have. ``files``: what it was loaded from; ``--resume`` continues a run only if they are the same.
    """

    parts: tuple[Clock, ...] = ()
    after: int | None = None
    threshold: float | None = None
    below: bool = False
    period: int | None = None
    needs_motion: bool = False
    not_replayable: str = ""
    labels_suffice: bool = False
    classes: tuple[str | int, ...] = ()
    files: tuple[Path, ...] = ()


def facts(clock: Clock) -> Facts:
    """Return the facts that this clock itself declares, with the defaults for the others.

    >>> facts(Every(2)).period, facts(Every(2)).parts
    (2, ())
    """
    return Facts(**{name: getattr(clock, name) for name in Facts._fields if hasattr(clock, name)})


def walk(clock: Clock) -> Iterator[Clock]:
    """Yield the clock and all clocks that it is made of, however deep."""
    yield clock
    for part in getattr(clock, "parts", ()):
        yield from walk(part)


def gates_after(clock: Clock) -> int | None:
    """Return the stage behind which a clock gates: its own declaration, or the one that its parts agree on."""
    declared = [(one, facts(one).after) for one in walk(clock)]
    found = {whole_number(at, f"the watch of {name_of(one)}", least=0) for one, at in declared if at is not None}
    if len(found) > 1:
        raise UsageError(
            f"{name_of(clock).lower()} of clocks that gate from different stages on (after {sorted(found)}); give one watch."
        )
    return next(iter(found), None)


def watched_by_default(stage: int) -> Watch:
    """Return the score map of the stage before; for stage 1 the picture."""
    return Watch("scores", stage - 1) if stage > 1 else PICTURE


def own_watches(clock: Clock, stage: int) -> frozenset[Watch]:
    """Return the maps that a clock reads itself, apart from those that only its parts read."""
    if hasattr(clock, "watches"):
        return frozenset(clock.watches(stage))
    return frozenset() if getattr(clock, "parts", ()) else frozenset({watched_by_default(stage)})


def watches(clock: Clock, stage: int) -> frozenset[Watch]:
    """Return the maps that a clock and its parts read when they decide for ``stage``; no others are kept.

    >>> watches(lambda tick, state: (Decision(True), None), 3)
    frozenset({Watch(of='scores', stage=2)})
    """
    return frozenset[Watch]().union(*(own_watches(one, stage) for one in walk(clock)))


def with_threshold(clock: Clock, threshold: float) -> Clock:
    """Return the same clock with another threshold.

    >>> with_threshold(as_clock(lambda tick, threshold=0.5: tick.fires >= threshold), 4).threshold
    4
    """
    if isinstance(clock, Plain) and clock.threshold is not None:
        return dataclasses.replace(clock, function=partial(clock.function, threshold=threshold))
    if dataclasses.is_dataclass(clock) and "threshold" in {field.name for field in dataclasses.fields(clock)}:
        return dataclasses.replace(clock, threshold=threshold)  # type: ignore[return-value,type-var]  # not a class
    raise UsageError(
        f"{name_of(clock)} has no threshold that could be set; give a dataclass with the field threshold, a function "
        "tick, threshold=.. or a function of the threshold, such as lambda t: either(adaptive(t), at_least_every(8))."
    )


@dataclass(frozen=True)
class Plain:
    """A plain function of the tick as a clock: it returns a bool or a ``Decision`` and keeps no state. ``after``: see ``Facts``.

    >>> every_third = Plain(lambda tick: tick.t % 3 == 0)
    """

    function: Callable[..., bool | Decision]
    after: int | None = None

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """Return the answer of the function."""
        answer = self.function(tick)
        return (answer if isinstance(answer, Decision) else Decision(bool(answer))), None

    @property
    def threshold(self) -> float | None:
        """The default of its parameter ``threshold``, if it has one."""
        parameter = inspect.signature(self.function).parameters.get("threshold")
        return None if parameter is None or parameter.default is parameter.empty else parameter.default


def _parameters(function: Any) -> list[inspect.Parameter]:
    """Return the parameters that can be given by position, up to the first that may be left out (but ``state``)."""
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


def as_clock(given: ClockLike, *, after: int | None = None) -> Clock:
    """Return a clock as it is, and a plain function of the tick as a clock, which gates the stages behind stage ``after``.

    >>> as_clock(lambda tick: tick.since >= 4)  # doctest: +ELLIPSIS
    Plain(function=<function ...>, after=None)
    """
    if isinstance(given, type):
        raise UsageError(f"{given.__name__} is a class, no clock; give a clock of that class: {given.__name__}(..).")
    needed = _parameters(given) if callable(given) else []
    if len(needed) == 2:
        return cast(Clock, given)  # called with a tick and a state
    if len(needed) != 1 or needed[0].name == "stages":
        raise UsageError(f"{given!r} is no clock; give a function of the tick, or of the tick and the clock's state.")
    return Plain(cast(Callable[..., bool | Decision], given), after)


def name_of(clock: Any) -> str:
    """Return the name by which messages call a clock: that of its function or class."""
    code = _code(clock)
    return str(getattr(code, "__qualname__", type(code).__qualname__))


def _code(clock: Any) -> Any:
    """Return the function behind a plain clock; any other clock as it is."""
    function = clock.function if isinstance(clock, Plain) else clock
    return function.func if isinstance(function, partial) else function


def ask(clock: Clock, tick: Tick, state: Any) -> tuple[Decision, Any]:
    """Return the answer of a clock; ``UsageError`` with its name, file and line if a clock from outside of clockseg fails."""
    try:
        decision, after = clock(tick, state)
    except ClocksegError:
        raise
    except Exception as error:
        code = _code(clock)
        if (getattr(code, "__module__", None) or "").partition(".")[0] == __name__.partition(".")[0]:
            raise
        raise UsageError(
            f"the clock {name_of(clock)} of stage {tick.stage} failed at frame {tick.t} ({_place(code, error)}): "
            f"{type(error).__name__}: {error}"
        ) from error
    return (decision if isinstance(decision, Decision) else Decision(bool(decision))), after


def _place(code: Any, error: Exception) -> str:
    """Return the file and line at which a clock failed: the last line of its own file that the error passed through."""
    function: Any = code if inspect.isroutine(code) else type(code).__call__
    file = getattr(getattr(function, "__code__", None), "co_filename", "")
    lines = traceback.extract_tb(error.__traceback__)
    found = next((one for one in reversed(lines) if one.filename == file), lines[-1])
    # An answer that is no pair fails where it was asked for.
    line = found.lineno if found.filename == file or not file else function.__code__.co_firstlineno
    return f"{Path(file or found.filename).name}, line {line}"


def class_ids(classes: Sequence[str | int], names: Sequence[str]) -> tuple[int, ...]:
    """Return the ids of ``classes``, names or ids, in a network whose classes have these ``names``, by id.

    >>> class_ids(("road", 2), ["sky", "road", "car"])
    (1, 2)
    """
    return tuple(one if isinstance(one, int) else _id(one, names) for one in classes)


def _id(name: str, names: Sequence[str]) -> int:
    if name not in names:
        told = nearest(name, names) if names else "Its classes have no names: give ids, such as classes=(9, 10)."
        raise UsageError(f"the network has no class {name!r}. {told}")
    return list(names).index(name)


@dataclass(frozen=True)
class Every:
    """Fires when t = 0 mod ``period``, the paper's fixed rate (section 4.2); ``Every(1)`` always.

    >>> [Every(2)(Tick(t, 1, None, None, None, None, 1, 0), None)[0].fire for t in range(1, 5)]
    [False, True, False, True]
    """

    period: int

    def __post_init__(self) -> None:
        whole_number(self.period, "a period")

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """Decide by the frame counter."""
        return Decision(tick.t % self.period == 0), None

    def watches(self, stage: int) -> frozenset[Watch]:
        """Return nothing: it counts frames."""
        return frozenset()


ALWAYS = Every(1)
