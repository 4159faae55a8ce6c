"""Screening: a clip with the labels and firings of the frame oracle and some schedules, from which figures are drawn."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from clockseg.clocks.rates import frame_oracle
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import ScheduleLike
from clockseg.clockwork.session import Session
from clockseg.datasets.classes import Classes
from clockseg.datasets.clips import Clip, ClipFrame
from clockseg.errors import DataError
from clockseg.evaluation.labels import checked_labels
from clockseg.evaluation.metrics import Confusion, confusion
from clockseg.paper.report import ORACLE
from clockseg.types import Labels
from clockseg.video.maps import checked_labels as as_bytes
from clockseg.video.overlay import Colour, palette

# Label maps are uint8: ids 0 to 255.
_ANY_CLASS = 256
# Share of the pixels: a smaller class is not visible in a figure.
_LEAST_SHARE = 0.001


class _Packed(NamedTuple):
    """A compressed label map, so that those of a clip fit into memory: some KB and a millisecond or two per frame."""

    shape: tuple[int, int]
    data: bytes


@dataclass(frozen=True)
class Shown:
    """The result of one schedule on a clip: for each frame the label map, and True if the last stage fired.

    ``fired`` includes the first frame, on which everything fires; ``fire_rate`` (0..1; None for one frame) does not.
    """

    packed: tuple[_Packed, ...]
    fired: tuple[bool, ...]

    def labels(self, position: int) -> Labels:
        """Return the label map of the frame at ``position``, uint8 [h, w]."""
        shape, data = self.packed[position]
        return np.frombuffer(zlib.decompress(data), np.uint8).reshape(shape)

    @property
    def fire_rate(self) -> float | None:
        """The share of the frames after the first on which the last stage fired."""
        later = self.fired[1:]
        return sum(later) / len(later) if later else None


@dataclass(frozen=True)
class Screening:
    """Frames of one clip, and the results of the frame oracle and of each schedule on them, by name, the oracle first.

    ``source``: an iterable of the frames, iterated repeatedly. ``classes``: the network's, without names if unknown.
    ``indices``: of the frames in their clip; ``times``: in seconds, None if the clip has none; ``labelled``: the positions
    of frames with human labels of the network's classes.
    """

    name: str
    source: Iterable[ClipFrame]
    classes: Classes
    indices: tuple[int, ...]
    times: tuple[float | None, ...]
    labelled: tuple[int, ...]
    shown: Mapping[str, Shown]

    def __len__(self) -> int:
        """The number of frames."""
        return len(self.indices)

    def frames(self) -> Iterator[ClipFrame]:
        """Decode the frames once more; without their labels if those have other classes than the network."""
        labelled = frozenset(self.labelled)
        for position, frame in enumerate(self.source):
            yield frame if position in labelled else replace(frame, labels=None)

    def of(self, schedule: str) -> Shown:
        """Return the result of ``schedule``."""
        return self.shown[schedule]

    def agreement(self, schedule: str, positions: Iterable[int] | None = None) -> Confusion:
        """Return the confusion of a schedule with the oracle, summed over the frames at ``positions`` (default: all)."""
        truth, given = self.of(ORACLE), self.of(schedule)
        count = len(self.classes.names) or _ANY_CLASS
        wanted = range(len(self)) if positions is None else positions
        return sum((confusion(truth.labels(at), given.labels(at), count) for at in wanted), Confusion.none(count))

    def same(self, schedule: str, position: int) -> float:
        """Return the share of pixels of one frame, 0..1, on which the schedule agrees with the oracle."""
        return float((self.of(schedule).labels(position) == self.of(ORACLE).labels(position)).mean())

    @property
    def colours(self) -> tuple[Colour, ...]:
        """RGB per class: the palette of the classes, or that of clockseg for classes without one."""
        return self.classes.palette or palette(len(self.classes.names) or _ANY_CLASS - 1)

    def legend(self, positions: Iterable[int] | None = None) -> list[tuple[str, Colour]]:
        """Return names and colours of the classes with at least 0.1 % of the pixels at ``positions`` (default: all)."""
        wanted = range(len(self)) if positions is None else tuple(positions)
        counts = np.zeros(_ANY_CLASS, np.int64)
        for shown in self.shown.values():
            for at in wanted:
                counts += np.bincount(shown.labels(at).ravel(), minlength=_ANY_CLASS)
        known = zip(self.classes.names, self.colours, counts / counts.sum())
        return [(name, colour) for name, colour, share in known if share >= _LEAST_SHARE]


def screen(
    net: StagedNetwork,
    clip: Clip,
    schedules: Mapping[str, ScheduleLike],
    *,
    frames: Sequence[ClipFrame] | None = None,
    warn: Callable[[str], None] = warnings.warn,
) -> Screening:
    """Run the frame oracle (the uncut network) and each schedule over a clip, frame by frame.

    ``frames``: frames of the clip to run as a shot of their own (default: all). ``warn`` gets a sentence on whatever could
    not be decoded. ``DataError`` for no frames, ``UsageError`` if the network returns no label maps of the frame's size.
    """
    sessions = {ORACLE: Session(net.uncut(), frame_oracle)} | {k: Session(net, s) for k, s in schedules.items()}
    seen: list[tuple[int, float | None, bool]] = []
    given: list[list[tuple[_Packed, bool]]] = []
    for frame in clip.frames(problem=warn) if frames is None else frames:
        seen.append((frame.index, frame.pts_seconds, frame.labels is not None))
        given.append([_run(session, frame) for session in sessions.values()])
    if not seen:
        raise DataError(f"{clip.path}: no frames to show. Give a clip with frames in it.")
    columns = dict(zip(sessions, zip(*given, strict=True), strict=True))
    shown = {name: Shown(*zip(*column, strict=True)) for name, column in columns.items()}
    indices, times, truths = zip(*seen, strict=True)
    classes = _classes(net, clip)
    known = clip.classes is not None and clip.classes.names == classes.names
    labelled = tuple(position for position, there in enumerate(truths) if there and known)
    return Screening(clip.name, clip if frames is None else frames, classes, indices, times, labelled, shown)


def _run(session: Session, frame: ClipFrame) -> tuple[_Packed, bool]:
    labels = as_bytes(checked_labels(session(frame.image), session.net, frame))
    return _Packed(labels.shape, zlib.compress(labels.tobytes(), 1)), session.record.fired[-1]


def _classes(net: StagedNetwork, clip: Clip) -> Classes:
    """Return the classes of the network; if it states none, those of the clip; else classes without names."""
    if net.sidecar is not None and net.sidecar.classes:
        return Classes(net.sidecar.classes, net.sidecar.palette)
    return clip.classes or Classes(())
