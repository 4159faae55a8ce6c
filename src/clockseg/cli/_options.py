"""Options that several commands share, and what they become."""

from __future__ import annotations

import argparse
import math
import re
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from clockseg.cli._terminal import indented
from clockseg.errors import MissingDependency, NetworkError, UsageError
from clockseg.video.decode import MAX_PIXELS

if TYPE_CHECKING:
    from pathlib import Path

    from clockseg.clockwork.network import StagedNetwork
    from clockseg.clockwork.schedule import Named, Schedule
    from clockseg.datasets.clips import Clip


class Unsaid(str):
    """An option's default, which tells itself from the same text given.

    >>> Unsaid("street") == "street", isinstance("street", Unsaid)
    (True, False)
    """


def positive(text: str) -> int:
    """A whole number of at least 1, for argparse.

    >>> positive("8")
    8
    """
    if not re.fullmatch(r"\d{1,9}", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def count(text: str) -> int:
    """A whole number of at least 0, for argparse.

    >>> count("0")
    0
    """
    return 0 if text == "0" else positive(text)


def above_zero(text: str) -> float:
    """A number above 0, for argparse.

    >>> above_zero("1e-10")
    1e-10
    """
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (number > 0 and math.isfinite(number)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return number


def kinds(text: str) -> tuple[str, ...]:
    """Kinds of files, with commas in between, for argparse; that there are such is for ``results.check_writes`` to say.

    >>> kinds("labels, png")
    ('labels', 'png')
    """
    return tuple(kind.strip() for kind in text.split(",") if kind.strip())


def size(text: str) -> int | tuple[int, int]:
    """``N`` (the longer side) or ``WIDTHxHEIGHT``, in pixels, for argparse.

    >>> size("640"), size("640x360")
    (640, (640, 360))
    """
    found = re.fullmatch(r"(\d{1,5})(?:x(\d{1,5}))?", text)
    sides = [int(side) for side in found.groups() if side] if found else []
    if not sides or min(sides) < 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a size; give N (the longer side) or WIDTHxHEIGHT, such as 640x480"
        )
    return sides[0] if len(sides) == 1 else (sides[0], sides[1])


def working_size(text: str) -> int | tuple[int, int] | str:
    """As ``size``, or ``own``: each frame at its own size.

    >>> working_size("own"), working_size("640")
    ('own', 640)
    """
    return "own" if text == "own" else size(text)


def add_network_options(parser: argparse.ArgumentParser) -> None:
    """``--network --engine --precision --threads --size``."""
    group = parser.add_argument_group("network")
    group.add_argument(
        "--network",
        default=Unsaid("street"),
        metavar="NAME|FILE",
        help="a bundled network (street, street-large, street-stale, street-int8, street-large-int8, street-stride8, "
        "street-stride16, fcn8s-narrow), FILE.onnx with its sidecar FILE.json beside it, or an FCN's FILE.safetensors "
        "(default: street)",
    )
    add_engine_options(group)


def add_engine_options(group: argparse._ActionsContainer) -> None:
    """``--engine --precision --threads --size``."""
    group.add_argument(
        "--engine",
        default="auto",
        choices=("auto", "openvino", "onnxruntime", "onnxruntime-cuda", "onnxruntime-tensorrt", "torch", "cuda"),
        help="what runs it (default: auto, the fastest of those installed, measured once for this network, size and machine, "
        "and torch for a .safetensors; cuda is torch on a GPU)",
    )
    group.add_argument(
        "--precision",
        default=Unsaid("f32"),
        choices=("f32", "bf16"),
        help="arithmetic (default: f32; bf16 is faster where the processor has it)",
    )
    group.add_argument("--threads", type=positive, metavar="N", help="threads of the engine (default: one a core)")
    group.add_argument(
        "--size",
        type=working_size,
        metavar="N|WIDTHxHEIGHT|own",
        help="working size: longer side, a box the frame is fitted into, or own, each frame as it is "
        "(default: the network's)",
    )


def add_schedule_options(
    parser: argparse.ArgumentParser, *, several: bool, default: str = "what the network recommends"
) -> None:
    """``--schedule --carry``."""
    group = parser.add_argument_group("schedule")
    more = "; give it several times to compare" if several else ""
    group.add_argument(
        "--schedule",
        action="append" if several else "store",
        metavar="SPEC",
        help="frame_oracle, skip_frame(N), fixed_rate((1, 2, 4)), alternating, exponential, pipelined(K), "
        "adaptive(THRESHOLD), difference(..), confidence(..), either(.., at_least_every(N)), both, invert, "
        "paced(.., RATE), any of these with a carry of its own in carried(.., CARRY), package.module:object, or a FILE.toml "
        f"of clockseg tune or plan (default: {default}){more}",
    )
    group.add_argument(
        "--carry",
        metavar="SPEC",
        help='what becomes of what is held: identity, it stays as it was, or "warp(flow|codec|auto, scale=0.5)", it moves '
        "along with the picture (default: what each schedule says, and identity where it says nothing)",
    )


def add_data_options(parser: argparse.ArgumentParser) -> None:
    """``--layout``; what it means: ``read_data_options``."""
    parser.add_argument_group("data").add_argument(
        "--layout",
        metavar="SPEC",
        help="how DATA lies on disk: clips, pascal, nyud, youtube_objects, cityscapes, camvid, davis, with options as in "
        '"pascal(split=\'seg11valid\')"; "translated(shift=16, of=pascal)" makes sequences of its pictures; or '
        "package.module:function (default: what its folders tell)",
    )


def read_data_options(args: argparse.Namespace, path: str | Path) -> list[Clip]:
    """The clips in ``path``, as ``--layout``, ``--every`` and ``--limit`` say."""
    from clockseg.datasets import read_data

    return read_data(path, layout=args.layout, every=args.every, limit=args.limit)


def add_frames_options(parser: argparse.ArgumentParser) -> None:
    """``--limit --every --quiet``."""
    group = parser.add_argument_group("frames")
    group.add_argument("--every", type=positive, default=1, metavar="N", help="take every N-th frame only (default: 1)")
    group.add_argument("--limit", type=positive, metavar="N", help="stop after N of the frames taken")
    parser.add_argument("--quiet", action="store_true", help="no progress, warnings and errors only")


def add_pixels_option(group: argparse._ActionsContainer) -> None:
    """``--max-pixels``."""
    group.add_argument(
        "--max-pixels",
        type=positive,
        default=MAX_PIXELS,
        metavar="N",
        help="refuse pictures of more pixels, before they are decoded (default: %(default)s)",
    )


def need_torch(what: str) -> None:
    """Refuse with the line that installs it, if the authoring side isn't installed."""
    need("torch", "safetensors", what=what)


def need(*libraries: str, what: str, extra: str = "torch") -> None:
    """Refuse with the line that installs them, if any of these, which the extra brings, isn't installed."""
    missing = [name for name in libraries if find_spec(name) is None]
    if missing:
        raise MissingDependency(f"{what} needs {' and '.join(missing)}: pip install '.[{extra}]' in the clone")


def load_network(args: argparse.Namespace) -> StagedNetwork:
    """The network these options ask for, ready to run."""
    from clockseg.networks.load import load

    return load(args.network, engine=args.engine, precision=args.precision, threads=args.threads, size=args.size)


def parse_schedules(
    texts: list[str] | None, net: StagedNetwork, carry: str | None = None
) -> list[tuple[str, Schedule]]:
    """Each specification with its schedule for this network; without any, what the network recommends.

    ``carry``: that of all of them, whatever they say themselves; None: each its own. Under a carry, a specification is
    spelled with it.
    """
    from dataclasses import replace

    from clockseg.carry import parse_carry
    from clockseg.clocks.spec import parse_schedule, spelled
    from clockseg.clockwork.schedule import schedule_for
    from clockseg.clockwork.watching import check

    given = None if carry is None else parse_carry(carry)
    found = []
    for text in texts or [recommended(net)]:
        try:
            file = bool(texts) and text.endswith(".toml")
            name, made = _from_file(text, net) if file else (text, parse_schedule(text, imports=bool(texts)))
            schedule = schedule_for(made, len(net))
            schedule = schedule if given is None else replace(schedule, carry=given)
            check(net, schedule)
        except UsageError as error:
            if texts:
                raise
            raise NetworkError(f"the schedule that the sidecar of {net.name!r} recommends: {error}") from error
        found.append((spelled(name, schedule.carry), schedule))
    return found


def _from_file(path: str, net: StagedNetwork) -> tuple[str, Named]:
    """The schedule in a file that ``clockseg tune`` wrote, by what it is called in there."""
    from clockseg.planning.schedule_file import read_schedule_file

    found = read_schedule_file(path)
    doubt = found.doubt(net) if len(found.stages or net.stages) == len(net) else None
    if doubt:
        print(f"clockseg: warning: {indented(f'{path}: {doubt}')}", file=sys.stderr)
    return found.schedule, found


def recommended(net: StagedNetwork) -> str:
    """The schedule the network's sidecar recommends; the frame oracle if it recommends none."""
    return (net.sidecar.schedule if net.sidecar is not None else None) or "frame_oracle"
