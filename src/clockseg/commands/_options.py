"""Options that several commands share, and what they become."""

from __future__ import annotations

import argparse
import re
from importlib.util import find_spec
from typing import TYPE_CHECKING

from clockseg._errors import MissingDependency, NetworkError, UsageError

if TYPE_CHECKING:
    from clockseg.carry import Carry
    from clockseg.schedule import Named, Schedule
    from clockseg.stages import StagedNetwork


def positive(text: str) -> int:
    """A whole number of at least 1, for argparse.

    >>> positive("8")
    8
    """
    if not re.fullmatch(r"\d{1,9}", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


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


def add_network_options(parser: argparse.ArgumentParser) -> None:
    """``--network --engine --precision --threads --size``."""
    group = parser.add_argument_group("network")
    group.add_argument(
        "--network",
        default="street",
        metavar="street|FILE.onnx",
        help="the bundled network, or an ONNX file with its sidecar FILE.json beside it (default: street)",
    )
    add_engine_options(group)


def add_engine_options(group: argparse._ActionsContainer) -> None:
    """``--engine --precision --threads --size``."""
    group.add_argument(
        "--engine",
        default="auto",
        choices=("auto", "openvino", "onnxruntime"),
        help="what runs it (default: auto, which is openvino where it is installed)",
    )
    group.add_argument(
        "--precision",
        default="f32",
        choices=("f32", "bf16"),
        help="arithmetic (default: f32; bf16 is faster where the processor has it)",
    )
    group.add_argument("--threads", type=positive, metavar="N", help="threads of the engine (default: one a core)")
    group.add_argument(
        "--size",
        type=size,
        metavar="N|WIDTHxHEIGHT",
        help="working size: longer side, or a box the frame is fitted into (default: the network's own)",
    )


def add_schedule_options(parser: argparse.ArgumentParser, *, several: bool) -> None:
    """``--schedule --carry``."""
    group = parser.add_argument_group("schedule")
    more = "; give it several times to compare" if several else ""
    group.add_argument(
        "--schedule",
        action="append" if several else "store",
        metavar="SPEC",
        help="frame_oracle, skip_frame(N), fixed_rate((1, 2, 4)), alternating, exponential, pipelined(K), "
        "adaptive(THRESHOLD), difference(..), confidence(..), either(.., at_least_every(N)), both, invert, "
        f"or package.module:object (default: what the network recommends){more}",
    )
    group.add_argument(
        "--carry",
        default="identity",
        metavar="SPEC",
        help="what becomes of what is held: identity, it stays as it was (default)",
    )


def add_frames_options(parser: argparse.ArgumentParser) -> None:
    """``--limit --every --quiet``."""
    group = parser.add_argument_group("frames")
    group.add_argument("--every", type=positive, default=1, metavar="N", help="take every N-th frame only (default: 1)")
    group.add_argument("--limit", type=positive, metavar="N", help="stop after N of the frames taken")
    parser.add_argument("--quiet", action="store_true", help="no progress, warnings and errors only")


def need_torch(what: str) -> None:
    """Refuse with the line that installs it, if the authoring side isn't installed."""
    missing = [name for name in ("torch", "safetensors") if find_spec(name) is None]
    if missing:
        raise MissingDependency(f"{what} needs {' and '.join(missing)}: pip install 'clockseg[torch]'")


def load_network(args: argparse.Namespace) -> StagedNetwork:
    """The network these options ask for, ready to run."""
    from clockseg.networks.load import load

    return load(args.network, engine=args.engine, precision=args.precision, threads=args.threads, size=args.size)


def parse_carry(text: str) -> Carry:
    """The carry of this name."""
    from clockseg._names import named
    from clockseg.carry import Carry, identity

    found = named(text, {"identity": identity}, what="carry")
    if not isinstance(found, Carry):
        raise UsageError(f"carry {text!r} is {found!r}, no carry; known: identity.")
    return found


def parse_schedules(texts: list[str] | None, net: StagedNetwork, carry: str) -> list[tuple[str, Schedule]]:
    """Each specification with its schedule for this network; without any, what the network recommends."""
    from dataclasses import replace

    from clockseg._watching import check
    from clockseg.schedule import schedule_for
    from clockseg.spec import parse_schedule

    carried = parse_carry(carry)
    found = []
    for text in texts or [recommended(net)]:
        try:
            made: Schedule | Named = parse_schedule(text)
            schedule = replace(schedule_for(made, len(net)), carry=carried)
            check(net, schedule)
        except UsageError as error:
            if texts:
                raise
            raise NetworkError(f"the schedule that the sidecar of {net.name!r} recommends: {error}") from error
        found.append((text, schedule))
    return found


def recommended(net: StagedNetwork) -> str:
    """The schedule the network's sidecar recommends; the frame oracle if it recommends none."""
    return (net.sidecar.schedule if net.sidecar is not None else None) or "frame_oracle"
