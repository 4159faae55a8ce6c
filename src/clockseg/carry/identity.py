"""The paper's carry: what is held stays as it was (f_H = I)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class Identity:
    """Hold means hold.

    >>> Identity().move("score_fr of frame 3", None)
    'score_fr of frame 3'
    """

    looks: ClassVar[bool] = False

    def observe(self, before: Any, image: Any) -> None:
        """No motion."""

    def compose(self, first: None, then: None) -> None:
        """No motion."""

    def move(self, value: Any, motion: None) -> Any:
        """The value itself."""
        return value

    def __str__(self) -> str:
        return "identity"


identity = Identity()
