"""What becomes of what is held: the interface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, runtime_checkable

Of: TypeAlias = Literal["auto", "output", "fused", "held"]
"""What is moved on a frame on which nothing fires: the output, what was fused last, or what each stage holds.

"auto": what was fused last, if the network has a correction for it, else the output.
"""


@runtime_checkable
class Carry(Protocol):
    """Brings a value of an earlier frame to this one.

    The session keeps each value as it was computed, and the motion composed since; ``move`` is applied once. Motion is
    None for "no motion".
    """

    @property
    def looks(self) -> bool:
        """Whether it needs to see frames; what nobody looks at is not kept."""
        ...

    @property
    def reads_vectors(self) -> bool:
        """Whether it asks what the codec says of motion, which a decoder then tells."""
        ...

    @property
    def of(self) -> Of:
        """What is moved on a frame on which nothing fires. Where some stages fire, the others' held values are."""
        ...

    def see(self, prepared: Any, image: Any, vectors: Any) -> Any:
        """What it keeps of a frame: ``prepared``, as the network reads it, and as it came.

        ``vectors``: what the codec says of its motion (``clockseg.video.Frame``), None where nothing is known.
        """
        ...

    def observe(self, before: Any, now: Any) -> Any:
        """The motion from the frame before to this one, from what it saw of both."""
        ...

    def compose(self, first: Any, then: Any) -> Any:
        """Both motions, one after the other."""
        ...

    def move(self, value: Any, motion: Any) -> Any:
        """``value`` brought along; the very same object where there is nothing to move."""
        ...

    def unexplained(self, value: Any, motion: Any) -> Any:
        """What the motion leaves unexplained at the places of ``value``: {"unexplained": float32 [1, 1, h, w], 0..1}."""
        ...


@dataclass(frozen=True)
class Identity:
    """The paper's carry: a held value stays as it was (f_H = I).

    >>> Identity().move("score_fr of frame 3", None)
    'score_fr of frame 3'
    """

    looks: ClassVar[bool] = False
    reads_vectors: ClassVar[bool] = False
    of: ClassVar[Of] = "held"

    def see(self, prepared: Any, image: Any, vectors: Any) -> None:
        """Nothing."""

    def observe(self, before: None, now: None) -> None:
        """No motion."""

    def compose(self, first: None, then: None) -> None:
        """No motion."""

    def move(self, value: Any, motion: None) -> Any:
        """The value itself."""
        return value

    def unexplained(self, value: Any, motion: None) -> Any:
        """Nothing: nobody looks at motion."""
        return {}

    def __str__(self) -> str:
        return "identity"


identity = Identity()
