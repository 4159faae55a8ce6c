"""Translated sequences: a still picture seen through a moving window, six frames of labelled video (section 5).

As in the authors' evaluation on PASCAL, the window moves along the longer side (down, if the picture is square) by
``shift`` pixels per frame. Label maps are cropped with the same window. Frames 0 and 1 fill the pipelines and are not scored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from clockseg.datasets.clips import Clip, whole
from clockseg.errors import DataError, UsageError, whole_number
from clockseg.types import Array

FRAMES = 6
FIRST_SCORED = 2


@dataclass(frozen=True)
class Window:
    """The view of a translated sequence; ``of`` names the picture in errors.

    Frame k shows [k * shift, k * shift + length) of the longer side; ``length`` None: the rest after five shifts, 420 of
    500 pixels for a shift of 16 and 340 for 32.
    """

    shift: int
    length: int | None = None
    of: str = "picture"

    def __post_init__(self) -> None:
        whole_number(self.shift, "shift", least=0)
        if self.length is not None:
            whole_number(self.length, "crop")

    def __call__(self, array: Array, index: int) -> Array:
        """Return frame ``index`` (0..5) of a picture [h, w, 3] or label map [h, w]; ``DataError`` if it is too small."""
        height, width = array.shape[:2]
        most = max(height, width) - (FRAMES - 1) * self.shift
        length = most if self.length is None else self.length
        if not 0 < length <= most:
            raise DataError(
                f"{self.of} is {width}x{height}: {FRAMES - 1} shifts of {self.shift} px leave {most} px of its longer side, "
                f"but the window needs {max(length, 1)}. Give a smaller shift{'' if self.length is None else ' or crop'}."
            )
        seen = slice(index * self.shift, index * self.shift + length)
        return np.ascontiguousarray(array[:, seen] if width > height else array[seen])


def translate(
    clips: Iterable[Clip], *, shift: int = 16, crop: int | None = None, scored_from: int = FIRST_SCORED
) -> list[Clip]:
    """Return a sequence of six frames for every selected picture of ``clips``; for clips with labels, every labelled one.

    ``shift``: pixels per frame. ``crop``: the length of the window in pixels (default: the rest after five shifts). Labels
    start at frame ``scored_from``. ``UsageError`` for videos and for clips that are translated already; a picture that is
    too small raises ``DataError`` when it is read.

    >>> from pathlib import Path
    >>> still = Clip("cat", Path("."), (Path("cat.jpg"),), (Path("cat.png"),))
    >>> (sequence,) = translate([still], shift=32)
    >>> len(sequence.taken), sequence.labelled
    (6, 4)
    """
    if whole_number(scored_from, "scored_from", least=0) >= FRAMES:
        raise UsageError(f"scored_from is {scored_from}; a sequence has frames 0 to {FRAMES - 1}.")
    window = Window(shift, crop)
    return [sequence for clip in clips for sequence in _sequences(clip, window, scored_from)]


def _sequences(clip: Clip, window: Window, scored_from: int) -> Iterator[Clip]:
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
            labels=(None,) * scored_from + (label,) * (FRAMES - scored_from),
            every=1,
            limit=None,
            view=replace(window, of=str(image)),
        )
