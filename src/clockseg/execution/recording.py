"""A recording of every stage on every frame, for trying schedules without running the network again.

A stage that fires computes the oracle's value of the frame that it reflects, since its body reads only the stage before it.
So a recording of the frame oracle holds all that clocks can watch and all that a carry moves, and a replay decides exactly as
a ``Session`` would, with the bits of its outputs. Bodies and heads are looked up, while groups, finish, conclude and
the carry are the real ones.
"""

from __future__ import annotations

import pickle
import tempfile
import weakref
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np

from clockseg.carry import Estimator, Interpolate, Motion, Sight, Warp, identity
from clockseg.clocks import PICTURE, Watch
from clockseg.clocks.maps import labels
from clockseg.clocks.rates import frame_oracle
from clockseg.clockwork.clock import facts, own_watches, walk
from clockseg.clockwork.network import StagedNetwork, Value
from clockseg.clockwork.schedule import Schedule, ScheduleLike, check, schedule_for
from clockseg.clockwork.step import Memory, fill, step
from clockseg.clockwork.trace import Record, Seconds
from clockseg.errors import UsageError
from clockseg.execution.liveness import depths
from clockseg.execution.replay import Promise, Replay, Shot
from clockseg.types import Image

Key: TypeAlias = Hashable
"""A value of a frame: a ``Watch`` (the picture, or the labels, scores or features of a stage), "output", "fused" (the
scores that are interpolated), ("held", stage) with 0 for the first, or ("motion", estimator)."""
MEMORY_BYTES = 64_000_000
"""Bytes that a store holds in memory before it moves to a temporary file."""


def needs(net: StagedNetwork, schedules: Iterable[ScheduleLike], *, outputs: bool = False) -> frozenset[Key]:
    """Return what to record for replaying all of these schedules; ``UsageError`` with the reason for one that can't be.

    Changes need label maps; differences and confidence the scores or features they watch, or the pictures. ``outputs``: also
    what the outputs are made of; otherwise the firings only can be replayed.

    >>> from clockseg.clocks import adaptive
    >>> from clockseg.clockwork.network import Stage
    >>> two = StagedNetwork("two", (Stage("a", str), Stage("b", str)))
    >>> needs(two, [adaptive(0.25)])
    frozenset({Watch(of='labels', stage=1)})
    """
    found: set[Key] = set()
    for given in schedules:
        schedule = schedule_for(given, len(net))
        check(net, schedule)
        found.update(_clocks_need(schedule))
        found.update(_outputs_need(net, schedule) if outputs else ())
    return frozenset(found)


def _clocks_need(schedule: Schedule) -> Iterator[Key]:
    carry = schedule.carry
    if carry != identity and not isinstance(carry, Warp | Interpolate):
        raise UsageError(f"carry {carry} can't be replayed: give identity, warp(..) or interpolate(..).")
    if isinstance(carry, Warp | Interpolate):
        yield "motion", carry.motion
    for number, clock in enumerate(schedule.clocks, start=1):
        for part in walk(clock):
            if reason := facts(part).not_replayable:
                raise UsageError(f"the clock of stage {number}, {part}, can't be replayed: {reason}")
            for watch in own_watches(part, number):
                if watch.of == "scores" and carry != identity:
                    yield "held", watch.stage - 1  # the scores are of the moved value
                else:
                    yield Watch("labels", watch.stage) if watch.of == "scores" and facts(part).labels_suffice else watch


def _outputs_need(net: StagedNetwork, schedule: Schedule) -> Iterator[Key]:
    carry = schedule.carry
    if isinstance(carry, Interpolate) and _fuses(schedule):
        raise UsageError(
            f"{carry} can be replayed only if all stages fire or none; give a clock of the whole network, such as "
            "skip_frame(6)."
        )
    yield "output"
    if _fuses(schedule):
        yield from (("held", index) for index in range(len(net)))
    if isinstance(carry, Interpolate):
        yield "fused"


def _fuses(schedule: Schedule) -> bool:
    """Return True if values of different frames may be fused, or moved one by one."""
    whole = schedule.nested and not any(schedule.delays) and set(depths(schedule)) <= {0, len(schedule)}
    return not whole or (schedule.carry != identity and schedule.carry.of == "held")


class Store:
    """Values in memory up to ``MEMORY_BYTES``, and in a temporary file beyond that, which is deleted with the store.

    >>> store = Store()
    >>> place = store.add({"held": np.array([1, 2])})
    >>> store[place]
    {'held': array([1, 2])}
    """

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=MEMORY_BYTES)  # noqa: SIM115 - lives as long as the store
        self.bytes = 0
        weakref.finalize(self, self._file.close)

    def add(self, value: Any) -> int:
        """Store a copy of a value, and return its place."""
        place = self._file.seek(self.bytes)
        pickle.dump(value, self._file)
        self.bytes = self._file.tell()
        return place

    def __getitem__(self, place: int) -> Any:
        """Return a copy of the value at ``place``."""
        self._file.seek(place)
        return pickle.load(self._file)


_NOTHING = Sight(np.zeros((0, 0), np.uint8))


class Recorded(NamedTuple):
    """One frame: the ``shape`` of its picture, the ``seconds`` of its full pass, and the places of its values by key.

    ``first``: it begins a clip.
    """

    shape: tuple[int, ...]
    first: bool
    seconds: Seconds
    places: Mapping[Any, int]


class Played(NamedTuple):
    """One replayed frame: ``output.value`` is the session's output; equal ``output.key`` means equal outputs.

    ``record``: that of the session, with estimated seconds: those of the stages that fire, and of fusing and finishing if any
    does, from the full pass over the frame, without those of clocks.
    """

    output: Promise
    record: Record


class Recording:
    """A recording to which frames are added one by one: ``net`` runs whole on each, and the values in ``keep`` are stored.

    ``keep``: see ``needs``. ``frames``: those so far. Values are on disk beyond 64 MB. ``UsageError`` for values that aren't
    arrays or dicts of arrays, such as torch's tensors. ``warp(codec)`` also uses earlier frames; a refill within a clip drops
    these in a session, but not here.

    >>> from clockseg.clocks.rates import skip_frame
    >>> from clockseg.clockwork.network import Stage
    >>> net = StagedNetwork("one", (Stage("a", lambda image: image + 1),))
    >>> recording = Recording(net, needs(net, [skip_frame(2)], outputs=True))
    >>> for level in range(3):
    ...     output = recording.add(np.full(2, level))
    >>> [played.output.value.tolist() for played in recording.play(skip_frame(2))]
    [[1, 1], [1, 1], [3, 3]]
    """

    def __init__(self, net: StagedNetwork, keep: Iterable[Key]) -> None:
        self.net, self.keep, self.store = net, frozenset(keep), Store()
        self.frames: list[Recorded] = []
        self._seen: dict[Estimator, Sight] = {}
        self._motions: set[Any] = {key for key in self.keep if isinstance(key, tuple) and key[0] == "motion"}

    def __len__(self) -> int:
        return len(self.frames)

    def add(self, image: Any, *, vectors: Any = None, first: bool = False) -> Any:
        """Add a frame, and return its output; ``first``: it begins a clip, as a frame of another size always does.

        ``image``: uint8 RGB [h, w, 3], or what a decoder gave and becomes that as an array: motion is then estimated on its luma.
        """
        first = first or not self.frames or self.frames[-1].shape != np.shape(image)
        own = np.asarray(image)
        output, memory = fill(self.net, frame_oracle(len(self.net)), own)
        places = {key: self._put(self._value(key, memory, own)) for key in self.keep - self._motions}
        self._see(image, vectors, places, first)
        self.frames.append(Recorded(np.shape(image), first, memory.record.seconds, places))
        return output

    def _value(self, key: Any, memory: Memory, image: Image) -> Value:
        if key == PICTURE:
            return np.asarray(image)
        if key == "output":
            return memory.finished.output.value
        if key == "fused":
            return self.net.fused(memory.finished.value.value)
        if not isinstance(key, Watch):
            return memory.stages[key[1]].held.value
        stage, cell = self.net.stages[key.stage - 1], memory.stages[key.stage - 1]
        if key.of == "features" or stage.scores is None:
            return np.asarray(stage.features(cell.trunk.value))
        scores = stage.scores(cell.held.value)
        return labels(scores) if key.of == "labels" else np.asarray(scores)

    def _see(self, image: Any, vectors: Any, places: dict[Any, int], first: bool) -> None:
        """Store each estimator's data for the frame, and the motion since the previous one."""
        prepare = cache(partial(self.net.prepare, np.asarray(image)))
        for _, estimator in self._motions:
            sight = Warp(estimator).see(prepare, image, vectors)
            places["sight", estimator] = self.store.add(replace(sight, vectors=None))
            if not first:
                found = estimator.observe(self._seen[estimator], sight)
                places["motion", estimator] = self.store.add(replace(found, then=_NOTHING, now=_NOTHING))
            self._seen[estimator] = sight

    def _put(self, value: Value) -> int:
        arrays = value.values() if isinstance(value, Mapping) else (value,)
        for array in arrays:
            if not isinstance(array, np.ndarray | np.generic):
                raise UsageError(
                    f"network {self.net.name!r} gives {type(array).__name__}, which can't be recorded; give one that runs in "
                    "openvino or onnxruntime, whose values are arrays."
                )
        return self.store.add(value)

    def look(self, key: Any, index: int) -> Value:
        """Return what is stored under ``key`` for frame ``index``; ``UsageError`` if nothing is."""
        place = self.frames[index].places.get(key)
        return self.refuse(key, index) if place is None else self.store[place]

    def refuse(self, key: Any, index: int) -> NoReturn:
        """Raise ``UsageError`` for a value that no clock of the schedule declares."""
        way_out = "it in watches(stage)" if isinstance(key, Watch) else "not_replayable, the reason why it can't be"
        raise UsageError(
            f"{_told(key)} of frame {index} wasn't recorded; a clock that reads it must declare {way_out}."
        )

    def motion(self, estimator: Estimator, index: int) -> Motion:
        """Return the motion by ``estimator`` from the frame before ``index`` to it."""
        found: Motion = self.look(("motion", estimator), index)
        then, now = (self.look(("sight", estimator), at) for at in (index - 1, index))
        return replace(found, then=then, now=now)

    def play(self, schedule: ScheduleLike, *, refills: Container[int] = ()) -> Iterator[Played]:
        """Return what a ``Session`` under ``schedule``, reset at the start of clips, gives for each frame; no stage is run.

        ``refills``: the frames before which ``Session.refill`` is called.
        ``UsageError`` if it can't be replayed, or needs a value that wasn't recorded.
        """
        made = schedule_for(schedule, len(self.net))
        needed = needs(self.net, [made], outputs="output" in self.keep)
        if missing := needed - self.keep:
            raise UsageError(
                f"the schedule needs {', '.join(sorted(map(_told, missing)))}, which wasn't recorded; record with "
                "keep=needs(net, [schedule])."
            )
        return self._played(made, refills, pictures=PICTURE in needed)

    def _played(self, schedule: Schedule, refills: Container[int], *, pictures: bool) -> Iterator[Played]:
        executor, memory = Replay(self, schedule.carry), None
        for index, frame in enumerate(self.frames):
            before: Memory | None = None if frame.first else memory
            if before is not None and index in refills:
                before = before.emptied(before.stages)
            _, memory = step(self.net, schedule, before, Shot(self, index, declared=pictures), executor=executor)
            full, fired = frame.seconds, memory.record.fired
            spent = Seconds(tuple(one if fires else 0.0 for one, fires in zip(full.stages, fired, strict=True)))
            if any(fired):
                spent = replace(spent, fuse=full.fuse, finish=full.finish)
            yield Played(memory.output.value, memory.record._replace(seconds=spent))


def _told(key: Any) -> str:
    if isinstance(key, Watch):
        return "the picture" if key == PICTURE else f"the {key.of} of stage {key.stage}"
    if isinstance(key, str):
        return f"the value {key!r}"
    return f"the {key[0]} value of stage {key[1] + 1}" if isinstance(key[1], int) else f"the {key[0]} by {key[1]}"


def record(net: StagedNetwork, images: Iterable[Image], *, keep: Iterable[Key] | None = None) -> Recording:
    """Run every stage once on all frames of a clip, and record the maps in ``keep``.

    ``keep``: ``Watch("labels", n)`` of stage n (a byte per cell), its "scores" or "features", ``PICTURE``; ``needs`` returns
    those of schedules. By default the label maps of every stage with a score map, which change clocks watch: a few kB per
    frame; scores and features take hundreds of kB, pictures MBs (on disk beyond 64 MB in all).

    >>> from clockseg.clockwork.network import Stage
    >>> light = Stage("light", lambda image: np.stack([128.0 - image, image])[None])
    >>> recording = record(StagedNetwork("one", (light,)), [np.uint8([[9, 200]])])
    >>> recording.look(Watch("labels", 1), 0).tolist()
    [[[0, 1]]]
    """
    scored = [Watch("labels", n) for n, stage in enumerate(net.stages, start=1) if stage.scores is not None]
    kept = frozenset[Key](scored if keep is None else keep)
    for watch in kept:
        _check_keep(net, watch)
    recording = Recording(net, kept)
    for image in images:
        if not len(recording) or recording.frames[-1].shape != np.shape(image):
            # Engines compile for this size before anything is timed.
            fill(net, frame_oracle(len(net)), image)
        recording.add(image)
    return recording


def _check_keep(net: StagedNetwork, watch: Any) -> None:
    if not isinstance(watch, Watch) or watch == PICTURE:
        return
    if watch.of not in ("labels", "scores", "features") or not 1 <= watch.stage <= len(net):
        raise UsageError(
            f"{watch} can't be recorded of network {net.name!r}; give the labels, scores or features of a stage, "
            f"1 to {len(net)}, or PICTURE."
        )
    if watch.of != "features" and net.stages[watch.stage - 1].scores is None:
        raise UsageError(
            f"network {net.name!r} has no class scores at stage {watch.stage} ({net.stages[watch.stage - 1].name}); "
            "keep its features."
        )


def replay(recording: Recording, schedule: ScheduleLike) -> Iterator[Record]:
    """Return the record of each frame, with the firings and signals of a ``Session`` under ``schedule``.

    ``seconds`` is an estimate (``Played``). ``UsageError`` if the schedule can't be replayed, or needs a value that wasn't
    recorded.

    >>> from clockseg.clocks.rates import alternating
    >>> from clockseg.clockwork.network import Stage
    >>> stages = tuple(Stage(name, lambda image: image, scores=None) for name in "ab")
    >>> recording = record(StagedNetwork("two", stages), [np.uint8([1])] * 3)
    >>> [one.fired for one in replay(recording, alternating)]
    [(True, True), (True, False), (True, True)]
    """
    return (played.record for played in recording.play(schedule))
