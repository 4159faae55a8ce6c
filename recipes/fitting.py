"""The parts that the trainings in torch share: a log, and a state to resume from."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from clockseg.errors import DataError
from clockseg.files import whole

Log = Callable[[dict[str, Any]], None]


def log_to(file: Path, say: Log, *, fresh: bool) -> Log:
    """Return a function that appends an entry to ``file`` and passes it to ``say``; ``fresh`` starts the file again."""
    if fresh:
        file.unlink(missing_ok=True)

    def log(entry: dict[str, Any]) -> None:
        with file.open("a") as stream:
            stream.write(json.dumps(entry) + "\n")
        say(entry)

    return log


def save_state(state: dict[str, Any], file: Path) -> None:
    """Write everything that resuming needs; the file is renamed into place when complete."""
    with whole(file) as part:
        torch.save(state, part)


def load_state(file: Path, device: torch.device) -> dict[str, Any]:
    """Load the state to resume from: tensors and plain values only, never pickled code."""
    try:
        state: dict[str, Any] = torch.load(file, map_location=device, weights_only=True)
    except Exception as error:
        raise DataError(f"{file} can't be resumed from ({error}); delete it, or train without --resume.") from error
    return state
