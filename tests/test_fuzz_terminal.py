"""Names that would move the cursor, clear the screen or pass for a message of ours are shown, and nothing else."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import networks
from clockseg.cli.main import main
from clockseg.cli.terminal import Plain, Watch, align, indented, one_line, plain, plain_output
from clockseg.evaluation.tally import Progress, Tally
from video_making import picture, write_video

HOSTILE = "\x1b[2J\x1b]0;title\x07\x9b31m\r\u202ered\nclockseg: error: not ours"


@given(st.text())
def test_nothing_but_tab_and_newline_controls(text: str) -> None:
    shown = plain(text)
    assert not [one for one in shown if (ord(one) < 32 or 127 <= ord(one) < 160) and one not in "\t\n"]
    assert "\n" not in one_line(text)
    assert all(line.startswith("    ") for line in indented(text).split("\n")[1:])


@given(st.text(alphabet="abc é中 -_./\\[]{}()'\"😀"))
def test_what_is_harmless_stays(text: str) -> None:
    assert plain(text) == one_line(text) == indented(text) == text


def test_cells_of_a_table_are_lines() -> None:
    assert align([["a\nb\x1b", "c"]]) == "a\\nb\\x1b  c"


def test_everything_that_is_printed_goes_through_it(capsys: pytest.CaptureFixture[str]) -> None:
    with plain_output():
        print(HOSTILE)
        sys.stderr.write(HOSTILE)
        assert isinstance(sys.stdout, Plain)
    told = capsys.readouterr()
    assert "\x1b" not in told.out + told.err
    assert "\\x1b[2J" in told.out
    assert not isinstance(sys.stdout, Plain)


def test_a_process_without_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with plain_output():
        print("nowhere")


@pytest.mark.skipif(os.name != "posix", reason="such names need a system that has them")
def test_a_video_of_a_hostile_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network = networks.write_tiny(tmp_path)
    good, bad = tmp_path / f"{HOSTILE}.mp4", tmp_path / f"{HOSTILE}.txt"
    write_video(good, [picture(48, 32)])
    bad.write_text("no video")
    out = tmp_path / "out"
    assert (
        main(["segment", str(good), str(bad), "--network", str(network), "--out", str(out), "--engine", "openvino"])
        == 1
    )
    told = capsys.readouterr()
    assert not [one for one in told.out + told.err if ord(one) < 32 and one not in "\t\n"]
    assert not [line for line in (told.out + told.err).splitlines() if line.startswith("clockseg: error: not ours")]
    assert all(folder.resolve().parent == out.resolve() for folder in out.iterdir())


@pytest.mark.parametrize(
    "argv", [["segment", "x.mp4", "--out", "o", "--network", HOSTILE], ["evaluate", HOSTILE], [HOSTILE]]
)
def test_errors_that_repeat_it(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main(argv)
    except SystemExit as end:
        code = end.code
    assert code in (1, 2)
    assert "\x1b" not in capsys.readouterr().err


def test_a_network_that_calls_itself_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = networks.renamed(networks.TINY, name=HOSTILE, classes=("a", "b", "c", HOSTILE))
    path = tmp_path / "net.onnx"
    path.write_bytes(networks.tiny().SerializeToString())
    networks.write(said, path.with_suffix(".json"))
    assert main(["inspect", str(path), "--repeat", "1", "--engine", "openvino"]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_progress_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is drawn with control characters of its own, around names that have none, and erased before other text."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    now, terminal = [0.0], Terminal()
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr(sys, "stderr", Plain(terminal))
    monkeypatch.setenv("COLUMNS", "200")
    watch = Watch(1, quiet=False)
    for now[0] in (0.01, 1.0):
        watch.update("\x1b]0;title\x07[red]\n.mp4", Progress("clip", 1, 2, Tally(("a",), 1)))
    assert terminal.getvalue().startswith("\r\\x1b]0;title\\x07[red]\\n.mp4: 1 of about 2 frames, 1.0 FPS")
    assert terminal.getvalue().endswith("\033[K")
    print("done", file=sys.stderr)
    assert terminal.getvalue().endswith("\033[K\r\033[Kdone\n")
