"""The classes of `scene` and their colours."""

from __future__ import annotations

from clockseg.datasets import Classes

COLOURS = {
    "other": (72, 72, 72),
    "wall": (204, 121, 167),
    "building": (230, 159, 0),
    "sky": (86, 180, 233),
    "floor": (240, 228, 66),
    "tree": (0, 158, 115),
    "ceiling": (235, 235, 235),
    "road": (0, 114, 178),
    "bed": (213, 94, 0),
    "window": (0, 230, 230),
    "grass": (150, 220, 60),
    "cabinet": (140, 90, 30),
    "sidewalk": (170, 150, 255),
    "person": (255, 0, 110),
    "earth": (165, 125, 85),
    "door": (90, 45, 0),
    "table": (255, 140, 110),
    "mountain": (110, 110, 150),
    "plant": (60, 110, 20),
    "curtain": (190, 60, 220),
    "chair": (160, 0, 110),
    "car": (130, 0, 255),
    "water": (0, 60, 220),
    "painting": (255, 200, 170),
    "sofa": (110, 0, 60),
    "shelf": (200, 170, 110),
    "house": (250, 200, 110),
    "sea": (0, 30, 130),
    "mirror": (120, 255, 190),
    "rug": (200, 90, 90),
    "field": (200, 200, 90),
    "armchair": (190, 0, 40),
}
"""The 31 most frequent classes of ADE20K, most frequent first, after everything else; the ids are the teacher's."""
CLASSES = Classes(tuple(COLOURS), tuple(COLOURS.values()))
