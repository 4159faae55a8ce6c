"""Signals, full disks, closed pipes, folders that vanish: a plain message, a documented code, and nothing half-written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import clockseg.__main__ as entry
import networks
from clockseg.cli.main import main
from clockseg.errors import Ended
from signalling import as_in_a_terminal
from video_making import picture, write_video

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and pipes as POSIX has them")
COMMAND = (sys.executable, "-m", "clockseg")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small network, a video of two minutes, and one of a few frames."""
    made = tmp_path_factory.mktemp("ends")
    networks.write_tiny(made)
    write_video(made / "long.mp4", (picture(160, 96, k) for k in range(2500)), preset="ultrafast")
    write_video(made / "short.mp4", [picture(160, 96, k) for k in range(5)])
    return made


def segmenting(folder: Path, video: str, out: Path, *more: str) -> list[str]:
    command = [*COMMAND, "segment", str(folder / video), "--network", str(folder / "tiny.onnx"), "--out", str(out)]
    return [*command, "--engine", "openvino", *more]


def left(out: Path) -> set[str]:
    return {file.name for file in out.rglob("*") if file.is_file()} if out.exists() else set()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code", "said"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "ended"), (signal.SIGHUP, 129, "ended")],
)
def test_a_signal_in_the_middle_of_it(
    number: signal.Signals, code: int, said: str, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    command = segmenting(folder, "long.mp4", out, "--quiet")
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=as_in_a_terminal)
    until = time.monotonic() + 60
    # Until it writes; it has minutes of video before it.
    while not list(out.glob("long/.part/*")) and time.monotonic() < until:
        time.sleep(0.02)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert f"clockseg: {said}; no partial results were left behind." in err
    assert "Traceback" not in err
    assert left(out) <= {"manifest.jsonl"}


@pytest.fixture
def handlers() -> Iterator[None]:
    """The process' own handling of signals, as it was, after the test."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_second_signal_does_not_stop_the_cleaning_up(handlers: None) -> None:
    entry.end_cleanly()
    with pytest.raises(Ended) as caught:
        signal.raise_signal(signal.SIGTERM)
    assert caught.value.exit_code == 143
    signal.raise_signal(signal.SIGTERM)


def test_what_is_ignored_stays_ignored(handlers: None) -> None:
    """As under nohup."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    entry.end_cleanly()
    signal.raise_signal(signal.SIGHUP)


@pytest.mark.slow
@pytest.mark.parametrize("bytes_allowed", [0, 700, 3000])
def test_a_disk_that_is_full(bytes_allowed: int, folder: Path, tmp_path: Path) -> None:
    """Files may not grow beyond so many bytes, which the system tells as it tells of a full disk."""
    out = tmp_path / "out"
    limit = (
        "import resource, signal, sys; from clockseg.__main__ import main; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({bytes_allowed}, {bytes_allowed})); sys.exit(main())"
    )
    command = [sys.executable, "-c", limit, *segmenting(folder, "short.mp4", out, "--quiet")[len(COMMAND) :]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "can't be written" in done.stderr or "cannot be written" in done.stderr
    assert "Traceback" not in done.stderr
    assert left(out) <= {"manifest.jsonl"}


def test_an_output_folder_that_goes_away(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = subprocess.Popen(segmenting(folder, "long.mp4", out, "--quiet"), stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    while not list(out.glob("long/.part/*/.*.part")) and time.monotonic() < until:
        time.sleep(0.02)
    out.rename(tmp_path / "elsewhere")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert all(line.startswith(("clockseg: ", "    ")) for line in err.splitlines()), err


def run(command: Sequence[str], shell: str) -> subprocess.CompletedProcess[str]:
    """A command with its streams as a shell sets them."""
    line = ["sh", "-c", f'"$@" {shell}', "sh", *command]
    return subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["<&-", ">&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed(shell: str, folder: Path, tmp_path: Path) -> None:
    """The first file that is opened must not become one of them."""
    out = tmp_path / "out"
    assert run(segmenting(folder, "short.mp4", out), shell).returncode == 0
    assert left(out) == {"labels.mkv", "overlay.mp4", "trace.jsonl", "summary.json", "manifest.jsonl"}
    trace = (out / "short" / "trace.jsonl").read_text().splitlines()
    assert len(trace) == 5


def test_a_reader_that_goes_away(folder: Path) -> None:
    done = run([*COMMAND, "--help"], "| head -1")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: clockseg")


def test_names_in_a_locale_that_has_no_letters_for_them(folder: Path, tmp_path: Path) -> None:
    video = tmp_path / os.fsdecode(b"caf\xc3\xa9 \xff.mp4")
    video.write_bytes((folder / "short.mp4").read_bytes())
    out = tmp_path / "out"
    environment = {**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    command = segmenting(folder, str(video), out)
    done = subprocess.run(command, capture_output=True, env=environment, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, b"") or b"frames" in done.stderr
    assert os.fsencode(next(folder for folder in out.iterdir() if folder.is_dir()).name) == b"caf\xc3\xa9 _"


def test_engines_tell_nobody(folder: Path) -> None:
    """Both send word of their use to their makers, unless they are kept from it."""
    check = (
        "import os, sys; from clockseg.networks.load import load\n"
        "for engine in ('openvino', 'onnxruntime'): load(sys.argv[1], engine=engine)\n"
        "assert os.environ['ORT_DISABLE_TELEMETRY'] == '1'\n"
        "assert sys.modules['openvino_telemetry'] is None and 'openvino.tools.ovc.telemetry_stub' in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", check, str(folder / "tiny.onnx")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_folder_that_can_not_be_written(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(segmenting(folder, "short.mp4", tmp_path / "file" / "out")[len(COMMAND) :]) == 1
    assert "can't be created" in capsys.readouterr().err
