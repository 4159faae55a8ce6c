"""Seconds of each node of a network in OpenVINO, for choosing cuts by measured time instead of multiply-adds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from clockseg.engines.openvino import latency_options
from clockseg.errors import ClocksegError
from clockseg.graph import extraction
from clockseg.graph.cost import node_work
from clockseg.graph.static import Static
from clockseg.libraries import openvino_core
from clockseg.types import Array

SECONDS, MOST_RUNS = 1.0, 100
"""A network is run again until so long has passed, or so often, whatever comes first."""
_ORIGINAL = "originalLayersNames"
"""Under this name a compiled node tells the nodes that it was made from."""


def graph_seconds(
    static: Static, frame: str, output: str, *, precision: str = "f32", threads: int | None = None, repeat: int = 5
) -> dict[str, float] | None:
    """Return seconds by node of a graph from ``frame`` to ``output``, medians over at least ``repeat`` runs on noise.

    Of a small network there are more, up to a second's worth: its times vary most. What the engine fuses is shared by
    multiply-adds among the nodes it was made from, and what it adds (reordering) goes to the node it is for. None where
    OpenVINO isn't installed or can't run it.
    """
    work_of = node_work(static)
    try:
        model = extraction.extract(static, (frame,), (output,), name="whole")
        work = {node.name: work_of[node.name] for node in model.graph.node}
        return _shared(_medians(model.SerializeToString(), precision, threads, repeat), work)
    except (ClocksegError, RuntimeError):
        return None


def _medians(model: bytes, precision: str, threads: int | None, repeat: int) -> list[tuple[Sequence[str], float]]:
    """Return for each node of the compiled model, in the order they run: those it was made from, and its median seconds."""
    core = openvino_core()
    options = latency_options(precision, threads) | {"PERF_COUNT": True}
    compiled = core.compile_model(core.read_model(model), "CPU", options)
    request = compiled.create_infer_request()
    inputs = {port.get_any_name(): _noise(port) for port in compiled.inputs}
    names = {node.friendly_name: _names(node) for node in compiled.get_runtime_model().get_ops()}
    request.infer(inputs)  # the first one warms up
    runs: list[list[float]] = []
    begun = time.perf_counter()
    while len(runs) < repeat or (len(runs) < MOST_RUNS and time.perf_counter() - begun < SECONDS):
        request.infer(inputs)
        runs.append([one.real_time.total_seconds() for one in request.profiling_info])
    medians = map(statistics.median, zip(*runs, strict=True))
    return [(names.get(one.node_name, ()), spent) for one, spent in zip(request.profiling_info, medians, strict=True)]


def _names(node: Any) -> tuple[str, ...]:
    told = node.rt_info[_ORIGINAL].astype(str) if _ORIGINAL in node.rt_info else ""
    return tuple(filter(None, told.split(",")))


def _noise(port: Any) -> Array:
    found = np.random.default_rng(0).integers(0, 256, tuple(port.shape))
    return found.astype(port.get_element_type().to_dtype())


def _shared(run: Sequence[tuple[Sequence[str], float]], work: Mapping[str, float]) -> dict[str, float]:
    """Return seconds by node; the time of nodes that the engine added goes to the next known node."""
    found = dict.fromkeys(work, 0.0)
    waiting, last = 0.0, ""
    for names, seconds in run:
        known = {node: work[node] for name in names if (node := _known(name, work))}
        if not known:
            waiting += seconds
            continue
        total = sum(known.values())
        for node, one in known.items():
            share = one / total if total else 1 / len(known)
            found[node] += (seconds + waiting) * share
            last = node
        waiting = 0.0
    if last:
        found[last] += waiting
    return found


def _known(name: str, work: Mapping[str, float]) -> str:
    """Return the node that an engine's node is named after, without appended text; empty if there is none."""
    while name and name not in work:
        name, _, _ = name.rpartition("/")
    return name
