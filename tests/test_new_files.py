"""Commands that write a file refuse what can't be written before they work, not after it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clockseg.cli.main import main
from clockseg.cli.options import check_new_files
from clockseg.errors import DataError, UsageError
from networks import write_tiny
from video_making import write_video


def test_the_folder_is_made_and_nothing_is_left_in_it(tmp_path: Path) -> None:
    file = tmp_path / "a b" / "ü" / "x.toml"
    check_new_files(file, overwrite=False)
    assert list(file.parent.iterdir()) == []


def test_what_is_there_is_kept_unless_it_may_be_replaced(tmp_path: Path) -> None:
    there, other = tmp_path / "there", tmp_path / "other"
    there.write_text("mine")
    with pytest.raises(UsageError, match="there exists already; give --overwrite"):
        check_new_files(other, there, overwrite=False)
    check_new_files(other, there, overwrite=True)
    assert there.read_text() == "mine"


def test_a_folder_is_no_file_to_replace(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder"):
        check_new_files(tmp_path, overwrite=True)


def test_a_folder_that_can_not_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="is not writable"):
        check_new_files(tmp_path / "file" / "x.toml", overwrite=False)


@pytest.mark.parametrize(
    "command",
    [
        ["tune", "VIDEO", "--fire-rate", "0.5", "--network", "NETWORK", "--out", "BAD.toml"],
        ["velocity", "VIDEO", "--network", "NETWORK", "--plot", "BAD.svg"],
        ["import", "NETWORK", "--out", "BAD.onnx"],
    ],
    ids=lambda command: command[0],
)
def test_commands_refuse_before_they_read_anything(capsys, tmp_path, command) -> None:
    (tmp_path / "file").write_text("")
    places = {"VIDEO": "no.mp4", "NETWORK": "no.onnx", "BAD": str(tmp_path / "file" / "x")}
    for word, place in places.items():
        command = [part.replace(word, place) for part in command]
    assert main(command) == 1
    err = capsys.readouterr().err
    assert "is not writable" in err
    assert "no.mp4" not in err
    assert "no.onnx" not in err


def test_tune_makes_the_folder_of_its_file(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("CLOCKSEG_CACHE", str(tmp_path / "cache"))
    video = write_video(tmp_path / "v.mp4", [np.full((32, 48, 3), 20 * at, np.uint8) for at in range(4)])
    out = tmp_path / "new" / "s.toml"
    args = ["--fire-rate", "0.5", "--network", str(write_tiny(tmp_path)), "--quiet", "--out", str(out)]
    assert main(["tune", str(video), *args]) == 0
    assert out.is_file()
    assert list(out.parent.iterdir()) == [out]
