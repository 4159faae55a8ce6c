"""The source of a network to be cut, and what is known of it without asking: its frames, outputs and classes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from clockseg.errors import DataError
from clockseg.instances.recognising import Triple
from clockseg.types import Size
from clockseg.video.overlay import Colour

if TYPE_CHECKING:
    import onnx

RECOMMENDED = "carried(skip_frame(6), interpolate(flow))"
"""The whole network on every sixth frame; the frames in between are made from the key frames on both sides.

A clock on stages pays in few networks, and only ``clockseg plan`` and ``evaluate`` on a user's own video can tell: where
all of the picture moves, its stages fire on every frame, and running them one by one costs more than the uncut network.
"""
FORMS = (
    "Give one name per line in the order of the ids, a JSON list of names, a JSON object of id: name "
    '(as in a transformers config.json under "id2label"), or the classes.json of a folder of clips.'
)


def names_of(found: Any, source: str) -> tuple[str, ...]:
    """Read names from a list of names, or from an object of id: name, which may lie under "id2label"."""
    from clockseg.datasets.classes import checked_names  # not at the top: it imports all data sets

    if isinstance(found, dict):
        labels = found.get("id2label", found)
        found = _by_id(labels, source) if isinstance(labels, dict) else labels
    if not isinstance(found, list):
        raise DataError(f"{source} contains {type(found).__name__}, not names of classes. {FORMS}")
    return checked_names(found, source, FORMS)


def _by_id(labels: dict[str, Any], source: str) -> list[Any]:
    """Sort names by their ids, which must be 0, 1, .. without a gap."""
    found = {key: labels[key] for key in map(str, range(len(labels))) if key in labels}
    wrong = next((key for key in labels if key not in found), None)
    if wrong is not None:
        last = len(labels) - 1
        raise DataError(f"{source}: {wrong!r} is not the id of a class; ids are 0 to {last}, one each. {FORMS}")
    return [*found.values()]


@dataclass(frozen=True)
class Said:
    """Statements about a network; None where nothing is stated. ``classes`` is () if it outputs no class scores.

    The network reads x = (pixel * scale - mean) / std, channels in the order of ``colour``, as in a sidecar.
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
        return replace(other, **{name: value for name, value in vars(self).items() if value is not None})


NOTHING_SAID = Said()


def read_class_names(path: Path) -> Said:
    """Read the classes in a file of any of ``FORMS``, with the colours and the id of no class that a classes.json states."""
    is_json = path.suffix.lower() == ".json"
    try:
        text = path.read_text(encoding="utf-8-sig")
        found: Any = json.loads(text) if is_json else [line.strip() for line in text.strip().splitlines()]
    except (OSError, ValueError, RecursionError) as error:
        kind = "JSON" if is_json else "text"
        reason = error.strerror if isinstance(error, OSError) else f"it is not {kind}: {error}"
        raise DataError(f"{path} can't be read ({reason}). {FORMS}") from None
    if isinstance(found, dict) and "classes" in found:
        from clockseg.datasets.classes import read_classes

        told = read_classes(path)
        return Said(classes=told.names, palette=told.palette or None, ignore=told.ignore)
    if not is_json and "" in found:
        raise DataError(f"{path}: line {found.index('') + 1} is empty; which id is its class? {FORMS}")
    return Said(classes=names_of(found, str(path)))


class Told(NamedTuple):
    """Something that was settled for the user: what, how, and why so."""

    what: str
    value: str
    why: str


@dataclass(frozen=True)
class Source:
    """A network as it came: its graph, its name, what it says of itself, who says so (``by``), and what was settled on the way."""

    model: onnx.ModelProto
    name: str
    said: Said = Said()
    by: str = ""
    told: Sequence[Told] = ()
