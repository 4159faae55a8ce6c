"""A trained `street` on disk: its weights as safetensors, what it is in the header."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch

from clockseg.datasets import Classes
from recipes.checkpoint import read_checkpoint, read_classes, write_checkpoint
from recipes.street.network import AnyStreet, Shape, build

FORMAT = "clockseg-street-1"


@dataclass(frozen=True)
class Description:
    """The description of a checkpoint: the architecture, the working size, and the classes."""

    shape: Shape
    working: tuple[int, int]
    classes: Classes


def save_network(net: AnyStreet, description: Description, file: Path) -> None:
    """Writes weights and description; the file gets its name when it is whole."""
    state = {name: value.detach().cpu().numpy() for name, value in net.state_dict().items()}
    write_checkpoint(state, description, file, FORMAT)


def load_network(file: Path) -> tuple[AnyStreet, Description]:
    """A network in evaluation mode and its description."""
    state, description = read_checkpoint(file, FORMAT, _description, recipe="python -m recipes.street train")
    net = build(description.shape)
    net.load_state_dict({name: torch.from_numpy(value) for name, value in state.items()})
    return net.eval(), description


def _description(raw: dict[str, Any]) -> Description:
    known = {field.name for field in fields(Shape)}
    shape = Shape(**{name: _plain(value) for name, value in raw["shape"].items() if name in known})
    width, height = raw["working"]
    return Description(shape, (width, height), read_classes(raw["classes"]))


def _plain(value: Any) -> Any:
    """JSON has lists where a shape has tuples."""
    return tuple(value) if isinstance(value, list) else value
