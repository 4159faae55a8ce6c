"""The sidecar NAME.json beside a network's NAME.onnx: what its numbers mean, and where it is cut.

    {"format": "clockseg-1", "name": "street",
     "input": {"name": "input", "width": 480, "height": 360, "colour": "rgb", "scale": 0.00392, "mean": [0.5, 0.5, 0.5],
               "std": [0.5, 0.5, 0.5], "pad_multiple": 32, "pad_value": [127, 127, 127]},
     "output": "scores", "cuts": [["stride8"], ["stride16"], ["context"]],
     "stages": ["fine", "middle", "deep"], "scores": ["scores_1", "scores_2", null],
     "classes": ["sky", "road"], "palette": [[0, 0, 0], [128, 64, 128]], "ignore": 255, "schedule": "adaptive(0.25)"}

The network reads x = (pixel * scale - mean) / std, channels in the order ``colour`` says; mean and std are in that order
too. A network that was trained for staleness (``clockseg train stale``) also has a "correction", in the same file:

    "correction": {"output": "corrected", "of": "coarse", "moved": "moved", "unexplained": "unexplained", "reads": null}

A frame is scaled, its aspect kept, to fit in width x height, and padded right and below with ``pad_value`` (RGB,
0..255) to a multiple of ``pad_multiple``. Required are format, input {name, width, height}, output and cuts; a network
whose output isn't class scores has no classes.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clockseg.errors import NetworkError
from clockseg.graph._fields import Fields
from clockseg.types import Array

FORMAT = "clockseg-1"
MOST_CLASSES = 255
"""Label maps are uint8, and 255 stands for no label."""


@dataclass(frozen=True)
class Input:
    """How a frame becomes what the network reads; see the module's text."""

    name: str
    width: int
    height: int
    colour: str = "rgb"
    scale: float = 1 / 255
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)
    std: tuple[float, float, float] = (1.0, 1.0, 1.0)
    pad_multiple: int = 1
    pad_value: tuple[int, int, int] = (0, 0, 0)

    def affine(self) -> tuple[Array, Array]:
        """A factor and an offset a channel, float64 [3] each: x = pixel * factor + offset.

        >>> Input("x", 8, 8, scale=1.0, mean=(128.0,) * 3, std=(2.0,) * 3).affine()
        (array([0.5, 0.5, 0.5]), array([-64., -64., -64.]))
        """
        std = np.array(self.std)
        return self.scale / std, -np.array(self.mean) / std


@dataclass(frozen=True)
class Correction:
    """What in the same file mends a moved score map: from two inputs of its own, and a frame or a stage, to ``output``.

    ``of``: the tensor of the network that is moved; the input ``moved`` takes it, ``unexplained`` what the motion leaves
    unexplained, [1, 1, h, w] at the same places, 0..1. ``reads``: the stage whose cut it also reads, None: the frame.
    ``output`` stands for the network's.
    """

    output: str
    of: str
    moved: str
    unexplained: str
    reads: str | None = None


@dataclass(frozen=True)
class Sidecar:
    """What NAME.json says; see the module's text. ``cuts``: per stage, the tensors it is cut at."""

    name: str
    input: Input
    output: str
    cuts: tuple[tuple[str, ...], ...]
    stages: tuple[str, ...] = ()
    scores: tuple[str | None, ...] = ()
    classes: tuple[str, ...] = ()
    palette: tuple[tuple[int, int, int], ...] = ()
    ignore: int | None = None
    schedule: str | None = None
    correction: Correction | None = None


def parse(text: str, *, source: str) -> Sidecar:
    """A sidecar from JSON ``text``; ``source`` names it in errors."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NetworkError(f"{source} is no JSON: {error}. Mend it, or write it anew.") from error
    top = Fields.of(data, source, "")
    if top.take("format", str) != FORMAT:
        raise top.wrong("format", f"this version reads {FORMAT!r}")
    found = _sidecar(top, source)
    top.end()
    return found


def _sidecar(top: Fields, source: str) -> Sidecar:
    cuts = top.lists("cuts", str)
    classes = top.list("classes", str, default=())
    found = Sidecar(
        name=top.take("name", str, default=Path(source).stem),
        input=_input(Fields.of(top.take("input", dict), source, "input.")),
        output=top.take("output", str),
        cuts=cuts,
        stages=top.list("stages", str, default=(), length=len(cuts), why="one per cut"),
        scores=top.list("scores", (str, type(None)), default=(), length=len(cuts), why="one per cut, or null"),
        classes=classes,
        palette=top.colours("palette", length=len(classes)),
        ignore=top.take("ignore", (int, type(None)), default=None),
        schedule=top.take("schedule", (str, type(None)), default=None),
        correction=_correction(top.take("correction", (dict, type(None)), default=None), source),
    )
    _check(found, top)
    return found


def _input(fields: Fields) -> Input:
    plain = Input("", 1, 1)
    found = Input(
        name=fields.take("name", str),
        width=fields.count("width"),
        height=fields.count("height"),
        colour=fields.take("colour", str, default="rgb"),
        scale=fields.number("scale", default=plain.scale),
        mean=fields.numbers("mean", default=plain.mean),
        std=fields.numbers("std", default=plain.std),
        pad_multiple=fields.count("pad_multiple", default=1),
        pad_value=fields.colour("pad_value", default=plain.pad_value),
    )
    if found.colour not in ("rgb", "bgr"):
        raise fields.wrong("colour", "it is rgb or bgr, the order of channels the network was trained with")
    for name, values in (("std", found.std), ("scale", (found.scale,))):
        if 0 in values:
            raise fields.wrong(name, "it must not be 0")
    fields.end()
    return found


def _correction(data: dict[str, Any] | None, source: str) -> Correction | None:
    if data is None:
        return None
    fields = Fields.of(data, source, "correction.")
    names = {name: fields.take(name, str) for name in ("output", "of", "moved", "unexplained")}
    found = Correction(**names, reads=fields.take("reads", (str, type(None)), default=None))
    fields.end()
    return found


def _check(found: Sidecar, top: Fields) -> None:
    if not found.cuts or not all(found.cuts):
        raise top.wrong("cuts", "name at least one cut, and at least one tensor in each")
    if len(found.classes) > MOST_CLASSES:
        raise NetworkError(
            f"{top.source}: {len(found.classes)} classes; label maps are bytes, so at most {MOST_CLASSES}."
        )
    if len(set(found.classes)) != len(found.classes):
        raise top.wrong("classes", "each name may stand there once")
    if found.ignore is not None and not 0 <= found.ignore <= MOST_CLASSES:
        raise top.wrong("ignore", f"it is 0 to {MOST_CLASSES}, or null")
    reads = None if found.correction is None else found.correction.reads
    names = found.stages or tuple(f"stage{index + 1}" for index in range(len(found.cuts)))
    if reads is not None and reads not in names:
        raise top.wrong("correction", f"it reads one of the stages {', '.join(names)}, or null: the frame")


def read(path: Path) -> Sidecar:
    """The sidecar at ``path``; NetworkError says what is missing or wrong in it."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise NetworkError(
            f"{path} is missing. Beside NAME.onnx stands NAME.json, which says what goes in and where to cut; at least: "
            '{"format": "clockseg-1", "input": {"name": .., "width": .., "height": ..}, "output": .., "cuts": [[..], ..]}'
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise NetworkError(f"{path} can't be read: {error}") from error
    return parse(text, source=str(path))


def dump(sidecar: Sidecar) -> str:
    """The sidecar as JSON text.

    >>> sidecar = Sidecar("tiny", Input("x", 64, 48), "y", (("a",), ("b",)), classes=("sky", "road"))
    >>> parse(dump(sidecar), source="tiny.json") == sidecar
    True
    """
    data: dict[str, Any] = {"format": FORMAT}
    data |= {key: value for key, value in dataclasses.asdict(sidecar).items() if value not in ((), None)}
    return json.dumps(data, indent=1) + "\n"


def write(sidecar: Sidecar, path: Path) -> None:
    """Write ``sidecar`` to ``path``."""
    path.write_text(dump(sidecar), encoding="utf-8")
