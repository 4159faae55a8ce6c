"""``clockseg``: the entry point, and what errors become of exit codes."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from typing import Any

from clockseg import __version__
from clockseg.cli import (
    bench,
    cut,
    evaluate,
    export,
    import_caffe,
    inspect,
    live,
    plan,
    quantize,
    report,
    reproduce,
    segment,
    train,
    tune,
    velocity,
)
from clockseg.cli._terminal import indented, plain_output
from clockseg.errors import ClocksegError, Ended

EXIT_CODES = (
    "exit codes: 0 all went well; 1 something failed or was cut short; 2 the command was wrong; 130 interrupted; "
    "143 or 129 ended by SIGTERM or SIGHUP"
)


class _Parser(argparse.ArgumentParser):
    """One that takes options by their whole names alone, so that a new option changes no command that works."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**{**given, "allow_abbrev": False})


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    top = _Parser(
        prog="clockseg",
        description="Run a segmentation network on video, stage by stage, on a clock.",
        epilog=f"{EXIT_CODES}. Each command explains itself: clockseg COMMAND --help",
    )
    top.add_argument("--version", action="version", version=f"clockseg {__version__}")
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    for command in (
        segment,
        report,
        live,
        cut,
        evaluate,
        tune,
        plan,
        velocity,
        reproduce,
        bench,
        inspect,
        train,
        quantize,
        import_caffe,
        export,
    ):
        command.add_parser(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code.

    >>> main(["--version"])
    Traceback (most recent call last):
    SystemExit: 0
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # File names may hold what no encoding has.
            stream.reconfigure(errors="backslashreplace")
    with plain_output():
        return _run(argv)


def _run(argv: Sequence[str] | None) -> int:
    args = parser().parse_args(argv)
    try:
        code: int = args.run(args)
        return code
    except ClocksegError as error:
        print(f"clockseg: error: {indented(str(error))}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt as error:
        ended = isinstance(error, Ended)
        print(f"clockseg: {'ended' if ended else 'interrupted'}; nothing half-written was left.", file=sys.stderr)
        return error.exit_code if isinstance(error, Ended) else 130
    except BrokenPipeError:
        # The reader of our output has gone (| head): not an error; keep the interpreter from writing to it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"clockseg: error: {indented(str(error))}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
