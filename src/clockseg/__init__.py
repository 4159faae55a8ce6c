"""clockseg: clockwork convnets for video, made real.

A network is a row of stages. At each frame a clock decides which stages fire; the rest hold what they had; the output
is fused from fresh and held (Shelhamer, Rakelly, Hoffman, Darrell: Clockwork Convnets for Video Semantic Segmentation).

    session = clockseg.Session("street")
    for image in images:
        labels = session(image)

Families of names are attributes that load when they are first used: ``clockseg.clocks``, ``carry``, ``engines``, ``graph``,
``video``, ``datasets``, ``metrics``, ``cost``, ``equations``, ``report``, ``live`` and ``plots``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from clockseg.carry import parse_carry as parse_carry
    from clockseg.clocks import adaptive as adaptive
    from clockseg.clocks import at_least_every as at_least_every
    from clockseg.clocks import both as both
    from clockseg.clocks import budget as budget
    from clockseg.clocks import confidence as confidence
    from clockseg.clocks import difference as difference
    from clockseg.clocks import either as either
    from clockseg.clocks import every as every
    from clockseg.clocks import invert as invert
    from clockseg.clocks import learned as learned
    from clockseg.clocks import motion_residual as motion_residual
    from clockseg.clocks import paced as paced
    from clockseg.clocks.rates import alternating as alternating
    from clockseg.clocks.rates import carried as carried
    from clockseg.clocks.rates import exponential as exponential
    from clockseg.clocks.rates import fixed_rate as fixed_rate
    from clockseg.clocks.rates import frame_oracle as frame_oracle
    from clockseg.clocks.rates import pipelined as pipelined
    from clockseg.clocks.rates import skip_frame as skip_frame
    from clockseg.clocks.spec import parse_schedule as parse_schedule
    from clockseg.clockwork.network import Group as Group
    from clockseg.clockwork.network import Stage as Stage
    from clockseg.clockwork.network import StagedNetwork as StagedNetwork
    from clockseg.clockwork.schedule import Schedule as Schedule
    from clockseg.clockwork.step import fill as fill
    from clockseg.clockwork.step import step as step
    from clockseg.errors import ClocksegError as ClocksegError
    from clockseg.errors import DataError as DataError
    from clockseg.errors import MissingDependency as MissingDependency
    from clockseg.errors import NetworkError as NetworkError
    from clockseg.errors import UsageError as UsageError
    from clockseg.errors import VideoError as VideoError
    from clockseg.evaluation.evaluate import evaluate as evaluate
    from clockseg.execution.recording import record as record
    from clockseg.execution.recording import replay as replay
    from clockseg.instances.network import instance_network as instance_network
    from clockseg.instances.sets import Instances as Instances
    from clockseg.networks.cutting import cut as cut
    from clockseg.networks.inspection import candidates as candidates
    from clockseg.networks.load import load as load
    from clockseg.networks.session import Depth as Depth
    from clockseg.networks.session import Labels as Labels
    from clockseg.networks.session import NamedInstances as NamedInstances
    from clockseg.networks.session import Session as Session
    from clockseg.planning.planner import plan as plan
    from clockseg.planning.schedule_file import read_schedule_file as read_schedule_file
    from clockseg.planning.tuning import tune as tune
    from clockseg.segmenting.results import read_instances as read_instances
    from clockseg.segmenting.results import read_labels as read_labels
    from clockseg.segmenting.results import read_summary as read_summary
    from clockseg.segmenting.results import read_trace as read_trace
    from clockseg.segmenting.results import read_values as read_values
    from clockseg.segmenting.segmentation import segment as segment
    from clockseg.showing.stream import run as run
    from clockseg.wrapping import wrap as wrap

# The same names once more, because type checkers read import statements and the package must not run them.
_HOMES = {
    "clockseg.carry": "parse_carry",
    "clockseg.clocks": "adaptive at_least_every both budget confidence difference either every invert learned motion_residual paced",
    "clockseg.clocks.rates": "alternating carried exponential fixed_rate frame_oracle pipelined skip_frame",
    "clockseg.clocks.spec": "parse_schedule",
    "clockseg.clockwork.network": "Group Stage StagedNetwork",
    "clockseg.clockwork.schedule": "Schedule",
    "clockseg.clockwork.step": "fill step",
    "clockseg.errors": "ClocksegError DataError MissingDependency NetworkError UsageError VideoError",
    "clockseg.evaluation.evaluate": "evaluate",
    "clockseg.execution.recording": "record replay",
    "clockseg.instances.network": "instance_network",
    "clockseg.instances.sets": "Instances",
    "clockseg.networks.cutting": "cut",
    "clockseg.networks.inspection": "candidates",
    "clockseg.networks.load": "load",
    "clockseg.networks.session": "Depth Labels NamedInstances Session",
    "clockseg.planning.planner": "plan",
    "clockseg.planning.schedule_file": "read_schedule_file",
    "clockseg.planning.tuning": "tune",
    "clockseg.segmenting.results": "read_instances read_labels read_summary read_trace read_values",
    "clockseg.segmenting.segmentation": "segment",
    "clockseg.showing.stream": "run",
    "clockseg.wrapping": "wrap",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}

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

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    """Import a family or a public name when it is first used, so that ``import clockseg`` itself loads nothing heavy."""
    if name in _FAMILIES:
        return importlib.import_module(_FAMILIES[name])
    if name not in _HOME:
        raise AttributeError(f"module 'clockseg' has no attribute {name!r}")
    found = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
