"""Filmstrips of a screening: labels, output and firings of a schedule; and the rows of pictures for such figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from clockseg.datasets.clips import ClipFrame
from clockseg.errors import UsageError
from clockseg.paper.canvas import differing, masked
from clockseg.paper.contact_sheet import Pictures, contact_sheet
from clockseg.paper.rows import ORACLE
from clockseg.paper.screening import Screening


def schedule_filmstrip(
    screening: Screening,
    path: Path,
    *,
    schedule: str | None = None,
    foil: str | None = None,
    pictures: int = 6,
    title: str = "",
) -> None:
    """Write a PNG with labels and output at some frames, and when the last stage fired (paper, figure of the adaptive clock).

    The first row shows the human labels, or the frame oracle's for a clip without any. ``pictures`` frames at equal distances
    stand above a raster that marks them; if only some frames are labelled, the nearest of those.
    ``schedule``: one of the screening's (default: its first); ``foil``: another one whose firings are shown below.

    >>> import tempfile
    >>> import numpy as np
    >>> from clockseg.datasets.clips import Clip
    >>> from clockseg.paper.screening import screen
    >>> from clockseg.clockwork.schedule import skip_frame
    >>> from clockseg.clockwork.network import Stage, StagedNetwork
    >>> net = StagedNetwork("red", (Stage("only", lambda image: image[..., 0] // 128),))
    >>> frames = [ClipFrame(k, np.full((16, 24, 3), 80 * k, np.uint8), None) for k in range(3)]
    >>> screening = screen(net, Clip("three", Path("three")), {"skip-frame": skip_frame(2)}, frames=frames)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     schedule_filmstrip(screening, Path(folder, "strip.png"), pictures=2)
    ...     [file.name for file in Path(folder).iterdir()]
    ['strip.png']
    """
    schedule = screening.first if schedule is None else schedule
    shown = spread(len(screening), pictures, among=screening.labelled)
    _, *rows = picture_rows(screening, shown, [schedule] if screening.labelled else [ORACLE, schedule])
    contact_sheet(
        path,
        rows,
        heads=frame_heads(screening, shown),
        title=title,
        rasters=[(name, screening.of(name).fired) for name in (schedule, foil) if name is not None],
        marks=shown,
        entries=screening.legend(shown),
    )


def picture_rows(
    screening: Screening, positions: Sequence[int], schedules: Sequence[str], *, differences: bool = False
) -> list[Pictures]:
    """Return rows for the input, the labels (if any of these frames has some) and each schedule at ``positions``.

    Under each picture of a schedule stands the share of pixels on which it agrees with the oracle; with ``differences`` a
    row that shows the other pixels follows.
    """
    taken = {at: frame for at, frame in enumerate(screening.frames()) if at in positions}
    frames = [taken[at] for at in positions]
    truths = [None if one.labels is None else masked(one.image, one.labels, screening.colours) for one in frames]
    found = [Pictures("input", [frame.image for frame in frames])]
    found += [Pictures("truth", truths)] * any(frame.labels is not None for frame in frames)
    for name in schedules:
        found += _schedule_rows(screening, name, dict(zip(positions, frames, strict=True)), differences)
    return found


def _schedule_rows(screening: Screening, name: str, frames: dict[int, ClipFrame], differences: bool) -> list[Pictures]:
    given = {at: screening.of(name).labels(at) for at in frames}
    tinted = [masked(frame.image, given[at], screening.colours) for at, frame in frames.items()]
    if name == ORACLE:
        return [Pictures(name, tinted)]
    notes = [f"{100 * screening.same(name, at):.1f} %" for at in frames]
    if not differences:
        return [Pictures(name, tinted, notes, "agreement")]
    oracle = {at: screening.of(ORACLE).labels(at) for at in frames}
    wrong = [differing(frame.image, given[at], oracle[at], screening.colours) for at, frame in frames.items()]
    return [Pictures(name, tinted), Pictures("unlike the oracle", wrong, notes, "agreement")]


def frame_heads(screening: Screening, positions: Sequence[int]) -> list[str]:
    """Return the headings of the pictures: the frame's number in its clip, and its time."""
    seconds = [screening.times[at] for at in positions]
    times = ["" if one is None else f", {one:.2f} s" for one in seconds]
    return [f"frame {screening.indices[at]}{time}" for at, time in zip(positions, times, strict=True)]


def spread(count: int, pictures: int, *, among: Sequence[int] = ()) -> list[int]:
    """Return the middles of ``pictures`` equal parts of 0..count-1, or the values of ``among`` nearest to them.

    >>> spread(100, 4), spread(100, 4, among=(0, 60, 61))
    ([12, 37, 62, 87], [0, 60, 61])
    """
    if pictures < 1:
        raise UsageError(f"pictures={pictures}; give how many frames to show, 1 or more.")
    middles = [(2 * part + 1) * count // (2 * pictures) for part in range(pictures)]
    nearest = [min(among or range(count), key=lambda at: abs(at - middle)) for middle in middles]
    return sorted(set(nearest))
