"""The network and the schedules that the options ask for, and the options that a plan's file names besides."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clockseg.cli.options import Unsaid, changed, engine_options, is_quiet, working_size
from clockseg.cli.terminal import print_result, say, warn
from clockseg.errors import NetworkError, UsageError

if TYPE_CHECKING:
    from clockseg.clockwork.network import StagedNetwork
    from clockseg.clockwork.schedule import Schedule, ScheduleLike
    from clockseg.planning.schedule_file import ScheduleFile


def fetch_network(args: argparse.Namespace) -> None:
    """Download and cut a network named hf:.. or torchvision:.. on first use, and print the progress."""
    from clockseg.networks import named

    if named.is_named(args.network):
        named.file_of(args.network, tell=named.silent if is_quiet(args) else say)


def load_network(args: argparse.Namespace, *, instances: bool = False) -> StagedNetwork:
    """Load the network these options ask for; ``UsageError`` for one of instances unless the command takes such networks."""
    from clockseg.networks.load import load
    from clockseg.showing.kind import kind_of

    fetch_network(args)
    net = load(args.network, **engine_options(args))
    if kind_of(net) == "instances" and not instances:
        raise UsageError(
            f"network {net.name!r} gives instances, and this command compares maps; segment and live take it."
        )
    tell_engine(args, net)
    return net


def tell_engine(args: argparse.Namespace, net: StagedNetwork) -> None:
    """Print which engine ``--engine auto`` chose, unless ``--quiet`` or ``--json``."""
    if args.engine == "auto" and not is_quiet(args):
        say(f"{net.name} runs in {net.engine} (--engine auto)")


def parse_schedules(
    texts: list[str] | None, net: StagedNetwork, carry: str | None = None
) -> list[tuple[str, Schedule]]:
    """Parse each specification into a schedule for this network; without any, take the network's recommendation.

    ``carry``: the carry of all of them; None: each one's own. The returned text of a specification includes its carry.
    """
    from dataclasses import replace

    from clockseg.carry import parse_carry
    from clockseg.clocks.spec import parse_schedule, spelled
    from clockseg.clockwork.schedule import check, schedule_for
    from clockseg.networks.session import recommended

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


def _from_file(path: str, net: StagedNetwork) -> tuple[str, ScheduleLike]:
    """Read a schedule file written by ``clockseg tune`` or ``plan``; returns its text and the schedule."""
    from clockseg.planning.schedule_file import read_schedule_file

    found = read_schedule_file(path)
    doubt = found.doubt(net) if len(found.stages or net.stages) == len(net) else None
    if doubt:
        warn(f"{path}: {doubt}")
    return found.schedule, found


def as_planned(args: argparse.Namespace, *schedules: str | None) -> argparse.Namespace:
    """Fill in the network, size and precision named by the plans among ``schedules``, unless given as options.

    ``UsageError`` if an option or another plan contradicts.
    """
    from clockseg.planning.schedule_file import read_schedule_file

    said: dict[str, tuple[str, str]] = {}
    for path in (text for text in schedules if text is not None and text.endswith(".toml")):
        for option, text in read_schedule_file(path).run.items():
            before, other = said.setdefault(option, (path, text))
            if other != text:
                raise UsageError(f"{path} is a plan for --{option} {text}, {before} for {other}; give one at a time.")
    return changed(args, **{option: _agreed(args, option, *one) for option, one in said.items()})


def _agreed(args: argparse.Namespace, option: str, path: str, text: str) -> Any:
    """Return the value that a plan names for an option; ``UsageError`` if another one was given."""
    try:
        value = working_size(text) if option == "size" else text
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"{path}: {error}.") from None
    given = getattr(args, option)
    if given is None or isinstance(given, Unsaid) or given == value:
        return value
    if option == "network" and Path(given).exists() and Path(given).resolve() == Path(text).resolve():
        return value
    shown = "x".join(map(str, given)) if isinstance(given, tuple) else given
    raise UsageError(
        f"--{option} {shown}, but {path} is a plan for {text} only; leave --{option} out, or run clockseg plan again for it."
    )


def publish_schedule(
    args: argparse.Namespace, facts: dict[str, Any], file: ScheduleFile, text: Callable[[], str]
) -> None:
    """Write the schedule file of ``--out``, and print the result."""
    from clockseg.planning.schedule_file import write_schedule_file

    if args.out is not None:
        write_schedule_file(file, args.out, overwrite=args.overwrite)
    print_result(args, facts, text)
    if args.out is not None and not args.json:
        network = "" if "network" in file.run else f" --network {args.network}"
        print(f"{args.out} written; run it with clockseg segment VIDEO{network} --schedule {args.out} --out DIR")
