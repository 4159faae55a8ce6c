"""The cost of running a network: multiply-adds and seconds of its parts, and multiply-adds of the frames of a run.

``priced`` counts the multiply-adds of each part. A ``Record``, of a session or of a replayed recording, tells which stages fired. As in
a session, a group runs again if any of its inputs was computed again or moved.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any

import numpy as np

from clockseg import __version__
from clockseg.clocks.rates import frame_oracle
from clockseg.clockwork.network import Part, StagedNetwork, same
from clockseg.clockwork.step import fill
from clockseg.clockwork.trace import Record
from clockseg.engines.compiled import CompiledPart
from clockseg.errors import NetworkError, UsageError
from clockseg.execution.cache import add_note, read_notes
from clockseg.execution.timed import timed
from clockseg.graph.cost import price
from clockseg.graph.part import IMAGE, GraphPart, Pick
from clockseg.types import Size

FINISH = "finish"
PRICES = "multiply-adds.json"
"""The file in the cache folder that keeps the counts."""
EVERY, WHOLE = "every stage", "whole"
"""All parts of a frame on which every stage fires together, and the uncut network."""


@dataclass(frozen=True)
class Prices:
    """The multiply-adds of each part of a network at one working size.

    ``parts``: by name, of stages (bodies with their heads) and groups; ``finish``, which makes the output; ``whole``, the uncut
    network. ``stages``: their names; ``reads``:
    the values that each group reads; both in the order they run. ``size``: (WIDTH, HEIGHT).

    >>> from clockseg.clocks.rates import alternating
    >>> from clockseg import run
    >>> from clockseg.clockwork.network import Group, Stage, StagedNetwork
    >>> net = StagedNetwork("two", (Stage("a", str), Stage("b", str)), (Group("sum", ("a", "b"), str.__add__),))
    >>> prices = Prices({"a": 60, "b": 30, "sum": 10, "finish": 0}, ("a", "b"), {"sum": ("a", "b")})
    >>> [prices.frame(record) for _, record in run(net, "wxyz", alternating)]
    [100, 70, 100, 70]
    """

    parts: Mapping[str, int]
    stages: tuple[str, ...]
    reads: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    size: Size | None = None

    @property
    def full(self) -> int:
        """Multiply-adds of a frame on which every part runs."""
        return sum(self.parts[name] for name in (*self.stages, *self.reads, FINISH))

    @property
    def whole(self) -> int | None:
        """Multiply-adds of the uncut network, if there is one."""
        return self.parts.get(WHOLE)

    def ran(self, record: Record) -> tuple[str, ...]:
        """Return the names of the parts that ran at this frame, in order: stages, groups, and the part that made the output."""
        if len(record.fired) != len(self.stages):
            raise UsageError(
                f"a record of {len(record.fired)} stages, and prices of {len(self.stages)} ({', '.join(self.stages)}); "
                "give the prices of the network that ran."
            )
        fired = tuple(compress(self.stages, record.fired))
        if record.propagated:
            # Nothing is fused; moved labels are the output as they are.
            return fired
        changed = {*fired, *compress(self.stages, record.held_moved or ())}
        groups = []
        for name, reads in self.reads.items():
            if changed.intersection(reads):
                changed.add(name)
                groups.append(name)
        last = [*self.stages, *self.reads][-1]
        return (*fired, *groups, *([FINISH] if last in changed else []))

    def frame(self, record: Record) -> int:
        """Return the multiply-adds of this frame."""
        return sum(self.parts[name] for name in self.ran(record))


def priced(net: StagedNetwork, size: Size | None = None, *, setting: str = "") -> Prices:
    """Return the multiply-adds of each part of ``net``, compiled or not, at the working size ``size`` (WIDTH, HEIGHT).

    ``size``: by default that of a frame of the sidecar's size. ``setting``: a text that identifies the network's files, under
    which the counts are kept on disk; "": they are not kept. ``UsageError`` if a part is not a graph (a function, torch), so
    that its multiply-adds are unknown.

    >>> from clockseg.networks.load import load
    >>> prices = priced(load("street", engine=None))
    >>> prices.size, round(prices.full / 1e9, 2)
    ((480, 384), 1.47)
    """
    if size is None:
        if net.sidecar is None:
            raise UsageError(f"network {net.name!r} doesn't say at which size it works; give size=(WIDTH, HEIGHT).")
        frame = np.zeros((net.sidecar.input.height, net.sidecar.input.width, 3), np.uint8)
        size = _working(net.prepare(frame))
    found = _counted(net, size, setting)
    for name in net.names:
        found[name] = found.pop(f"{name}.body") + found.pop(f"{name}.head")
    return Prices(found, net.names, {group.name: group.reads for group in net.groups}, size)


def _counted(net: StagedNetwork, size: Size, setting: str) -> dict[str, int]:
    """Return the multiply-adds of each part by its name, from the disk if they were counted before."""
    parts = net.parts
    key = f"{__version__} {setting} {size[0]}x{size[1]}"
    kept = read_notes(PRICES).get(key) if setting else None
    if isinstance(kept, dict) and kept.keys() == parts.keys():
        with suppress(TypeError, ValueError):
            return {name: int(count) for name, count in kept.items()}
    found = {name: _price(name, part, size) for name, part in parts.items()}
    if setting:
        add_note(PRICES, key, found)
    return found


def _working(prepared: Any) -> Size:
    _, height, width, _ = prepared[IMAGE].shape
    return int(width), int(height)


def _price(name: str, part: Part, size: Size) -> int:
    graph = part.part if isinstance(part, CompiledPart) else part
    if isinstance(graph, GraphPart):
        return price(graph, size).multiply_adds
    if part is same or isinstance(part, Pick):
        return 0
    raise UsageError(f"part {name!r} isn't a graph, so its multiply-adds are unknown; give an ONNX network.")


def part_seconds(
    nets: Sequence[StagedNetwork], frames: Sequence[Mapping[str, Any]], repeat: int
) -> list[dict[str, float]]:
    """Measure each part of networks by turns on prepared frames; medians of ``repeat`` runs by the names of the parts.

    A stage's seconds are those of its body and its head. Under ``EVERY`` are those of all parts that run on a frame on which
    every stage fires, under ``WHOLE`` those of the uncut network. A network that is not compiled raises its own error.
    """
    clocked = [timed(replace(net, prepare=same, restore=same)) for net in nets]
    runs: list[list[dict[str, float]]] = [[] for _ in nets]
    for number in range(repeat + 1):
        frame = frames[number % len(frames)]
        for place in random.Random(number).sample(range(len(nets)), len(nets)):
            net, times = clocked[place]
            # Another network that ran in between leaves the processor's cache to itself: its turn begins with a warm-up.
            for _ in nets[:2]:
                times.clear()
                fill(net, frame_oracle(len(net)), frame)
                if net.whole is not None:
                    net.whole(frame)
            runs[place].append(_by_part(times.seconds))
    # The first run compiled.
    return [{name: statistics.median(run[name] for run in done[1:]) for name in done[0]} for done in runs]


def _by_part(seconds: Mapping[str, float]) -> dict[str, float]:
    found: dict[str, float] = {}
    for key, spent in seconds.items():
        name = key.removesuffix(".body").removesuffix(".head")
        found[name] = found.get(name, 0.0) + spent
    beside = {WHOLE: found.pop(WHOLE)} if WHOLE in found else {}
    return found | {EVERY: sum(found.values())} | beside


@dataclass
class Meter:
    """The prices of ``net`` at the working sizes of the frames of a session; None if a part is not a graph.

    ``setting``: as for ``priced``.
    """

    net: StagedNetwork
    setting: str = ""
    known: dict[tuple[int, ...], Prices | None] = field(default_factory=dict)

    def prices(self, image: Any) -> Prices | None:
        """Return the prices at the working size of ``image``."""
        shape = np.shape(image)
        if shape not in self.known:
            self.known[shape], prepared = None, self.net.prepare(np.asarray(image))
            # Behind suppression of boxes, shapes depend on the frame, which is a NetworkError.
            with suppress(NetworkError, UsageError):
                if isinstance(prepared, dict):
                    self.known[shape] = priced(self.net, _working(prepared), setting=self.setting)
        return self.known[shape]
