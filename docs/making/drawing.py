"""SVG drawings whose colours follow the theme of the page, and are those of the light theme outside of a page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import groupby

import numpy as np

from clockseg.report import style

Point = tuple[float, float]
DEPTHS = ("#a6cbe3", "#4a90c2", "#0b4f8a")
"""Colours of stages, shallow to deep."""

# Named colours: the page's CSS variable, with a plain colour as fallback.
_TONES = {
    "ink": f"var(--md-typeset-color, {style.INK})",
    "muted": f"var(--idea-muted, {style.MUTED})",
    "rule": f"var(--idea-rule, {style.RULE})",
    "paper": "var(--md-default-bg-color, #ffffff)",
    "deep": f"var(--idea-deep, {DEPTHS[-1]})",
    "none": "none",
}
_FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif"


def colour(tone: str) -> str:
    """Return the colour of a tone; any other text is taken as a colour.

    >>> colour("none"), colour("#d55e00")
    ('none', '#d55e00')
    """
    return _TONES.get(tone, tone)


class Drawing:
    """A drawing of fixed size. Later shapes lie on top; x goes right and y down.

    >>> drawn = Drawing(20, 10, "A line")
    >>> drawn.line((0, 0), (20, 10))
    >>> drawn.svg().count("<path")
    1
    """

    def __init__(self, width: int, height: int, title: str) -> None:
        self.size, self._title, self._parts = (width, height), title, [""]

    def svg(self) -> str:
        """Return the text of the SVG file, the same for the same drawing."""
        width, height = self.size
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'role="img" font-family="{_FONT}" font-size="13">\n<title>{escape(self._title)}</title>\n'
            f'<rect width="{width}" height="{height}" style="fill:{_TONES["paper"]}"/>'
            + "\n".join(self._parts)
            + "\n</svg>\n"
        )

    def _add(self, name: str, style: dict[str, str], inner: str = "", **given: object) -> None:
        attributes = " ".join(f'{key.replace("_", "-")}="{_short(value)}"' for key, value in given.items())
        said = ";".join(f"{key}:{value}" for key, value in style.items())
        self._parts.append(f'<{name} {attributes} style="{said}"' + (f">{inner}</{name}>" if inner else "/>"))

    def box(self, corner: Point, size: Point, *, fill: str = "paper", edge: str = "ink", dashed: bool = False) -> None:
        """Add a rounded box; ``corner`` is its top left."""
        style = {"fill": colour(fill), "stroke": colour(edge), "stroke-width": "1.2"} | _dashes(dashed)
        self._add("rect", style, x=corner[0], y=corner[1], width=size[0], height=size[1], rx=min(4.0, min(size) / 4))

    def text(
        self, at: Point, text: str, *, size: float = 13, tone: str = "ink", align: str = "middle", bold: bool = False
    ) -> None:
        """Add a line of text whose baseline has its middle (``align``: start or end) at a point."""
        style = {"fill": colour(tone), "font-size": f"{_short(size)}px", "text-anchor": align}
        self._add("text", style | ({"font-weight": "600"} if bold else {}), escape(text), x=at[0], y=at[1])

    def shape(self, points: Sequence[Point], *, fill: str, edge: str = "none", width: float = 1) -> None:
        """Add a filled polygon."""
        path = "M" + "L".join(f"{_short(x)} {_short(y)}" for x, y in points) + "z"
        self._add("path", {"fill": colour(fill), "stroke": colour(edge), "stroke-width": _short(width)}, d=path)

    def disc(self, centre: Point, radius: float, *, fill: str = "paper", edge: str = "ink") -> None:
        """Add a filled circle."""
        style = {"fill": colour(fill), "stroke": colour(edge), "stroke-width": "1.2"}
        self._add("circle", style, cx=centre[0], cy=centre[1], r=radius)

    def line(
        self, *points: Point, tone: str = "ink", dashed: bool = False, head: bool = False, width: float = 1.3
    ) -> None:
        """Add a line through points, with an arrow head at its end if ``head``."""
        path = "M" + "L".join(f"{_short(x)} {_short(y)}" for x, y in points)
        style = {"fill": "none", "stroke": colour(tone), "stroke-width": _short(width), "stroke-linejoin": "round"}
        self._add("path", style | _dashes(dashed), d=path)
        if head:
            self.shape(_head(points[-2], points[-1]), fill=tone)

    def clock(self, centre: Point, *, radius: float = 9, rests: bool = False) -> None:
        """Add a clock face, pale if the clock rests."""
        x, y = centre
        self.disc(centre, radius, edge="muted" if rests else "ink")
        hands = (x, y - 0.65 * radius), (x, y), (x + 0.45 * radius, y + 0.25 * radius)
        self.line(*hands, tone="muted" if rests else "ink")

    def cells(self, corner: Point, size: Point, labels: np.ndarray, colours: Sequence[str], *, gap: float = 0) -> None:
        """Add a label map [h, w] as cells, one path per class; ``gap`` is the space between cells."""
        height, width = labels.shape
        side = size[0] / width, size[1] / height
        for label, fill in enumerate(colours):
            runs = [
                f"M{_short(corner[0] + x * side[0])} {_short(corner[1] + y * side[1])}"
                f"h{_short(n * side[0] - gap)}v{_short(side[1] - gap)}h{_short(gap - n * side[0])}z"
                for y, row in enumerate(labels)
                for x, n in _runs(row == label, whole=not gap)
            ]
            if runs:
                crisp = {"shape-rendering": "crispEdges"}
                self._add("path", {"fill": fill} | ({} if gap else crisp), d="".join(runs))


def _runs(row: np.ndarray, *, whole: bool) -> list[tuple[int, int]]:
    """Return (start, length) of the runs that are true, or of each single cell.

    >>> _runs(np.array([True, True, False, True]), whole=True)
    [(0, 2), (3, 1)]
    """
    if not whole:
        return [(int(x), 1) for x in np.flatnonzero(row)]
    found, x = [], 0
    for value, same in groupby(row):
        n = len(list(same))
        found += [(x, n)] if value else []
        x += n
    return found


def _head(before: Point, tip: Point, size: float = 6) -> list[Point]:
    across, down = tip[0] - before[0], tip[1] - before[1]
    length = (across**2 + down**2) ** 0.5
    x, y = size * across / length, size * down / length
    return [(tip[0] + 0.5, tip[1]), (tip[0] - x - y / 2, tip[1] - y + x / 2), (tip[0] - x + y / 2, tip[1] - y - x / 2)]


def _dashes(dashed: bool) -> dict[str, str]:
    return {"stroke-dasharray": "4 3"} if dashed else {}


def _short(value: object) -> str:
    """Format a number with at most two decimals, and any other value as it is.

    >>> _short(2.0), _short(1 / 3)
    ('2', '0.33')
    """
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
