"""Windows of clips ranked by a schedule's gain over skip-frame; the best and the worst are drawn.

As the paper's supplement did: a sample of shots, ranked by what the pipeline gains over skip-frame. Here the worst and a
random one are drawn too, and every rank is written down.
"""

from __future__ import annotations

import os
import random
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeAlias

from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Named, Schedule, pipelined, skip_frame
from clockseg.datasets.clips import Clip, ClipFrame
from clockseg.errors import DataError, UsageError
from clockseg.paper.contact_sheet import contact_sheet
from clockseg.paper.filmstrip import frame_heads, picture_rows
from clockseg.paper.rows import ORACLE
from clockseg.paper.screening import Screening, screen

SKIP_FRAME = "skip_frame(2)"
Score: TypeAlias = Literal["mean_iu", "pixel_acc"]


@dataclass(frozen=True)
class Sample:
    """The windows of the clips to compare.

    Of all windows of ``length`` frames that lie side by side in the clips, ``count`` are drawn by ``seed``. Each is run
    as a shot of its own, from ``lead`` frames before it that are neither scored nor shown: by then a pipeline is full.
    """

    count: int = 24
    length: int = 6
    lead: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.count, self.length) < 1 or self.lead < 0:
            raise UsageError(f"{self}; count and length are whole numbers of at least 1, lead of at least 0.")

    @property
    def shown(self) -> range:
        """The positions, in a window with its lead, of the frames that are scored and shown."""
        return range(self.lead, self.lead + self.length)


class Window(NamedTuple):
    """The window that starts at position ``start`` of the frames taken of the clip with number ``clip``."""

    clip: int
    start: int


@dataclass(frozen=True)
class Ranked:
    """The gain in one window: ``clip`` and ``frames``, their indices in it.

    ``schedule`` and ``skip_frame`` are agreement with the frame oracle over the window, 0..1; ``gained`` their difference.
    """

    window: Window
    clip: str
    frames: tuple[int, ...]
    schedule: float
    skip_frame: float
    gained: float


@dataclass(frozen=True)
class Ranking:
    """Windows, the one that gained most first; and what was run in them: ``schedules``, the ranked one and skip-frame."""

    schedules: Mapping[str, Schedule | Named]
    sample: Sample
    by: Score
    ranks: tuple[Ranked, ...]

    @property
    def schedule(self) -> str:
        """The name of the schedule that was ranked."""
        return next(iter(self.schedules))

    def facts(self) -> dict[str, Any]:
        """Everything as plain values: what a report keeps."""
        lines = [{"rank": place, **asdict(one)} for place, one in enumerate(self.ranks, start=1)]
        for line in lines:
            del line["window"]
        how = {"schedule": self.schedule, "against": SKIP_FRAME, "by": self.by, "sample": asdict(self.sample)}
        return how | {"windows": lines}


def rank_windows(
    net: StagedNetwork,
    clips: Sequence[Clip],
    *,
    schedule: tuple[str, Schedule | Named] | None = None,
    sample: Sample = Sample(),
    by: Score = "mean_iu",
) -> Ranking:
    """Ranks sampled windows by how much more a schedule agrees with the frame oracle than ``skip_frame(2)`` does.

    ``schedule``: its name and itself (default: a pipeline of three stages, or of as many as there are). ``by``: the score
    of agreement, mean IU over classes that hold at least 0.1 % of the oracle's pixels, or pixel accuracy. Equal gains keep
    the order of the clips. ``DataError`` if no clip is long enough.
    """
    if by not in ("mean_iu", "pixel_acc"):
        raise UsageError(f'by={by!r}; windows are ranked by "mean_iu" or "pixel_acc".')
    name, made = schedule or _pipeline(len(net))
    if name == SKIP_FRAME:
        raise UsageError(f"{SKIP_FRAME} against itself; give a schedule of another name.")
    schedules = {name: made, SKIP_FRAME: skip_frame(2)}
    windows = sampled(clips, sample)
    found = []
    for index, clip in enumerate(clips):
        starts = [window.start for window in windows if window.clip == index]
        for start, frames in _cut(clip, starts, sample):
            screening = screen(net, clip, schedules, frames=frames)
            found.append(_ranked(Window(index, start), screening, sample, by))
    return Ranking(schedules, sample, by, tuple(sorted(found, key=lambda one: -one.gained)))


def draw_window(
    net: StagedNetwork,
    clips: Sequence[Clip],
    ranking: Ranking,
    rank: int,
    stem: str | os.PathLike[str],
    *,
    name: str = "window",
) -> None:
    """Draws one window of ``clips`` as ``stem``.svg and ``stem``.png; ``rank`` 0 is the best, ``name`` stands in its title.

    Rows: input, truth where labelled, frame oracle, the schedule, skip-frame, and where each of them is not as the oracle.
    """
    found, sample = ranking.ranks[rank], ranking.sample
    clip = clips[found.window.clip]
    [(_, frames)] = _cut(clip, [found.window.start], sample)
    screening = screen(net, clip, ranking.schedules, frames=frames)
    contact_sheet(
        stem,
        picture_rows(screening, sample.shown, [ORACLE, *ranking.schedules], differences=True),
        heads=frame_heads(screening, sample.shown),
        title=f"{name}: {found.clip}, rank {rank + 1} of {len(ranking.ranks)}",
        note=_note(ranking, found),
        legend=screening.legend(sample.shown),
    )


def _pipeline(stages: int) -> tuple[str, Named]:
    depth = min(3, stages)
    return f"pipelined({depth})", pipelined(depth)


def sampled(clips: Sequence[Clip], sample: Sample) -> list[Window]:
    """The windows that the seed draws, in the order of the clips; videos are decoded once, for their length.

    ``DataError`` if no clip is as long as one window and its lead.

    >>> from pathlib import Path
    >>> pictures = tuple(Path(f"{number}.jpg") for number in range(30))
    >>> sampled([Clip("thirty", Path("thirty"), pictures, (None,) * 30)], Sample(count=2, length=6, lead=4))
    [Window(clip=0, start=10), Window(clip=0, start=22)]
    """
    lengths = [len(clip.taken) if clip.taken is not None else sum(1 for _ in clip) for clip in clips]
    all_ = [
        Window(index, start)
        for index, length in enumerate(lengths)
        for start in range(sample.lead, length - sample.length + 1, sample.length)
    ]
    if not all_:
        raise DataError(
            f"{len(clips)} clips of at most {max(lengths, default=0)} frames; a window and its lead take "
            f"{sample.lead + sample.length}. Give longer clips, or a smaller length or lead."
        )
    return sorted(random.Random(sample.seed).sample(all_, min(sample.count, len(all_))))


def picks(count: int, ends: int, *, seed: int) -> dict[str, int]:
    """The ranks (0 is the best of ``count``) that are drawn, by the names of their figures; none twice.

    >>> picks(6, 2, seed=0)
    {'best-1': 0, 'best-2': 1, 'worst-1': 5, 'worst-2': 4, 'random': 3}
    """
    best = list(range(min(ends, count)))
    worst = [rank for rank in range(count - 1, count - 1 - ends, -1) if rank >= len(best)]
    found = {f"best-{place}": rank for place, rank in enumerate(best, start=1)}
    found |= {f"worst-{place}": rank for place, rank in enumerate(worst, start=1)}
    rest = [rank for rank in range(count) if rank not in found.values()]
    return found | ({"random": random.Random(seed).choice(rest)} if rest else {})


def _cut(clip: Clip, starts: Collection[int], sample: Sample) -> Iterator[tuple[int, list[ClipFrame]]]:
    """The frames of the windows that begin at ``starts``, each with its lead, in one pass over the clip."""
    held: deque[ClipFrame] = deque(maxlen=sample.lead + sample.length)
    for position, frame in enumerate(islice(clip, max(starts, default=-sample.length) + sample.length)):
        held.append(frame)
        if position + 1 - sample.length in starts:
            yield position + 1 - sample.length, list(held)


def _ranked(window: Window, screening: Screening, sample: Sample, by: Score) -> Ranked:
    scores = []
    for schedule in (screening.first, SKIP_FRAME):
        agreement = screening.agreement(schedule, sample.shown)
        scores.append(agreement.mean_iu_of() if by == "mean_iu" else agreement.pixel_acc)
    frames = tuple(screening.indices[at] for at in sample.shown)
    return Ranked(window, screening.name, frames, scores[0], scores[1], scores[0] - scores[1])


def _note(ranking: Ranking, found: Ranked) -> str:
    score = "mean IU" if ranking.by == "mean_iu" else "pixel accuracy"
    scores = f"{ranking.schedule} {100 * found.schedule:.1f}, {SKIP_FRAME} {100 * found.skip_frame:.1f}"
    return f"{score} against the oracle: {scores} %"
