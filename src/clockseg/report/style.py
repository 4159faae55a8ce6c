"""The style of all figures, and a context that writes a figure to files: matplotlib without its global state."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clockseg.errors import DataError, MissingDependency, UsageError, install
from clockseg.files import whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE, HALF = 7.0, 4.8
"""Widths in inches of a figure over the whole page, and of one that stays readable at half of it."""
INK, MUTED, RULE = "#1d2126", "#6a7077", "#d5d8dc"
"""Text and lines; text of less weight; grids."""
# Okabe and Ito's colours, which people tell apart whatever their colour vision.
CYCLE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a6a4f")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "*")
"""Their number is coprime with that of the colours, so that no two of the first 77 series look alike."""
DASHED: dict[str, Any] = {"color": MUTED, "linestyle": (0, (4, 2)), "linewidth": 1, "zorder": 1}
"""Look of reference lines."""
DASHES = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)), (0, (8, 2)), (0, (3, 1, 1, 1, 1, 1)), (0, (2, 2)))
"""Of lines, beside their colours."""
STYLE = Path(__file__).with_name("figures.mplstyle")
"""Matplotlib settings of all figures; others have their defaults, whatever the user's matplotlibrc says."""
# No dates and no version numbers: the same input gives the same bytes.
_METADATA: dict[str, dict[str, Any]] = {".svg": {"Date": None, "Creator": None}, ".png": {"Software": None}}


def marked(index: int) -> dict[str, Any]:
    """Return the colour and marker of series ``index``, from 0; either identifies the series."""
    return {"color": CYCLE[index % len(CYCLE)], "marker": MARKERS[index % len(MARKERS)]}


def dashed(index: int) -> dict[str, Any]:
    """Return the colour and dashes of line ``index``, from 0."""
    return {"color": CYCLE[index % len(CYCLE)], "linestyle": DASHES[index % len(DASHES)]}


def short(text: str, letters: int) -> str:
    """Return ``text`` in at most ``letters`` letters; the middle is left out.

    >>> short("/model/segformer/stages.0/Transpose_output_0", 20)
    '/model/segf..utput_0'
    """
    if len(text) <= letters:
        return text
    end = (letters - 2) * 2 // 5
    return f"{text[: letters - 2 - end]}..{text[len(text) - end :]}"


@contextmanager
def figure(path: str | os.PathLike[str], *, size: tuple[float, float] = (PAGE, 4.0)) -> Iterator[Figure]:
    """Yield a figure to draw in, and write it to ``path``, NAME.svg or NAME.png, at the end of the block.

    ``size``: width and height in inches, of 200 pixels each. Axes added with ``subplots`` are fitted into it. The same drawing
    gives the same bytes. A block left by an exception writes nothing. ``DataError`` if the folder can't be written,
    ``MissingDependency`` without matplotlib.
    """
    path = Path(path)
    if path.suffix not in _METADATA:
        raise UsageError(f"{path}: give a name that ends in .svg or .png.")
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependency(f"figures need matplotlib: {install('plots')}") from error
    with matplotlib.rc_context(fname=STYLE):
        drawn = Figure(figsize=size, dpi=200, layout="constrained")
        yield drawn
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with whole(path) as part:
                drawn.savefig(part, format=path.suffix[1:], metadata=_METADATA[path.suffix])
        except OSError as error:
            raise DataError(f"{path} can't be written ({error}). Give a folder that can be written.") from error
