"""A plan on the command line: it says what to run, so that the options need not."""

from __future__ import annotations

import argparse
from typing import Any

from clockseg.cli._options import Unsaid, working_size
from clockseg.errors import UsageError


def as_planned(args: argparse.Namespace, *schedules: str | None) -> argparse.Namespace:
    """``args`` with the network, size and precision that the plans among ``schedules`` name, where the options don't say.

    ``UsageError`` if an option, or another of the plans, says otherwise.
    """
    from clockseg.planning.schedule_file import read_schedule_file

    plans = [(text, read_schedule_file(text).run) for text in schedules if text is not None and text.endswith(".toml")]
    said: dict[str, tuple[str, Any]] = {}
    for path, run in plans:
        for option, text in run.items():
            value = _value(path, option, text)
            before = said.setdefault(option, (path, value))
            if before[1] != value:
                raise UsageError(
                    f"{path} is a plan for --{option} {text}, {before[0]} for {_shown(before[1])}; give one at a time."
                )
    return argparse.Namespace(**vars(args) | {name: _agreed(args, name, *one) for name, one in said.items()})


def _value(path: str, option: str, text: str) -> Any:
    """What the option of that name would make of ``text``."""
    if option != "size":
        return text
    try:
        return working_size(text)
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"{path}: {error}.") from None


def _agreed(args: argparse.Namespace, option: str, path: str, value: Any) -> Any:
    given = getattr(args, option)
    if given is None or isinstance(given, Unsaid) or _same(option, given, value):
        return value
    raise UsageError(
        f"--{option} {_shown(given)}, but {path} is a plan for {_shown(value)}, and holds for no other; leave --{option} "
        "out, or make a plan for it: clockseg plan."
    )


def _same(option: str, given: Any, value: Any) -> bool:
    if option != "network":
        return bool(given == value)
    from pathlib import Path

    return bool(given == value) or (Path(given).exists() and Path(given).resolve() == Path(value).resolve())


def _shown(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)
