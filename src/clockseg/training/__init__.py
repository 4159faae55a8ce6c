"""Training a clock from a network's own outputs on video."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Trained:
    """The file that a training wrote, and ``facts`` about it: plain values, for ``json.dumps``."""

    path: Path
    facts: dict[str, Any]
