"""Checkpoints of FCNs: weights as safetensors, with a description in the header."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from clockseg.datasets import Classes
from clockseg.errors import DataError, MissingDependency, NetworkError, install, nearest
from clockseg.files import whole
from clockseg.paper.fcn_layers import FCNShape, weight_shapes
from clockseg.types import Array, Size

if TYPE_CHECKING:
    from clockseg.paper.fcn import FCN

FORMAT = "clockseg-fcn-1"
MEAN = (104.00698793, 116.66876762, 122.67891434)
"""Mean of ImageNet and PASCAL VOC, 0..255, blue, green, red, with which VGG-16 and networks based on it are trained."""


@dataclass(frozen=True)
class FCNDescription:
    """The description of a checkpoint: the architecture, the input, and the classes of the output.

    The net reads pixels 0..255 in ``order`` minus ``mean``, which is in the same order, without further preprocessing.
    ``working``: the size (width, height) that frames are fitted into.
    """

    shape: FCNShape
    classes: Classes
    mean: tuple[float, float, float] = MEAN
    order: Literal["bgr", "rgb"] = "bgr"
    working: Size = (500, 500)

    def __post_init__(self) -> None:
        names, colours = len(self.classes.names), len(self.classes.palette)
        if names != self.shape.classes or colours not in (0, names):
            raise NetworkError(
                f"{names} names and {colours} colours for the {self.shape.classes} classes of an {self.shape.variant}; "
                "give one of each per class, or no colours."
            )
        if self.order not in ("bgr", "rgb") or min(self.working) < 1 or not all(map(math.isfinite, self.mean)):
            raise NetworkError(
                f"order {self.order!r}, working size {self.working}, mean {self.mean}; the order is bgr or rgb, "
                "the size at least 1x1, and the mean three finite numbers."
            )


def save_fcn(net: FCN, description: FCNDescription, file: Path, *, half: bool = False) -> None:
    """Write the weights and description of a module, with ``half`` in float16; the file is renamed into place when complete."""
    state = {name: value.detach().cpu().numpy() for name, value in net.state_dict().items()}
    write_state(state, description, file, half=half)


def load_fcn(file: Path) -> tuple[FCN, FCNDescription]:
    """Load the module at ``file``, on the CPU, in float32 and in evaluation mode, and its description."""
    import torch

    from clockseg.paper.fcn import FCN

    state, description = read_state(file)
    with torch.device("meta"):  # neither memory nor time for weights that are replaced
        net = FCN(description.shape)
    tensors = {name: torch.from_numpy(value.astype(np.float32, copy=False)) for name, value in state.items()}
    net.load_state_dict(tensors, assign=True)
    return net.eval(), description


def write_state(state: Mapping[str, Array], description: FCNDescription, file: Path, *, half: bool = False) -> None:
    """Write weights by name, without torch, as ``save_fcn`` does; ``NetworkError`` unless they fit the description."""
    check_state(state, description.shape, source=str(file))
    header = {"format": FORMAT, "network": json.dumps(asdict(description))}
    if half and (large := [name for name, value in state.items() if np.abs(value).max() > np.finfo(np.float16).max]):
        raise NetworkError(f"{', '.join(large)} have weights too large for 16 bits; write them in 32.")
    kind = np.float16 if half else np.float32
    stored = {name: np.ascontiguousarray(value, dtype=kind) for name, value in state.items()}
    try:
        with whole(file) as part:
            _safetensors("numpy").save_file(stored, part, header)
            part.chmod(0o644)  # safetensors makes files for their owner alone
    except (OSError, _safetensors().SafetensorError) as error:
        raise DataError(f"{file} can't be written: {error}") from error


def read_state(file: Path) -> tuple[dict[str, Array], FCNDescription]:
    """Read the weights at ``file`` by name, float32 or float16 as stored, and their description, without torch."""
    library = _safetensors()
    try:
        with library.safe_open(file, "np") as source:
            description = _description(source.metadata() or {}, file)
            state = {name: source.get_tensor(name) for name in list(source.keys())}
    except (OSError, library.SafetensorError, TypeError) as error:
        raise DataError(
            f"{file} is not a checkpoint of an FCN (`clockseg import`, `python -m recipes.fcn`): {error}"
        ) from error
    check_state(state, description.shape, source=str(file))
    return state, description


def check_state(state: Mapping[str, Array], shape: FCNShape, *, source: str) -> None:
    """Raise ``NetworkError`` unless ``state`` has exactly the weights of such a net, each with its shape.

    >>> check_state({"conv1_1.weight": np.zeros((4, 3, 3, 3))}, FCNShape(), source="x")
    Traceback (most recent call last):
        ...
    clockseg.errors.NetworkError: x: conv1_1.weight is 4x3x3x3; an fcn8s of 21 classes has 64x3x3x3 there.
    """
    wanted = weight_shapes(shape)
    what = f"an {shape.variant} of {shape.classes} classes"
    for name, value in state.items():
        if name not in wanted:
            raise NetworkError(f"{source}: {what} has no weights {name!r}. {nearest(name, wanted)}")
        if value.shape != wanted[name]:
            raise NetworkError(f"{source}: {name} is {_by(value.shape)}; {what} has {_by(wanted[name])} there.")
    if missing := [name for name in wanted if name not in state]:
        raise NetworkError(f"{source} lacks {', '.join(missing)} of {what}.")


def _by(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _description(header: Mapping[str, str], file: Path) -> FCNDescription:
    if header.get("format") != FORMAT:
        raise DataError(
            f"{file} has the format {header.get('format')!r}; {FORMAT!r} is what `clockseg import` and "
            "`python -m recipes.fcn` write."
        )
    try:
        return _parsed(json.loads(header["network"]))
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, NetworkError):
            raise
        raise DataError(f"{file}: its description is damaged ({error!r}); import or train it anew.") from error


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


def _safetensors(part: str = "") -> Any:
    from importlib import import_module

    try:
        return import_module(f"safetensors.{part}" if part else "safetensors")
    except ImportError as error:
        raise MissingDependency(f"checkpoints need safetensors: {install('torch')}") from error
