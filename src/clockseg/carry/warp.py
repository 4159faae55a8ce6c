"""Warp: cached values are propagated by motion compensation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, get_args, runtime_checkable

import numpy as np

from clockseg.carry.motion import Motion, Sight, as_plane, from_plane, resampled
from clockseg.clocks.expressions import Written
from clockseg.clockwork.carry import Of
from clockseg.errors import UsageError
from clockseg.types import IMAGE, PICTURE_SIZE, Size


@runtime_checkable
class Estimator(Protocol):
    """Motion estimator: ``Flow``, ``Codec``, ``Auto``, or a user's."""

    @property
    def reads_vectors(self) -> bool:
        """True if it reads the codec's motion vectors, which slow decoding down."""
        ...

    def see(self, picture: Any, share: tuple[float, float], vectors: Any, *, size: Size | None = None) -> Sight:
        """Return a frame's data for motion estimation.

        ``picture``: uint8 RGB [h, w, 3], or decoded and with a method ``grey(size)``. ``share``: see ``Sight``. ``vectors``: the
        codec's. ``size``: (w, h) at which the network works, without padding; None: the picture's own.
        """
        ...

    def observe(self, before: Sight, now: Sight) -> Motion:
        """Return the motion from ``now`` back to ``before``."""
        ...


class AlongMotion(Written):
    """A carry that moves values along the ``motion`` that its estimator finds."""

    motion: Estimator
    estimates_motion: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.motion, Estimator):
            raise UsageError(f"{self.written}({self.motion!r}); pass a motion estimator: flow, codec or auto.")

    @property
    def reads_vectors(self) -> bool:
        """True if the motion estimator reads the codec's vectors."""
        return self.motion.reads_vectors


@dataclass(frozen=True)
class Warp(AlongMotion):
    """Motion compensation: each value is resampled once, by the motion composed since it was computed.

    ``motion``: the estimator. ``of``: the value propagated on a frame without a firing. "output" warps the labels (nearest
    pixel) or numbers (bilinear), and no part of the network runs. "held" warps the held value of each stage and fuses them;
    frames on which some stages fire always do.

    >>> from clockseg.carry.flow import Flow
    >>> print(Warp(Flow(), of="held"))
    warp(flow, of="held")
    """

    motion: Estimator
    of: Of = "output"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.of not in get_args(Of):
            raise UsageError(f"warp(of={self.of!r}); give one of {', '.join(get_args(Of))}.")

    def see(self, prepare: Callable[[], Any], image: Any, vectors: Any) -> Sight:
        """Return the frame's data for motion estimation, at the network's working size if it has one."""
        size, share = working_size(prepare(), image)
        return self.motion.see(image, share, vectors, size=size)

    def observe(self, before: Sight, now: Sight) -> Motion:
        """Return the motion from ``now`` back to ``before``."""
        return self.motion.observe(before, now)

    def compose(self, first: Motion | None, then: Motion | None) -> Motion | None:
        """Return the composition of both motions."""
        return then.after(first) if first is not None and then is not None else first or then

    def move(self, value: Any, motion: Motion | None) -> Any:
        """Return ``value``, an array or a dict of arrays, with every map warped; 1-d arrays stay as they are."""
        if motion is None:
            return value
        if isinstance(value, Mapping):
            return {name: _moved(array, motion, name) for name, array in value.items()}
        return _moved(value, motion, "the held value")


def working_size(prepared: Any, image: Any) -> tuple[Size, tuple[float, float]]:
    """Return the size (w, h) of the picture that a network reads, without padding, and the share of its maps that it covers."""
    if getattr(image, "dtype", None) != np.uint8 or image.ndim != 3:
        raise UsageError(
            f"warp estimates motion between frames, uint8 RGB [height, width, 3]; this is {type(image).__name__}."
        )
    own = prepared.get(IMAGE) if isinstance(prepared, Mapping) else None
    if not isinstance(own, np.ndarray) or own.dtype != np.uint8:
        return (image.shape[1], image.shape[0]), (1.0, 1.0)
    height, width = own.shape[1:3]
    columns, rows = (int(side) for side in prepared.get(PICTURE_SIZE, (width, height)))
    return (columns, rows), (columns / width, rows / height)


def _moved(value: Any, motion: Motion, name: str) -> Any:
    if np.ndim(value) == 1:
        return value
    plane = as_plane(value, name, bytes_are_labels=False)
    return from_plane(resampled(plane, motion.places(*plane.shape[:2])), value)
