"""Instances drawn over a picture: tinted masks with outlines, and their names, identities and scores."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np

from clockseg.instances.sets import Instances, within
from clockseg.types import Array, Image, Labels
from clockseg.video.overlay import overlay, palette

COLOURS = 24
"""Colours of identities; they repeat after so many."""
OUTLINE = COLOURS
"""The id of outlines in a map of colours."""
NOTHING = 255
_PALETTE: Array = np.array([*palette(COLOURS), (255, 255, 255)], np.uint8)


def drawn(image: Image, found: Instances, names: Sequence[str]) -> Image:
    """Draw instances over a picture of their frame's size, uint8 RGB [H, W, 3]; ``names``: of the classes."""
    return lettered(overlay(image, colour_ids(found), _PALETTE), found, names)


def colour_ids(found: Instances) -> Labels:
    """Return the colour of each pixel by number, uint8 [H, W]: that of its instance, ``OUTLINE``, or 255 outside.

    The instance with the highest score lies on top.
    """
    drawn: Labels = np.full(found.size[::-1], NOTHING, np.uint8)
    width = max(1, round(found.size[1] / 360))
    for index in np.argsort(found.scores, kind="stable"):
        mask = found.mask(int(index))
        rows, columns = within(mask)
        part = mask[rows, columns]
        drawn[rows, columns][part] = int(found.ids[index]) % COLOURS
        left_top = columns.start, rows.start
        lines, _ = cv2.findContours(part.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE, offset=left_top)
        cv2.drawContours(drawn, lines, -1, OUTLINE, width)
    return drawn


def lettered(image: Image, found: Instances, names: Sequence[str]) -> Image:
    """Write the name, the identity and the score of each instance at the top of its box; the picture is copied."""
    image = image.copy()
    scale = max(0.35, found.size[1] / 1200)
    for index in range(len(found)):
        kind, one = int(found.classes[index]), int(found.ids[index])
        name = names[kind] if 0 <= kind < len(names) else f"class {kind}"
        text = f"{name} {one} {found.scores[index]:.2f}"
        (wide, high), below = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, scale, 1)
        left = int(np.clip(found.boxes[index][0], 0, max(0, image.shape[1] - wide)))
        top = int(np.clip(found.boxes[index][1], high + below, image.shape[0] - 1))
        back = tuple(map(int, _PALETTE[one % COLOURS]))
        cv2.rectangle(image, (left, top - high - below), (left + wide, top), back, cv2.FILLED)
        cv2.putText(image, text, (left, top - below // 2), cv2.FONT_HERSHEY_SIMPLEX, scale, (0, 0, 0), 1, cv2.LINE_AA)
    return image
