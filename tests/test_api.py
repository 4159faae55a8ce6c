"""The public names of the package: they exist, have a docstring, and load when they are first used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import clockseg

ROOT = Path(__file__).resolve().parents[1]
PUBLIC = [
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


def test_the_public_names_are_these() -> None:
    assert sorted(clockseg.__all__) == sorted(PUBLIC)
    assert dir(clockseg) == sorted(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_each_public_name_is_there_and_explained(name) -> None:
    found = getattr(clockseg, name)
    assert isinstance(found, str) or found.__doc__


def test_a_name_that_does_not_exist() -> None:
    with pytest.raises(AttributeError, match="no attribute 'alternate'"):
        clockseg.alternate  # noqa: B018


@pytest.mark.parametrize("family", sorted(clockseg._FAMILIES))
def test_families_load_when_they_are_used(family) -> None:
    code = f"import clockseg; print(clockseg.{family}.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{clockseg._FAMILIES[family]}\n"


def test_what_type_checkers_see_is_what_is_loaded() -> None:
    tree = ast.parse((ROOT / "src/clockseg/__init__.py").read_text())
    shown = {
        alias.asname: node.module
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert shown == clockseg._HOME
