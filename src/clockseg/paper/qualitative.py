"""Windows in which a pipeline looks better or worse than skip-frame (the supplement's figures).

Protocol: a seeded sample of windows of all clips, each run as a shot of its own and ranked by how much more the 3-stage
pipeline agrees with the frame oracle than skip-frame does. The supplement shows the windows with the largest gain; here the
worst and a random one are drawn too. Command: ``clockseg reproduce qualitative --data DIR --weights DIR``. Cost: 24 windows of
ten frames, three passes per frame.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from clockseg.clocks.rates import pipelined, skip_frame
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import ScheduleLike
from clockseg.datasets.clips import Clip, ClipFrame
from clockseg.errors import DataError
from clockseg.paper.contact_sheet import contact_sheet, frame_heads, picture_rows
from clockseg.paper.report import ORACLE, Claim, Figure, Report
from clockseg.paper.screening import Screening, screen
from clockseg.paper.source import Setting

PROTOCOL = """\
A seeded sample of windows of six frames from all clips, each with four more frames before it that fill the pipeline. They are
ranked by the gain of the 3-stage pipeline over skip-frame in agreement with the frame oracle (mean IU over the window, classes
with at least 0.1 % of the oracle's pixels). Skip-frame equals the oracle on the frames on which it fires, so it has a head
start. The paper's supplement shows the windows with the largest gain; here the worst and a random one are drawn too."""

HEAD = ("rank", "clip", "frames", "pipeline", "skip-frame", "gained")
SKIP_FRAME = "skip_frame(2)"


@dataclass(frozen=True)
class Sample:
    """The windows of the clips to compare.

    Of all adjacent windows of ``length`` frames in the clips, ``count`` are drawn with ``seed``. Each is run as a shot of its
    own, starting ``lead`` frames earlier, which are neither scored nor shown, so that a pipeline is full.
    """

    count: int = 24
    length: int = 6
    lead: int = 4
    seed: int = 0

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

    ``pipeline`` and ``skip_frame``: agreement with the frame oracle, the mean IU 0..1 over classes that hold at least
    0.1 % of the oracle's pixels in the window; ``gained``: their difference.
    """

    window: Window
    clip: str
    frames: tuple[int, ...]
    pipeline: float
    skip_frame: float
    gained: float


@dataclass(frozen=True)
class Ranking:
    """The windows of a sample, the one with the largest gain first, under the pipeline called ``schedule``."""

    schedule: str
    sample: Sample
    ranks: tuple[Ranked, ...]

    def facts(self) -> dict[str, Any]:
        """Return plain values for the report."""
        lines = [{"rank": place, **asdict(one)} for place, one in enumerate(self.ranks, start=1)]
        for line in lines:
            del line["window"]
        how = {"schedule": self.schedule, "against": SKIP_FRAME, "by": "mean_iu", "sample": asdict(self.sample)}
        return how | {"windows": lines}


def compared(net: StagedNetwork) -> dict[str, ScheduleLike]:
    """Return the schedules that are compared, by name: the pipeline of up to three stages, and skip-frame."""
    depth = min(3, len(net))
    return {f"pipelined({depth})": pipelined(depth), SKIP_FRAME: skip_frame(2)}


def rank_windows(net: StagedNetwork, clips: Sequence[Clip], sample: Sample = Sample()) -> Ranking:
    """Rank sampled windows by how much more the pipeline agrees with the frame oracle than skip-frame does.

    Windows with equal gains keep the order of the clips. ``DataError`` if no clip is long enough.
    """
    schedules, windows, found = compared(net), sampled(clips, sample), []
    for index, clip in enumerate(clips):
        starts = [window.start for window in windows if window.clip == index]
        for start, frames in _cut(clip, starts, sample):
            screening = screen(net, clip, schedules, frames=frames)
            found.append(_ranked(Window(index, start), screening, list(schedules), sample))
    return Ranking(next(iter(schedules)), sample, tuple(sorted(found, key=lambda one: -one.gained)))


def draw_window(
    net: StagedNetwork, clips: Sequence[Clip], ranking: Ranking, rank: int, path: Path, *, name: str = "window"
) -> None:
    """Write one window of ``clips`` as a PNG; ``rank`` 0 is the best, ``name`` stands in its title.

    Rows: input, labels if there are some, frame oracle, pipeline, skip-frame, and where each of these differs from the oracle.
    """
    found, sample = ranking.ranks[rank], ranking.sample
    clip, schedules = clips[found.window.clip], compared(net)
    [(_, frames)] = _cut(clip, [found.window.start], sample)
    screening = screen(net, clip, schedules, frames=frames)
    scores = f"{ranking.schedule} {100 * found.pipeline:.1f} %, {SKIP_FRAME} {100 * found.skip_frame:.1f} %"
    contact_sheet(
        path,
        picture_rows(screening, sample.shown, [ORACLE, *schedules], differences=True),
        heads=frame_heads(screening, sample.shown),
        title=f"{name}: {found.clip}, rank {rank + 1} of {len(ranking.ranks)}\nmean IU against the oracle: {scores}",
        entries=screening.legend(sample.shown),
    )


def sampled(clips: Sequence[Clip], sample: Sample) -> list[Window]:
    """Draw the windows, in the order of the clips; videos are decoded once, for their length.

    ``DataError`` if no clip is as long as one window and its lead.
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


def picks(count: int, *, seed: int) -> dict[str, int]:
    """Choose the ranks (0 is the best of ``count``) to draw, by the names of their figures; none twice."""
    found = {"best-1": 0} | ({"worst-1": count - 1} if count > 1 else {})
    rest = range(1, count - 1)
    return found | ({"random": random.Random(seed).choice(rest)} if rest else {})


def _cut(clip: Clip, starts: Collection[int], sample: Sample) -> Iterator[tuple[int, list[ClipFrame]]]:
    """Yield the frames of the windows that begin at ``starts``, each with its lead, in one pass over the clip."""
    held: deque[ClipFrame] = deque(maxlen=sample.lead + sample.length)
    for position, frame in enumerate(islice(clip, max(starts, default=-sample.length) + sample.length)):
        held.append(frame)
        if position + 1 - sample.length in starts:
            yield position + 1 - sample.length, list(held)


def _ranked(window: Window, screening: Screening, schedules: Sequence[str], sample: Sample) -> Ranked:
    pipeline, skip = (screening.agreement(schedule, sample.shown).mean_iu_of() for schedule in schedules)
    frames = tuple(screening.indices[at] for at in sample.shown)
    return Ranked(window, screening.name, frames, pipeline, skip, pipeline - skip)


def run(setting: Setting) -> Report:
    """Rank the windows, and draw the best, the worst and a random one."""
    source = setting.films()
    net, clips = source.networks.full, source.clips
    ranking = rank_windows(net, clips)

    def window(rank: int, name: str, path: Path) -> None:
        draw_window(net, clips, ranking, rank, path.with_name(f"{path.name}.png"), name=name)

    count = len(ranking.ranks)
    figures = [
        Figure(f"qualitative-{name}", f"Rank {rank + 1} of {count}", partial(window, rank, name), suffix=".png")
        for name, rank in picks(count, seed=ranking.sample.seed).items()
    ]
    return Report(
        "qualitative",
        "Windows in which a pipeline gains over skip-frame",
        PROTOCOL,
        claims=(_gained(ranking),),
        notes=setting.notes,
        figures=tuple(figures),
        extra={"ranking": ranking.facts()},
        table=_table(ranking),
    )


def _table(ranking: Ranking) -> tuple[tuple[str, ...], ...]:
    lines = []
    for place, one in enumerate(ranking.ranks, start=1):
        shares = (f"{100 * share:.1f}" for share in (one.pipeline, one.skip_frame, one.gained))
        lines.append((str(place), one.clip, f"{one.frames[0]}-{one.frames[-1]}", *shares))
    return HEAD, *lines


def _gained(ranking: Ranking) -> Claim:
    ahead = sum(one.gained > 0 for one in ranking.ranks)
    where, figures = f"{len(ranking.ranks)} windows", f"in {ahead} of {len(ranking.ranks)}"
    return Claim(
        "the pipeline agrees more than skip-frame in most windows", where, 2 * ahead > len(ranking.ranks), figures
    )
