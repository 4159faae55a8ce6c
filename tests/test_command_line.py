"""The command line as a whole: its help, the commands it proposes, and faults in code that users name in options."""

from __future__ import annotations

import argparse
import ast
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from clockseg.cli.main import main, parser
from clockseg.cli.terminal import Watch, count, in_bytes, sides
from clockseg.evaluation.tally import Progress, Tally
from clockseg.networks import BUNDLED
from networks import write_tiny
from video_making import picture, write_video

FAULTS = """
from clockseg.clocks import Decision
missing = {}

class Moves:
    estimates_motion, reads_vectors, of = True, False, "held"
    see = observe = compose = lambda self, *given: 0

    def move(self, value, motion):
        return missing["x"]

moves = Moves()

def stages(stages):
    return missing[stages]

def clock(tick):
    return missing[tick.t]

def clips(path):
    raise KeyError("labels")
"""


@pytest.fixture
def video(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A short video, in a current folder with modules of a user's own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "user_faults.py").write_text(FAULTS)
    (tmp_path / "user_broken.py").write_text("first = 1\nsecond = unknown\n")
    sys.modules.pop("user_faults", None)
    images = [np.roll(picture(48, 32), 2 * index, axis=1) for index in range(6)]
    return write_video(tmp_path / "video.mp4", images)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--schedule", "user_faults:clock"],
            "the clock clock of stage 3 failed at frame 1: user_faults.py, line 18, in clock: K",
        ),
        (["--schedule", "user_faults:stages"], "user_faults.py, line 15, in stages: KeyError: 3"),
        (["--schedule", "user_broken:clock"], "(user_broken.py, line 2: NameError: name 'unknown' is not defined)"),
        (["--carry", "user_broken:moves"], "(user_broken.py, line 2: NameError: name 'unknown' is not defined)"),
        (["--layout", "user_faults:clips"], "user_faults.py, line 21, in clips: KeyError: 'labels'"),
        (["--layout", "user_broken:clips"], "(user_broken.py, line 2: NameError: name 'unknown' is not defined)"),
        (
            ["--schedule", "skip_frame(2)", "--carry", "user_faults:moves"],
            "move of the carry Moves failed at frame 1: user_faults.py, line 10, in move: KeyError: 'x'",
        ),
    ],
)
def test_a_fault_in_a_users_code_is_one_line_with_its_place(
    video: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    command = ["evaluate", str(video), "--network", str(write_tiny(tmp_path)), "--engine", "onnxruntime", "--quiet"]
    assert main([*command, *options]) in (1, 2)
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("clockseg: error: ")
    assert said in line


def test_a_fault_of_our_own_is_not_hidden(video: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clockseg.datasets.read_data", np.load)  # takes no layout
    with pytest.raises(TypeError):
        main(["evaluate", str(video)])


def parsers(parser: argparse.ArgumentParser, name: str = "clockseg") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield every command with its parser."""
    yield name, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, below in action.choices.items():
                yield from parsers(below, f"{name} {word}")


COMMANDS = dict(parsers(parser()))


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_plain_text_and_names_all_networks(command: str) -> None:
    text = COMMANDS[command].format_help()
    assert "`" not in text, "markup of docstrings"
    named = {name for name in BUNDLED if name in text.split("usage:")[1]}
    if "a bundled network" in " ".join(text.split()) and "(street" in text:
        assert named == set(BUNDLED)


def written() -> Iterator[tuple[str, str]]:
    """Yield every line of text in the package that proposes a command, with a word for each value that is filled in."""
    for path in (Path(__file__).parents[1] / "src").rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        inside = {id(value) for node in nodes if isinstance(node, ast.JoinedStr) for value in node.values}
        for node in nodes:
            if id(node) in inside:
                continue
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            texts = [one.value if isinstance(one, ast.Constant) else "X.toml" for one in parts]
            if all(isinstance(text, str) for text in texts):
                for found in re.findall(r"clockseg \w+(?: [\w.-]+){0,2} VIDEO[^\n]*", "".join(map(str, texts))):
                    yield path.name, found


def test_every_command_that_is_proposed_can_be_run() -> None:
    proposed = [(name, line) for name, line in written() if "clockseg train clock" not in line]
    assert len(proposed) >= 5
    for name, line in proposed:
        words = shlex.split(re.split(r"[(,]", line)[0].rstrip("."))
        if words[1] == "quantize":
            words = [word.replace("X.toml", "X.onnx") for word in words]
        try:
            parser().parse_args(words[1:])
        except SystemExit:
            pytest.fail(f"{name} proposes: {line}")


def test_figures_have_readable_units() -> None:
    assert [count(number) for number in (1_234_000_000, 56_000, 0)] == ["1.234 G", "0.056 M", "0"]
    assert [in_bytes(number) for number in (1_300_000, 512)] == ["1.3 MB", "0.5 kB"]
    assert sides((1, 3, 24, 32)) == "1x3x24x32"


def test_the_speed_of_a_run_that_is_resumed_is_of_its_own_frames(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    for videos, said in (
        (1, "1100 of about 2000 frames, 5.0 FPS"),
        (2, "0 of 2 videos done, 2 in progress, 2199 frames, 9.9 FPS"),
    ):
        now[0] = 0.0
        watch = Watch(videos, quiet=False)
        for done in range(1001, 1101):
            for source in ("a.mp4", "b.mp4")[:videos]:
                if done == 1100:
                    now[0] = 20.0
                watch.update(source, Progress(source, done, 2000, Tally(("stage",))))
        assert said in capsys.readouterr().err


def test_the_engine_that_auto_chose_is_printed(video: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = str(write_tiny(tmp_path))
    for options, said in (([], True), (["--quiet"], False), (["--engine", "onnxruntime"], False)):
        assert main(["segment", str(video), "--out", "results", "--overwrite", "--network", net, *options]) == 0
        assert bool(re.search(r"tiny runs in (openvino|onnxruntime) ", capsys.readouterr().err)) == said
