"""A recording of the maps that clocks watch, for trying schedules without running the network again.

A stage that fires computes the oracle's value of the frame that it reflects, since its body reads only the stage before it.
So everything that a clock can watch is in a recording of the frame oracle, and ``replay`` decides exactly as a ``Session``
would: it is a session of a network whose stages look their values up. That holds for every schedule with the carry
identity, nested or not, delayed or not, whose clocks read recorded maps only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from clockseg.clocks import PICTURE, Clock, Watch
from clockseg.clocks.maps import labels
from clockseg.clockwork.carry import identity
from clockseg.clockwork.clock import facts, own_watches, walk
from clockseg.clockwork.network import Stage, StagedNetwork, same
from clockseg.clockwork.schedule import Named, Schedule, frame_oracle, schedule_for
from clockseg.clockwork.session import Session
from clockseg.clockwork.step import Memory, fill
from clockseg.clockwork.trace import Record, Seconds
from clockseg.clockwork.watching import check, check_replayable
from clockseg.errors import UsageError
from clockseg.execution.replay import Replayed
from clockseg.execution.store import Place, Store
from clockseg.types import Array, Image


def label_map(stage: int) -> Watch:
    """Return the watch of the label map of a stage (1 is the first), for ``record(keep=..)``: one byte per cell.

    >>> label_map(2)
    Watch(of='labels', stage=2)
    """
    return Watch("labels", stage)


def needs(schedule: Schedule) -> frozenset[Watch]:
    """Return the maps to record for replaying ``schedule``; ``UsageError`` with the reason if it can't be replayed.

    Changes need label maps; differences and confidence the scores or features they watch, or the pictures.

    >>> from clockseg.clocks import adaptive
    >>> needs(schedule_for(adaptive(0.25), 3))
    frozenset({Watch(of='labels', stage=2)})
    """
    if schedule.carry != identity:
        raise UsageError(
            f"carry {schedule.carry} can't be replayed: clocks watch moved values, which aren't recorded. "
            "Use the carry identity, or a clockseg.execution.tape.Tape, which stores the values that a carry moves."
        )
    found: set[Watch] = set()
    for number, clock in enumerate(schedule.clocks, start=1):
        check_replayable(clock, number)
        for part in walk(clock):
            found |= _needs(part, number)
    return frozenset(found)


def _needs(clock: Clock, number: int) -> frozenset[Watch]:
    watched = own_watches(clock, number)
    if facts(clock).labels_suffice:
        return frozenset(label_map(watch.stage) if watch.of == "scores" else watch for watch in watched)
    return watched


class _Recorded(NamedTuple):
    """One frame: the shape of its picture, the seconds of its full pass, and the places of its maps."""

    shape: tuple[int, ...]
    seconds: Seconds
    places: tuple[Place, ...]


@dataclass(frozen=True, eq=False)
class Recording:
    """The maps that clocks watch and the seconds of every stage, for each frame; made by ``record``.

    ``stages``: their names; ``scored``: the numbers of those with a score map; ``kept``: the recorded maps, in order;
    ``sidecar``: the network's, which names classes. A slice, such as ``recording[:125]``, is a recording of those frames, the
    first of which is a fill; it shares the memory.
    """

    network: str
    stages: tuple[str, ...]
    scored: frozenset[int]
    kept: tuple[Watch, ...]
    frames: tuple[_Recorded, ...]
    store: Store
    sidecar: Any = None

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self.frames)

    def __getitem__(self, frames: slice) -> Recording:
        if not isinstance(frames, slice) or frames.step not in (None, 1):
            raise UsageError(f"recording[{frames!r}]; give a run of frames, such as recording[:125].")
        return replace(self, frames=self.frames[frames])

    def look(self, watch: Watch, index: int) -> Array:
        """Return the map ``watch`` of frame ``index``; ``UsageError`` if it wasn't recorded."""
        if watch not in self.kept:
            raise UsageError(
                f"{_told(watch)} of frame {index} wasn't recorded; a clock that reads it must declare it: watches(stage)."
            )
        return self.store[self.frames[index].places[self.kept.index(watch)]]

    def seconds(self, index: int) -> Seconds:
        """Return the seconds of the full pass over frame ``index``."""
        return self.frames[index].seconds


def record(net: StagedNetwork, images: Iterable[Image], *, keep: Iterable[Watch] | None = None) -> Recording:
    """Run every stage once on all frames of a clip, and record the maps in ``keep``.

    ``keep``: ``label_map(n)``, ``Watch("scores", n)``, ``Watch("features", n)`` of stage n, ``PICTURE``; ``needs(schedule)``
    returns those of a schedule. By default the label maps of every stage with a score map, which change clocks watch: a few
    kB per frame; scores and features take hundreds of kB, pictures MBs (on disk beyond 64 MB in all).

    >>> light = Stage("light", lambda image: np.stack([128.0 - image, image])[None])
    >>> recording = record(StagedNetwork("one", (light,)), [np.uint8([[9, 200]])])
    >>> recording.look(label_map(1), 0).tolist()
    [[[0, 1]]]
    """
    scored = frozenset(number for number, stage in enumerate(net.stages, start=1) if stage.scores is not None)
    kept = tuple(sorted(map(label_map, scored) if keep is None else set(keep)))
    for watch in kept:
        _check_keep(net, watch, scored)
    store, frames, schedule = Store(), list[_Recorded](), frame_oracle(len(net))
    for image in images:
        if not frames or frames[-1].shape != np.shape(image):
            # Engines compile for this size before anything is timed.
            fill(net, schedule, image)
        _, memory = fill(net, schedule, image)
        places = tuple(store.add(_looked_at(net, memory, watch, image)) for watch in kept)
        frames.append(_Recorded(np.shape(image), memory.record.seconds, places))
    names = tuple(stage.name for stage in net.stages)
    return Recording(net.name, names, scored, kept, tuple(frames), store, net.sidecar)


def _check_keep(net: StagedNetwork, watch: Watch, scored: frozenset[int]) -> None:
    if watch == PICTURE:
        return
    if watch.of not in ("labels", "scores", "features") or not 1 <= watch.stage <= len(net):
        raise UsageError(
            f"{watch} can't be recorded of network {net.name!r}; give the labels, scores or features of a stage, "
            f"1 to {len(net)}, or PICTURE."
        )
    if watch.of != "features" and watch.stage not in scored:
        raise UsageError(
            f"network {net.name!r} has no class scores at stage {watch.stage} ({net.stages[watch.stage - 1].name}); "
            "keep its features."
        )


def _looked_at(net: StagedNetwork, memory: Memory, watch: Watch, image: Image) -> Array:
    if watch == PICTURE:
        return np.asarray(image)
    stage, kept = net.stages[watch.stage - 1], memory.stages[watch.stage - 1]
    if watch.of == "features" or stage.scores is None:
        return np.asarray(stage.features(kept.trunk.value))
    scores = stage.scores(kept.held.value)
    return labels(scores) if watch.of == "labels" else np.asarray(scores)


@dataclass(frozen=True)
class _Frame:
    """A frame of a recording, in place of its picture and of the value of every stage."""

    recording: Recording
    index: int

    @property
    def shape(self) -> tuple[int, ...]:
        return self.recording.frames[self.index].shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self.recording.look(PICTURE, self.index), dtype)


def replay(recording: Recording, schedule: Schedule | Named) -> Iterator[Record]:
    """Yield the record of each frame, with the firings and signals of a ``Session`` under ``schedule``.

    ``seconds`` is an estimate: the recorded seconds of the stages that fire, and of fusing and finishing if any does, without
    those of clocks. ``UsageError`` if the schedule can't be replayed, or watches a map that wasn't recorded.

    >>> from clockseg.clockwork.schedule import alternating
    >>> stages = tuple(Stage(name, lambda image: image, scores=None) for name in "ab")
    >>> recording = record(StagedNetwork("two", stages), [np.uint8([1])] * 3)
    >>> [one.fired for one in replay(recording, alternating)]
    [(True, True), (True, False), (True, True)]
    """
    made = schedule_for(schedule, len(recording.stages))
    wanted, net = needs(made), _stand_in(recording)
    check(net, made)
    missing = wanted - set(recording.kept)
    if missing:
        raise UsageError(
            f"the schedule watches {', '.join(map(_told, sorted(missing)))}, which wasn't recorded; "
            "record with keep=needs(schedule)."
        )
    return _replayed(recording, net, made)


def _told(watch: Watch) -> str:
    return "the picture" if watch == PICTURE else f"the {watch.of} of stage {watch.stage}"


def _replayed(recording: Recording, net: StagedNetwork, schedule: Schedule) -> Iterator[Record]:
    session = Session(net, replace(schedule, clocks=tuple(map(Replayed, schedule.clocks))))
    for index in range(len(recording)):
        session(_Frame(recording, index))
        yield session.record._replace(seconds=_estimated(recording.seconds(index), session.record.fired))


def _estimated(full: Seconds, fired: tuple[bool, ...]) -> Seconds:
    stages = tuple(spent if fires else 0.0 for spent, fires in zip(full.stages, fired, strict=True))
    return Seconds(stages, fuse=full.fuse, finish=full.finish) if any(fired) else Seconds(stages)


def _stand_in(recording: Recording) -> StagedNetwork:
    """Return a network whose trunks, heads and output are the frame, and whose score maps and features are looked up."""

    def looked_up(watch: Watch) -> Any:
        return lambda frame: recording.look(watch, frame.index)

    def scores(number: int) -> Any:
        if number not in recording.scored:
            return None
        whole = Watch("scores", number)
        # A change takes label maps as well as scores.
        return looked_up(whole if whole in recording.kept else label_map(number))

    stages = tuple(
        Stage(name, scores=scores(number), body=same, features=looked_up(Watch("features", number)))
        for number, name in enumerate(recording.stages, start=1)
    )
    return StagedNetwork(recording.network, stages, sidecar=recording.sidecar)
