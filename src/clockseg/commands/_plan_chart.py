"""A plan as a picture: agreement against time of all that was tried, the frontier, and the choice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import cv2
import numpy as np

from clockseg._types import Image
from clockseg._whole_file import whole
from clockseg.experiments.canvas import blank, capital_height, framed, legend, line, rgb
from clockseg.experiments.plotting import CYCLE, INK, MUTED, NOW, RULE

if TYPE_CHECKING:
    from clockseg.planning import Plan, Trial

WIDTH, HEIGHT = 1000, 520
_LEFT, _BELOW, _EDGE = 84, 44, 18
_FINE = 4
"""Bits behind the point of the places of circles and lines."""


@dataclass(frozen=True)
class _Axes:
    """From relative time and agreement to pixels; ``low``: the least agreement shown, ``most``: the most time."""

    low: float
    most: float

    def place(self, time: float, agreement: float) -> tuple[int, int]:
        """In sixteenths of a pixel."""
        x = _LEFT + (WIDTH - _LEFT - _EDGE) * time / self.most
        y = _EDGE + (HEIGHT - _EDGE - _BELOW) * (1 - agreement) / (1 - self.low)
        return round(x * 2**_FINE), round(y * 2**_FINE)

    def inside(self, time: float, agreement: float) -> bool:
        """Whether it can be shown."""
        return time <= self.most and agreement >= self.low


def write_chart(plan: Plan, path: Path) -> None:
    """The picture of a plan as a PNG, whole or not at all."""
    _, data = cv2.imencode(".png", cv2.cvtColor(chart(plan), cv2.COLOR_RGB2BGR))
    with whole(path) as part:
        part.write_bytes(data.tobytes())


def chart(plan: Plan) -> Image:
    """The picture, uint8 RGB."""
    capital = capital_height(WIDTH)
    axes, drawn = _axes(plan), blank(WIDTH, HEIGHT)
    _grid(drawn, axes)
    _goal(drawn, axes, plan)
    for trial in plan.trials:
        _dot(drawn, axes, plan, trial, radius=2.2, colour=_pale(plan, trial))
    _steps(drawn, axes, plan)
    for trial in plan.frontier:
        _dot(drawn, axes, plan, trial, radius=4.5, colour=_colour(trial))
    _chosen(drawn, axes, plan)
    title = line(WIDTH, "agreement against time", _told(plan), capital=capital, bold=True)
    names = legend(
        [(variant.name, rgb(CYCLE[number % len(CYCLE)])) for number, variant in enumerate(plan.variants)]
        + [("chosen; hollow: on the blocks held back", rgb(NOW))],
        WIDTH,
        capital=9,
    )
    return framed([title, drawn, names], gap=20)


def _told(plan: Plan) -> str:
    return f"{len(plan.trials)} schedules, {plan.frames} frames"


def _axes(plan: Plan) -> _Axes:
    worst = min(plan.goal.promised(trial) for trial in [*plan.frontier, plan.chosen])
    low = math.floor(min(worst, plan.goal.keep or 1) * 50 - 0.5) / 50
    times = [trial.tuned.relative_time for trial in [*plan.frontier, plan.chosen]]
    return _Axes(max(0.0, min(low, 0.98)), max(1.05, 1.05 * max(times)))


def _grid(drawn: Image, axes: _Axes) -> None:
    step = next(one for one in (0.005, 0.01, 0.02, 0.05, 0.1, 0.2) if (1 - axes.low) / one <= 8)
    for number in range(round((1 - axes.low) / step) + 1):
        level = 1 - number * step
        _line(drawn, axes.place(0, level), axes.place(axes.most, level), RULE)
        _write(drawn, f"{100 * level:.3g} %", axes.place(0, level), -72, 5)
    for number in range(math.floor(axes.most / _wide(axes)) + 1):
        time = number * _wide(axes)
        _line(drawn, axes.place(time, axes.low), axes.place(time, 1), RULE)
        _write(drawn, f"{time:.3g}", axes.place(time, axes.low), -10, 18)
    _write(drawn, "time against the uncut network", axes.place(axes.most, axes.low), -262, 38, MUTED)


def _wide(axes: _Axes) -> float:
    return next(one for one in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 1000.0) if axes.most / one <= 12)


def _goal(drawn: Image, axes: _Axes, plan: Plan) -> None:
    if plan.goal.keep is not None:
        _line(drawn, axes.place(0, plan.goal.keep), axes.place(axes.most, plan.goal.keep), MUTED)
    if plan.goal.time is not None and plan.goal.time <= axes.most:
        _line(drawn, axes.place(plan.goal.time, axes.low), axes.place(plan.goal.time, 1), MUTED)


def _steps(drawn: Image, axes: _Axes, plan: Plan) -> None:
    """What can be had by a time: a stair from one point of the frontier to the next."""
    places = [axes.place(*_point(plan, trial)) for trial in plan.frontier]
    corners = [corner for a, b in pairwise(places) for corner in (a, (b[0], a[1]))]
    stair = np.array([*corners, *places[-1:]], np.int32)
    cv2.polylines(drawn, [stair], False, rgb(INK), 1, cv2.LINE_AA, _FINE)


def _point(plan: Plan, trial: Trial) -> tuple[float, float]:
    return trial.tuned.relative_time, plan.goal.promised(trial)


def _dot(drawn: Image, axes: _Axes, plan: Plan, trial: Trial, *, radius: float, colour: Sequence[int]) -> None:
    point = _point(plan, trial)
    if axes.inside(*point):
        cv2.circle(drawn, axes.place(*point), round(radius * 2**_FINE), colour, cv2.FILLED, cv2.LINE_AA, _FINE)


def _chosen(drawn: Image, axes: _Axes, plan: Plan) -> None:
    promised = _point(plan, plan.chosen)
    held_back = plan.chosen.held_back.relative_time, plan.goal.agreement(plan.chosen.held_back)
    cv2.circle(drawn, axes.place(*promised), 8 << _FINE, rgb(NOW), cv2.FILLED, cv2.LINE_AA, _FINE)
    if axes.inside(*held_back):
        cv2.circle(drawn, axes.place(*held_back), 8 << _FINE, rgb(NOW), 2, cv2.LINE_AA, _FINE)
    name = plan.chosen.candidate.text
    x, y = axes.place(*promised)
    room = WIDTH - (x >> _FINE) - 30 - 8 * len(name)
    _write(drawn, name, (x, y), 16 + min(0, room), 26, NOW)


def _colour(trial: Trial) -> Sequence[int]:
    return rgb(CYCLE[trial.variant % len(CYCLE)])


def _pale(plan: Plan, trial: Trial) -> Sequence[int]:
    return tuple(round(255 - (255 - one) * 0.45) for one in _colour(trial))


def _line(drawn: Image, start: tuple[int, int], end: tuple[int, int], colour: str) -> None:
    cv2.line(drawn, start, end, rgb(colour), 1, cv2.LINE_AA, _FINE)


def _write(drawn: Image, text: str, place: tuple[int, int], right: int, down: int, colour: str = INK) -> None:
    x, y = (place[0] >> _FINE) + right, (place[1] >> _FINE) + down
    cv2.putText(drawn, text, (x, y), cv2.FONT_HERSHEY_SIMPLEX, 0.45, rgb(colour), 1, cv2.LINE_AA)
