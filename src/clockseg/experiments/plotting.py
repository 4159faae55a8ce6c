"""One look for every figure, and how a figure becomes files: matplotlib without its global state."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clockseg._errors import DataError, MissingDependency
from clockseg._whole_file import whole_together

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE = 7.0
"""Width in inches of a figure over the whole page; at the PNG's 200 dots an inch 1400 pixels."""
INK, MUTED, RULE = "#1d2126", "#6a7077", "#d5d8dc"
"""Text and lines; text of less weight; grids."""
FIRED, NOW = "#000000", "#1f6fd1"
"""A firing in a raster, and the current frame (the paper's supplement: black and blue bars)."""
STAGES = ("#a6cbe3", "#4a90c2", "#0b4f8a")
"""Shallow to deep."""
# Okabe and Ito's colours, which people tell apart whatever their colour vision.
CYCLE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a6a4f")
_SCHEDULES = {
    "frame_oracle": INK,
    "skip_frame": "#d55e00",
    "exponential": "#e69f00",
    "alternating": "#0072b2",
    "fixed_rate": "#56b4e9",
    "pipelined(2)": "#009e73",
    "pipelined(3)": "#6cc2a1",
    "adaptive": "#cc79a7",
    "difference": "#8a8f96",
}
_STYLE: dict[str, Any] = {
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same letters on every machine
    "font.size": 9,
    "text.color": INK,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "svg.fonttype": "path",
    "svg.hashsalt": "clockseg",  # else every file has identifiers of its own
}


def schedule_colour(schedule: str) -> str:
    """The colour of a schedule, the same in every figure; grey for one that has none of its own.

    >>> schedule_colour("adaptive(0.25)") == schedule_colour("adaptive(0.1, 0.3)")
    True
    """
    return _SCHEDULES.get(schedule) or _SCHEDULES.get(schedule.split("(")[0], MUTED)


@contextmanager
def figure(
    stem: str | os.PathLike[str], *, size: tuple[float, float] = (PAGE, 4.0), dots: int = 200
) -> Iterator[Figure]:
    """A figure to draw in; where the block ends it is written as ``stem``.svg and ``stem``.png, both or neither.

    ``size``: width and height in inches; ``dots``: pixels an inch. Axes added with ``subplots`` are fitted into it. The
    style holds in the block. The same drawing gives the same bytes. A block left by an exception writes nothing.
    ``DataError`` if the folder can't be written, ``MissingDependency`` without matplotlib.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with figure(f"{folder}/line", size=(3, 2)) as drawn:
    ...         lines = drawn.subplots().plot([0, 1, 4])
    ...     sorted(os.listdir(folder))
    ['line.png', 'line.svg']
    """
    matplotlib, make = _matplotlib()
    with matplotlib.rc_context(_STYLE):
        drawn = make(figsize=size, dpi=dots, layout="constrained")
        yield drawn
        _save(drawn, Path(stem))


def _matplotlib() -> tuple[Any, Any]:
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependency("figures need matplotlib: pip install 'clockseg[plots]'") from error
    return matplotlib, Figure


def _save(drawn: Figure, stem: Path) -> None:
    """Both files or neither; a ``Figure`` without pyplot always draws with Agg."""
    # No dates and no version numbers: the same input gives the same bytes.
    metadata = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
        with whole_together(*(stem.with_name(f"{stem.name}.{kind}") for kind in metadata)) as parts:
            for kind, part in zip(metadata, parts, strict=True):
                drawn.savefig(part, format=kind, metadata=metadata[kind])
    except OSError as error:
        raise DataError(f"{stem}.svg can't be written ({error}). Give a folder that can be written.") from error
