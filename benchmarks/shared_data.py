"""The shared data folder that benchmarks read: ``CLOCKSEG_DATA``, else the folder ``shared`` beside the checkout."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def shared_data(*parts: str) -> Path:
    """A path in the shared data; ends the program with what to do if it isn't there."""
    root = Path(os.environ.get("CLOCKSEG_DATA") or Path(__file__).resolve().parents[2] / "shared")
    path = root.joinpath("data", *parts)
    if not path.exists():
        sys.exit(f"{path} is not there: set CLOCKSEG_DATA to the shared data folder.")
    return path
