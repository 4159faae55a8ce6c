"""A clip as the frame oracle and some schedules saw it: what videos and filmstrips are drawn from."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Named, Schedule, frame_oracle
from clockseg.clockwork.session import Session
from clockseg.clockwork.trace import Progress
from clockseg.datasets.classes import Classes
from clockseg.datasets.clips import Clip, ClipFrame
from clockseg.errors import DataError, UsageError
from clockseg.evaluation.metrics import Confusion, confusion
from clockseg.paper.rows import ORACLE
from clockseg.types import Labels
from clockseg.video.maps import checked_labels
from clockseg.video.overlay import Colour, palette

# Label maps are uint8: ids 0 to 255.
_ANY_CLASS = 256
# Of the pixels: a class that holds less isn't seen in a figure.
_LEAST_SHARE = 0.001


class _Packed(NamedTuple):
    """A label map, deflated: a clip's fit into memory (some KB a frame, in a millisecond or two)."""

    shape: tuple[int, int]
    data: bytes


@dataclass(frozen=True)
class Shown:
    """The result of one schedule on a clip: for each frame the label map, and True if the last stage fired.

    ``fired`` holds the first frame too, on which everything fires; ``fire_rate`` (0..1; None for one frame) doesn't.
    """

    packed: tuple[_Packed, ...]
    fired: tuple[bool, ...]

    def labels(self, position: int) -> Labels:
        """The label map of the frame at ``position``, uint8 [h, w]."""
        shape, data = self.packed[position]
        return np.frombuffer(zlib.decompress(data), np.uint8).reshape(shape)

    @property
    def fire_rate(self) -> float | None:
        """The last stage's firings after the first frame / (frames - 1)."""
        later = self.fired[1:]
        return sum(later) / len(later) if later else None


@dataclass(frozen=True)
class Screening:
    """Frames of one clip, and what the frame oracle and each schedule gave on them, by name, the oracle first.

    ``source`` yields the frames as often as it is asked. ``classes``: the network's, names empty if nobody knows them.
    ``indices``: of the frames in their clip; ``times``: theirs in seconds, None where the clip has none; ``labelled``: the
    positions of those with human labels of the network's classes.
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
        """The frames, decoded once more; without their labels where those mean other classes than the network's."""
        labelled = frozenset(self.labelled)
        for position, frame in enumerate(self.source):
            yield frame if position in labelled else replace(frame, labels=None)

    @property
    def first(self) -> str:
        """The name of the first schedule after the oracle; UsageError if only the oracle was run."""
        names = [name for name in self.shown if name != ORACLE]
        if not names:
            raise UsageError(f"no schedule was run on {self.name}; screen it with one, such as adaptive(0.25).")
        return names[0]

    def of(self, schedule: str) -> Shown:
        """Return the result of ``schedule``; ``UsageError`` if it wasn't run."""
        if schedule not in self.shown:
            raise UsageError(f"no schedule {schedule!r} was run on {self.name}; there are {', '.join(self.shown)}.")
        return self.shown[schedule]

    def agreement(self, schedule: str, positions: Iterable[int] | None = None) -> Confusion:
        """The confusion of the schedule's labels against the oracle's, summed over the frames at ``positions``, or all."""
        truth, given = self.of(ORACLE), self.of(schedule)
        count = len(self.classes.names) or _ANY_CLASS
        wanted = range(len(self)) if positions is None else positions
        return sum((confusion(truth.labels(at), given.labels(at), count) for at in wanted), Confusion.none(count))

    def same(self, schedule: str, position: int) -> float:
        """The share of one frame's pixels, 0..1, on which the schedule's labels are the oracle's."""
        return float((self.of(schedule).labels(position) == self.of(ORACLE).labels(position)).mean())

    @property
    def colours(self) -> tuple[Colour, ...]:
        """RGB, one a class: the classes' own, or clockseg's for classes that bring none."""
        return self.classes.palette or palette(len(self.classes.names) or _ANY_CLASS - 1)

    @property
    def fps(self) -> float | None:
        """Frames a second by the clip's times; None if it has none."""
        first, last = self.times[0], self.times[-1]
        if first is None or last is None or last <= first:
            return self.classes.fps
        return (len(self) - 1) / (last - first)

    def legend(self, positions: Iterable[int] | None = None) -> list[tuple[str, Colour]]:
        """Names and colours of the classes that hold a thousandth of what was given at ``positions`` (default: at all)."""
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
    schedules: Mapping[str, Schedule | Named],
    *,
    frames: Sequence[ClipFrame] | None = None,
    progress: Callable[[Progress], None] | None = None,
    warn: Callable[[str], None] = warnings.warn,
) -> Screening:
    """Runs the frame oracle (the uncut network) and each schedule over a clip, all on one frame before the next.

    ``frames``: of the clip, those to run as a shot of their own (default: all). ``warn`` is told what of a video could
    not be decoded. ``DataError`` for no frames, ``UsageError`` where the network gives no label maps of the frame's size.

    >>> from pathlib import Path
    >>> from clockseg.clockwork.schedule import skip_frame
    >>> from clockseg.clockwork.network import Stage
    >>> net = StagedNetwork("red", (Stage("a", lambda image: image[..., 0]),))
    >>> pictures = [ClipFrame(k, np.full((1, 2, 3), k, np.uint8), None) for k in range(3)]
    >>> screening = screen(net, Clip("three", Path("three")), {"skip-frame": skip_frame(2)}, frames=pictures)
    >>> [screening.of("skip-frame").labels(k).tolist() for k in range(3)]
    [[[0, 0]], [[0, 0]], [[2, 2]]]
    """
    if ORACLE in schedules:
        raise UsageError(f"{ORACLE!r} is what the uncut network is called; give the schedule another name.")
    sessions = {ORACLE: Session(net.uncut(), frame_oracle)} | {k: Session(net, s) for k, s in schedules.items()}
    seen: list[tuple[int, float | None, bool]] = []
    given: list[list[tuple[_Packed, bool]]] = []
    expected = len(frames) if frames is not None else len(clip.taken) if clip.taken is not None else clip.limit
    for frame in clip.frames(problem=lambda text: warn(f"{clip.path}: {text}")) if frames is None else frames:
        seen.append((frame.index, frame.pts_seconds, frame.labels is not None))
        given.append([_run(session, frame) for session in sessions.values()])
        if progress is not None:
            progress(Progress(clip.name, len(seen), expected, [*sessions.values()][-1].tally))
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
    labels = checked_labels(np.asarray(session(frame.image)))
    if labels.shape != frame.image.shape[:2]:
        raise UsageError(
            f"network {session.net.name!r} gives {list(labels.shape)} for a frame of {list(frame.image.shape)}; "
            "what is drawn over a picture is a label map of its size."
        )
    return _Packed(labels.shape, zlib.compress(labels.tobytes(), 1)), session.record.fired[-1]


def _classes(net: StagedNetwork, clip: Clip) -> Classes:
    """The network's own classes; where it doesn't say, the clip's; else none with a name."""
    fps = clip.classes.fps if clip.classes is not None else None
    if net.sidecar is not None and net.sidecar.classes:
        return Classes(net.sidecar.classes, net.sidecar.palette, fps=fps)
    return clip.classes or Classes(())
