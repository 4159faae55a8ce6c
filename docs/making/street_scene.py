"""A drawn street with exact labels: a car drives by, and a person walks."""

from __future__ import annotations

from collections.abc import Callable

import cv2
import numpy as np
from drawing import Drawing, Point

WIDTH, HEIGHT = 160, 96
CLASSES = ("sky", "building", "tree", "pavement", "road", "person", "car")
COLOURS = ("#cfe6f5", "#d8c3a5", "#86b58a", "#b9b2c9", "#7d8594", "#0072b2", "#d55e00")
"""Colours of the classes, distinguishable with any colour vision."""

Shape = tuple[int, list[Point]]


def shapes(car: float, person: float = 118) -> list[Shape]:
    """Return the picture's shapes, back to front, as (class, polygon); ``car`` and ``person`` are their left edges.

    >>> [CLASSES[label] for label, _ in shapes(10)][-1]
    'car'
    """
    return [
        (0, _rectangle(0, 0, WIDTH, HEIGHT)),
        (1, _rectangle(0, 24, 54, 40)),
        (1, _rectangle(98, 14, 62, 50)),
        (2, _rectangle(73, 44, 4, 20)),
        (2, _ellipse((75, 38), (15, 17))),
        (3, _rectangle(0, 62, WIDTH, 9)),
        (4, _rectangle(0, 71, WIDTH, 25)),
        (5, [*_ellipse((person + 4, 47), (2.6, 2.8))]),
        (5, [(person + 2, 51), (person + 6, 51), (person + 7, 69), (person + 1, 69)]),
        (6, [(car + 7, 66), (car + 12, 56), (car + 26, 56), (car + 31, 66)]),
        (6, [(car, 67), (car + 5, 65), (car + 35, 65), (car + 39, 70), (car + 39, 81), (car, 81)]),
        (6, _ellipse((car + 9, 81), (5, 5))),
        (6, _ellipse((car + 31, 81), (5, 5))),
    ]


def labels(car: float, person: float = 118) -> np.ndarray:
    """Return the labels, uint8 [96, 160].

    >>> int(labels(10)[75, 20]), int(labels(100)[75, 20])
    (6, 4)
    """
    drawn = np.zeros((HEIGHT, WIDTH), np.uint8)
    for label, points in shapes(car, person):
        cv2.fillPoly(drawn, [np.rint(points).astype(np.int32)], label)
    return drawn


def coarse(full: np.ndarray, stride: int) -> np.ndarray:
    """Return the most frequent class of each ``stride`` x ``stride`` cell, as a stage at that stride would see it.

    >>> coarse(labels(10), 16).shape
    (6, 10)
    """
    height, width = (side // stride for side in full.shape)
    cells = full.reshape(height, stride, width, stride)
    counts = [(cells == label).sum((1, 3)) for label in range(len(CLASSES))]
    return np.argmax(counts, axis=0).astype(np.uint8)


def draw_picture(drawn: Drawing, corner: Point, width: float, *, car: float, person: float = 118) -> None:
    """Draw the picture as a camera would see it, ``width`` wide."""
    scale = width / WIDTH

    def at(points: list[Point]) -> list[Point]:
        return [(corner[0] + scale * x, corner[1] + scale * y) for x, y in points]

    paints = ("#dfeaf1", "#c4ad90", "#6f9a6c", "#cfc9c2", "#767b84", "#3d5a80")
    behind, people = shapes(car, person)[:7], shapes(car, person)[7:9]
    for label, points in behind:
        drawn.shape(_inside(at(points), corner, width), fill=paints[label])
    _windows(drawn, at)
    for label, points in people:
        drawn.shape(at(points), fill=paints[label])
    _car(drawn, at, car)
    drawn.box(corner, (width, scale * HEIGHT), fill="none", edge="muted")


def _windows(drawn: Drawing, at: Callable[[list[Point]], list[Point]]) -> None:
    """Draw details without a class of their own: windows, and the line on the road."""
    for left, tops, columns in ((6, (32, 46), 4), (104, (22, 35, 48), 4)):
        for y in tops:
            for column in range(columns):
                drawn.shape(at(_rectangle(left + 13 * column, y, 7, 8)), fill="#8fa3b3")
    for x in range(4, WIDTH, 24):
        drawn.shape(at(_rectangle(x, 88, 12, 1.6)), fill="#e8e6df")


def _car(drawn: Drawing, at: Callable[[list[Point]], list[Point]], car: float) -> None:
    cabin, body, *wheels = (points for _, points in shapes(car)[9:])
    drawn.shape(at(cabin), fill="#9fb4c2")
    drawn.shape(at(body), fill="#b8442f")
    for wheel in wheels:
        drawn.shape(at(wheel), fill="#2b2e34")


def _inside(points: list[Point], corner: Point, width: float) -> list[Point]:
    return [(min(max(x, corner[0]), corner[0] + width), y) for x, y in points]


def _rectangle(x: float, y: float, width: float, height: float) -> list[Point]:
    return [(x, y), (x + width, y), (x + width, y + height), (x, y + height)]


def _ellipse(centre: Point, radii: Point) -> list[Point]:
    turns = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    return [(float(centre[0] + radii[0] * np.cos(turn)), float(centre[1] + radii[1] * np.sin(turn))) for turn in turns]
