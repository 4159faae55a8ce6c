"""The source of a network to be cut, and the facts that are known of it without asking."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import NamedTuple

import onnx

from clockseg.graph import onnx_reader
from clockseg.types import Array, Image, Size
from clockseg.video.overlay import Colour

Triple = tuple[float, float, float]


@dataclass(frozen=True)
class Said:
    """Statements about a network; None where nothing is stated. ``classes`` is () if it outputs no class scores.

    The network reads x = (pixel * scale - mean) / std, channels in the order of ``colour``, as in a sidecar.

    >>> Said(colour="bgr").over(Said(colour="rgb", scale=1.0))
    Said(output=None, classes=None, palette=None, ignore=None, size=None, mean=None, std=None, scale=1.0, colour='bgr',
    pad_multiple=None)
    """

    output: str | None = None
    classes: tuple[str, ...] | None = None
    palette: tuple[Colour, ...] | None = None
    ignore: int | None = None
    size: Size | None = None
    mean: Triple | None = None
    std: Triple | None = None
    scale: float | None = None
    colour: str | None = None
    pad_multiple: int | None = None

    def over(self, other: Said) -> Said:
        """Return these statements, completed with those of ``other``."""
        mine = {field.name: getattr(self, field.name) for field in fields(self)}
        return Said(**{name: getattr(other, name) if value is None else value for name, value in mine.items()})


NOTHING_SAID = Said()


class Told(NamedTuple):
    """Something that was settled for the user: what, how, and why so."""

    what: str
    value: str
    why: str


@dataclass(frozen=True)
class Source:
    """A network as it came: its graph, a name for it, what it says of itself, and who says so (``by``).

    ``file``: the ONNX file it was read from, if it is one. ``original``: runs what the graph was made from on a frame,
    uint8 RGB [h, w, 3], and gives its raw output; what was exported is checked against it. ``told``: what was settled on
    the way.
    """

    model: onnx.ModelProto
    name: str
    said: Said = Said()
    by: str = ""
    file: Path | None = None
    original: Callable[[Image], Array] | None = None
    told: Sequence[Told] = ()


def onnx_source(path: Path) -> Source:
    """Read the network in an ONNX file, which specifies nothing but its shapes."""
    return Source(onnx_reader.read(path), path.stem, file=path)
