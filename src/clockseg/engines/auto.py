"""Choice of the fastest engine for a network at its working size on this machine, measured and stored on disk."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TypeAlias, TypeVar

import numpy as np

from clockseg.clockwork.network import Part, StagedNetwork
from clockseg.engines.compiled import has_graphs
from clockseg.errors import ClocksegError, MissingDependency, NetworkError
from clockseg.execution.cache import add_note, read_notes
from clockseg.execution.machine import machine, threads_or_all, versions
from clockseg.graph.part import GraphPart, Tensors
from clockseg.libraries import CPU_ENGINES

Found = TypeVar("Found")
Engine: TypeAlias = Callable[[StagedNetwork], StagedNetwork]
REMEMBERED = "engines.json"
"""The file in the cache folder that remembers what was measured."""
ROUNDS = 5
SECONDS = 1.5
"""Measuring one engine in one round ends after so long, or after ``RUNS`` runs."""
RUNS = 4
CLEARLY = 0.95
"""Another engine is taken if it needs less than this share of the first one's time."""


def auto(net: StagedNetwork, contenders: Mapping[str, Engine], *, precision: str, threads: int | None) -> StagedNetwork:
    """``net`` in the fastest of ``contenders`` (name -> engine), all of which are installed.

    Where there are several, the uncut network is run in each by turns at its working size, once for this network, size,
    precision, number of threads and machine; the seconds are kept in ``engines.json`` in the cache folder
    (``clockseg.engines.cache_directory``) until ``clear_cache()``, or until an engine's version changes. An engine that can't
    run the network drops out; if none can, the error is the first one's. A network of functions stays as it is.
    """
    if not contenders:
        raise MissingDependency(f"no engine for precision {precision!r} is installed: pip install openvino")
    if not has_graphs(net):
        return net
    if len(contenders) == 1 or not isinstance(net.whole, GraphPart) or net.sidecar is None:
        return next(iter(contenders.values()))(net)
    shape = net.sidecar.input.height, net.sidecar.input.width, 3
    value = net.prepare(np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8))
    key = _key(net.name, net.whole, value, precision, threads)
    seconds = recall().get(key, {})
    if seconds.keys() != contenders.keys():
        seconds = measure(net, contenders, value)
        add_note(REMEMBERED, key, seconds)
    return contenders[fastest({name: seconds[name] for name in contenders})](net)


def fastest(seconds: Mapping[str, float]) -> str:
    """Return the first engine, unless another is clearly faster, because close times change their order from day to day.

    >>> fastest({"openvino": 1.02, "onnxruntime": 1.0}), fastest({"openvino": 1.2, "onnxruntime": 1.0})
    ('openvino', 'onnxruntime')
    """
    first = next(iter(seconds))
    best = min(seconds, key=lambda name: seconds[name])
    return best if seconds[best] < CLEARLY * seconds[first] else first


def first_able(engine: str, run: Callable[[str], Found]) -> Found:
    """Return ``run(engine)``; for "auto", of the first engine on the CPU that is installed and can run the network.

    The error is the first engine's. The engine "auto" itself would time the network in several engines first.

    >>> first_able("onnxruntime", str.upper)
    'ONNXRUNTIME'
    """
    names = [engine] if engine != "auto" else [name for name in CPU_ENGINES if find_spec(name)] or [*CPU_ENGINES[:1]]
    errors = []
    for name in names:
        try:
            return run(name)
        except NetworkError as error:
            errors.append(error)
    raise errors[0]


def _key(name: str, whole: GraphPart, value: Tensors, precision: str, threads: int | None) -> str:
    """Return everything that the measurement depends on, as one string; ``value``: a prepared frame."""
    size = whole.frame_size([value])
    digest = whole.build(size).digest[:16]
    there, ours = machine(), versions()
    engines = " ".join(f"{name} {ours[name]}" for name in CPU_ENGINES if name in ours)
    return (
        f"{name} {digest} {size[0]}x{size[1]} {precision} {threads_or_all(threads)} threads; "
        f"{there['processor']} {there['cores']} cores; {engines}"
    )


def measure(net: StagedNetwork, contenders: Mapping[str, Engine], value: Tensors) -> dict[str, float]:
    """Return the seconds of the uncut ``net`` on a prepared frame in each engine; infinite for one that cannot run it.

    The engines run by turns, and the shortest run of each counts, which other work on the machine disturbs least.
    """
    running: dict[str, Part] = {}
    errors: list[ClocksegError] = []
    for name, engine in contenders.items():
        try:
            whole = engine(net).whole
            if whole is not None:
                whole(value)
                running[name] = whole
        except ClocksegError as error:
            errors.append(error)
    if errors and not running:
        raise errors[0]
    seconds = dict.fromkeys(contenders, math.inf)
    for _ in range(ROUNDS):
        for name, whole in running.items():
            seconds[name] = min(seconds[name], _shortest(whole, value))
    return seconds


def _shortest(whole: Part, value: Tensors) -> float:
    """Return the seconds of the shortest of a few runs after one that wakes the threads."""
    whole(value)
    found: list[float] = []
    begun = time.perf_counter()
    while len(found) < RUNS and (not found or time.perf_counter() - begun < SECONDS):
        start = time.perf_counter()
        whole(value)
        found.append(time.perf_counter() - start)
    return min(found)


def recall() -> dict[str, dict[str, float]]:
    """Return the measurements on disk: for each network and setting, seconds by engine."""
    return {
        key: times
        for key, times in read_notes(REMEMBERED).items()
        if isinstance(times, dict) and all(isinstance(value, float) and value > 0 for value in times.values())
    }
