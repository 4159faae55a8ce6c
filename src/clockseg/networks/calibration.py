"""Frames to measure a network's numbers on: spread over the clips, prepared as the runtime prepares them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from clockseg.datasets.clips import Clip, ignore_problem
from clockseg.errors import DataError
from clockseg.graph.part import IMAGE
from clockseg.graph.sidecar import Input
from clockseg.networks.framing import Framing, OwnSize
from clockseg.types import Array, Image, Size

Item = TypeVar("Item")


@dataclass(frozen=True)
class Prepared:
    """A frame as the network gets it: ``image`` uint8 RGB [1, H, W, 3], of which ``shown`` (w, h) is picture, not padding."""

    image: Array
    shown: Size


@dataclass(frozen=True)
class Frames:
    """Frames to calibrate on, and others between them to judge by; none of the latter where there is one frame only."""

    calibration: tuple[Prepared, ...]
    held_out: tuple[Prepared, ...]


def gather(
    clips: Sequence[Clip],
    framing: Framing | OwnSize,
    *,
    calibration: int = 60,
    held_out: int = 20,
    problem: Callable[[str], None] = ignore_problem,
) -> Frames:
    """Choose at most so many frames of each kind, spread evenly over all ``clips``; labels are not read.

    ``DataError`` if the clips have no frame; ``VideoError`` for one that can't be read.
    """
    wanted = calibration + held_out
    kept = spread((_prepared(image, framing) for image in _images(clips, problem)), wanted)
    if not kept:
        raise DataError("the clips have no frame; give videos, clips or pictures.")
    share = max(1, round(len(kept) * held_out / wanted)) if len(kept) > 1 else 0
    apart = set(_evenly(len(kept), share))
    return Frames(
        tuple(one for index, one in enumerate(kept) if index not in apart)[:calibration],
        tuple(one for index, one in enumerate(kept) if index in apart),
    )


def spread(items: Iterable[Item], count: int) -> list[Item]:
    """Choose ``count`` of ``items``, evenly spread, in order, or all if they are fewer; keeps four times as many at most.

    How many come isn't known before the last: every second one is dropped whenever there are too many.

    >>> spread(range(100), 3)
    [16, 48, 80]
    """
    kept: list[Item] = []
    step = 1
    for index, item in enumerate(items):
        if index % step == 0:
            kept.append(item)
        if len(kept) == 4 * count:
            kept, step = kept[::2], 2 * step
    return [kept[index] for index in _evenly(len(kept), min(count, len(kept)))]


def _evenly(there: int, count: int) -> list[int]:
    """Choose ``count`` of the places 0 .. ``there`` - 1, each in the middle of its share."""
    return [int((2 * index + 1) * there / (2 * count)) for index in range(count)]


def normalised(frame: Prepared, given: Input) -> Array:
    """Return the network's input, float32 [1, 3, H, W]: (pixel * scale - mean) / std, as in ``extraction.with_frame``.

    >>> grey = Prepared(np.full((1, 2, 2, 3), 51, np.uint8), (2, 2))
    >>> normalised(grey, Input("x", 2, 2, mean=(0.2, 0.1, 0.0), std=(0.1, 0.1, 0.1))).round(3)[0, :, 0, 0].tolist()
    [0.0, 1.0, 2.0]
    """
    image = frame.image[..., ::-1] if given.colour == "bgr" else frame.image
    factor, offset = given.affine()
    pixels = image.transpose(0, 3, 1, 2).astype(np.float32)
    return np.ascontiguousarray(pixels * _channels(factor) + _channels(offset))


def _channels(values: Array) -> Array:
    return values.astype(np.float32).reshape(1, 3, 1, 1)


def _images(clips: Sequence[Clip], problem: Callable[[str], None]) -> Iterator[Image]:
    for clip in clips:
        unlabelled = replace(clip, labels=(None,) * len(clip.images))
        for frame in unlabelled.frames(problem=problem):
            yield frame.image


def _prepared(image: Image, framing: Framing | OwnSize) -> Prepared:
    prepared = framing.prepare(image)[IMAGE]
    # A decoder may use the frame's memory again.
    return Prepared(prepared.copy(), framing.scaled((image.shape[1], image.shape[0])))
