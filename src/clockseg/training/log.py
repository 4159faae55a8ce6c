"""The log of a training: a line of JSON for each thing that happened."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Log = Callable[[dict[str, Any]], None]


def log_to(file: Path, say: Log, *, fresh: bool) -> Log:
    """What writes an entry to `file` and to `say`; `fresh` begins the file anew."""
    if fresh:
        file.unlink(missing_ok=True)

    def log(entry: dict[str, Any]) -> None:
        with file.open("a") as stream:
            stream.write(json.dumps(entry) + "\n")
        say(entry)

    return log
