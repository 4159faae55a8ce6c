"""The parts of a staged network, and what each costs on this machine."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from clockseg.clocks.rates import skip_frame
from clockseg.clockwork.carry import Carry
from clockseg.clockwork.network import Part, StagedNetwork
from clockseg.clockwork.schedule import carried
from clockseg.clockwork.session import Session
from clockseg.engines import engine as by_name
from clockseg.engines import timed
from clockseg.errors import NetworkError
from clockseg.execution.machine import threads_or_all
from clockseg.graph.cost import Cost, price
from clockseg.graph.part import GraphPart, Tensors, tensors
from clockseg.networks.checking import noise, picture
from clockseg.networks.load import WorkingSize, load
from clockseg.types import Image, Size

EVERY, WHOLE = "every stage", "whole"
"""What ``part_seconds`` calls all parts together, and the uncut network."""
WORTH = 0.5
"""Of the uncut network's time: what a frame on which only stage 1 fires may take for clocks on stages to be worth trying."""


@dataclass(frozen=True)
class Inspected:
    """One part: what it reads and gives (tensor -> shape), its cost, and its time here.

    ``cut`` is what it passes along the trunk and ``held`` what the session keeps of it, ``held_bytes`` in memory;
    ``share`` is its part of the seconds of all parts (None for the whole, which isn't one of them).
    """

    name: str
    kind: str
    reads: tuple[str, ...]
    cut: dict[str, tuple[int, ...]]
    held: dict[str, tuple[int, ...]]
    held_bytes: int
    parameters: int
    multiply_adds: int
    seconds: float
    share: float | None


@dataclass(frozen=True)
class Inspection:
    """A network, its parts in the order they run, and the uncut network beside them.

    ``staged_seconds`` / ``whole.seconds`` is what it costs to run in parts when every stage fires. ``correction``: what makes
    the output of moved scores on other frames, if the network has such a thing.
    """

    network: str
    size: Size
    engine: str
    precision: str
    threads: int
    classes: tuple[str, ...]
    schedule: str | None
    parts: tuple[Inspected, ...]
    whole: Inspected
    staged_seconds: float
    correction: Inspected | None = None

    @property
    def held_share(self) -> float | None:
        """The time of a frame on which only stage 1 fires, over the uncut network's; None for a network of one stage."""
        return sum(part.seconds for part in self.held) / self.whole.seconds if self.held else None

    @property
    def held(self) -> list[Inspected]:
        """Return the parts that run on a frame on which only stage 1 fires; none of a network of one stage."""
        if sum(part.kind == "stage" for part in self.parts) < 2:
            return []
        fresh = {self.parts[0].name}
        for part in self.parts:
            if part.kind == "finish" or (part.kind == "group" and not fresh.isdisjoint(part.reads)):
                fresh.add(part.name)
        return [part for part in self.parts if part.name in fresh]

    @property
    def warning(self) -> str | None:
        """A sentence where clocks on stages save little, because most of the time goes into frames on which they hold."""
        share = self.held_share
        if share is None or share <= WORTH:
            return None
        return (
            f"A clock on stages saves little in this network: a frame on which only stage 1 fires still takes {share:.0%} of "
            "the uncut network's time. Schedules that run the whole network or nothing save more."
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain values for ``json.dumps``."""
        return asdict(self)


def inspect(
    network: str | Path,
    *,
    engine: str = "auto",
    precision: str = "f32",
    threads: int | None = None,
    size: WorkingSize | None = None,
    repeat: int = 30,
) -> Inspection:
    """Load ``network``, run it ``repeat`` times in parts and whole by turns, and report the results.

    Seconds are medians over the runs, of a frame of noise at the network's working size.
    """
    graph = load(network, engine=None, size=size)
    image = noise((graph.sidecar.input.width, graph.sidecar.input.height))
    height, width = graph.prepare(image)["image"].shape[1:3]
    running = by_name(engine, precision=precision, threads=threads)(graph)
    frame = running.prepare(image)
    [seconds] = part_seconds([running], [frame], repeat)
    values = run_parts(running, frame)
    total = sum(value for name, value in seconds.items() if name not in (EVERY, WHOLE))
    table = _Table(graph, (width, height), values, seconds, total)
    said = graph.sidecar
    return Inspection(
        graph.name,
        (width, height),
        running.engine.removesuffix(f" {precision}"),
        precision,
        threads_or_all(threads),
        said.classes,
        said.schedule,
        table.parts(),
        table.row(WHOLE, WHOLE, graph.whole, (), None),
        seconds[EVERY],
        table.correction(_correcting(running, image, repeat)),
    )


def _correcting(net: StagedNetwork, image: Image, repeat: int) -> float:
    """Measure the correction, if there is one, on scores that weren't moved: seconds, the median over ``repeat`` runs."""
    if net.correction is None:
        return 0.0
    frame = net.prepare(image)
    values = run_parts(net, frame)
    fused = net.fused(values[net.last])
    height, width = next(iter(tensors(fused).values())).shape[-2:]
    unexplained = {"unexplained": np.zeros((1, 1, height, width), np.float32)}
    spent = []
    for _ in range(repeat + 1):
        start = time.perf_counter()
        net.correction(frame, fused, unexplained)
        spent.append(time.perf_counter() - start)
    return statistics.median(spent[1:])


def corrected_share(network: str | Path, carry: Carry, *, repeat: int = 9, **options: Any) -> float:
    """Return the time of a frame whose scores are moved and corrected, over the time of the uncut network.

    ``network`` has a correction; ``carry`` moves its scores, motion included. ``options``: as for ``load``. A median over
    ``repeat`` frames of a picture that shifts. Above 1, the correction makes the network slower.
    """
    net = load(network, **options)
    session = Session(net, carried(skip_frame(repeat + 2), carry))
    uncut, size = net.uncut(), net.sidecar.input
    wide = picture((size.width + repeat, size.height))
    shares = []
    for shift in range(repeat + 1):
        image = np.ascontiguousarray(wide[:, shift : shift + size.width])
        start = time.perf_counter()
        session(image)
        between = time.perf_counter()
        uncut(image)
        shares.append((between - start) / (time.perf_counter() - between))
    return statistics.median(shares[1:])


def part_seconds(nets: Sequence[StagedNetwork], frames: Sequence[Tensors], repeat: int) -> list[dict[str, float]]:
    """Measure each part of networks by turns on prepared frames; medians of ``repeat`` runs by the names of the parts.

    Under ``EVERY`` are the seconds of all parts of a run together, under ``WHOLE`` those of the uncut network, if there is one.
    """
    clocked = [timed(net) for net in nets]
    runs: list[list[dict[str, float]]] = [[] for _ in nets]
    for number in range(repeat + 1):
        frame = frames[number % len(frames)]
        for place in random.Random(number).sample(range(len(nets)), len(nets)):
            net, times = clocked[place]
            # Another network that ran in between leaves the processor's cache to itself: its turn begins with a warm-up.
            for _ in nets[:2]:
                times.clear()
                run_parts(net, frame)
                if net.whole is not None:
                    net.whole(frame)
            runs[place].append(_by_part(times.seconds))
    # The first run compiled.
    return [{name: statistics.median(run[name] for run in done[1:]) for name in done[0]} for done in runs]


def _by_part(seconds: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds of bodies and heads under their stage's name, then those of all parts and of the uncut network."""
    found: dict[str, float] = {}
    for key, spent in seconds.items():
        name = key.removesuffix(".body").removesuffix(".head")
        found[name] = found.get(name, 0.0) + spent
    whole = found.pop(WHOLE, 0.0)
    return found | {EVERY: sum(found.values()), WHOLE: whole}


def run_parts(net: StagedNetwork, frame: Tensors) -> dict[str, Tensors]:
    """Return each part's value for a prepared frame: bodies under ``STAGE.body``, cached values under the stage's name."""
    values: dict[str, Tensors] = {}
    trunk = frame
    for stage in net.stages:
        trunk = values[f"{stage.name}.body"] = stage.body(trunk)
        values[stage.name] = stage.head(trunk)
    for group in net.groups:
        values[group.name] = group.function(*(values[name] for name in group.reads))
    values["finish"] = net.finish(values[net.last])
    return values


def _cost(part: Part | None, size: Size) -> Cost:
    """Return the cost of a part; zero for a function, and where shapes depend on the frame, as behind suppression of boxes."""
    try:
        return price(part, size) if isinstance(part, GraphPart) else Cost()
    except NetworkError:
        return Cost()


@dataclass(frozen=True)
class _Table:
    graph: StagedNetwork
    size: Size
    values: dict[str, Tensors]
    seconds: dict[str, float]
    total: float

    def parts(self) -> tuple[Inspected, ...]:
        names = [stage.name for stage in self.graph.stages]
        before = ["frame", *names]
        stages = [
            self.row(stage.name, "stage", stage.body, (before[index],), self.graph.sidecar.cuts[index])
            for index, stage in enumerate(self.graph.stages)
        ]
        groups = [self.row(group.name, "group", group.function, group.reads, None) for group in self.graph.groups]
        return (*stages, *groups, self.row("finish", "finish", self.graph.finish, (self.graph.last,), None))

    def correction(self, seconds: float) -> Inspected | None:
        """Return the correction's row; it is no part of a full pass and has no share of its time."""
        found = self.graph.correction
        if found is None:
            return None
        made = self.row("correction", "correction", found, ("frame", "what is moved"), None)
        return replace(made, seconds=seconds, share=None)

    def row(
        self, name: str, kind: str, part: Part | None, reads: tuple[str, ...], cut: tuple[str, ...] | None
    ) -> Inspected:
        cost = _cost(part, self.size)
        seconds = self.seconds.get(name, 0.0)
        held = tensors(self.values.get(name, {}))
        trunk = self.values.get(f"{name}.body", {})
        return Inspected(
            name,
            kind,
            reads,
            {key: trunk[key].shape for key in cut or () if key in trunk},
            {key: array.shape for key, array in held.items()},
            sum(a.nbytes for a in held.values()),
            cost.parameters,
            cost.multiply_adds,
            seconds,
            None if kind == WHOLE else seconds / self.total,
        )
