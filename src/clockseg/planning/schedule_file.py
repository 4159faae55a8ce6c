"""Schedule files: ``clockseg tune`` and ``clockseg plan`` write them, and ``--schedule FILE.toml`` takes them.

format = "clockseg-schedule-1"
schedule = "either(adaptive(0.1834), at_least_every(8))"

[network]                           # what it was made for; may be left out
name = "street"
stages = ["stride8", "stride16", "context"]

[run]                               # of a plan: the network to run, as the command line has it
network = "street"
size = "640"
precision = "bf16"

[tuned]                             # how it was found; anything, or left out
videos = ["drive.mp4"]
fire_rate = 0.4977
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from clockseg.clocks.spec import parse_schedule
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Schedule, schedule_for
from clockseg.errors import DataError, UsageError
from clockseg.files import whole

FORMAT = "clockseg-schedule-1"
RUN = ("network", "size", "precision")
"""Options of the network to run that a plan holds."""
NETWORK_FILES = (".onnx", ".xml", ".tflite")
_EXAMPLE = f'It holds format = "{FORMAT}" and schedule = "adaptive(0.25)"; clockseg tune and plan write them.'


@dataclass(frozen=True)
class ScheduleFile:
    """A schedule file: the schedule in the notation of the command line, and the network it was made for.

    ``network`` and ``stages``: names, empty where the file leaves them out; ``tuned``: how it was found. ``run``: of a
    plan, what to run it on, as the options ``--network``, ``--size`` and ``--precision`` have it; a network's file is written
    as seen from the plan's folder. It is a schedule by itself: ``Session(net, read_schedule_file("night.toml"))``.
    """

    schedule: str
    network: str = ""
    stages: tuple[str, ...] = ()
    tuned: Mapping[str, Any] = field(default_factory=dict)
    run: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.schedule

    def __call__(self, stages: int) -> Schedule:
        """Return the schedule for a network of so many stages; ``UsageError`` if it was made for another number."""
        if self.stages and len(self.stages) != stages:
            raise UsageError(
                f"schedule {self.schedule} was made for the {len(self.stages)} stages of network {self.network!r} "
                f"({', '.join(self.stages)}), but this network has {stages}; run clockseg tune for it."
            )
        return schedule_for(parse_schedule(self.schedule), stages)

    def doubt(self, net: StagedNetwork) -> str | None:
        """Return a warning if it was made for another network than ``net``, since thresholds do not carry over."""
        stages = net.names
        if (self.network or net.name, self.stages or stages) == (net.name, stages):
            return None
        return (
            f"schedule {self.schedule} was made for network {self.network!r} ({', '.join(self.stages)}), but this is "
            f"{net.name!r} ({', '.join(stages)}). Thresholds do not carry over: use that network, or tune for this one."
        )


def read_schedule_file(path: str | os.PathLike[str]) -> ScheduleFile:
    """Read a schedule from a TOML file; ``DataError`` says what is missing or wrong in it.

    >>> read_schedule_file("nowhere.toml")
    Traceback (most recent call last):
        ...
    clockseg.errors.DataError: nowhere.toml can't be read (No such file or directory). It holds format =
    "clockseg-schedule-1" and schedule = "adaptive(0.25)"; clockseg tune and plan write them.
    """
    try:
        found = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path} can't be read ({error.strerror}). {_EXAMPLE}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not valid TOML ({error}). {_EXAMPLE}") from None
    return _placed(_parsed(found, str(path)), lambda network: os.path.normpath(Path(path).parent / network))


def _placed(file: ScheduleFile, place: Callable[[str], str]) -> ScheduleFile:
    """Return ``file`` with the path of its network's file changed by ``place``; the name of a bundled network stays."""
    network = file.run.get("network", "")
    if Path(network).suffix not in NETWORK_FILES:
        return file
    return replace(file, run={**file.run, "network": place(network)})


def _parsed(found: dict[str, Any], path: str) -> ScheduleFile:
    if found.get("format") != FORMAT:
        raise DataError(f"{path}: format is {found.get('format')!r}; this version reads {FORMAT!r}. {_EXAMPLE}")
    unknown = found.keys() - {"format", "schedule", "network", "tuned", "run"}
    if unknown:
        raise DataError(
            f"{path}: unknown keys {', '.join(sorted(unknown))}; allowed are schedule, network, run and tuned."
        )
    run = found.get("run", {})
    if not isinstance(run, dict) or run.keys() - set(RUN) or not all(isinstance(value, str) for value in run.values()):
        raise DataError(f"{path}: run is {run!r}; it holds texts for {', '.join(RUN)}.")
    schedule, network, tuned = found.get("schedule"), found.get("network", {}), found.get("tuned", {})
    if not isinstance(schedule, str) or not isinstance(network, dict) or not isinstance(tuned, dict):
        raise DataError(f"{path}: schedule must be a text, network and tuned must be tables. {_EXAMPLE}")
    name, stages = network.get("name", ""), network.get("stages", [])
    texts = isinstance(stages, list) and all(isinstance(stage, str) for stage in stages)
    if not (isinstance(name, str) and texts and network.keys() <= {"name", "stages"}):
        raise DataError(f"{path}: network is {network!r}; it holds a name, and stages, a list of names.")
    try:
        parse_schedule(schedule, imports=False)
    except UsageError as error:
        raise DataError(f"{path}: {error}") from None
    return ScheduleFile(schedule, name, tuple(stages), tuned, run)


def write_schedule_file(file: ScheduleFile, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write ``file`` as TOML, whole or not at all; ``UsageError`` if ``path`` is there and not to be replaced."""
    target = Path(path)
    if target.exists() and not overwrite:
        raise UsageError(f"{target} exists already; give another name, or overwrite it.")
    with whole(target) as part:
        placed = _placed(file, lambda network: os.path.relpath(network, target.parent))
        part.write_text(dump(placed), encoding="utf-8")


def dump(file: ScheduleFile) -> str:
    """Return a schedule file as TOML text."""
    lines = [f"format = {_value(FORMAT)}", f"schedule = {_value(file.schedule)}"]
    if file.network or file.stages:
        lines += ["", "[network]", f"name = {_value(file.network)}", f"stages = {_value(file.stages)}"]
    if file.run:
        lines += ["", "[run]", *(f"{key} = {_value(value)}" for key, value in file.run.items())]
    if file.tuned:
        lines += ["", "[tuned]", *(f"{_key(key)} = {_value(value)}" for key, value in file.tuned.items())]
    return "\n".join(lines) + "\n"


def _key(key: str) -> str:
    return key if key.replace("_", "").isalnum() and key.isascii() else _value(key)


def _value(value: Any) -> str:
    """Format a text, a truth value, a number or a list of these as TOML."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str | int):
        # JSON's escapes are TOML's, but for DEL; and TOML is Unicode, which file names need not be.
        text = json.dumps(value, ensure_ascii=False).encode(errors="replace").decode()
        return text.replace("\x7f", "\\u007f")
    raise UsageError(f"{value!r} can't be written to a schedule file; only strings, numbers and lists of them can be.")
