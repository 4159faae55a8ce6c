"""At which stride of the frame each tensor of a graph is, told from the shapes along the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from clockseg.graph.neutral import Graph, Node

_EXTRA_TOKENS = 5
"""Tokens that stand before those of the picture: a class token, and registers."""
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Grid:
    """The positions of a tensor: how many of the frame's pixels one stands for along a side, and how many there are."""

    stride: int
    rows: int
    columns: int


def grids(graph: Graph, shapes: Mapping[str, Shape]) -> dict[str, Grid]:
    """Tensor -> its grid, for those in which the frame's positions can still be seen; the frame is [1, 3, h, w].

    Maps are [1, c, h, w] or [1, h, w, c], tokens [1, n, c] or the like. A change of size by a whole factor is one of
    stride; any other is padding or cropping.

    >>> net = Graph((Node("a", ("x",), ("a",)), Node("t", ("a",), ("t",))), ("x",))
    >>> grids(net, {"x": (1, 3, 64, 96), "a": (1, 8, 16, 24), "t": (1, 384, 8)})["t"]
    Grid(stride=4, rows=16, columns=24)
    """
    found = {name: Grid(1, *shapes[name][-2:]) for name in graph.inputs}
    for node in graph.nodes:
        for tensor in node.outputs:
            grid = _grid(node, shapes.get(tensor, ()), found)
            if grid is not None:
                found[tensor] = grid
    return found


def is_map(shape: Shape, grid: Grid | None) -> bool:
    """Whether a tensor is laid out as [1, c, h, w]."""
    return grid is not None and len(shape) == 4 and shape[2:] == (grid.rows, grid.columns)


def _grid(node: Node, shape: Shape, known: Mapping[str, Grid]) -> Grid | None:
    before = [known[name] for name in node.inputs if name in known]
    for grid in before:
        if (grid.rows, grid.columns) in _sides(shape):
            return grid
    for grid in before:
        if any(grid.rows * grid.columns <= size <= grid.rows * grid.columns + _EXTRA_TOKENS for size in shape[1:]):
            return grid
    return next(
        (made for grid in before for side in _sides(shape) if (made := _resized(grid, *side)) is not None), None
    )


def _sides(shape: Shape) -> Iterator[tuple[int, int]]:
    if len(shape) == 4:
        yield shape[2], shape[3]
        yield shape[1], shape[2]


def _resized(grid: Grid, rows: int, columns: int) -> Grid | None:
    if rows * columns == 1:
        return None
    smaller = round(grid.rows / rows)
    if smaller > 1 and _fits(rows, grid.rows, smaller) and _fits(columns, grid.columns, smaller):
        return Grid(grid.stride * smaller, rows, columns)
    larger = round(rows / grid.rows)
    if larger > 1 and _fits(grid.rows, rows, larger) and _fits(grid.columns, columns, larger):
        return Grid(max(1, grid.stride // larger), rows, columns)
    near = 0.5 < rows / grid.rows < 2 and 0.5 < columns / grid.columns < 2
    return Grid(grid.stride, rows, columns) if near else None


def _fits(size: int, whole: int, step: int) -> bool:
    """Whether ``size`` is ``whole`` in steps: rounded either way, one more or less for windows at the border."""
    return abs(size - whole / step) <= 1
