"""The paper's two schematic figures, drawn of what ran: their arrows are traces of symbols, not a draughtsman's.

``staged-network``: an FCN-8s in stages with their clocks, and who reads whom under three schedules.
``clock-rn-and-fcn``: connectivity and time course of a clock RN against a clock FCN, of ``clockseg.paper.equations``.

Command: ``python docs/making/schematics.py``. Cost: two seconds.
"""

from __future__ import annotations

import os
from collections.abc import Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from drawing import DEPTHS
from sketch import Box, Point, Sheet, way
from symbols import Cell, Made, Sum, cells, part

from clockseg.clocks.rates import alternating, exponential, pipelined
from clockseg.clockwork.clock import facts
from clockseg.clockwork.network import Group, Stage, StagedNetwork
from clockseg.clockwork.schedule import ScheduleLike, schedule_for
from clockseg.clockwork.step import fill, step
from clockseg.paper.equations import Network, clock_fcn, clock_rn, fixed_rate, modules
from clockseg.report.style import INK, MUTED, PAGE, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PERIODS = (1, 2, 4)
"""Of the clock RN's modules and the clock FCN's."""
_SCHEDULES = {"alternating": alternating, "exponential": exponential, "pipelined(3)": pipelined(3)}
_FILLS = ("white", *DEPTHS)
_INKS = (INK, INK, "white", "white")
"""The colours of a frame and of stages 1, 2, 3, and of text on them."""
_CELL = (0.26, 0.24)
_PALE = "#aeb4bb"


# What runs.
def staged_network() -> StagedNetwork:
    """An FCN-8s of symbols, with the paper's names: stages end at pool3, pool4 and fc7."""
    return StagedNetwork(
        "FCN-8s",
        (
            Stage("stage 1", part("conv1_1 .. pool3"), part("score_pool3")),
            Stage("stage 2", part("conv4_1 .. pool4"), part("score_pool4")),
            Stage("stage 3", part("conv5_1 .. fc7"), part("upscore2")),
        ),
        (
            Group("fuse_pool4", ("stage 3", "stage 2"), part("fuse_pool4")),
            Group("fuse_pool3", ("fuse_pool4", "stage 1"), part("fuse_pool3")),
        ),
        finish=part("score"),
    )


def connections(output: Made) -> list[tuple[str, str]]:
    """Who reads whom, by name, each once, in the order in which they ran.

    >>> connections(staged_network()(Made("frame")))[:2]
    [('frame', 'conv1_1 .. pool3'), ('conv1_1 .. pool3', 'conv4_1 .. pool4')]
    """
    found: dict[tuple[str, str], None] = {}

    def visit(value: Made) -> None:
        for read in value.of:
            visit(read)
            found[read.by, value.by] = None

    visit(output)
    return list(found)


def session_cells(schedule: ScheduleLike, frames: int = 5) -> list[Cell]:
    """Who read whom in a session of the staged network.

    >>> [cell.reads for cell in session_cells(pipelined(3)) if (cell.module, cell.t) == (3, 4)]
    [((2, 3),)]
    """
    net = staged_network()
    made, memory, states = schedule_for(schedule, len(net)), None, []
    for _ in range(frames):
        picture = Made("frame")
        _, memory = fill(net, made, picture) if memory is None else step(net, made, memory, picture)
        states.append((picture, [stage.trunk.value for stage in memory.stages]))
    return cells(states)


def symbolic_clock_rn() -> Network:
    """A clock RN of three modules of one unit, with every connection that is allowed."""
    return clock_rn(np.ones((3, 1), int), np.triu(np.ones((3, 3), int)), periods=PERIODS)


def symbolic_clock_fcn() -> Network:
    """A clock FCN of three modules on the same clocks."""
    return clock_fcn([lambda value: value.through("f")] * len(PERIODS), fixed_rate(*PERIODS))


class Course(NamedTuple):
    """The time course of a network of three modules: who read whom, and at which (module, frame) the output is blank."""

    cells: list[Cell]
    blank: set[tuple[int, int]]


def course(network: Network, frames: int = 9) -> Course:
    """What a member of the equations did.

    >>> sorted(course(symbolic_clock_rn(), 3).blank), course(symbolic_clock_fcn(), 3).blank
    ([(2, 1), (3, 1), (3, 2)], set())
    """
    y, states, blank = modules(*[Sum()] * len(PERIODS)), [], set()
    for t in range(frames):
        picture, now = Sum.of("x"), network(t)
        y = now.y_H(picture, y)
        states.append((picture.terms[0], [value.terms[0] for value in y]))
        blank |= {(module, t) for module, value in enumerate(now.C_O * y, start=1) if not value.terms}
    return Course(cells(states), blank)


# What is drawn of it.
def draw_staged_network(drawn: Figure) -> None:
    """The staged network with its clocks; below it three schedules over five frames."""
    sheet = Sheet(drawn)
    _network(sheet)
    for index, (title, schedule) in enumerate(_SCHEDULES.items()):
        grid = _Grid((0.72 + 2.12 * index, 0.66), (0.41, 0.36))
        sheet.text((grid.corner[0] - 0.13, 2.1), title, bold=True, align="left")
        sheet.text((grid.corner[0] + 1.77, 2.1), _knobs(schedule), size=7, colour=MUTED, align="right")
        _time_course(sheet, grid, session_cells(schedule))
        if not index:
            for module, name in enumerate(("frame", "stage 1", "stage 2", "stage 3")):
                sheet.text((0.5, grid.at(module, 0)[1]), name, align="right")
    _legend(sheet)


def _knobs(schedule: ScheduleLike) -> str:
    """What of a schedule isn't as in the frame oracle."""
    made = schedule_for(schedule, len(DEPTHS))
    periods = [period for period in (facts(clock).period for clock in made.clocks) if period]
    return f"delays {made.delays}" if any(made.delays) else f"clocks {tuple(periods)}"


def _network(sheet: Sheet) -> None:
    x, trunk, scores, fuse = (0.62, 2.35, 4.1, 5.85), 4.0, 3.3, 2.7
    boxes = {"frame": Box((x[0], trunk), (0.8, 0.4), "frame"), "score": Box((x[0], fuse), (0.8, 0.34), "score")}
    for column, name in ((x[1], "fuse_pool3"), (x[2], "fuse_pool4")):
        boxes[name] = Box((column, fuse), (0.26, 0.26), "+")
        sheet.text((column, fuse - 0.24), name, size=7, colour=MUTED)
    for module, stage in enumerate(staged_network().stages, start=1):
        body, head, column = stage.body().by, stage.head().by, x[module]
        boxes[body] = Box((column, trunk), (1.3, 0.4), body, _FILLS[module], _INKS[module])
        boxes[head] = Box((column, scores), (1.0, 0.34), head)
        sheet.text((column - 0.2, trunk + 0.56), stage.name, bold=True, align="right")
        sheet.clock((column, trunk + 0.56))
        sheet.text((column + 0.2, trunk + 0.56), f"clock {module}", align="left")
        sheet.arrow((column, trunk + 0.44), (column, trunk + 0.2))
        _loop(sheet, (column + 0.5, scores), held=True)
        sheet.text((column + 0.72, scores), "held", size=7, colour=MUTED, align="left")
    for box in boxes.values():
        sheet.box(box.centre, box.size, fill=box.fill)
        sheet.text(box.centre, box.text, colour=box.ink)
    for start, end in connections(staged_network()(Made("frame"))):
        sheet.arrow(*way(boxes[start], boxes[end]))


class _Grid(NamedTuple):
    """A column a frame and a row a module, the frames themselves below; ``corner``: the middle of frame 0."""

    corner: Point
    pitch: tuple[float, float]

    def at(self, module: int, t: int) -> Point:
        return self.corner[0] + self.pitch[0] * t, self.corner[1] + self.pitch[1] * module


def _time_course(sheet: Sheet, grid: _Grid, found: Sequence[Cell], blank: Set[tuple[int, int]] = frozenset()) -> None:
    reads = [(read, cell) for cell in found for read in cell.reads]
    for read, cell in sorted(reads, key=lambda pair: pair[0][0] != 0):  # those of frames lie below the others
        _read(sheet, grid, read, cell)
    for cell in found:
        module, t, here = cell.module, cell.t, grid.at(cell.module, cell.t)
        if module == 1:
            sheet.text(grid.at(0, t), str(t), colour=MUTED)
        if (module, t) in blank:
            sheet.box(here, _CELL, edge=_PALE, line="dotted")
            continue
        sheet.box(here, _CELL, fill=_FILLS[module] if cell.fired else "white", edge=_FILLS[module])
        sheet.text(here, str(cell.reflects), colour=_INKS[module] if cell.fired else INK)
        if not cell.fired:
            before = grid.at(module, t - 1)
            ends = (before[0] + _CELL[0] / 2, here[1]), (here[0] - _CELL[0] / 2, here[1])
            sheet.arrow(*ends, line="dashed", colour=MUTED, head=False)


def _read(sheet: Sheet, grid: _Grid, read: tuple[int, int], cell: Cell) -> None:
    """An arrow between the edges of two cells that face each other."""
    (x, y), (to_x, to_y) = grid.at(*read), grid.at(cell.module, cell.t)
    half_width, half_height = _CELL[0] / 2, _CELL[1] / 2
    up = (to_y > y) - (to_y < y)
    if read[1] == cell.t and cell.module - read[0] > 1:
        sheet.arrow((x - 0.06, y + 0.08), (to_x - half_width, to_y - 0.05), bow=0.13, colour=_PALE)
    elif read[1] == cell.t:
        sheet.arrow((x, y + half_height), (to_x, to_y - half_height))
    elif abs(cell.module - read[0]) > 1:
        sheet.arrow((x + half_width, y + up * half_height), (to_x - 0.06, to_y - up * half_height))
    else:
        sheet.arrow((x + half_width, y + up * half_height), (to_x - half_width, to_y - up * half_height))


def _loop(sheet: Sheet, side: Point, *, held: bool) -> None:
    """An arrow back into a box, at the middle of its right edge."""
    ends = (side[0], side[1] + 0.08), (side[0], side[1] - 0.08)
    sheet.arrow(*ends, bow=0.14, line="dashed" if held else "solid", colour=MUTED if held else INK)


def draw_clock_rn_and_fcn(drawn: Figure) -> None:
    """Two bands, a clock RN and a clock FCN: what each module may read, and what it did read at each of nine frames."""
    sheet = Sheet(drawn)
    for y, title, off, network in (
        (2.95, "clock RN", "off: the output is blank, the state is kept", symbolic_clock_rn()),
        (0.66, "clock FCN", "off: the output is what is held", symbolic_clock_fcn()),
    ):
        ran, grid = course(network), _Grid((3.16, y), (0.45, 0.46))
        sheet.text((0.24, y + 1.8), title, bold=True, size=9, align="left")
        sheet.text((6.9, y + 1.8), off, size=7, colour=MUTED, align="right")
        sheet.text((grid.corner[0] - 0.13, y + 1.8), "time course", align="left")
        sheet.text((grid.corner[0] - 0.34, y), "t =", colour=MUTED)
        _connectivity(sheet, _Grid((1.5, y), (0, grid.pitch[1])), ran.cells)
        _time_course(sheet, grid, ran.cells, ran.blank)
    _legend(sheet)


def _connectivity(sheet: Sheet, grid: _Grid, found: Sequence[Cell]) -> None:
    """The modules one above the other, with every connection that was used at any frame."""
    half_width, half_height = 0.42, 0.13
    right = grid.corner[0] + half_width
    sheet.text(grid.corner, "x")
    for module, period in enumerate(PERIODS, start=1):
        x, y = grid.at(module, 0)
        sheet.box((x, y), (2 * half_width, 2 * half_height), fill=_FILLS[module], edge=_FILLS[module])
        sheet.text((x, y), f"module {module}", colour=_INKS[module])
        sheet.clock((0.36, y), fires=1 / period)
        sheet.text((0.54, y), f"T = {period}", size=7, colour=MUTED, align="left")
    for start, end in sorted({(read[0], cell.module) for cell in found for read in cell.reads}):
        (x, y), (_, to_y) = grid.at(start, 0), grid.at(end, 0)
        up = (to_y > y) - (to_y < y)
        if start == end:
            _loop(sheet, (right, y), held=False)
        elif abs(end - start) == 1:
            sheet.arrow((x, y + up * half_height), (x, to_y - up * half_height))
        elif start == 0:
            side = x - half_width
            sheet.arrow((x - 0.08, y), (side - 0.14, y), (side - 0.14, to_y), (side, to_y))
        else:
            sheet.arrow((right - 0.05, y - half_height), (right - 0.05, to_y + half_height), bow=0.34)
    recurrent = {cell.module for cell in found if (cell.module, cell.t - 1) in cell.reads}
    for module in {cell.module for cell in found if not cell.fired} - recurrent:
        _loop(sheet, (right, grid.at(module, 0)[1]), held=True)


def _legend(sheet: Sheet) -> None:
    y, fires, holds, reads = 0.2, 0.72, 3.72, 4.8
    sheet.box((fires, y), (0.18, 0.16), fill=DEPTHS[1], edge=DEPTHS[1])
    sheet.text((fires + 0.18, y), "fires; the number is the newest frame in it", align="left", size=7.5)
    sheet.box((holds, y), (0.18, 0.16), edge=DEPTHS[1])
    sheet.text((holds + 0.18, y), "holds", align="left", size=7.5)
    sheet.arrow((reads - 0.14, y), (reads + 0.12, y))
    sheet.text((reads + 0.2, y), "is read by", align="left", size=7.5)


def write(folder: str | os.PathLike[str]) -> None:
    """Draw both figures into a folder; the same bytes from the same matplotlib.

    ``DataError`` where the folder can't be written, ``MissingDependency`` without matplotlib.
    """
    with figure(Path(folder) / "staged-network.svg", size=(PAGE, 4.9)) as drawn:
        draw_staged_network(drawn)
    with figure(Path(folder) / "clock-rn-and-fcn.svg", size=(PAGE, 5.0)) as drawn:
        draw_clock_rn_and_fcn(drawn)


if __name__ == "__main__":
    write(Path(__file__).resolve().parents[1] / "figures")
