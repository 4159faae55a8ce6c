"""The sidecar NAME.json beside a network's NAME.onnx: what its numbers mean, and where it is cut.

    {"format": "clockseg-1", "name": "street",
     "input": {"name": "input", "width": 480, "height": 360, "colour": "rgb", "scale": 0.00392, "mean": [0.5, 0.5, 0.5],
               "std": [0.5, 0.5, 0.5], "pad_multiple": 32, "pad_value": [127, 127, 127]},
     "output": "scores", "cuts": [["stride8"], ["stride16"], ["context"]],
     "stages": ["fine", "middle", "deep"], "scores": ["scores_1", "scores_2", null],
     "classes": ["sky", "road"], "palette": [[0, 0, 0], [128, 64, 128]], "ignore": 255, "schedule": "adaptive(0.25)"}

The network reads x = (pixel * scale - mean) / std, channels in the order ``colour`` says; mean and std are in that order too.

"confidence" is the mean over pixels of a network's largest class probability on its own validation data, 0..1; ``segment``
warns where it is far less. "instances" says how the outputs of an instance network are decoded (``clockseg.instances.heads``).

A frame is scaled, its aspect kept, to fit in width x height, and padded right and below with ``pad_value`` (RGB,
0..255) to a multiple of ``pad_multiple``. Required are format, input {name, width, height}, output and cuts; a network
whose output isn't class scores has no classes.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from clockseg.errors import NetworkError, nearest
from clockseg.types import Array


class Kind(NamedTuple):
    """The values that a field of a sidecar may have: in words, and as a test of what JSON gives."""

    words: str
    fits: Callable[[Any], bool]

    def or_null(self) -> Kind:
        """Return this kind with null."""
        return Kind(f"{self.words} or null", lambda value: value is None or self.fits(value))

    def listed(self, words: str, length: int | None = None) -> Kind:
        """Return the kind of lists of this kind, ``length`` long where that is given."""

        def fits(value: Any) -> bool:
            return isinstance(value, list) and length in (None, len(value)) and all(map(self.fits, value))

        return Kind(words, fits)


def _whole(least: int, most: int) -> Kind:
    return Kind(f"a whole number from {least} to {most}", lambda value: type(value) is int and least <= value <= most)


def _is_finite(value: Any) -> bool:
    try:
        return type(value) in (int, float) and math.isfinite(value)
    except OverflowError:
        return False


def _show(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


FORMAT = "clockseg-1"
MOST_CLASSES = 255
"""Label maps are uint8, and 255 stands for no label."""


@dataclass(frozen=True)
class Input:
    """The preprocessing of a frame; see the module's docstring."""

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
        """Return a factor and an offset a channel, float64 [3] each: x = pixel * factor + offset."""
        std = np.array(self.std)
        return self.scale / std, -np.array(self.mean) / std

    def normalised(self, frames: Array) -> Array:
        """Return frames, uint8 RGB [n, h, w, 3], as the network reads them: float32 [n, 3, h, w]."""
        image = frames[..., ::-1] if self.colour == "bgr" else frames
        factor, offset = (one.astype(np.float32) for one in self.affine())
        return np.ascontiguousarray((image * factor + offset).transpose(0, 3, 1, 2))


@dataclass(frozen=True)
class Sidecar:
    """The contents of NAME.json; see the module's docstring. ``cuts``: for each stage, the tensors of its cut."""

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
    confidence: float | None = None
    instances: Mapping[str, Any] | None = None


_COUNT = _whole(1, 65535)
_TEXT = Kind("a string", lambda value: isinstance(value, str))
_TEXTS = _TEXT.listed("a list of strings")
_OBJECT = Kind("an object", lambda value: isinstance(value, dict))
_NUMBER = Kind("a finite number", _is_finite)
_FACTOR = Kind("a finite number other than 0", lambda value: _is_finite(value) and value != 0)
_BYTE = _whole(0, MOST_CLASSES)
_COLOUR = _BYTE.listed(f"a colour, three whole numbers from 0 to {MOST_CLASSES}: red, green, blue", 3)
_INPUT = {
    "name": _TEXT,
    "width": _COUNT,
    "height": _COUNT,
    "colour": Kind(
        "rgb or bgr, the order of channels the network was trained with", lambda value: value in ("rgb", "bgr")
    ),
    "scale": _FACTOR,
    "mean": _NUMBER.listed("three finite numbers, one per channel", 3),
    "std": _FACTOR.listed("three finite numbers other than 0, one per channel", 3),
    "pad_multiple": _COUNT,
    "pad_value": _COLOUR,
}
_SIDECAR = {
    "format": Kind(f"{FORMAT!r}, which this version reads", lambda value: value == FORMAT),
    "name": _TEXT,
    "input": _OBJECT,
    "output": _TEXT,
    "cuts": Kind(
        "a list of one cut or more, each a tensor's name or a list of names",
        lambda value: isinstance(value, list) and bool(value) and all(_TEXT.fits(cut) or _is_cut(cut) for cut in value),
    ),
    "stages": _TEXTS,
    "scores": _TEXT.or_null().listed("a list of strings, or null for a stage that has none"),
    "classes": Kind(
        f"a list of strings, each different, and at most {MOST_CLASSES} because label maps are bytes",
        lambda value: _TEXTS.fits(value) and len(set(value)) == len(value) <= MOST_CLASSES,
    ),
    "palette": _COLOUR.listed(f"a list of colours; {_COLOUR.words}"),
    "ignore": _BYTE.or_null(),
    "schedule": _TEXT.or_null(),
    "confidence": Kind("a number above 0 and at most 1", lambda value: _is_finite(value) and 0 < value <= 1).or_null(),
    "instances": _OBJECT.or_null(),
}


def _is_cut(value: Any) -> bool:
    return bool(value) and _TEXTS.fits(value)


def parse(text: str, *, source: str) -> Sidecar:
    """Parse a sidecar from JSON ``text``; ``source`` names it in errors."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NetworkError(f"{source} is not JSON: {error}. Correct it, or write it again.") from error
    if not isinstance(data, dict):
        raise NetworkError(f"{source}: the file is {_show(data)}; it must be an object, {{..}}.")
    if "correction" in data:
        raise NetworkError(
            f"{source}: corrections of propagated scores were removed after version 0.2. Delete the field correction, and keep of "
            "the graph what the other fields name: onnx.utils.extract_model(FILE, NEW FILE, [input.name], [output, *scores])."
        )
    fields = _fields({"name": Path(source).stem, **data}, _SIDECAR, ("format", "input", "output", "cuts"), source)
    fields["input"] = Input(**_fields(data["input"], _INPUT, ("name", "width", "height"), source, "input."))
    fields["cuts"] = tuple((cut,) if isinstance(cut, str) else cut for cut in fields["cuts"])
    del fields["format"]
    found = Sidecar(**fields)
    for name, wanted, per in (("stages", "cuts", "cut"), ("scores", "cuts", "cut"), ("palette", "classes", "class")):
        items, number = len(getattr(found, name)), len(getattr(found, wanted))
        if items not in (0, number):
            raise NetworkError(f"{source}: {name} has {items} items and must have {number}, one per {per}.")
    return found


def _fields(
    data: Mapping[str, Any], kinds: Mapping[str, Kind], required: Iterable[str], source: str, prefix: str = ""
) -> dict[str, Any]:
    """Return the fields of a JSON object, each of its kind; lists become tuples."""
    for name, value in data.items():
        if name not in kinds:
            raise NetworkError(f"{source}: unknown field {prefix}{name}. {nearest(name, kinds)}")
        if not kinds[name].fits(value):
            raise NetworkError(f"{source}: {prefix}{name} is {_show(value)}; it must be {kinds[name].words}.")
    for name in required:
        if name not in data:
            raise NetworkError(f"{source} has no {prefix}{name}; it needs one: {kinds[name].words}.")
    return {name: _in_tuples(value) for name, value in data.items()}


def _in_tuples(value: Any) -> Any:
    return tuple(map(_in_tuples, value)) if isinstance(value, list) else value


def read(path: Path) -> Sidecar:
    """Read the sidecar at ``path``; ``NetworkError`` names a missing or wrong field."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise NetworkError(
            f"{path} is missing. NAME.onnx needs NAME.json next to it, which describes the input and the cuts; at least: "
            '{"format": "clockseg-1", "input": {"name": .., "width": .., "height": ..}, "output": .., "cuts": [[..], ..]}'
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise NetworkError(f"{path} can't be read: {error}") from error
    return parse(text, source=str(path))


def dump(sidecar: Sidecar) -> str:
    """Return the sidecar as JSON text, which ``parse`` reads."""
    data: dict[str, Any] = {"format": FORMAT}
    data |= {key: value for key, value in dataclasses.asdict(sidecar).items() if value not in ((), None)}
    return json.dumps(data, indent=1) + "\n"


def write(sidecar: Sidecar, path: Path) -> None:
    """Write ``sidecar`` to ``path``."""
    path.write_text(dump(sidecar), encoding="utf-8")


def beside(path: Path) -> dict[str, Any] | None:
    """Return the JSON object beside a file, empty if there is no such file; None if it is damaged."""
    file = path.with_suffix(".json")
    try:
        data = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    except (OSError, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None
