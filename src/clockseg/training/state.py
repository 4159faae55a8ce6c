"""The state of a training, to resume from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from clockseg.errors import DataError
from clockseg.files import whole


def save_state(state: dict[str, Any], file: Path) -> None:
    """Writes all that resuming needs; the file gets its name when it is whole."""
    with whole(file) as part:
        torch.save(state, part)


def load_state(file: Path, device: torch.device) -> dict[str, Any]:
    """The state to resume from; tensors and plain values only, never pickled code."""
    try:
        state: dict[str, Any] = torch.load(file, map_location=device, weights_only=True)
    except Exception as error:
        raise DataError(f"{file} can't be resumed from ({error}); delete it, or train without --resume.") from error
    return state
