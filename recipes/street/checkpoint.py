"""A trained `street` on disk: its weights as safetensors, what it is in the header."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from clockseg.datasets import Classes
from clockseg.errors import DataError
from clockseg.files import whole
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
    state = {name: value.detach().cpu().contiguous() for name, value in net.state_dict().items()}
    with whole(file) as part:
        save_file(state, part, {"format": FORMAT, "network": json.dumps(asdict(description))})
        part.chmod(0o644)  # safetensors makes files for their owner alone


def load_network(file: Path) -> tuple[AnyStreet, Description]:
    """A network in evaluation mode and its description."""
    try:
        with safe_open(file, "pt") as source:
            header = source.metadata() or {}
            state = {name: source.get_tensor(name) for name in list(source.keys())}
    except (OSError, SafetensorError) as error:
        raise DataError(
            f"{file} is not a checkpoint of `python -m recipes.street train` (DIR/street.safetensors): {error}"
        ) from error
    if header.get("format") != FORMAT:
        raise DataError(
            f"{file} has the format {header.get('format')!r}; {FORMAT!r} is what `python -m recipes.street train` writes."
        )
    description = _description(json.loads(header["network"]))
    net = build(description.shape)
    net.load_state_dict({name: value.float() if value.is_floating_point() else value for name, value in state.items()})
    return net.eval(), description


def _description(raw: dict[str, Any]) -> Description:
    made, said = raw["shape"], raw["classes"]
    known = {field.name for field in fields(Shape)}
    shape = Shape(**{name: _plain(value) for name, value in made.items() if name in known})
    classes = Classes(tuple(said["names"]), tuple((r, g, b) for r, g, b in said["palette"]), said["ignore"])
    width, height = raw["working"]
    return Description(shape, (width, height), classes)


def _plain(value: Any) -> Any:
    """JSON has lists where a shape has tuples."""
    return tuple(value) if isinstance(value, list) else value
