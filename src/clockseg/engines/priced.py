"""Prices of a network's parts, from their graphs and, if wanted, measured here."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from clockseg.clockwork.network import Part, StagedNetwork, as_it_is, same
from clockseg.clockwork.schedule import frame_oracle
from clockseg.clockwork.step import Memory, fill
from clockseg.clockwork.trace import Record
from clockseg.engines.compiled import CompiledPart
from clockseg.engines.prices import CONCLUDE, CORRECTION, FINISH, WHOLE, Price, Prices
from clockseg.errors import UsageError
from clockseg.execution.timed import timed
from clockseg.graph.part import IMAGE, GraphPart, Pick
from clockseg.graph.price import price
from clockseg.types import Size


def priced(net: StagedNetwork, size: Size | None = None, *, repeat: int = 0) -> Prices:
    """What one run of each part of ``net`` costs, compiled or not, at the working size ``size`` (WIDTH, HEIGHT).

    ``size``: by default that of a frame as large as the sidecar says. ``repeat``: so many runs in parts and uncut by
    turns, over noise, whose medians are the seconds; 0: none, and ``net`` need not be compiled. ``UsageError`` where a
    part isn't a graph (a function, torch): nobody knows what it multiplies.

    >>> from clockseg.networks.load import load
    >>> prices = priced(load("street", engine=None))
    >>> prices.size, round(prices.full.multiply_adds / 1e9, 2), prices.full == prices.whole
    ((480, 384), 1.47, False)
    """
    size = _size(net) if size is None else size
    found = {name: _price(name, part, size) for name, part in _parts(net).items()}
    if repeat:
        seconds = _seconds(net, size, repeat)
        found = {name: replace(one, seconds=seconds.get(name, 0.0)) for name, one in found.items()}
    return Prices(
        {stage.name: found[f"{stage.name}.body"] + found[f"{stage.name}.head"] for stage in net.stages},
        {group.name: found[group.name] for group in net.groups},
        {group.name: group.reads for group in net.groups},
        found[FINISH],
        found.get(WHOLE),
        size,
        found.get(CONCLUDE),
        found.get(CORRECTION),
    )


def _size(net: StagedNetwork) -> Size:
    if net.sidecar is None:
        raise UsageError(f"network {net.name!r} doesn't say at which size it works; give size=(WIDTH, HEIGHT).")
    frame = np.zeros((net.sidecar.input.height, net.sidecar.input.width, 3), np.uint8)
    return _working(net.prepare(frame))


def _working(prepared: Any) -> Size:
    _, height, width, _ = prepared[IMAGE].shape
    return int(width), int(height)


def _parts(net: StagedNetwork) -> dict[str, Part]:
    """The parts by the names that ``StagedNetwork.map`` gives them."""
    found: dict[str, Part] = {}

    def seen(name: str, part: Part) -> Part:
        found[name] = part
        return part

    net.map(seen)
    return found


def _price(name: str, part: Part, size: Size) -> Price:
    graph = part.part if isinstance(part, CompiledPart) else part
    if isinstance(graph, GraphPart):
        cost = price(graph, size)
        return Price(cost.multiply_adds, cost.moved)
    if _computes_nothing(part):
        return Price()
    raise UsageError(f"part {name!r} isn't a graph, so that what it multiplies isn't known; give an ONNX network.")


def _computes_nothing(part: Part) -> bool:
    return part is same or isinstance(part, Pick)


def _seconds(net: StagedNetwork, size: Size, repeat: int) -> dict[str, float]:
    """Medians by the part's name; a network that isn't compiled says so."""
    width, height = size
    frame = {IMAGE: np.random.default_rng(0).integers(0, 256, (1, height, width, 3), dtype=np.uint8)}
    running, times = timed(replace(net, prepare=same, restore=as_it_is))
    runs: list[dict[str, float]] = []
    for _ in range(repeat + 1):
        times.clear()
        _, memory = fill(running, frame_oracle(len(running)), frame)
        _conclude(running, frame, memory)
        running.uncut()(frame)
        runs.append(dict(times.seconds))
    # The first run compiled.
    return {name: statistics.median(run[name] for run in runs[1:]) for name in runs[0]}


def _conclude(net: StagedNetwork, frame: Any, memory: Memory) -> None:
    """Run what works on scores that were moved, where the network has it."""
    moved = net.fused(memory.fused.trunk.value)
    if net.conclude is not None:
        net.conclude(moved)
    if net.correction is not None:
        names = [stage.name for stage in net.stages]
        reads = net.correction.reads
        seen = frame if reads is None else memory.stages[names.index(reads)].trunk.value
        shape = next(one.shape[-2:] for one in moved.values() if one.ndim == 4)
        net.correction.part(seen, moved, {"unexplained": np.zeros((1, 1, *shape), np.float32)})


@dataclass
class Meter:
    """Prices the frames of a session on ``net``, whatever their sizes; None where a part isn't a graph.

    >>> from clockseg.networks.load import load
    >>> from clockseg.clockwork.schedule import frame_oracle
    >>> from clockseg.clockwork.session import Session
    >>> net = load("street", engine="onnxruntime", size=(64, 64))
    >>> session, frame = Session(net, frame_oracle), np.zeros((64, 64, 3), np.uint8)
    >>> labels = session(frame)
    >>> Meter(net).frame(session.record, frame) == priced(net, (64, 64)).full * 1
    True
    """

    net: StagedNetwork
    known: dict[tuple[int, ...], Prices | None] = field(default_factory=dict)

    def frame(self, record: Record, image: Any) -> Price | None:
        """What the session's record says that ``image`` cost."""
        prices = self.prices(image)
        return None if prices is None else prices.frame(record)

    def prices(self, image: Any) -> Prices | None:
        """The prices at the size that ``image`` is worked on at."""
        shape = np.shape(image)
        if shape not in self.known:
            self.known[shape] = self._find(image)
        return self.known[shape]

    def _find(self, image: Any) -> Prices | None:
        parts = _parts(self.net).values()
        if all(isinstance(part, GraphPart | CompiledPart) or _computes_nothing(part) for part in parts):
            prepared = self.net.prepare(image)
            return priced(self.net, _working(prepared)) if isinstance(prepared, dict) else None
        return None
