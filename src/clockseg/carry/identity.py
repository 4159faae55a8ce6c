"""The paper's carry: what is held stays as it was (f_H = I)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from clockseg.clockwork.carry import Of


@dataclass(frozen=True)
class Identity:
    """Hold means hold.

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
