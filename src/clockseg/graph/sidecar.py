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
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from clockseg.errors import NetworkError, nearest
from clockseg.types import Array

_MISSING = object()
_WORDS = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    dict: "an object",
    list: "a list",
    type(None): "null",
}
Kinds = type | tuple[type, ...]


@dataclass
class Fields:
    """The fields of one JSON object; ``end`` refuses those that nobody took."""

    data: dict[str, Any]
    source: str
    prefix: str
    taken: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, data: object, source: str, prefix: str) -> Fields:
        """Return the fields of ``data``, which must be a JSON object."""
        if not isinstance(data, dict):
            raise NetworkError(
                f"{source}: {prefix.rstrip('.') or 'the file'} is {_show(data)}; it must be an object, {{..}}."
            )
        return cls(data, source, prefix)

    def wrong(self, name: str, allowed: str) -> NetworkError:
        """Return the error to raise about field ``name``: what it is, and what is allowed."""
        return NetworkError(f"{self.source}: {self.prefix}{name} is {_show(self.data.get(name))}; {allowed}.")

    def take(self, name: str, kinds: Kinds, *, default: Any = _MISSING) -> Any:
        """Field ``name``, of one of ``kinds``; its default where it is absent."""
        self.taken.append(name)
        if name not in self.data:
            if default is _MISSING:
                raise NetworkError(f"{self.source} has no {self.prefix}{name}; it needs one: {_words(kinds)}.")
            return default
        if not _is(self.data[name], kinds):
            raise self.wrong(name, f"it must be {_words(kinds)}")
        return self.data[name]

    def list(
        self, name: str, kinds: Kinds, *, default: Any = _MISSING, length: int | None = None, why: str = ""
    ) -> tuple[Any, ...]:
        """Field ``name``: a list of items of ``kinds``, ``length`` of them where that is given."""
        items = self.take(name, list, default=default)
        if items is default:
            return tuple(items)
        if not all(_is(item, kinds) for item in items):
            raise self.wrong(name, f"its items must each be {_words(kinds)}")
        if length is not None and len(items) != length:
            raise self.wrong(name, f"it has {len(items)} items and must have {length}, {why}")
        return tuple(items)

    def lists(self, name: str, kind: type) -> tuple[tuple[Any, ...], ...]:
        """Field ``name``: a list of lists; a single item stands for a list of one."""
        items = [item if isinstance(item, list) else [item] for item in self.take(name, list)]
        if not all(_is(entry, kind) for item in items for entry in item):
            raise self.wrong(name, f"it must be a list of lists, each item {_words(kind)}")
        return tuple(tuple(item) for item in items)

    def count(self, name: str, *, default: Any = _MISSING) -> int:
        """Field ``name``: a whole number of at least 1 and at most 65535."""
        value: int = self.take(name, int, default=default)
        if not 1 <= value <= 65535:
            raise self.wrong(name, "it must be 1 to 65535")
        return value

    def number(self, name: str, *, default: float) -> float:
        """Field ``name``: a finite number."""
        value = _finite(self.take(name, float, default=default))
        if value is None:
            raise self.wrong(name, "it must be finite")
        return value

    def numbers(self, name: str, *, default: tuple[float, float, float]) -> tuple[float, float, float]:
        """Field ``name``: three finite numbers, one per channel."""
        values = [_finite(value) for value in self.list(name, float, default=default)]
        finite = [value for value in values if value is not None]
        if len(values) != 3 or len(finite) != 3:
            raise self.wrong(name, "it must be three finite numbers, one per channel")
        return finite[0], finite[1], finite[2]

    def colour(self, name: str, *, default: tuple[int, int, int]) -> tuple[int, int, int]:
        """Field ``name``: one RGB colour, each channel 0..255."""
        return _colour(self.list(name, int, default=default)) or self._bad_colour(name)

    def colours(self, name: str, *, length: int) -> tuple[tuple[int, int, int], ...]:
        """Field ``name``: ``length`` RGB colours, or absent."""
        items = self.take(name, list, default=[])
        if items and len(items) != length:
            raise NetworkError(
                f"{self.source}: {self.prefix}{name} has {len(items)} colours for {length} classes; one each."
            )
        return tuple(_colour(item) or self._bad_colour(name) for item in items)

    def _bad_colour(self, name: str) -> tuple[int, int, int]:
        raise self.wrong(name, "a colour is three whole numbers, 0 to 255: red, green, blue")

    def end(self) -> None:
        """Refuse fields that nobody took."""
        for name in self.data:
            if name not in self.taken:
                raise NetworkError(f"{self.source}: unknown field {self.prefix}{name}. {nearest(name, self.taken)}")


def _colour(item: Any) -> tuple[int, int, int] | None:
    fits = isinstance(item, (list, tuple)) and len(item) == 3 and all(_is(c, int) and 0 <= c <= 255 for c in item)
    return (item[0], item[1], item[2]) if fits else None


def _finite(value: float) -> float | None:
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _is(value: object, kinds: Kinds) -> bool:
    allowed = kinds if isinstance(kinds, tuple) else (kinds,)
    if isinstance(value, bool):
        return bool in allowed
    return isinstance(value, allowed) or (float in allowed and isinstance(value, int))


def _words(kinds: Kinds) -> str:
    return " or ".join(_WORDS[kind] for kind in (kinds if isinstance(kinds, tuple) else (kinds,)))


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
        """Return a factor and an offset a channel, float64 [3] each: x = pixel * factor + offset.

        >>> Input("x", 8, 8, scale=1.0, mean=(128.0,) * 3, std=(2.0,) * 3).affine()
        (array([0.5, 0.5, 0.5]), array([-64., -64., -64.]))
        """
        std = np.array(self.std)
        return self.scale / std, -np.array(self.mean) / std


@dataclass(frozen=True)
class Correction:
    """A subgraph that corrects a moved score map: from two inputs of its own, and a frame or a stage, to ``output``.

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
    correction: Correction | None = None
    confidence: float | None = None
    instances: Mapping[str, Any] | None = None

    @property
    def stage_names(self) -> tuple[str, ...]:
        """The names of the stages: as given, else stage1, stage2, .."""
        return self.stages or tuple(f"stage{index + 1}" for index in range(len(self.cuts)))

    def with_scores(self, scores: Mapping[int, str]) -> Sidecar:
        """Return a copy with these score maps (index of the stage -> tensor) beside those it has."""
        have = [*self.scores, *[None] * (len(self.cuts) - len(self.scores))]
        return replace(self, scores=tuple(scores.get(index, name) for index, name in enumerate(have)))


def parse(text: str, *, source: str) -> Sidecar:
    """Parse a sidecar from JSON ``text``; ``source`` names it in errors."""
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
        confidence=top.take("confidence", (float, type(None)), default=None),
        instances=top.take("instances", (dict, type(None)), default=None),
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
    if found.confidence is not None and not 0 < found.confidence <= 1:
        raise top.wrong("confidence", "it is above 0 and at most 1, or null")
    if found.ignore is not None and not 0 <= found.ignore <= MOST_CLASSES:
        raise top.wrong("ignore", f"it is 0 to {MOST_CLASSES}, or null")
    reads = None if found.correction is None else found.correction.reads
    if reads is not None and reads not in found.stage_names:
        raise top.wrong("correction", f"it reads one of the stages {', '.join(found.stage_names)}, or null: the frame")


def read(path: Path) -> Sidecar:
    """Read the sidecar at ``path``; ``NetworkError`` names a missing or wrong field."""
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
    """Return the sidecar as JSON text.

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
