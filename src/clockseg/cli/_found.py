"""Output of the commands that find a schedule, ``tune`` and ``plan``: a schedule file, a plot, and what is printed."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from clockseg.cli._options import add_options, add_plot_option, check_new_files, plots
from clockseg.cli._terminal import print_result
from clockseg.errors import UsageError

if TYPE_CHECKING:
    from clockseg.planning.schedule_file import ScheduleFile


class Found(Protocol):
    """The result of a search: what ``--json`` prints, the schedule file, and the text for the terminal."""

    def facts(self) -> dict[str, Any]: ...
    def file(self) -> ScheduleFile: ...
    def text(self) -> str: ...


def add_output_options(parser: argparse.ArgumentParser, plot: str) -> None:
    """Add ``--out``, ``--plot``, which draws ``plot``, ``--overwrite`` and ``--json``."""
    group = parser.add_argument_group("output")
    group.add_argument("--out", type=Path, metavar="FILE.toml", help="write the schedule to this file")
    add_plot_option(group, plot)
    add_options(group, "--overwrite", help="replace existing files")
    add_options(group, "--json")


def check_output(args: argparse.Namespace) -> None:
    """Check the schedule file of ``--out`` and the picture of ``--plot``, if given, like ``check_new_files``.

    >>> check_output(argparse.Namespace(out=Path("street.txt"), plot=None, overwrite=False))
    Traceback (most recent call last):
        ...
    clockseg.errors.UsageError: --out street.txt: give a name that ends in .toml, as --schedule expects.
    """
    if args.out is not None and args.out.suffix != ".toml":
        raise UsageError(f"--out {args.out}: give a name that ends in .toml, as --schedule expects.")
    check_new_files(*([] if args.out is None else [args.out]), *plots(args), overwrite=args.overwrite)


def publish(args: argparse.Namespace, found: Found, draw: Callable[[Path], None]) -> None:
    """Write the schedule file, ``draw`` the plot, and print the result."""
    if args.out is not None:
        from clockseg.planning.schedule_file import write_schedule_file

        write_schedule_file(found.file(), args.out, overwrite=args.overwrite)
    if args.plot is not None:
        draw(args.plot)
    print_result(args, found.facts(), found.text)
    if args.out is not None and not args.json:
        print(f"{args.out} written; run it with clockseg segment VIDEO --schedule {args.out} --out DIR")
