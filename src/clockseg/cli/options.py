"""Options that several commands share, how they are read, and the checks of the files that they name."""

from __future__ import annotations

import argparse
import math
import re
import tempfile
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from clockseg.errors import DataError, MissingDependency, UsageError, install
from clockseg.files import MAX_PIXELS
from clockseg.libraries import GRAPH_ENGINES
from clockseg.networks import DRIVING, INSTALLED


class Unsaid(str):
    """The default of an option, distinguishable from the same text given by the user."""


def whole(least: int, most: int = 1_000_000_000) -> Callable[[str], int]:
    """Return a parser of whole numbers from ``least`` to ``most``, for argparse."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"\d{1,10}", text) or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} to {most}")
        return int(text)

    return parse


positive, count = whole(1), whole(0)


def real(what: str, allowed: Callable[[float], bool]) -> Callable[[str], float]:
    """Return a parser of finite numbers, or quotients such as 1/255, that are ``allowed``; ``what`` says which these are."""

    def parse(text: str) -> float:
        above, slash, below = text.partition("/")
        try:
            number = float(above) / (float(below) if slash else 1)
        except (ValueError, ZeroDivisionError):
            number = math.nan
        if not (math.isfinite(number) and allowed(number)):
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
        return number

    return parse


above_zero = real("a number above 0", lambda number: number > 0)
from_zero = real("a number of at least 0", lambda number: number >= 0)
share = real("a share of frames from 0 to 1, such as 0.5", lambda number: 0 <= number <= 1)


def three(text: str) -> tuple[float, float, float]:
    """Parse ``N`` for every channel, or ``N,N,N``, for argparse."""
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if len(found) not in (1, 3) or not all(map(math.isfinite, found)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number or three of them, such as 0.485,0.456,0.406")
    return (found[0], found[0], found[0]) if len(found) == 1 else (found[0], found[1], found[2])


def kinds(text: str) -> tuple[str, ...]:
    """Parse comma-separated names, such as kinds of output files, for argparse."""
    return tuple(kind.strip() for kind in text.split(",") if kind.strip())


def size(text: str) -> tuple[int, int]:
    """Parse ``WIDTHxHEIGHT``, in pixels, for argparse."""
    found = re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d{0,4})", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; give WIDTHxHEIGHT, such as 640x480")
    return int(found[1]), int(found[2])


def working_size(text: str) -> int | tuple[int, int] | str:
    """Parse ``WIDTHxHEIGHT``, ``N`` for the longer side, or ``own`` for each frame at its own size, for argparse."""
    if text == "own":
        return text
    return int(text) if re.fullmatch(r"[1-9]\d{0,4}", text) else size(text)


def ending(*endings: str) -> Callable[[str], Path]:
    """Return a parser of file names with one of these ``endings``, for argparse."""

    def parse(text: str) -> Path:
        if Path(text).suffix not in endings:
            raise argparse.ArgumentTypeError(f"{text}: give a name that ends in {' or '.join(endings)}")
        return Path(text)

    return parse


NETWORK_HELP = (
    f"a bundled network ({', '.join(INSTALLED)}); FILE.onnx with the sidecar FILE.json that cut wrote; an uncut FILE.onnx, "
    "FILE.xml (OpenVINO) or FILE.tflite, with its normalisation in a FILE.json that you write; or hf:ORG/NAME[@REVISION], "
    "hf:DIRECTORY or torchvision:NAME, which are cut on first use"
)


SHARED: dict[str, dict[str, Any]] = {
    "--network": {"metavar": "NAME|FILE"},
    "--engine": {
        "default": "auto",
        "choices": ("auto", *GRAPH_ENGINES),
        "help": "inference engine (default: auto, the fastest one installed, measured for the network, size and machine)",
    },
    "--precision": {
        "default": Unsaid("f32"),
        "choices": ("f32", "bf16"),
        "help": "arithmetic precision (default: f32; bf16 is faster on processors that support it)",
    },
    "--threads": {"type": positive, "metavar": "N", "help": "engine threads (default: one per core)"},
    "--size": {
        "type": working_size,
        "metavar": "N|WIDTHxHEIGHT|own",
        "help": "working size: the longer side, a box that frames are fitted into, or own for each frame's own size "
        "(default: the network's)",
    },
    "--schedule": {
        "metavar": "SPEC",
        "help": "when each stage runs. On fixed frames: skip_frame(N), alternating, exponential, fixed_rate((1, 2, 4)), "
        "pipelined(K), frame_oracle. Depending on the video: motion_residual(THRESHOLD), adaptive(THRESHOLD), "
        "difference(..), confidence(..), budget(network_rate=RATE), paced(.., RATE), and combinations of these with "
        "either(.., at_least_every(N)), both(..), invert(..). With its own carry: carried(.., CARRY). Or "
        "package.module:object, or a FILE.toml written by clockseg tune or plan",
    },
    "--carry": {
        "metavar": "SPEC",
        "help": "how outputs are propagated to frames without a firing: identity (reuse as is), "
        '"warp(flow|codec|auto, scale=0.5)" (forward motion compensation) or "interpolate(flow)" (from the key frames on '
        "both sides; in live only with --lookahead) (default: the schedule's own carry, otherwise identity)",
    },
    "--layout": {
        "metavar": "SPEC",
        "help": "layout of the data: clips, pascal, nyud, youtube_objects, cityscapes, camvid or davis, with options "
        'as in "pascal(split=\'seg11valid\')"; "translated(shift=16, of=pascal)" makes sequences of its images; or '
        "package.module:function (default: detected)",
    },
    "--every": {"type": positive, "default": 1, "metavar": "N", "help": "process every N-th frame only (default: 1)"},
    "--limit": {"type": positive, "metavar": "N", "help": "stop after N processed frames"},
    "--max-pixels": {
        "type": positive,
        "default": MAX_PIXELS,
        "metavar": "N",
        "help": "refuse larger frames before decoding them (default: %(default)s pixels)",
    },
    "--write": {"type": kinds, "metavar": "KINDS"},
    "--overwrite": {"action": "store_true", "help": "replace existing results"},
    "--json": {"action": "store_true", "help": "print one JSON object and nothing else"},
    "--quiet": {"action": "store_true", "help": "print warnings and errors only, no progress"},
}
"""The options that several commands have, as arguments of ``add_argument``."""
ENGINE = ("--engine", "--precision", "--threads", "--size")


def add_options(group: argparse._ActionsContainer, *names: str, **changed: Any) -> None:
    """Add options of ``SHARED`` by name; ``changed``: arguments of ``add_argument`` that differ here."""
    for name in names:
        group.add_argument(name, **SHARED[name] | changed)


def add_group(parser: argparse.ArgumentParser, title: str, *names: str) -> argparse._ArgumentGroup:
    """Add a group with these options of ``SHARED``, and return it."""
    group = parser.add_argument_group(title)
    add_options(group, *names)
    return group


def add_network_options(parser: argparse.ArgumentParser, *, default: str = DRIVING, or_else: str = "") -> None:
    """Add ``--network`` and the engine options; ``or_else``: which other default there is, and when."""
    group = parser.add_argument_group("network")
    add_options(group, "--network", default=Unsaid(default), help=f"{NETWORK_HELP} (default: {default}{or_else})")
    add_options(group, *ENGINE)


def add_schedule_options(
    parser: argparse.ArgumentParser, *, several: bool = False, default: str = "the network's recommendation"
) -> None:
    """Add ``--schedule`` and ``--carry``."""
    group = parser.add_argument_group("schedule")
    more = "; repeat the option to compare several" if several else ""
    text = f"{SHARED['--schedule']['help']} (default: {default}){more}"
    add_options(group, "--schedule", action="append" if several else "store", help=text)
    add_options(group, "--carry")


def add_data_options(parser: argparse.ArgumentParser, metavar: str, help: str) -> None:
    """Add one or more clips as positional arguments, and ``--layout``."""
    parser.add_argument("data", nargs="+", metavar=metavar, help=help)
    add_group(parser, "data", "--layout")


def add_frames_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--every``, ``--limit`` and ``--quiet``."""
    add_group(parser, "frames", "--every", "--limit")
    add_options(parser, "--quiet")


def add_plot_option(group: argparse._ActionsContainer, what: str) -> None:
    """Add ``--plot``, which draws ``what``."""
    text = f"draw {what} (needs {install('plots')})"
    group.add_argument("--plot", type=ending(".svg", ".png"), metavar="FILE.svg|png", help=text)


def add_new_network_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--out NAME.onnx`` and ``--overwrite``, which ``check_new_network`` checks."""
    parser.add_argument("--out", required=True, type=ending(".onnx"), metavar="NAME.onnx", help="file to write")
    add_options(parser, "--overwrite", help="replace existing NAME.onnx and NAME.json")


def add_schedule_file_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--out FILE.toml``, ``--overwrite`` and ``--json``."""
    group = parser.add_argument_group("output")
    group.add_argument("--out", type=ending(".toml"), metavar="FILE.toml", help="write the schedule to this file")
    add_options(group, "--overwrite", help="replace existing files")
    add_options(group, "--json")


def changed(args: argparse.Namespace, **options: Any) -> argparse.Namespace:
    """Return the arguments with other values for these options."""
    return argparse.Namespace(**vars(args) | options)


def is_quiet(args: argparse.Namespace) -> bool:
    """Return True if ``--quiet`` or ``--json`` was given, for commands that have either."""
    return getattr(args, "quiet", False) or getattr(args, "json", False)


def engine_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the engine options as keyword arguments of the library."""
    return {name.removeprefix("--"): getattr(args, name.removeprefix("--")) for name in ENGINE}


def need(*libraries: str, what: str, extra: str = "torch") -> None:
    """Raise ``MissingDependency`` with the line that installs ``extra``, if any of these libraries is missing."""
    missing = [name for name in libraries if find_spec(name) is None]
    if missing:
        raise MissingDependency(f"{what} needs {' and '.join(missing)}: {install(extra)}")


def check_new_files(*given: Path | None, overwrite: bool) -> None:
    """Create the folders of the files that are given and check that each can be written, before any work is done.

    ``UsageError`` for a folder, or for a file that exists unless ``overwrite``; ``DataError`` if a folder is not writable.
    """
    files = [file for file in given if file is not None]
    for file in files:
        if file.is_dir():
            raise UsageError(f"{file} is a folder; give the name of a file.")
        if file.exists() and not overwrite:
            raise UsageError(f"{file} exists already; give --overwrite to replace it, or another name.")
    for folder in {file.parent for file in files}:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise DataError(f"{folder}: this folder is not writable ({error.strerror}). Give another one.") from error


def check_new_network(file: Path, *, overwrite: bool) -> None:
    """Check NAME.onnx and its sidecar NAME.json like ``check_new_files``."""
    check_new_files(file, file.with_suffix(".json"), overwrite=overwrite)


def check_schedule_file(args: argparse.Namespace, clocks: Iterable[str]) -> None:
    """Check the file of ``--out``, if given, like ``check_new_files``; no clock may then name code."""
    from clockseg.clocks.expressions import names_code

    code = [] if args.out is None else [text for text in clocks if names_code(text)]
    if code:
        raise UsageError(
            f"--out {args.out}: the clock {code[0]!r} names code, and a schedule file may not. Omit --out, and pass the "
            "printed schedule to --schedule."
        )
    check_new_files(args.out, overwrite=args.overwrite)
