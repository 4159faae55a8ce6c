"""clockseg: clockwork convnets for video, made real.

A network is a row of stages. At each frame a clock decides which stages fire; the rest hold what they had; the output
is fused from fresh and held (Shelhamer, Rakelly, Hoffman, Darrell: Clockwork Convnets for Video Semantic Segmentation).

    session = clockseg.Session("street")
    for image in images:
        labels = session(image)

Families of names are attributes that load when they are first used: ``clockseg.clocks``, ``carry``, ``engines``, ``graph``,
``video``, ``datasets``, ``metrics``, ``cost``, ``equations``, ``many``, ``report``, ``live`` and ``plots``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from clockseg.carry import parse_carry
    from clockseg.clocks import (
        adaptive,
        at_least_every,
        both,
        budget,
        confidence,
        difference,
        either,
        every,
        invert,
        learned,
        motion_residual,
        paced,
    )
    from clockseg.clocks.rates import alternating, carried, exponential, fixed_rate, frame_oracle, pipelined, skip_frame
    from clockseg.clocks.spec import parse_schedule
    from clockseg.clockwork.network import Group, Stage, StagedNetwork
    from clockseg.clockwork.schedule import Schedule
    from clockseg.clockwork.step import fill, step
    from clockseg.errors import ClocksegError, DataError, MissingDependency, NetworkError, UsageError, VideoError
    from clockseg.evaluation.evaluate import evaluate
    from clockseg.execution.recording import record, replay
    from clockseg.instances.network import instance_network
    from clockseg.instances.sets import Instances
    from clockseg.networks.cutting import cut
    from clockseg.networks.inspection import candidates
    from clockseg.networks.load import load
    from clockseg.networks.session import Depth, Labels, NamedInstances, Session
    from clockseg.planning.planner import plan
    from clockseg.planning.schedule_file import read_schedule_file
    from clockseg.planning.tuning import tune
    from clockseg.segmenting.results import read_instances, read_labels, read_summary, read_trace, read_values
    from clockseg.segmenting.segmentation import segment
    from clockseg.showing.stream import run
    from clockseg.wrapping import wrap

_HOMES = {
    "clockseg.errors": ("ClocksegError", "DataError", "MissingDependency", "NetworkError", "UsageError", "VideoError"),
    "clockseg.evaluation.evaluate": ("evaluate",),
    "clockseg.networks.inspection": ("candidates",),
    "clockseg.networks.cutting": ("cut",),
    "clockseg.networks.load": ("load",),
    "clockseg.carry": ("parse_carry",),
    "clockseg.planning.planner": ("plan",),
    "clockseg.wrapping": ("wrap",),
    "clockseg.segmenting.results": ("read_instances", "read_labels", "read_summary", "read_trace", "read_values"),
    "clockseg.clocks": (
        "adaptive",
        "at_least_every",
        "both",
        "budget",
        "confidence",
        "difference",
        "either",
        "every",
        "invert",
        "learned",
        "motion_residual",
        "paced",
    ),
    "clockseg.execution.recording": ("record", "replay"),
    "clockseg.instances.network": ("instance_network",),
    "clockseg.instances.sets": ("Instances",),
    "clockseg.clocks.rates": (
        "alternating",
        "carried",
        "exponential",
        "fixed_rate",
        "frame_oracle",
        "pipelined",
        "skip_frame",
    ),
    "clockseg.clockwork.schedule": ("Schedule",),
    "clockseg.planning.schedule_file": ("read_schedule_file",),
    "clockseg.clocks.spec": ("parse_schedule",),
    "clockseg.segmenting.segmentation": ("segment",),
    "clockseg.networks.session": ("Depth", "Labels", "NamedInstances", "Session"),
    "clockseg.showing.stream": ("run",),
    "clockseg.clockwork.step": ("fill", "step"),
    "clockseg.clockwork.network": ("Group", "Stage", "StagedNetwork"),
    "clockseg.planning.tuning": ("tune",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

_FAMILIES = {
    "carry": "clockseg.carry",
    "clocks": "clockseg.clocks",
    "cost": "clockseg.evaluation.cost",
    "datasets": "clockseg.datasets",
    "engines": "clockseg.engines",
    "equations": "clockseg.paper.equations",
    "graph": "clockseg.graph",
    "live": "clockseg.live",
    "metrics": "clockseg.evaluation.metrics",
    "plots": "clockseg.report.plots",
    "report": "clockseg.report",
    "video": "clockseg.video",
}
"""Families of names by the attribute of ``clockseg`` that loads them."""

__all__ = [
    "ClocksegError",
    "DataError",
    "Depth",
    "Group",
    "Instances",
    "Labels",
    "MissingDependency",
    "NamedInstances",
    "NetworkError",
    "Schedule",
    "Session",
    "Stage",
    "StagedNetwork",
    "UsageError",
    "VideoError",
    "__version__",
    "adaptive",
    "alternating",
    "at_least_every",
    "both",
    "budget",
    "candidates",
    "carried",
    "confidence",
    "cut",
    "difference",
    "either",
    "evaluate",
    "every",
    "exponential",
    "fill",
    "fixed_rate",
    "frame_oracle",
    "instance_network",
    "invert",
    "learned",
    "load",
    "motion_residual",
    "paced",
    "parse_carry",
    "parse_schedule",
    "pipelined",
    "plan",
    "read_instances",
    "read_labels",
    "read_schedule_file",
    "read_summary",
    "read_trace",
    "read_values",
    "record",
    "replay",
    "run",
    "segment",
    "skip_frame",
    "step",
    "tune",
    "wrap",
]


def __getattr__(name: str) -> Any:
    """A core name from its home: ``import clockseg`` itself loads nothing heavy."""
    if name in _FAMILIES:
        return importlib.import_module(_FAMILIES[name])
    if name not in _HOME:
        raise AttributeError(f"module 'clockseg' has no attribute {name!r}")
    found = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
