"""A tape of the values of every stage on every frame, for replaying schedules with their outputs.

A ``Recording`` stores the maps that clocks watch, for schedules with the carry identity. A tape also stores the values that
are moved and fused, so ``play`` returns the bits of a ``Session``'s outputs under any warp. Bodies and heads are looked up,
while groups, finish, conclude, correction and the carry are the real ones.
"""

from __future__ import annotations

import pickle
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from clockseg.carry import Estimator, Interpolate, Motion, Sight, Warp, identity
from clockseg.clocks import PICTURE, Watch
from clockseg.clockwork.network import StagedNetwork, Value
from clockseg.clockwork.schedule import Named, Schedule, frame_oracle, schedule_for
from clockseg.clockwork.step import Memory, advance, fill
from clockseg.clockwork.trace import Record
from clockseg.clockwork.watching import check, check_replayable
from clockseg.errors import UsageError
from clockseg.execution.liveness import patterns
from clockseg.execution.replay import Promise, Replay, Replayed, Shot
from clockseg.execution.store import Place, Store
from clockseg.types import Image

Key: TypeAlias = Hashable
"""A value of a frame: "picture", "prepared" (the frame as the network reads it), "fused" (the scores that a carry moves),
("held", stage), ("trunk", stage) with 0 for the first, or ("motion", estimator)."""
Wanted: TypeAlias = frozenset[Key]
"""The values of each frame that a tape stores besides the output."""


def wanted(net: StagedNetwork, schedules: Iterable[Schedule | Named]) -> Wanted:
    """Return what a tape must store to replay all of these schedules; ``UsageError`` with the reason for one that can't be.

    >>> from clockseg.clockwork.schedule import alternating, skip_frame
    >>> from clockseg.clockwork.network import Stage
    >>> two = StagedNetwork("two", (Stage("a", str), Stage("b", str)))
    >>> wanted(two, [skip_frame(2)]), sorted(wanted(two, [alternating]))
    (frozenset(), [('held', 0), ('held', 1)])
    """
    return frozenset(key for schedule in schedules for key in _wanted(net, schedule_for(schedule, len(net))))


def _wanted(net: StagedNetwork, schedule: Schedule) -> Iterator[Key]:
    check(net, schedule)
    _check_playable(schedule)
    carry, correction = schedule.carry, net.correction
    for watch in frozenset[Watch]().union(*schedule.watched):
        yield "picture" if watch == PICTURE else ("trunk" if watch.of == "features" else "held", watch.stage - 1)
    if _fuses(schedule):
        yield from (("held", index) for index in range(len(net)))
    if isinstance(carry, Warp | Interpolate):
        yield "motion", carry.motion
    if carry.of == "fused" or isinstance(carry, Interpolate):
        yield "fused"
    if correction is not None and carry.of != "held" and not isinstance(carry, Interpolate):
        yield "fused"
        names = [stage.name for stage in net.stages]
        yield "prepared" if correction.reads is None else ("trunk", names.index(correction.reads))


def _fuses(schedule: Schedule) -> bool:
    """Return True if values of different frames may be fused, or moved one by one."""
    whole = len(schedule.segments()) == 1 and all(len(set(pattern)) == 1 for pattern in patterns(schedule))
    return not whole or (schedule.carry != identity and schedule.carry.of == "held")


def _check_playable(schedule: Schedule) -> None:
    if schedule.carry != identity and not isinstance(schedule.carry, Warp | Interpolate):
        raise UsageError(
            f"carry {schedule.carry} can't be played from a tape; give identity, warp(..) or interpolate(..)."
        )
    if isinstance(schedule.carry, Interpolate) and _fuses(schedule):
        raise UsageError(
            f"{schedule.carry} can be played from a tape only if all stages fire or none; give a clock of the whole network, "
            "such as skip_frame(6)."
        )
    for number, clock in enumerate(schedule.clocks, start=1):
        check_replayable(clock, number)


_NOTHING = Sight(np.zeros((0, 0), np.uint8))
Kept = Place | Mapping[str, Place]
"""The place of an array, or the places of a dict of arrays."""


class _Taped(NamedTuple):
    """One frame: the shape of its picture, True if it is the first of a clip, and the places of its values by name."""

    shape: tuple[int, ...]
    first: bool
    places: Mapping[Any, Kept]
    shares: Mapping[Estimator, tuple[float, float]]


class Played(NamedTuple):
    """One replayed frame: ``output.value`` is the session's output; equal ``output.key`` means equal outputs.

    ``record``: that of the session, with seconds of 0.
    """

    output: Promise
    record: Record


@dataclass(eq=False)
class Tape:
    """A recording to which frames are added one by one: ``net`` runs whole on each, and the values in ``keep`` are stored.

    ``keep``: see ``wanted``. Values are on disk beyond 64 MB. ``UsageError`` for values that aren't arrays or dicts of arrays,
    such as torch's tensors. ``warp(codec)`` also uses earlier frames; a refill within a clip drops these in a session, but
    not on a tape.

    >>> from clockseg.clockwork.schedule import skip_frame
    >>> from clockseg.clockwork.network import Stage
    >>> net = StagedNetwork("one", (Stage("a", lambda image: image + 1),))
    >>> tape = Tape(net, wanted(net, [skip_frame(2)]))
    >>> for level in range(3):
    ...     output = tape.add(np.full(2, level))
    >>> [played.output.value.tolist() for played in tape.play(skip_frame(2))]
    [[1, 1], [1, 1], [3, 3]]
    """

    net: StagedNetwork
    keep: Wanted
    store: Store

    def __init__(self, net: StagedNetwork, keep: Wanted, *, store: Store | None = None) -> None:
        self.net, self.keep, self.store = net, keep, store or Store()
        self._frames: list[_Taped] = []
        self._seen: dict[Estimator, Sight] = {}
        self._motions: frozenset[Any] = frozenset(key for key in keep if isinstance(key, tuple) and key[0] == "motion")

    def __len__(self) -> int:
        """The number of frames."""
        return len(self._frames)

    def add(self, image: Image, *, vectors: Any = None, first: bool = False) -> Any:
        """Add a frame, and return its output; ``first``: it begins a clip, as a frame of another size always does."""
        first = first or not self._frames or self._frames[-1].shape != np.shape(image)
        output, memory = fill(self.net, frame_oracle(len(self.net)), image)
        places: dict[Any, Kept] = {"output": self._put(memory.fused.held.value)}
        for key in self.keep - self._motions:
            places[key] = self._put(self._value(key, memory, image))
        shares = self._see(image, vectors, places, first)
        self._frames.append(_Taped(np.shape(image), first, places, shares))
        return output

    def _value(self, key: Any, memory: Memory, image: Image) -> Value:
        if key == "picture":
            return np.asarray(image)
        if key == "prepared":
            return self.net.prepare(image)
        if key == "fused":
            return self.net.fused(memory.fused.trunk.value)
        of, index = key
        return (memory.stages[index].held if of == "held" else memory.stages[index].trunk).value

    def _see(
        self, image: Image, vectors: Any, places: dict[Any, Kept], first: bool
    ) -> dict[Estimator, tuple[float, float]]:
        """Return each estimator's data for the frame, and the motion since the previous one."""
        shares = {}
        prepared = self.net.prepare(image) if self._motions else None
        for _, estimator in self._motions:
            sight = Warp(estimator).see(prepared, image, vectors)
            places["grey", estimator] = self._put(sight.grey)
            if not first:
                found = replace(estimator.observe(self._seen[estimator], sight), then=_NOTHING, now=_NOTHING)
                # Pickled, since estimators may return their own kinds of motion.
                places["motion", estimator] = self.store.add(np.frombuffer(pickle.dumps(found), np.uint8))
            self._seen[estimator], shares[estimator] = sight, sight.share
        return shares

    def _put(self, value: Value) -> Kept:
        if isinstance(value, Mapping):
            return {name: self._put_array(array) for name, array in value.items()}
        return self._put_array(value)

    def _put_array(self, value: Any) -> Place:
        if not isinstance(value, np.ndarray):
            raise UsageError(
                f"network {self.net.name!r} gives {type(value).__name__}, which can't be taped; give one that runs in "
                "openvino or onnxruntime, whose values are arrays."
            )
        return self.store.add(value)

    def look(self, name: Any, index: int) -> Value:
        """Return what is stored under ``name`` for frame ``index``; ``UsageError`` if nothing is."""
        place = self._frames[index].places.get(name)
        if place is None:
            raise UsageError(f"{name} isn't on the tape; make it with keep=wanted(net, [schedule, ..]).")
        if isinstance(place, Place):
            return self.store[place]
        return {part: self.store[one] for part, one in place.items()}

    def motion(self, estimator: Estimator, index: int) -> Motion:
        """Return the motion by ``estimator`` from the frame before ``index`` to it."""
        found: Motion = pickle.loads(self.look(("motion", estimator), index).tobytes())
        return replace(found, then=self.sight(estimator, index - 1), now=self.sight(estimator, index))

    def sight(self, estimator: Estimator, index: int) -> Sight:
        return Sight(self.look(("grey", estimator), index), self._frames[index].shares[estimator])

    def play(self, schedule: Schedule | Named) -> Iterator[Played]:
        """Yield what a ``Session`` under ``schedule``, reset at the start of clips, returns for each frame, without running the network.

        ``UsageError`` if it can't be played, or when a value that it needs isn't on the tape.
        """
        made = schedule_for(schedule, len(self.net))
        check(self.net, made)
        _check_playable(made)
        replayed = replace(made, clocks=tuple(map(Replayed, made.clocks)))
        executor, memory = Replay(self, made.carry), None
        for index, frame in enumerate(self._frames):
            memory = advance(self.net, replayed, None if frame.first else memory, Shot(self, index), None, executor)
            yield Played(memory.output.value, memory.record)

    def shape(self, index: int) -> tuple[int, ...]:
        """Return the shape of the picture of frame ``index``."""
        return self._frames[index].shape

    def begins(self, index: int) -> bool:
        """Return True if a clip begins with frame ``index``."""
        return self._frames[index].first
