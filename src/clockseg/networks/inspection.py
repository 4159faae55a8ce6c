"""The parts of a staged network, and what each costs on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

from clockseg.clockwork.network import Part, StagedNetwork
from clockseg.engines import engine as by_name
from clockseg.errors import NetworkError
from clockseg.evaluation.cost import CORRECTION, EVERY, WHOLE, part_seconds
from clockseg.execution.machine import threads_or_all
from clockseg.graph.cost import Cost, price
from clockseg.graph.part import GraphPart, Tensors, tensors
from clockseg.networks.checking import noise
from clockseg.networks.load import WorkingSize, load
from clockseg.types import Image, Size

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
    said = graph.sidecar
    image = noise((said.input.width, said.input.height))
    running = by_name(engine, precision=precision, threads=threads)(graph)
    frame = running.prepare(image)
    height, width = frame["image"].shape[1:3]
    [seconds] = part_seconds([running], [frame], repeat)
    values = _values(running, image)

    def row(name: str, kind: str, part: Part, reads: Sequence[str], cut: Sequence[str] = ()) -> Inspected:
        cost = _cost(part, (width, height))
        held = tensors(values.get(f"{name}.head", values.get(name, {})))
        trunk = values.get(f"{name}.body", {})
        return Inspected(
            name,
            kind,
            tuple(reads),
            {key: trunk[key].shape for key in cut if key in trunk},
            {key: array.shape for key, array in held.items()},
            sum(array.nbytes for array in held.values()),
            cost.parameters,
            cost.multiply_adds,
            seconds.get(name, 0.0),
            None,
        )

    before = ("frame", *graph.names)
    stages = zip(graph.stages, before, said.cuts, strict=False)
    parts = [row(stage.name, "stage", stage.body, [reads], cut) for stage, reads, cut in stages]
    parts += [row(group.name, "group", group.function, group.reads) for group in graph.groups]
    parts.append(row("finish", "finish", graph.finish, [graph.last]))
    total = sum(part.seconds for part in parts)
    return Inspection(
        graph.name,
        (width, height),
        running.engine.removesuffix(f" {precision}"),
        precision,
        threads_or_all(threads),
        said.classes,
        said.schedule,
        tuple(replace(part, share=part.seconds / total) for part in parts),
        row(WHOLE, WHOLE, cast(Part, graph.whole), []),
        seconds[EVERY],
        row(CORRECTION, CORRECTION, graph.correction, ["frame", "what is moved"]) if graph.correction else None,
    )


def _values(net: StagedNetwork, image: Image) -> dict[str, Tensors]:
    """Return each part's value for a frame, by the names of ``StagedNetwork.map``."""
    values: dict[str, Tensors] = {}

    def kept(name: str, part: Part) -> Part:
        def call(*given: Tensors) -> Tensors:
            values[name] = part(*given)
            return values[name]

        return call

    net.map(kept)(image)
    return values


def _cost(part: Part, size: Size) -> Cost:
    """Return the cost of a part; zero for a function, and where shapes depend on the frame, as behind suppression of boxes."""
    try:
        return price(part, size) if isinstance(part, GraphPart) else Cost()
    except NetworkError:
        return Cost()
