"""The network, the schedules and the clips that options name, and the options that a plan's file adds to them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from clockseg.cli.options import Unsaid, changed, engine_options, is_quiet, working_size
from clockseg.cli.terminal import Watch, fail, print_result, say, warn
from clockseg.errors import DataError, NetworkError, UsageError, VideoError

if TYPE_CHECKING:
    from clockseg.clockwork.network import StagedNetwork
    from clockseg.clockwork.schedule import Schedule, ScheduleLike
    from clockseg.datasets import Clip
    from clockseg.planning.schedule_file import ScheduleFile
    from clockseg.video.clip import Frame

Item = TypeVar("Item")
Made = TypeVar("Made")


def fetch_network(args: argparse.Namespace) -> None:
    """Download and cut a network named hf:.. or torchvision:.. on first use, and print the progress."""
    from clockseg.networks.load import path_of, silent

    path_of(args.network, tell=silent if is_quiet(args) else say)


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


class Clips:
    """The clips in all of ``args.data``. Problems are printed as they occur; if no clip can be read, the last error is raised.

    ``exit_code``: of the command so far: 1 if a clip was left out or cut short, else 0.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        from clockseg.datasets import read_data

        self.exit_code, self._quiet = 0, is_quiet(args)
        read = partial(read_data, layout=args.layout, every=args.every, limit=args.limit)
        self.all = [clip for clips in self._each(args.data, read) for clip in clips]

    def cut_short(self, text: str) -> None:
        """Report that not all of a clip could be decoded."""
        self.exit_code = 1
        warn(text)

    def map(self, one: Callable[[Clip], Made]) -> list[Made]:
        """Return the results of ``one`` for the clips that can be read."""
        return self._each(self.all, one, lambda clip: f" Clip {clip.name} is left out.")

    def frames(self, clip: Clip, net: StagedNetwork) -> Iterator[Frame]:
        """Yield the frames of a clip, decoded ahead, and show progress; for commands that run every stage on every frame."""
        from clockseg.evaluation.tally import Progress, Tally
        from clockseg.video.threads import prefetch

        always, watch, expected = Tally(net.names), Watch(1, quiet=self._quiet), clip.expected()
        with closing(prefetch(clip.frames(problem=self.cut_short))) as frames:
            for done, frame in enumerate(frames, start=1):
                yield frame
                watch.update(clip.name, Progress(clip.name, done, expected, always))

    def _each(
        self, items: Sequence[Item], one: Callable[[Item], Made], left_out: Callable[[Item], str] = lambda item: ""
    ) -> list[Made]:
        made = []
        for number, item in enumerate(items, start=1):
            try:
                made.append(one(item))
            except (DataError, VideoError) as error:
                if not made and number == len(items):
                    raise
                self.exit_code = 1
                fail(f"{error}{left_out(item)}")
        return made
