"""Whole commands under fuzzing: ``segment`` on folders of odd files, and every command with odd arguments."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import fuzz_seeds
import networks
from clockseg.cli.main import main, parser
from clockseg.errors import ClocksegError
from clockseg.graph import sidecar
from fuzz_values import NUMBERS, WORDS
from fuzzing import changed_bytes

RUN = "--network net.onnx --engine onnxruntime --threads 1"
"""The options under which a fuzzed command runs the small network."""
NAMES = ("a", "b", "B", "é", "a b", "-c", "frame_0001", "frame_2", "\udcff", "a\nb", "x" * 80)
OTHERS = {"notes.txt": b"x", "empty.png": b"", "empty.mp4": b"", "data.bin": b"\0" * 64, "frame": b"x"}
MEDIA = {Path(kind).suffix for kind in fuzz_seeds.KINDS}
SLOW = ("reproduce",)
"""Commands that have no short form: their arguments are fuzzed with ``--help`` only."""


class Refused(ClocksegError):
    """A command that ended with an exit code of an error and said why."""


def _write_network(folder: Path) -> None:
    (folder / "net.onnx").write_bytes(fuzz_seeds.tiny())
    (folder / "net.json").write_text(sidecar.dump(networks.TINY))


def odd_folder(chance: random.Random, folder: Path) -> str:
    """Write a folder of pictures and videos, some of them damaged, with other files, links, pipes and folders among them."""
    _write_network(folder)
    inside = folder / "in"
    inside.mkdir()
    kinds = chance.choice((fuzz_seeds.KINDS, ("png.png", "jpg.jpg", "webp.webp"), ("png.png", "gif.gif", "h264.mp4")))
    for _ in range(chance.randrange(1, 6)):
        kind = chance.choice(kinds)
        data = fuzz_seeds.videos()[kind]
        where = inside / chance.choice(("", "", "", "deep", "deep/er"))
        where.mkdir(parents=True, exist_ok=True)
        suffix = chance.choice((Path(kind).suffix, Path(kind).suffix, Path(kind).suffix.upper(), ".jpeg"))
        with contextlib.suppress(OSError):
            (where / (chance.choice(NAMES) + suffix)).write_bytes(
                changed_bytes(data, chance) if chance.random() < 0.4 else data
            )
    for _ in range(chance.choice((0, 0, 1, 3))):
        _something_else(inside, chance)
    return str(folder)


def _something_else(inside: Path, chance: random.Random) -> None:
    kind = chance.randrange(5)
    with contextlib.suppress(FileExistsError):
        if kind == 0:
            os.mkfifo(inside / chance.choice(("pipe.png", "pipe.mp4")))
        elif kind == 1:
            (inside / "loop").symlink_to(inside)
        elif kind == 2:
            (inside / "dangling.png").symlink_to("nowhere")
        elif kind == 3:
            (inside / "linked.mp4").symlink_to(inside.parent / "net.onnx")
        else:
            name = chance.choice(list(OTHERS))
            (inside / name).write_bytes(OTHERS[name])


def segment_folder(given: str) -> None:
    """Segment the folder: every media file in it is segmented, named, or counted among those left out."""
    folder = Path(given)
    code, text = run(["segment", "in", "--out", "out", *shlex.split(RUN), "--schedule", "skip_frame(2)"], folder)
    written = "".join(path.read_text(errors="replace") for path in sorted(folder.glob("out/**/*.json*")))
    if "left out" not in text and "others like it" not in text and code != 2:
        for path in _media(folder / "in"):
            shown = os.fsencode(path.name).decode(errors="backslashreplace")
            names = (path.name, path.stem, shown, *(json.dumps(name)[1:-1] for name in (path.name, shown)))
            assert any(name in text + written for name in names), f"nothing is said of {path.name!a}: {text}"
    if code:
        raise Refused(text)


def _media(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() in MEDIA and path.is_file() and "loop" not in path.parts:
            yield path


def odd_arguments(chance: random.Random, folder: Path) -> str:
    """Write a command line: a command that would work, with some arguments added, replaced, doubled or taken out."""
    _write_network(folder)
    (folder / "clip.mp4").write_bytes(fuzz_seeds.videos()["h264.mp4"])
    for name, data in fuzz_seeds.clips().items():
        (folder / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "data" / name).write_bytes(data)
    name, words = chance.choice(list(WORKING.items()))
    argv = shlex.split(words)
    for _ in range(chance.choice((1, 1, 2, 3))):
        _change(argv, name, chance)
    return shlex.join([str(folder), name, *argv])


WORKING = {
    "segment": f"clip.mp4 --out out {RUN} --schedule skip_frame(2)",
    "live": f"clip.mp4 --out out {RUN} --schedule skip_frame(2)",
    "evaluate": f"data {RUN} --schedule skip_frame(2)",
    "plan": f"clip.mp4 {RUN} --frames 8 --out plan.toml",
    "tune": f"data {RUN} --schedule adaptive --network-rate 0.5",
    "velocity": f"clip.mp4 {RUN}",
    "cut": "net.onnx --at auto --out cut.onnx --mean 0 --std 1 --size 48x32 --threads 1",
    "inspect": "net.onnx --threads 1",
    "report": "data --out report.html",
    "quantize": "net.onnx clip.mp4 --out int8.onnx",
    **dict.fromkeys(SLOW, "--help"),
}
"""By command, arguments with which it works, or would but for one that the fuzzing adds."""


def _options(command: str) -> list[argparse.Action]:
    subcommands = next(one for one in parser()._actions if isinstance(one, argparse._SubParsersAction))
    return [one for one in subcommands.choices[command]._actions if one.option_strings and one.dest != "help"]


def _change(argv: list[str], command: str, chance: random.Random) -> None:
    what, at = chance.randrange(5), chance.randrange(len(argv) + 1)
    if what == 0 and argv:
        del argv[min(at, len(argv) - 1)]
    elif what == 1 and argv:
        argv[min(at, len(argv) - 1)] = _value(chance)
    elif what == 2:
        argv.insert(at, _value(chance))
    else:
        option = chance.choice(_options(command) or [argparse.Action(["--no-such-option"], "none", nargs=0)])
        argv.append(chance.choice(option.option_strings))
        if option.nargs != 0:
            chosen = option.choices and chance.random() < 0.6
            argv.append(str(chance.choice(list(option.choices)) if chosen else _value(chance)))


def _value(chance: random.Random) -> str:
    # Never a path outside of the folder: a command may write there.
    own = (
        "clip.mp4",
        "net.onnx",
        "net.json",
        "data",
        "data/clip",
        "missing.mp4",
        "new",
        ".",
        "é",
        "a b",
        "",
        " ",
        "-",
        "--",
        "0x0",
        "48x32",
        "5:1",
    )
    return chance.choice((*own, *WORDS, *map(str, NUMBERS), "-1", "1e-9", "nan", "inf", "9" * 40, "auto", "x=1", "a,b"))


def run_arguments(given: str) -> None:
    """Run the command line: it works, or says what is wrong and ends with an exit code of 1 or 2."""
    folder, *argv = shlex.split(given)
    code, text = run(argv, Path(folder))
    if code:
        raise Refused(text)


def run(argv: list[str], folder: Path) -> tuple[int, str]:
    """Run a command in a folder, and return its exit code and what it printed; anything but 0, 1 and 2 is a fault."""
    before, said, stdin = Path.cwd(), io.StringIO(), sys.stdin
    os.chdir(folder)
    sys.stdin = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = _exit_code(argv)
    finally:
        os.chdir(before)
        sys.stdin = stdin
    text = said.getvalue()
    assert code in (0, 1, 2), f"exit code {code}: {text}"
    assert "Traceback" not in text, text
    assert not code or text.strip(), f"exit code {code} without a word"
    left = [path.name for path in folder.rglob("*.part*")]
    assert not left, f"left behind: {left}"
    return code, text


def _exit_code(argv: list[str]) -> int:
    try:
        return main(argv)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
