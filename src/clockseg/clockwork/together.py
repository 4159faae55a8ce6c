"""Parts that run together: which of a frame, what of it is read again, and what they gave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol


class Keep(NamedTuple):
    """The values that are read again after a run; what runs parts as one may leave out all others.

    ``trunks``, ``held``, ``scores``: of these stages (0 is the first); ``groups``: of the groups of these names.
    """

    trunks: frozenset[int]
    held: frozenset[int]
    scores: frozenset[int]
    groups: frozenset[str]

    @classmethod
    def all(cls, stages: int, groups: Sequence[str]) -> Keep:
        """Everything."""
        every = frozenset(range(stages))
        return cls(every, every, every, frozenset(groups))

    def of(self, stages: range, groups: Sequence[str]) -> Keep:
        """What is kept of these stages and groups.

        >>> Keep.all(3, ["b+c"]).of(range(2), []).trunks
        frozenset({0, 1})
        """
        return Keep(
            self.trunks.intersection(stages),
            self.held.intersection(stages),
            self.scores.intersection(stages),
            self.groups.intersection(groups),
        )


class Run(NamedTuple):
    """Stages that fire one after the other, groups that run again after them, in order, and the output, if ``finish``."""

    stages: range
    groups: tuple[str, ...]
    finish: bool
    keep: Keep


class Took(NamedTuple):
    """Seconds of a run, for each of its stages, for its groups, and for finishing."""

    stages: tuple[float, ...]
    fuse: float = 0.0
    finish: float = 0.0

    @property
    def total(self) -> float:
        """All of it."""
        return sum(self.stages) + self.fuse + self.finish

    def scaled(self, total: float) -> Took:
        """The same shares of ``total`` seconds.

        >>> Took((3.0, 1.0)).scaled(2.0)
        Took(stages=(1.5, 0.5), fuse=0.0, finish=0.0)
        """
        factor = total / self.total if self.total else 0.0
        return Took(tuple(one * factor for one in self.stages), self.fuse * factor, self.finish * factor)


class Made(NamedTuple):
    """What a run gave: trunk and held value of each of its stages, its groups' values by name, and the output.

    Values that weren't to be kept may be missing from these. ``output`` is None where the run doesn't finish.
    """

    trunks: tuple[Any, ...]
    held: tuple[Any, ...]
    groups: Mapping[str, Any]
    output: Any
    took: Took


class Together(Protocol):
    """What runs several parts of a network as one; the values are those of the parts one by one, bit for bit."""

    def stands_for(self, net: Any) -> bool:
        """Whether the staged network ``net`` is made of the very parts that it runs."""
        ...

    def __call__(self, run: Run, trunk: Any, values: Mapping[str, Any]) -> Made:
        """See ``StagedNetwork.together``."""
        ...

    def is_new(self, what: object) -> bool:
        """Whether it is asked for the first time about ``what``: how a session compiles ahead only once."""
        ...
