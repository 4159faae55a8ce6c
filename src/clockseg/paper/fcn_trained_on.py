"""The data sets of the published FCNs: classes, mean colour, and picture size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from clockseg.datasets import Classes, read_classes
from clockseg.datasets.known_classes import CITYSCAPES, NYUD
from clockseg.datasets.known_classes import PASCAL as VOC
from clockseg.errors import NetworkError, UsageError
from clockseg.paper.fcn_checkpoint import MEAN
from clockseg.types import Size
from clockseg.video.overlay import palette


@dataclass(frozen=True)
class TrainedOn:
    """A data set as a network uses it. ``mean``: blue, green, red, 0..255. ``working``: the size pictures are fitted into.

    ``dropped``: the number of meaningless channels at the end, not among ``classes``. ``notes``: sentences for the user.
    """

    classes: Classes
    mean: tuple[float, float, float] = MEAN
    working: Size = (500, 500)
    dropped: int = 0
    notes: tuple[str, ...] = ()


PUBLISHED: Mapping[str, TrainedOn] = {
    "voc": TrainedOn(VOC),
    "nyud": TrainedOn(NYUD, (116.2, 97.2, 92.3), (560, 425)),
    "cityscapes": TrainedOn(CITYSCAPES, (72.78044, 83.21195, 73.45286), (2048, 1024)),
}
_BY_COUNT = {21: "voc", 40: "nyud", 19: "cityscapes", 20: "cityscapes"}


def trained_on(labels: str | None, count: int, *, wanted: int | None = None) -> TrainedOn:
    """Return the data set that a net of ``count`` classes was trained on.

    ``labels``: "voc", "nyud", "cityscapes" or a classes.json; None: the data set of published nets with this number.
    ``wanted``: the required number of classes. Until November 2016 nets for Cityscapes had 20, the last of them meaningless;
    it is dropped unless ``wanted`` is 20.

    >>> trained_on(None, 20).classes.names[-1], trained_on(None, 20).dropped
    ('bicycle', 1)
    >>> trained_on("cityscapes", 20, wanted=20).classes.names[-1]
    'unused'
    """
    old = count == 20 and _meant(labels, count) == "cityscapes"
    keep = wanted or (19 if old else count)
    if keep != count and (count, keep) != (20, 19):
        raise NetworkError(f"the net scores {count} classes, not {keep}.")
    found = _named(labels, count, keep)
    if old and keep == 20:
        return _with_unused(found)
    if len(found.classes.names) != keep:
        raise NetworkError(f"the net scores {keep} classes; {labels} has {len(found.classes.names)}.")
    if keep == count:
        return found
    note = "the 20th channel is meaningless (a net for Cityscapes from before November 2016) and was dropped."
    return TrainedOn(found.classes, found.mean, found.working, 1, (*found.notes, note))


def _meant(labels: str | None, count: int) -> str | None:
    return labels or _BY_COUNT.get(count)


def _named(labels: str | None, count: int, keep: int) -> TrainedOn:
    meant = _meant(labels, count)
    if meant is not None:
        if meant in PUBLISHED:
            return PUBLISHED[meant]
        if not meant.endswith(".json"):
            raise UsageError(f"labels {meant!r}; give {', '.join(PUBLISHED)}, or a classes.json.")
        return TrainedOn(read_classes(Path(meant)))
    names = tuple(f"class {index}" for index in range(keep))
    note = f"no published net has {keep} classes; they are named {names[0]!r} and so on. Name them with --labels."
    return TrainedOn(Classes(names, palette(keep)), notes=(note,))


def _with_unused(found: TrainedOn) -> TrainedOn:
    known = found.classes
    classes = Classes((*known.names, "unused"), (*known.palette, (0, 0, 0)), known.ignore)
    note = "the 20th channel is meaningless (a net for Cityscapes from before November 2016) and is named 'unused'."
    return TrainedOn(classes, found.mean, found.working, 0, (note,))
