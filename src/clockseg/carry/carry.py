"""What becomes of what is held: the interface."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Carry(Protocol):
    """Brings a value of an earlier frame to this one.

    The session keeps each stage's value as it was computed, and the motion composed since; ``move`` is applied once.
    Motion is None for "no motion".
    """

    @property
    def looks(self) -> bool:
        """Whether it needs the picture before (which is kept for it, if so)."""
        ...

    def observe(self, before: Any, image: Any) -> Any:
        """The motion from the frame before to this one."""
        ...

    def compose(self, first: Any, then: Any) -> Any:
        """Both motions, one after the other."""
        ...

    def move(self, value: Any, motion: Any) -> Any:
        """``value`` brought along; the very same object where there is nothing to move."""
        ...
