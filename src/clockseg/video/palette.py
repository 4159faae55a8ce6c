"""Colours for classes that bring none."""

from __future__ import annotations

import colorsys

Colour = tuple[int, int, int]


def palette(classes: int) -> tuple[Colour, ...]:
    """Well spread RGB colours, always the same for a class id.

    >>> palette(2)
    ((214, 81, 81), (81, 120, 214))
    """
    golden = 0.6180339887
    hues = ((golden * k) % 1 for k in range(classes))
    return tuple(
        (round(255 * r), round(255 * g), round(255 * b))
        for r, g, b in (colorsys.hsv_to_rgb(hue, 0.62, 0.84) for hue in hues)
    )
