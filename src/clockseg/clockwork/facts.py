"""Facts that clocks declare: the maps they watch, the clocks they are made of, whether they need motion, and so on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from clockseg.clockwork.clock import PICTURE, Clock, Watch, name_of
from clockseg.errors import UsageError, nearest, whole_number


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
    """Return the facts that this clock itself declares, with the defaults for the others.

    >>> from clockseg.clockwork.clock import Every
    >>> facts(Every(2)).period, facts(Every(2)).parts
    (2, ())
    """
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
    """Return the maps that a clock and its parts read when they decide for ``stage``.

    >>> from clockseg.clockwork.clock import Decision
    >>> watches(lambda tick, state: (Decision(True), None), 3)
    frozenset({Watch(of='scores', stage=2)})
    """
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
