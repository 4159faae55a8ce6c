"""``clockseg``: the entry point, and the mapping of errors to exit codes."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Any

from clockseg import __version__
from clockseg.cli.terminal import fail, plain_output, say
from clockseg.errors import Ended, user_message

COMMANDS = (
    "segment",
    "report",
    "live",
    "cut",
    "evaluate",
    "tune",
    "plan",
    "velocity",
    "reproduce",
    "inspect",
    "train",
    "quantize",
    "import",
)
"""The commands. Each is a module of this name (``import``, which Python reserves: ``fcn``) with ``HELP``, ``DESCRIPTION``,
``add_arguments`` and ``run``."""
EXIT_CODES = (
    "Exit codes: 0 success; 1 failure, or an input was cut short; 2 usage error; 130 interrupted; "
    "143 or 129 ended by SIGTERM or SIGHUP"
)


class _Help(argparse.HelpFormatter):
    """Fits each paragraph of a description to the terminal; indented paragraphs stay as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = text.split("\n\n")
        return "\n\n".join(
            one if one.startswith(" ") else super(_Help, self)._fill_text(one, width, indent) for one in paragraphs
        )


class _Parser(argparse.ArgumentParser):
    """A parser without abbreviated options, so that adding an option never changes a command that works."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**{"formatter_class": _Help, **given, "allow_abbrev": False})


def parser(names: Sequence[str] = COMMANDS) -> argparse.ArgumentParser:
    """Return the parser of these commands."""
    top = _Parser(
        prog="clockseg",
        description="Run any segmentation network on video, faster than frame by frame.",
        epilog=f"Start with clockseg segment VIDEO --out DIR (all options: clockseg COMMAND --help). {EXIT_CODES}.",
    )
    top.add_argument("--version", action="version", version=f"clockseg {__version__}")
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    for name in names:
        module = importlib.import_module(f"clockseg.cli.{'fcn' if name == 'import' else name}")
        command = commands.add_parser(name, help=module.HELP, description=module.DESCRIPTION)
        command.set_defaults(run=module.run)
        module.add_arguments(command)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # File names may contain bytes that no encoding has.
            stream.reconfigure(errors="backslashreplace")
    given = sys.argv[1:] if argv is None else argv
    # The module of one command is imported in a fraction of the time that all of them take.
    names = [name for name in COMMANDS if name in given[:1]] or COMMANDS
    with plain_output():
        return run_command(parser(names).parse_args(given))


def run_command(args: argparse.Namespace) -> int:
    """Run the command that was parsed, print its error if it fails, and return the exit code."""
    try:
        return int(args.run(args))
    except KeyboardInterrupt as error:
        say(f"{'ended' if isinstance(error, Ended) else 'interrupted'}; no partial results were left behind.")
        return getattr(error, "exit_code", 130)
    except BrokenPipeError:
        # The reader of our output has gone (| head), which is no error; keep the interpreter from writing to it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if not (message := user_message(error)):
            raise
        fail(message)
        return getattr(error, "exit_code", 1)
