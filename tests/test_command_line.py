"""The command line as a whole: its help, the commands it proposes, and faults in code that users name in options."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from clockseg.cli.main import main
from networks import write_tiny
from video_making import picture, write_video

FAULTS = """
from clockseg.clocks import Decision
missing = {}

class Moves:
    looks, reads_vectors, of = True, False, "held"
    see = observe = compose = unexplained = lambda self, *given: 0

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
            "the clock clock of stage 3 failed at frame 1 (user_faults.py, line 18): K",
        ),
        (["--schedule", "user_faults:stages"], "user_faults.py, line 15, in stages: KeyError: 3"),
        (["--schedule", "user_broken:clock"], "(user_broken.py, line 2: NameError: name 'unknown' is not defined)"),
        (["--carry", "user_broken:moves"], "(user_broken.py, line 2: NameError: name 'unknown' is not defined)"),
        (["--layout", "user_faults:clips"], "user_faults.py, line 21, in clips: KeyError: 'labels'"),
        (["--layout", "user_broken:clips"], "(user_broken.py, line 2: NameError: name 'unknown' is not defined)"),
        (
            ["--schedule", "skip_frame(2)", "--carry", "user_faults:moves"],
            "user_faults.py, line 10, in move: KeyError: 'x'",
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
