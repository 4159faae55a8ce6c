"""Every file in the shared folder of odd videos through ``segment``."""

from __future__ import annotations

import pytest

from clockseg import read_labels, read_summary, read_trace
from clockseg.cli.main import main
from networks import write_tiny
from video_making import data_folder

FOLDER = data_folder() / "odd-videos"
# Frames that come out, and the exit code: 1 if anything was lost.
EXPECTED = {
    "-video-with-dash-.mp4": (5, 0),
    "bitmap.mp4": (5, 0),
    "corrupted.mp4": (49, 1),
    "example3.mp4": (48, 0),
    "gif.gif": (0, 1),
    "nasa_13013.mp4.audio.mp3": (0, 1),
    "no_duration.webm": (74, 0),
    "smpte-2997.mp4": (251, 0),
    "test_bad_task_info_pynv.mkv": (49, 1),
    "test_res_change.h264": (96, 0),
    "test_rot_90_deg.mp4": (30, 0),
    "testsrc2_odd_height_and_width_444_10bit.mp4": (25, 0),
}
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="needs the shared data folder (CLOCKSEG_DATA)")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "frames", "code"), [(name, *rest) for name, rest in EXPECTED.items()])
def test_an_odd_video_gives_all_that_is_in_it_or_a_reason(name, frames, code, tmp_path, capsys, monkeypatch) -> None:
    network = write_tiny(tmp_path)
    monkeypatch.chdir(FOLDER)
    options = ["--quiet", "--threads", "1", "--network", str(network), "--out", str(tmp_path / "out"), "--limit", "60"]
    limited = min(frames, 60)
    # A limit hides what comes after it, so the short ones run without.
    options = options if frames > 60 else options[:-2]
    assert main(["segment", *options, "--", name]) == code
    said = capsys.readouterr().err
    assert (name in said) == (code == 1)
    if not frames:
        assert not [path for path in tmp_path.glob("out/*") if path.is_dir()]
        return
    [folder] = (path for path in (tmp_path / "out").iterdir() if path.is_dir())
    assert len(list(read_labels(folder))) == len(read_trace(folder)) == read_summary(folder)["frames"] == limited


def test_the_table_has_every_file_of_the_folder() -> None:
    assert sorted(EXPECTED) == sorted(path.name for path in FOLDER.iterdir())
