"""A room is deleted with its registration, and the rest still imports and segments a clip."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from video_making import picture, write_video

SOURCE = Path(__file__).resolve().parents[1] / "src" / "clockseg"


@dataclass(frozen=True)
class Room:
    """A deletable room: its name, its commands, and the rooms above it that can't be without it.

    ``optional``: other commands use it when an option asks for it, and then import it inside the function that does.
    """

    name: str
    commands: tuple[str, ...]
    above: tuple[str, ...] = ()
    optional: bool = False


PAPER = Room("paper", ("fcn", "reproduce", "velocity"))
ROOMS = (
    PAPER,
    Room("training", ("train",)),
    Room("live", ("live",)),
    Room("wrapping", ()),
    Room("report", ("report", *PAPER.commands), ("paper",), optional=True),
)


def delete(room: Room, package: Path) -> None:
    """Delete the room, its commands, and the lines that register them."""
    for name in (room.name, *room.above):
        shutil.rmtree(package / name)
        for file in ("__init__.py", "networks/load.py"):
            text = (package / file).read_text()
            (package / file).write_text(re.sub(rf"^ .*clockseg\.{name}\b.*\n", "", text, flags=re.M))
        text = (package / "networks/load.py").read_text()
        (package / "networks/load.py").write_text(re.sub(r'"\.\w+": "clockseg\.' + name + r'\.\w+"', "", text))
    main = package / "cli" / "main.py"
    for command in room.commands:
        (package / "cli" / f"{command}.py").unlink()
        main.write_text(re.sub(rf"^ +{command},\n", "", main.read_text(), flags=re.M))


def imports(tree: ast.AST, *, everywhere: bool) -> Iterator[str]:
    """The modules of the package that a module imports: everywhere, or when it is imported itself."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "clockseg":
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        typing = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if everywhere or not (typing or isinstance(node, ast.FunctionDef)):
            yield from imports(node, everywhere=everywhere)


@pytest.mark.slow
@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_without_the_room_the_rest_imports_and_segments(room: Room, tmp_path: Path) -> None:
    package = tmp_path / "src" / "clockseg"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__", "*large*", "*int8*"))
    delete(room, package)
    gone = tuple(f"clockseg.{name}" for name in (room.name, *room.above)) + tuple(
        f"clockseg.cli.{name}" for name in room.commands
    )
    for path in package.rglob("*.py"):
        for name in imports(ast.parse(path.read_text()), everywhere=not room.optional):
            assert not name.startswith(tuple(f"{one}." for one in gone)), (path, name)
            assert name not in gone, (path, name)
    clip = write_video(tmp_path / "clip.mp4", [picture(64, 48, seed) for seed in range(8)])
    command = [
        sys.executable,
        "-m",
        "clockseg",
        "segment",
        str(clip),
        "--out",
        str(tmp_path / "out"),
        "--size",
        "64",
        "--engine",
        "openvino",
    ]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}
    code = "import clockseg; [getattr(clockseg, name) for name in clockseg.__all__]; print(clockseg.__file__)"
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == str(package / "__init__.py")
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert any((tmp_path / "out").iterdir())
