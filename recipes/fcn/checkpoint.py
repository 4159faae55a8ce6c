"""Checkpoints of FCNs: weights as safetensors, with a description in the header."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from clockseg.datasets import Classes
from clockseg.errors import DataError, NetworkError
from clockseg.files import whole
from clockseg.paper.export_fcn import FCNDescription, check_state
from clockseg.paper.fcn_layers import FCNShape
from clockseg.types import Array
from recipes.fcn.net import FCN

FORMAT = "clockseg-fcn-1"


def save_fcn(net: FCN, description: FCNDescription, file: Path) -> None:
    """Write the weights and description of a module; the file is renamed into place when complete."""
    write_state({name: value.detach().cpu().numpy() for name, value in net.state_dict().items()}, description, file)


def load_fcn(file: Path) -> tuple[FCN, FCNDescription]:
    """Load the module at ``file``, on the CPU and in evaluation mode, and its description."""
    state, description = read_state(file)
    with torch.device("meta"):  # neither memory nor time for weights that are replaced
        net = FCN(description.shape)
    net.load_state_dict({name: torch.from_numpy(value) for name, value in state.items()}, assign=True)
    return net.eval(), description


def write_state(state: Mapping[str, Array], description: FCNDescription, file: Path) -> None:
    """Write weights by name, as ``save_fcn`` does; ``NetworkError`` unless they fit the description."""
    check_state(state, description.shape, source=str(file))
    header = {"format": FORMAT, "network": json.dumps(asdict(description))}
    stored = {name: np.ascontiguousarray(value, dtype=np.float32) for name, value in state.items()}
    try:
        with whole(file) as part:
            save_file(stored, part, header)
            part.chmod(0o644)  # safetensors makes files for their owner alone
    except (OSError, SafetensorError) as error:
        raise DataError(f"{file} can't be written: {error}") from error


def read_state(file: Path) -> tuple[dict[str, Array], FCNDescription]:
    """Read the weights at ``file`` by name, and their description."""
    try:
        with safe_open(file, "np") as source:
            description = _description(source.metadata() or {}, file)
            state = {name: source.get_tensor(name).astype(np.float32, copy=False) for name in list(source.keys())}
    except (OSError, SafetensorError, TypeError) as error:
        raise DataError(f"{file} is not a checkpoint of an FCN (`python -m recipes.fcn`): {error}") from error
    check_state(state, description.shape, source=str(file))
    return state, description


def _description(header: Mapping[str, str], file: Path) -> FCNDescription:
    if header.get("format") != FORMAT:
        raise DataError(
            f"{file} has the format {header.get('format')!r}; {FORMAT!r} is what `python -m recipes.fcn` writes."
        )
    try:
        return _parsed(json.loads(header["network"]))
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, NetworkError):
            raise
        raise DataError(f"{file}: its description is damaged ({error!r}); train it anew.") from error


def _parsed(raw: dict[str, Any]) -> FCNDescription:
    shape, said = raw["shape"], raw["classes"]
    one, two, three, four, five = shape["widths"]
    classes = Classes(tuple(said["names"]), tuple((r, g, b) for r, g, b in said["palette"]), said["ignore"])
    blue, green, red = raw["mean"]
    width, height = raw["working"]
    return FCNDescription(
        FCNShape(shape["variant"], shape["classes"], (one, two, three, four, five), shape["fc"]),
        classes,
        (blue, green, red),
        raw["order"],
        (int(width), int(height)),
    )
