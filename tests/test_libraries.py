"""OpenVINO and ONNX Runtime are imported in one place, send nothing, and work or say why not in a forked process."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import clockseg
import networks
from video_making import picture, write_video

LIBRARIES = ("openvino", "onnxruntime")
IMPORTERS = ("import_module", "__import__")
"""Functions that import the module they are given by name."""
WATCH = """
import os, sys
def watch(event, args):
    if event in ("socket.getaddrinfo", "socket.gethostbyname"):
        host = args[0]
    elif event == "socket.connect":
        host = args[1][0] if isinstance(args[1], tuple) else None
    else:
        return
    if host not in (None, "", "localhost", "127.0.0.1", "::1", b"localhost", b"127.0.0.1"):
        with open(os.environ["WATCHED_SOCKETS"], "a") as file:
            file.write(f"{event} {host}\\n")
sys.addaudithook(watch)
"""


def called(function: ast.expr) -> str:
    """The last name of what a call calls."""
    return getattr(function, "attr", getattr(function, "id", ""))


def imported(tree: ast.Module) -> Iterator[str]:
    """All modules that a file imports by a statement, or by name through importlib."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module or ""
        elif isinstance(node, ast.Call) and called(node.func) in IMPORTERS:
            yield from (arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str))


def test_one_module_imports_the_engines_libraries() -> None:
    package = Path(clockseg.__file__).parent
    for file in package.rglob("*.py"):
        names = {name.split(".")[0] for name in imported(ast.parse(file.read_text(encoding="utf-8")))}
        assert file == package / "libraries.py" or not names.intersection(LIBRARIES), file


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small network, a short video, and a module that Python imports at its start to watch sockets."""
    made = tmp_path_factory.mktemp("sockets")
    networks.write_tiny(made)
    write_video(made / "short.mp4", [picture(48, 32, k) for k in range(40)])
    (made / "watch").mkdir()
    (made / "watch" / "sitecustomize.py").write_text(WATCH, encoding="utf-8")
    (made / "home").mkdir()
    return made


COMMANDS = {
    "segment": "segment short.mp4 --network tiny.onnx --out {out} --write labels",
    "segment in onnxruntime": "segment short.mp4 --network tiny.onnx --out {out} --write labels --engine onnxruntime",
    "evaluate": "evaluate short.mp4 --network tiny.onnx",
    "inspect": "inspect tiny.onnx --repeat 1",
    "inspect --cuts": "inspect tiny.onnx --cuts",
    "cut": "cut tiny.onnx --mean 0 --std 1 --size 48x32 --output scores --out {out}/cut.onnx",
    "plan": "plan short.mp4 --network tiny.onnx --keep 0.5",
    "tune": "tune short.mp4 --network tiny.onnx --fire-rate 0.5",
    "velocity": "velocity short.mp4 --network tiny.onnx",
    "quantize": "quantize tiny.onnx short.mp4 --out {out}/bytes.onnx --frames 2",
    "live": "live short.mp4 --network tiny.onnx --limit 2",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_calls_out(name: str, folder: Path, tmp_path: Path) -> None:
    sockets = tmp_path / "sockets.txt"
    given = [str(Path(part).absolute()) for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    path = os.pathsep.join([str(folder / "watch"), *given])
    environment = {
        **{name: value for name, value in os.environ.items() if name != "CI"},
        "PYTHONPATH": path,
        "HOME": str(folder / "home"),
        "CLOCKSEG_CACHE": str(folder / "cache"),
        "WATCHED_SOCKETS": str(sockets),
    }
    words = COMMANDS[name].format(out=tmp_path).split()
    done = subprocess.run(
        [sys.executable, "-m", "clockseg", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not sockets.exists(), sockets.read_text()


FORK = """
import os, signal, sys
import numpy as np
import clockseg
net = clockseg.load(sys.argv[1], engine=sys.argv[2])
session = clockseg.Session(net, clockseg.skip_frame(1))
frame = np.random.default_rng(0).integers(0, 256, (32, 48, 3), dtype=np.uint8)
wanted = session(frame)
def outputs():
    both_sides = clockseg.parse_schedule("carried(skip_frame(2), interpolate(flow))")
    return (output for output, record in clockseg.run(net, [frame, 255 - frame] * 4, both_sides))
under_way, all_of_it = outputs(), list(outputs())
begun = [next(under_way)]
child = os.fork()
if child == 0:
    signal.alarm(60)
    for run in (session, clockseg.Session(clockseg.load(sys.argv[1], engine=sys.argv[2]), clockseg.skip_frame(1))):
        try:
            assert np.array_equal(run(frame), wanted)
            print("equal", flush=True)
        except clockseg.UsageError as error:
            print(error, flush=True)
    try:
        list(under_way)
    except clockseg.UsageError as error:
        print(error, flush=True)
    del run, session, net, under_way
    sys.exit(0)
here = np.array_equal(session(frame), wanted) and np.array_equal(begun + list(under_way), all_of_it)
print("child", os.waitpid(child, 0)[1], here)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("engine", LIBRARIES)
def test_a_forked_child_runs_a_network_or_says_why_not(engine: str, folder: Path) -> None:
    script = [sys.executable, "-c", FORK, str(folder / "tiny.onnx"), engine]
    done = subprocess.run(script, capture_output=True, text=True, timeout=120, check=False)
    *told, under_way, end = done.stdout.splitlines()
    assert end == "child 0 True", done.stderr
    assert under_way.startswith("a run that began before a fork")
    if engine == "openvino":
        assert len(told) == 2
        assert all("spawn" in line and "onnxruntime" in line for line in told)
    else:
        assert told == ["equal"] * 2
