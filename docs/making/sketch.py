"""A sheet measured in inches, and what is drawn on it: text, boxes, arrows, clock faces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from clockseg.report.style import INK, MUTED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Point = tuple[float, float]
Line = Literal["solid", "dashed", "dotted"]
_LINES: dict[Line, Any] = {"solid": "solid", "dashed": (0, (2.4, 1.6)), "dotted": (0, (0.8, 1.6))}
_WIDTH = 0.9


class Box(NamedTuple):
    """A box with text in it: its middle, its width and height, and its colours."""

    centre: Point
    size: tuple[float, float]
    text: str
    fill: str = "white"
    ink: str = INK


def way(start: Box, end: Box) -> Sequence[Point]:
    """The way of an arrow from the edge of a box to that of another: straight, or down and then to its left.

    >>> way(Box((0, 0), (2, 2), "a"), Box((5, 0), (2, 2), "b"))
    ((1.0, 0), (4.0, 0))
    """
    (x, y), (to_x, to_y) = start.centre, end.centre
    if y == to_y:
        side = 1 if to_x > x else -1
        return (x + side * start.size[0] / 2, y), (to_x - side * end.size[0] / 2, y)
    foot = (x, y - start.size[1] / 2)
    if x == to_x:
        return foot, (x, to_y + end.size[1] / 2)
    return foot, (x, to_y), (to_x + end.size[0] / 2, to_y)


class Sheet:
    """A figure as one drawing: x to the right and y upwards, in inches.

    >>> from matplotlib.figure import Figure
    >>> Sheet(Figure(figsize=(4, 2))).text((2, 1), "middle")
    """

    def __init__(self, drawn: Figure) -> None:
        drawn.set_layout_engine("none")
        width, height = map(float, drawn.get_size_inches())
        self._axes = drawn.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(0, height))
        self._axes.set_axis_off()

    def text(
        self,
        at: Point,
        text: str,
        *,
        size: float = 8,
        colour: str = INK,
        align: Literal["center", "left", "right"] = "center",
        bold: bool = False,
    ) -> None:
        """A line of text, its middle (``align``: its left or right end) at a point."""
        weight = "bold" if bold else "normal"
        self._axes.text(*at, text, fontsize=size, color=colour, weight=weight, ha=align, va="center_baseline")

    def box(
        self, centre: Point, size: tuple[float, float], *, fill: str = "white", edge: str = INK, line: Line = "solid"
    ) -> None:
        """A rounded box of a width and a height."""
        from matplotlib.patches import FancyBboxPatch

        corner, style = (centre[0] - size[0] / 2, centre[1] - size[1] / 2), "round,pad=0,rounding_size=0.05"
        box = FancyBboxPatch(corner, *size, boxstyle=style, facecolor=fill, edgecolor=edge)
        box.set(linewidth=_WIDTH, linestyle=_LINES[line])
        self._axes.add_patch(box)

    def arrow(
        self, *points: Point, bow: float = 0.0, colour: str = INK, line: Line = "solid", head: bool = True
    ) -> None:
        """An arrow by way of points; or, between two, bowed to its left by ``bow`` inches."""
        from matplotlib.patches import FancyArrowPatch
        from matplotlib.path import Path

        path = Path(points)
        if bow:
            path = Path(
                (points[0], _aside(points[0], points[1], 2 * bow), points[1]), (Path.MOVETO, Path.CURVE3, Path.CURVE3)
            )
        arrow = FancyArrowPatch(path=path, arrowstyle="-|>" if head else "-", mutation_scale=7, color=colour)
        arrow.set(linewidth=_WIDTH, linestyle=_LINES[line], joinstyle="round")
        self._axes.add_patch(arrow)

    def clock(self, centre: Point, *, radius: float = 0.12, fires: float | None = None) -> None:
        """A clock face: with hands, or with a sector that is the share of frames on which it fires."""
        from matplotlib.patches import Circle, Wedge

        x, y = centre
        self._axes.add_patch(Circle(centre, radius, facecolor="white", edgecolor=INK, linewidth=_WIDTH))
        if fires is None:
            hands = (x, x, x + 0.45 * radius), (y + 0.7 * radius, y, y - 0.25 * radius)
            self._axes.plot(*hands, color=INK, linewidth=_WIDTH)
        else:
            self._axes.add_patch(Wedge(centre, 0.72 * radius, 90 - 360 * fires, 90, facecolor=MUTED, edgecolor="none"))


def _aside(start: Point, end: Point, by: float) -> Point:
    """The middle between two points, moved to the left of the way from one to the other."""
    across, up = end[0] - start[0], end[1] - start[1]
    length = (across**2 + up**2) ** 0.5
    return (start[0] + end[0]) / 2 - by * up / length, (start[1] + end[1]) / 2 + by * across / length
