"""Checkpoints of trainings: weights as safetensors, with a description of the network in the header."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from clockseg.datasets import Classes
from clockseg.errors import DataError, NetworkError
from clockseg.files import whole
from clockseg.types import Array


def write_checkpoint(state: Mapping[str, Array], description: Any, file: Path, format: str) -> None:
    """Write weights and a description, a dataclass; the file is renamed into place when complete."""
    header = {"format": format, "network": json.dumps(asdict(description))}
    stored = {name: np.asarray(value, order="C") for name, value in state.items()}
    try:
        with whole(file) as part:
            save_file(stored, part, header)
            part.chmod(0o644)  # safetensors makes files for their owner alone
    except (OSError, SafetensorError) as error:
        raise DataError(f"{file} can't be written: {error}") from error


def read_checkpoint(file: Path, format: str, parsed: Any, *, recipe: str) -> tuple[dict[str, Array], Any]:
    """Read weights by name, floats as float32, and the description that `parsed` makes of the header.

    `DataError` for a file that `recipe`, such as "python -m recipes.fcn", did not write.
    """
    try:
        with safe_open(file, "np") as source:
            header = source.metadata() or {}
            if header.get("format") != format:
                found = header.get("format")
                raise DataError(f"{file} has the format {found!r}; {format!r} is what `{recipe}` writes.")
            description = _described(header, parsed, file)
            state = {name: source.get_tensor(name) for name in list(source.keys())}
    except (OSError, SafetensorError, TypeError) as error:
        raise DataError(f"{file} is not a checkpoint of `{recipe}`: {error}") from error
    return {name: value.astype(np.float32, copy=False) if value.dtype.kind == "f" else value
            for name, value in state.items()}, description  # fmt: skip


def _described(header: Mapping[str, str], parsed: Any, file: Path) -> Any:
    try:
        return parsed(json.loads(header["network"]))
    except NetworkError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{file}: its description is damaged ({error!r}); train it anew.") from error


def read_classes(said: Mapping[str, Any]) -> Classes:
    """Return the classes of a header."""
    return Classes(tuple(said["names"]), tuple((r, g, b) for r, g, b in said["palette"]), said["ignore"])
