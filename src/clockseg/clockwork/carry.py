"""Carry: how cached values are propagated to the current frame (the paper's f_H), and the identity."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, get_args

from clockseg.errors import UsageError, tell_fault

Of: TypeAlias = Literal["output", "held"]
"""The value that is propagated to a frame on which nothing fires: the output, or each stage's held value."""


class Carry(Protocol):
    """Propagates values of earlier frames to the current one. Inherit from ``Identity`` what yours does not change.

    A session keeps each value as it was computed, and the motion composed since then, so ``move`` resamples a value only once.
    A motion of None means that nothing has moved.
    """

    @property
    def estimates_motion(self) -> bool:
        """True if it estimates motion; ``see`` is then called on every frame."""
        return False

    @property
    def reads_vectors(self) -> bool:
        """True if it reads the codec's motion vectors; the decoder then exports them."""
        return False

    @property
    def of(self) -> Of:
        """The value that is moved when nothing fires; when some stages fire, the held values of the others are moved."""
        return "held"

    def see(self, prepare: Callable[[], Any], image: Any, vectors: Any) -> Any:
        """Return the data of a frame for motion estimation.

        ``prepare`` returns the frame as the network reads it, ``image`` is the original. ``vectors``: the codec's motion vectors
        (``clockseg.video.Frame``), None if there are none.
        """
        return None

    def observe(self, before: Any, now: Any) -> Any:
        """Return the motion between two frames from what ``see`` returned for them."""
        return None

    def compose(self, first: Any, then: Any) -> Any:
        """Return the composition of two consecutive motions."""
        return None

    def move(self, value: Any, motion: Any) -> Any:
        """Return ``value`` moved along ``motion``."""
        return value


@dataclass(frozen=True)
class Identity(Carry):
    """The paper's carry: a held value is reused as it is (f_H = I).

    >>> Identity().move("score_fr of frame 3", None)
    'score_fr of frame 3'
    """

    estimates_motion: ClassVar[bool] = False
    reads_vectors: ClassVar[bool] = False
    of: ClassVar[Of] = "held"

    def __str__(self) -> str:
        return "identity" if type(self) is Identity else repr(self)


identity = Identity()


def as_carry(given: Any) -> Carry:
    """Return ``given`` if it has all members of ``Carry`` and its ``of`` is one of ``Of``; else ``UsageError`` names the fault."""
    members = [name for name in vars(Carry) if not name.startswith("_")]
    missing = [name for name in members if not hasattr(given, name)]
    if missing:
        raise UsageError(
            f"{given!r} is not a carry: it lacks {', '.join(missing)}. Give identity, warp(..) or interpolate(..) of flow, codec or "
            "auto; a carry of your own has all members, or inherits them from clockseg.carry.Identity."
        )
    if isinstance(given, type):
        raise UsageError(f"the carry {given.__name__} is a class; give an instance, {given.__name__}(..).")
    if given.of not in get_args(Of):
        raise UsageError(f"the carry {given} has of = {given.of!r}; give one of {', '.join(map(repr, get_args(Of)))}.")
    return given  # type: ignore[no-any-return]  # it has all members


def call_carry(carry: Carry, method: str, frame: int, *args: Any) -> Any:
    """Call a method of a carry; ``UsageError`` with its name, file and line if a carry of the user's fails."""
    called = getattr(carry, method)
    try:
        answer = called(*args)
    except Exception as error:
        what = f"{method} of the carry {type(carry).__qualname__} failed at frame {frame}"
        tell_fault(error, what, getattr(called, "__func__", called))
        raise
    if answer is None and method == "move":
        raise UsageError(
            f"move of the carry {type(carry).__qualname__} returned None at frame {frame}; return the moved value."
        )
    if method == "move" and (given := _shape(args[0])) != (found := _shape(answer)):
        raise UsageError(
            f"move of the carry {type(carry).__qualname__} returned {found} for {given} at frame {frame}; keep the value's shape."
        )
    return answer


def _shape(value: Any) -> Any:
    """Return the shape of an array, or of each array in a mapping; None for a value that has none."""
    if isinstance(value, Mapping):
        return {name: _shape(array) for name, array in value.items()}
    return tuple(value.shape) if hasattr(value, "shape") else None
