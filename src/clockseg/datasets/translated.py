"""Translated sequences: a still picture seen through a moving window, six frames of labelled video (section 5).

As in the authors' evaluation on PASCAL, the window moves along the longer side (down, if the picture is square) by
``shift`` pixels per frame. Label maps are cropped with the same window. Frames 0 and 1 fill the pipelines and are not scored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from clockseg.datasets.clips import Clip, whole
from clockseg.errors import DataError, UsageError, whole_number
from clockseg.types import Array

FRAMES = 6
FIRST_SCORED = 2


def window(array: Array, index: int, *, shift: int, of: str = "picture") -> Array:
    """Return frame ``index`` (0..5) of the sequence of a picture [h, w, 3] or label map [h, w].

    Frame k shows [k * shift, k * shift + length) of the longer side, where ``length`` is the rest after five shifts: 420 of
    500 pixels for a shift of 16, and 340 for 32. ``DataError``, in which ``of`` names the picture, if it is too small.
    """
    height, width = array.shape[:2]
    length = max(height, width) - (FRAMES - 1) * shift
    if length < 1:
        raise DataError(
            f"{of} is {width}x{height}: {FRAMES - 1} shifts of {shift} px leave {length} px of its longer side. "
            "Give a smaller shift."
        )
    seen = slice(index * shift, index * shift + length)
    return np.ascontiguousarray(array[:, seen] if width > height else array[seen])


def translate(clips: Iterable[Clip], *, shift: int = 16) -> list[Clip]:
    """Return a sequence of six frames for every selected picture of ``clips``; for clips with labels, every labelled one.

    ``shift``: pixels per frame. ``UsageError`` for videos and for clips that are translated already; a picture that is too
    small raises ``DataError`` when it is read.

    >>> from pathlib import Path
    >>> still = Clip("cat", Path("."), (Path("cat.jpg"),), (Path("cat.png"),))
    >>> (sequence,) = translate([still], shift=32)
    >>> len(sequence.taken), sequence.labelled
    (6, 4)
    """
    whole_number(shift, "shift", least=0)
    return [sequence for clip in clips for sequence in _sequences(clip, shift)]


def _sequences(clip: Clip, shift: int) -> Iterator[Clip]:
    if clip.taken is None:
        raise UsageError(f"{clip.path} is a video; translated sequences are made from pictures.")
    if clip.view is not whole:
        raise UsageError(f"clip {clip.name} is already translated; translate its pictures instead.")
    for index in clip.taken:
        image, label = clip.images[index], clip.labels[index]
        if label is None and clip.labelled:
            continue
        yield replace(
            clip,
            name=clip.name if len(clip.images) == 1 else f"{clip.name}/{image.stem}",
            images=(image,) * FRAMES,
            labels=(None,) * FIRST_SCORED + (label,) * (FRAMES - FIRST_SCORED),
            every=1,
            limit=None,
            view=partial(window, shift=shift, of=str(image)),
        )
