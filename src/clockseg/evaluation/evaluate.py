"""Evaluation of schedules: accuracy against human labels, agreement with the uncut network, flicker, and cost.

The uncut network and every schedule process each frame before any of them sees the next one, in an order that is shuffled
from frame to frame: whatever else the machine does meanwhile affects all of them alike.
"""

from __future__ import annotations

import math
import random
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeAlias

from clockseg.clocks.rates import frame_oracle
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Schedule, ScheduleLike, check, schedule_for
from clockseg.datasets.clips import Clip
from clockseg.errors import UsageError
from clockseg.evaluation.cost import Meter
from clockseg.evaluation.flicker import Flickers, flicker_facts
from clockseg.evaluation.labels import checked_labels, class_names, scored_classes
from clockseg.evaluation.metrics import Confusion, Deviation, band_kind, boundary_band, confusion, deviation, finite
from clockseg.evaluation.tally import Progress, Tally
from clockseg.showing.kind import checked_values, kind_of
from clockseg.showing.stream import Shown, Stream, stream
from clockseg.types import Array
from clockseg.video.clip import Frame
from clockseg.video.colour import rgb

Schedules: TypeAlias = Mapping[str, ScheduleLike] | Sequence[tuple[str, ScheduleLike]]
"""Schedules by name; pairs where a name may occur twice."""
Baselines: TypeAlias = Sequence[tuple[str, StagedNetwork] | tuple[str, StagedNetwork, ScheduleLike]]
"""Other networks by name: each runs uncut on every frame, or under the schedule given with it."""
Way: TypeAlias = tuple[str, StagedNetwork, Schedule]
"""A network under a schedule, and its name."""


@dataclass(frozen=True)
class Evaluation:
    """Scores and costs of one schedule; addable. Scores are 0..1, NaN or None where there is nothing to score.

    ``scores``: against human labels, on labelled frames; ``boundary``: the same near boundaries;
    ``agreement``: with the uncut network's labels, on all frames; ``oracle``: the uncut network's own ``scores``;
    ``deviation``: from the output of an uncut network that gives numbers, which has no ``classes`` and none of the former.
    ``flickers`` and ``uncut_flickers``: outputs against those of the frame before, warped to this one
    (``clockseg.evaluation.flicker``). ``tally`` and ``uncut``: firings and seconds of the schedule and of the uncut network;
    ``multiply_adds`` and ``uncut_multiply_adds``: on the frames after each clip's first, NaN if a part is not a graph.
    """

    schedule: str
    carry: str
    classes: tuple[str, ...]
    scores: Confusion
    boundary: Confusion
    agreement: Confusion
    oracle: Confusion
    tally: Tally
    uncut: Tally
    multiply_adds: float = 0
    uncut_multiply_adds: float = 0
    flickers: Confusion | Deviation = field(default_factory=lambda: Confusion.none(0))
    uncut_flickers: Confusion | Deviation = field(default_factory=lambda: Confusion.none(0))
    deviation: Deviation = field(default_factory=Deviation)

    def __add__(self, other: Evaluation) -> Evaluation:
        same = ("schedule", "carry", "classes")
        mine, theirs = ([getattr(one, name) for name in same] for one in (self, other))
        if mine != theirs:
            raise UsageError(f"evaluations of {mine} and {theirs} can't be added: give the same {', '.join(same)}.")
        sums = {one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(self)}
        return replace(self, **{name: total for name, total in sums.items() if name not in same})

    @property
    def kept(self) -> float | None:
        """Share of the uncut network's mIoU that the schedule keeps; None without labels."""
        return finite(self.scores.mean_iu / self.oracle.mean_iu if self.oracle.mean_iu else math.nan)

    @property
    def relative_time(self) -> float | None:
        """Seconds as a share of the uncut network's, both without each clip's first frame; None if there are none."""
        return self.tally.seconds / self.uncut.seconds if self.uncut.seconds else None

    @property
    def multiply_adds_per_frame(self) -> float | None:
        """Mean multiply-adds of the frames after each clip's first; None without any, and if a part is not a graph."""
        return finite(self.multiply_adds / self.tally.later) if self.tally.later else None

    @property
    def relative_multiply_adds(self) -> float | None:
        """Multiply-adds as a share of the uncut network's; None if a part is not a graph."""
        return finite(self.multiply_adds / self.uncut_multiply_adds) if self.uncut_multiply_adds else None

    def facts(self) -> dict[str, Any]:
        """Return what ``clockseg evaluate --json`` prints: plain values, None where there is nothing to score."""
        return {
            "schedule": self.schedule,
            "carry": self.carry,
            **(self._label_facts() if self.classes else {"agreement": self.deviation.facts()}),
            "flicker": flicker_facts(self.flickers),
            "uncut_flicker": flicker_facts(self.uncut_flickers),
            "fire_rate": self.tally.fire_rate,
            "network_rate": self.tally.network_rate,
            "seconds_per_frame": self.tally.seconds_per_frame,
            "relative_time": self.relative_time,
            "multiply_adds_per_frame": self.multiply_adds_per_frame,
            "relative_multiply_adds": self.relative_multiply_adds,
        }

    def _label_facts(self) -> dict[str, Any]:
        def scores(of: Confusion, *names: str) -> dict[str, float | None]:
            return {name: finite(getattr(of, name)) for name in names}

        agreement = {"mean_iu": finite(self.agreement.mean_iu_of()), **scores(self.agreement, "fw_iu", "pixel_acc")}
        return {
            **scores(self.scores, "mean_iu", "fw_iu", "pixel_acc", "mean_acc"),
            "iu": {name: finite(value) for name, value in zip(self.classes, self.scores.iu.tolist(), strict=True)},
            "boundary": scores(self.boundary, "mean_iu", "fw_iu") if self.boundary.pixels else None,
            "agreement": agreement,
        }


def evaluate(
    net: StagedNetwork,
    schedules: Schedules,
    clips: Iterable[Clip],
    *,
    classes: Sequence[str] | None = None,
    baselines: Baselines = (),
    progress: Callable[[Progress], None] | None = None,
    warn: Callable[[str], None] = warnings.warn,
) -> tuple[Evaluation, ...]:
    """Evaluate each schedule over all clips and return one ``Evaluation`` each, in the order given.

    ``classes``: the network's class names in the order of its ids (default: its sidecar's; without
    classes, outputs are compared as numbers, and labels are not used). Clips with labels must have the same classes, else
    ``DataError``; classes that only the network has (``Classes.others``) are mapped to the data set's ids before scoring.
    ``baselines``: other networks with the same classes, reported after the schedules. Each clip has its own sessions. ``warn``
    receives a sentence about anything that could not be decoded. ``VideoError`` if a clip can't be read; to continue with the
    others, evaluate clip by clip and add the results.

    >>> from clockseg.clockwork.network import Stage
    >>> net = StagedNetwork("one", (Stage("a", lambda image: image[..., 0] // 128),))
    >>> evaluate(net, {"every frame": frame_oracle}, [], classes=["dark", "light"])[0].facts()["mean_iu"] is None
    True
    """
    others = [(name, other) for name, other, *_ in baselines]
    names = () if classes is None and kind_of(net) == "values" else class_names(net, classes, others)
    pairs = list(schedules.items()) if isinstance(schedules, Mapping) else list(schedules)
    ways = [(name, net, schedule_for(schedule, len(net))) for name, schedule in pairs]
    for name, other, *given in baselines:
        each, schedule = (other, given[0]) if given else (other.uncut(), frame_oracle)
        ways.append((name, each, schedule_for(schedule, len(each))))
    for _, each, schedule in ways:
        check(each, schedule)

    totals: list[Evaluation] = []
    for clip in clips:
        scorer = _Scorer(net, ways, names, clip)
        scorer.run(clip, progress, warn)
        found = scorer.results()
        totals = [total + one for total, one in zip(totals, found, strict=True)] if totals else found
    return tuple(totals or _Scorer(net, ways, names).results())


class Lane:
    """A stream, and the sums of what it has done.

    ``tally``: firings and seconds; ``multiply_adds``: of the frames after the first, NaN if a part is not a graph;
    ``waiting``: frames with their outputs that other streams have not done yet.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream, self.tally, self.multiply_adds = stream, Tally(stream.net.names), 0.0
        self.waiting = deque[tuple[Frame, Any]]()
        self._meter = Meter(stream.net)

    def take(self, shown: Sequence[Shown]) -> None:
        """Count the frames that the stream has done."""
        for frame, output, record in shown:
            first = self.tally.frames == 0
            self.tally = self.tally.add(record, first=first)
            if not first:
                prices = self._meter.prices(frame.picture)
                self.multiply_adds += math.nan if prices is None else prices.frame(record)
            self.waiting.append((frame, output))


class Interleaving:
    """One clip through the uncut ``net`` and ``streams``, which have their ``lanes`` in that order."""

    def __init__(self, net: StagedNetwork, streams: Sequence[Stream]) -> None:
        self.lanes = [Lane(one) for one in (stream(net.uncut(), frame_oracle), *streams)]

    def __call__(self, frames: Iterable[Frame]) -> Iterator[tuple[Frame, list[Any]]]:
        """Run the frames, and yield each that is done in all streams, with all outputs for it."""
        for number, frame in enumerate(frames):
            # A decoded picture is converted once, and not on the time of whichever stream is the first to read it.
            rgb(frame.picture)
            # The order matters to caches. A shuffle, not a rotation: a rotation would fall in step with fixed periods.
            for lane in random.Random(number).sample(self.lanes, len(self.lanes)):
                seen = lane.stream.see(frame.picture, vectors=frame.vectors, item=frame)
                # Compiling for a frame of a new size is not part of what is timed.
                lane.stream.compile(seen)
                lane.take(lane.stream.run(seen))
            yield from self._ready()
        for lane in self.lanes:
            lane.take(lane.stream.end())
        yield from self._ready()

    def _ready(self) -> Iterator[tuple[Frame, list[Any]]]:
        while all(lane.waiting for lane in self.lanes):
            row = [lane.waiting.popleft() for lane in self.lanes]
            yield row[0][0], [output for _, output in row]


class _Scorer:
    """Runs one clip (None: no frames) under every schedule beside the uncut network, and sums the scores of the outputs."""

    def __init__(
        self, net: StagedNetwork, ways: Sequence[Way], classes: tuple[str, ...], clip: Clip | None = None
    ) -> None:
        self._names = [name for name, *_ in ways]
        self._runs = Interleaving(net, [stream(each, schedule) for _, each, schedule in ways])
        self._classes, self._lookup = classes, None
        if clip is not None and classes:
            self._classes, self._lookup = scored_classes(clip, classes, net)
        self._labelling = None if clip is None else clip.classes
        count = len(self._classes)
        self._flickers = Flickers(1 + len(ways), count or None)
        self._oracle = none = Confusion.none(count)
        start = {"scores": none, "boundary": none, "agreement": none, "deviation": Deviation()}
        self._sums: list[dict[str, Any]] = [dict(start) for _ in ways]

    def run(self, clip: Clip, progress: Callable[[Progress], None] | None, warn: Callable[[str], None]) -> None:
        """Run and score all frames."""
        expected = clip.expected()
        # Decoding and networks take turns: a thread that decodes ahead would take time from what is timed.
        vectors = any(lane.stream.schedule.carry.reads_vectors for lane in self._runs.lanes)
        frames = clip.frames(problem=warn, vectors=vectors)
        see = self._see_labels if self._classes else self._see_numbers
        for done, (frame, outputs) in enumerate(self._runs(frames), start=1):
            see(frame, outputs)
            if progress is not None:
                progress(Progress(clip.name, done, expected, self._runs.lanes[-len(self._names)].tally))

    def _see_numbers(self, frame: Frame, outputs: Sequence[Any]) -> None:
        height, width = frame.picture.shape[:2]
        nets = [lane.stream.net for lane in self._runs.lanes]
        truth, *values = (checked_values(*one, (width, height)) for one in zip(outputs, nets, strict=True))
        for name, sums, shown in zip(self._names, self._sums, values, strict=True):
            if shown.shape != truth.shape:
                raise UsageError(
                    f"{name} gives {list(shown.shape)}, network {nets[0].name!r} {list(truth.shape)}; "
                    "give baselines whose output is of the same shape."
                )
            sums["deviation"] += deviation(shown, truth)
        self._flickers.see(frame.image, [truth, *values])

    def _see_labels(self, frame: Frame, outputs: Sequence[Any]) -> None:
        nets = [lane.stream.net for lane in self._runs.lanes]
        checked = (checked_labels(*one, frame) for one in zip(outputs, nets, strict=True))
        uncut, *shown = checked if self._lookup is None else (self._lookup[labels] for labels in checked)
        count, truth, known = len(self._classes), frame.labels, self._labelling
        wanted: dict[str, tuple[Array, Array | None]] = {"agreement": (uncut, None)}
        if truth is not None:
            self._oracle += confusion(truth, uncut, count)
            wanted["scores"] = truth, None
        if truth is not None and known is not None:
            wanted["boundary"] = truth, boundary_band(truth, kind=band_kind(known.names), ignore=known.ignore)
        for sums, labels in zip(self._sums, shown, strict=True):
            for score, (reference, where) in wanted.items():
                sums[score] += confusion(reference, labels, count, where=where)
        self._flickers.see(frame.image, [uncut, *shown])

    def results(self) -> list[Evaluation]:
        """Return one evaluation per schedule."""
        (uncut, *lanes), (uncut_flickers, *flickers) = self._runs.lanes, self._flickers.counted
        return [
            Evaluation(
                name,
                str(lane.stream.schedule.carry),
                self._classes,
                **sums,
                oracle=self._oracle,
                tally=lane.tally,
                uncut=uncut.tally,
                multiply_adds=lane.multiply_adds,
                uncut_multiply_adds=uncut.multiply_adds,
                flickers=flicker,
                uncut_flickers=uncut_flickers,
            )
            for name, lane, sums, flicker in zip(self._names, lanes, self._sums, flickers, strict=True)
        ]
