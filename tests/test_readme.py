"""The commands, options, names and files in the README exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import clockseg
from clockseg.cli.main import parser
from clockseg.clocks.spec import parse_schedule

README = (Path(__file__).resolve().parents[1] / "README.md").read_text()
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, flags=re.DOTALL)
COMMANDS = [
    line for language, text in BLOCKS if not language for line in text.splitlines() if line.startswith("clockseg ")
]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_parse(command) -> None:
    parser().parse_args(shlex.split(command, comments=True)[1:])


@pytest.mark.parametrize("option", sorted(set(re.findall(r"`(--[a-z-]+)", README))))
def test_options_exist(option, capsys) -> None:
    helps = []
    for command in (
        "segment",
        "evaluate",
        "tune",
        "plan",
        "velocity",
        "reproduce",
        "inspect",
        "train",
        "export",
    ):
        with pytest.raises(SystemExit):
            parser().parse_args([*command.split(), "--help"])
        helps.append(capsys.readouterr().out)
    assert option in " ".join(helps)


@pytest.mark.parametrize("name", sorted(set(re.findall(r"clockseg\.(\w+)\(", README))))
def test_functions_exist(name) -> None:
    assert callable(getattr(clockseg, name, None) or getattr(clockseg.engines, name))


def test_schedules_parse() -> None:
    table = README[README.index("## Choose a schedule") : README.index("## What else it does")]
    specs = re.findall(r"`([a-z_]+\(.*?\))`", table) + re.findall(r'--schedule "([^"]+)"', README)
    assert len(specs) >= 5
    for spec in specs:
        parse_schedule(spec)


def test_linked_files_exist() -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (Path(__file__).resolve().parents[1] / target).exists(), target
