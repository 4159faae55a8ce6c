"""Carries that move cached values along motion, and carries as text, as the command line, plans and summaries write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, ClassVar, NoReturn, Protocol, get_args, runtime_checkable

import numpy as np

from clockseg.carry.codec import Auto, Codec
from clockseg.carry.motion import Flow, Motion, Sight, as_plane, from_plane, resampled
from clockseg.clocks.expressions import Written, object_named
from clockseg.clockwork.carry import Carry, Of, as_carry, identity
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


@dataclass(frozen=True)
class Interpolate(AlongMotion):
    """Makes a frame on which nothing fires from the key frames before and after it, each warped to it.

    A key frame is one on which any stage fires. Score maps are warped and averaged before labels are made of them, weighted by
    how well motion explains the picture and by the distance in time (``clockseg.showing``). ``motion``: the motion estimator.
    ``keys``: 1 shows a key frame as the network gives it; 2 averages it with the key frames before and after it too, which is
    more accurate and flickers less.

    Outputs come late, by at most one interval between key frames, so this is for files: for ``clockseg.segment``,
    ``evaluate``, ``plan`` and ``run``, and for ``live --lookahead``. A ``Session`` answers at once, so it can't use it.

    >>> print(Interpolate(Flow()), Interpolate(Flow(0.25), keys=1))
    interpolate(flow) interpolate(flow(scale=0.25), keys=1)
    """

    motion: Estimator
    keys: int = 2
    of: ClassVar[Of] = "output"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.keys not in (1, 2) or isinstance(self.keys, bool):
            raise UsageError(f"interpolate(keys={self.keys!r}); give 1 or 2.")

    def refuse(self, *given: Any, **named: Any) -> NoReturn:
        """Raise ``UsageError``: whoever asks for the output at once does not know the next key frame."""
        raise UsageError(
            f"{self} needs the key frame after a frame too, so a Session, which answers at once, can't use it. "
            "Use clockseg.run(net, frames, schedule), which yields late, or the carry warp(flow)."
        )

    see = observe = compose = move = refuse


def at_once(carry: Carry) -> Carry:
    """Return a carry whose outputs need no later frame: ``warp`` in place of ``interpolate``, with the same motion estimator.

    >>> print(at_once(Interpolate(Flow())))
    warp(flow)
    """
    return Warp(carry.motion) if isinstance(carry, Interpolate) else carry


def settled(carry: Carry, vectors: Any) -> Carry:
    """Return ``carry``, with ``auto`` replaced by its choice for a stream whose frames have these vectors.

    >>> print(settled(Warp(Auto(), of="held"), None))
    warp(flow, of="held")
    """
    if isinstance(carry, Warp | Interpolate) and isinstance(carry.motion, Auto):
        return replace(carry, motion=carry.motion.choice(vectors))
    return carry


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


def parse_carry(text: str) -> Carry:
    """Return the carry that ``text`` describes.

    >>> print(parse_carry("warp(flow, scale=0.25)"))
    warp(flow(scale=0.25))
    """
    return carry_of(object_named(text, CARRIES, what="carry"), text)


def carry_of(found: Any, text: str) -> Carry:
    """Return ``found`` if it is a carry, or call it if it needs no arguments; else ``UsageError``."""
    made: Any = found() if found in (CARRIES["warp"], CARRIES["interpolate"]) else found
    try:
        return as_carry(made)
    except UsageError as error:
        raise UsageError(f"carry {text!r}: {error}") from None


def _with_motion(kind: type[Warp | Interpolate], motion: Any = Flow, **options: Any) -> Warp | Interpolate:
    """Return a carry; options of its motion estimator may be given beside it: ``warp(flow, scale=0.5)``."""
    own = {one.name: options.pop(one.name) for one in fields(kind) if one.name in options}
    if options and not isinstance(motion, type):
        name = kind.__name__.lower()
        raise UsageError(
            f"{name}({motion}, {', '.join(options)}=..): give options once, as in {name}(flow, scale=0.5)."
        )
    return kind(motion(**options) if isinstance(motion, type) else motion, **own)


CARRIES: dict[str, Any] = {
    "identity": identity,
    "warp": partial(_with_motion, Warp),
    "interpolate": partial(_with_motion, Interpolate),
    "flow": Flow,
    "codec": Codec,
    "auto": Auto,
}
"""The names from which a carry is written on the command line."""
