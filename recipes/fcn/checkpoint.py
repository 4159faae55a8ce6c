"""Checkpoints of FCNs: weights as safetensors, with a description in the header."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from clockseg.paper.fcn import FCNDescription, FCNShape, check_state
from clockseg.types import Array
from recipes.checkpoint import read_checkpoint, read_classes, write_checkpoint
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
    write_checkpoint({name: np.asarray(value, np.float32) for name, value in state.items()}, description, file, FORMAT)


def read_state(file: Path) -> tuple[dict[str, Array], FCNDescription]:
    """Read the weights at ``file`` by name, and their description."""
    state, description = read_checkpoint(file, FORMAT, _parsed, recipe="python -m recipes.fcn")
    check_state(state, description.shape, source=str(file))
    return state, description


def _parsed(raw: dict[str, Any]) -> FCNDescription:
    shape = raw["shape"]
    one, two, three, four, five = shape["widths"]
    blue, green, red = raw["mean"]
    width, height = raw["working"]
    return FCNDescription(
        FCNShape(shape["variant"], shape["classes"], (one, two, three, four, five), shape["fc"]),
        read_classes(raw["classes"]),
        (blue, green, red),
        raw["order"],
        (int(width), int(height)),
    )
