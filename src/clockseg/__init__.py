"""clockseg: clockwork convnets for video, made real.

A network is a row of stages. At each frame a clock decides which stages fire; the rest hold what they had; the output
is fused from fresh and held (Shelhamer, Rakelly, Hoffman, Darrell: Clockwork Convnets for Video Semantic Segmentation).

    net = clockseg.load("street")
    session = clockseg.Session(net, clockseg.adaptive(0.25))
    for image in images:
        labels = session(image)

Families are submodules: ``clockseg.clocks``, ``clockseg.carry``, ``clockseg.engines``, ``clockseg.graph``,
``clockseg.video``, ``clockseg.datasets``, ``clockseg.metrics``, ``clockseg.cost``, ``clockseg.equations``,
``clockseg.many``, ``clockseg.report``, ``clockseg.live``, ``clockseg.plots``. Names load when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from clockseg._version import __version__

if TYPE_CHECKING:
    from clockseg._errors import ClocksegError, DataError, MissingDependency, NetworkError, UsageError, VideoError
    from clockseg.carry import parse_carry
    from clockseg.evaluation import evaluate
    from clockseg.gate import (
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
    from clockseg.networks.cut import cut
    from clockseg.networks.cut_candidates import candidates
    from clockseg.networks.load import load
    from clockseg.planning import plan
    from clockseg.recording import record, replay
    from clockseg.results import read_labels, read_summary, read_trace, read_values
    from clockseg.schedule import (
        Schedule,
        alternating,
        carried,
        exponential,
        fixed_rate,
        frame_oracle,
        pipelined,
        skip_frame,
    )
    from clockseg.schedule_file import read_schedule_file
    from clockseg.segmentation import segment
    from clockseg.session import Session, fill, run, step
    from clockseg.spec import parse_schedule
    from clockseg.stages import Group, Stage, StagedNetwork
    from clockseg.tuning import tune
    from clockseg.wrapping import wrap

_HOMES = {
    "clockseg._errors": ("ClocksegError", "DataError", "MissingDependency", "NetworkError", "UsageError", "VideoError"),
    "clockseg.evaluation": ("evaluate",),
    "clockseg.networks.cut_candidates": ("candidates",),
    "clockseg.networks.cut": ("cut",),
    "clockseg.networks.load": ("load",),
    "clockseg.carry": ("parse_carry",),
    "clockseg.planning": ("plan",),
    "clockseg.wrapping": ("wrap",),
    "clockseg.results": ("read_labels", "read_summary", "read_trace", "read_values"),
    "clockseg.gate": (
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
    "clockseg.recording": ("record", "replay"),
    "clockseg.schedule": (
        "Schedule",
        "alternating",
        "carried",
        "exponential",
        "fixed_rate",
        "frame_oracle",
        "pipelined",
        "skip_frame",
    ),
    "clockseg.schedule_file": ("read_schedule_file",),
    "clockseg.spec": ("parse_schedule",),
    "clockseg.segmentation": ("segment",),
    "clockseg.session": ("Session", "fill", "run", "step"),
    "clockseg.stages": ("Group", "Stage", "StagedNetwork"),
    "clockseg.tuning": ("tune",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

_FAMILIES = (
    "carry",
    "clocks",
    "cost",
    "datasets",
    "engines",
    "equations",
    "graph",
    "live",
    "many",
    "metrics",
    "plots",
    "report",
    "video",
)

__all__ = [
    "ClocksegError",
    "DataError",
    "Group",
    "MissingDependency",
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
    "invert",
    "learned",
    "load",
    "motion_residual",
    "paced",
    "parse_carry",
    "parse_schedule",
    "pipelined",
    "plan",
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
        return importlib.import_module(f"clockseg.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'clockseg' has no attribute {name!r}")
    found = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
