"""The schedules that a plan may choose: a clock as text with a placeholder for its number, and a carry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from clockseg.carry import parse_carry
from clockseg.clocks.spec import parse_schedule, spelled
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Schedule, schedule_for
from clockseg.errors import UsageError
from clockseg.execution.recording import needs

Family: TypeAlias = tuple[int, str, str]
"""The number of a variant, a clock and a carry, whose schedules cost the same on a frame on which the same stages fire."""
RATES = (2, 3, 4, 6, 8, 12, 16)
PLACE = "{}"
CAP = 16
"""Frames after which a clock on change fires in any case."""


class Kind(NamedTuple):
    """A clock as text, in which ``{}`` stands for a number, and the numbers to try first, in order.

    ``steps``: the number is a whole one, such as a period.
    """

    template: str
    numbers: tuple[float, ...]
    steps: bool = True

    def text(self, number: float) -> str:
        """Return the clock with this number."""
        return self.template.replace(PLACE, f"{number:.4g}")


class Candidate(NamedTuple):
    """A schedule: a clock of this kind with this number, under this carry."""

    kind: Kind
    number: float
    carry: str

    @property
    def text(self) -> str:
        """The schedule as ``parse_schedule`` reads it."""
        return spelled(self.kind.text(self.number), parse_carry(self.carry))

    def family(self, variant: int) -> Family:
        """Return the key of what this candidate costs on a variant."""
        return variant, self.kind.template, self.carry


ORACLE = Kind("frame_oracle", (1,))
SKIP = Kind("skip_frame({})", RATES)
CARRIES = ("identity", "warp(flow)", "warp(flow, scale=0.25)", "interpolate(flow)")
VECTORS = ("warp(codec)", "interpolate(codec)")
"""Tried if the video has motion vectors that refer to earlier frames only."""
_CAPPED = f"at_least_every({CAP})"
CHANGES = (
    Kind(f'either(difference({{}}, of="pixels"), {_CAPPED})', (0.02, 0.05, 0.1, 0.2, 0.4), steps=False),
    Kind(f"either(motion_residual({{}}), {_CAPPED})", (0.03, 0.06, 0.12, 0.24, 0.48), steps=False),
    Kind(f"budget(motion_residual, network_rate={{}}, cap={CAP})", (0.125, 0.17, 0.25, 0.33, 0.5), steps=False),
)
"""Clocks on change, for any number of stages."""


def clocks(stages: int) -> list[Kind]:
    """Return the clocks for a network of so many stages, apart from ``frame_oracle`` and ``skip_frame``.

    >>> [kind.template for kind in clocks(3)[3:]]
    ['fixed_rate((1, 1, {}))', 'fixed_rate((1, {}, {}))', 'adaptive({})', 'adaptive({}, watch=1)']
    """
    found = list(CHANGES)
    for fresh in reversed(range(1, stages)):
        rates = ", ".join(["1"] * fresh + [PLACE] * (stages - fresh))
        found.append(Kind(f"fixed_rate(({rates}))", (2, 4, 8)))
    adaptive = Kind("adaptive({})", (0.005, 0.01, 0.02, 0.05, 0.1), steps=False)
    if stages > 1:
        found.append(adaptive)
    if stages > 2:
        found.append(adaptive._replace(template="adaptive({}, watch=1)"))
    return found


def asked_for(text: str) -> Kind:
    """Return a clock that a user gave: ``learned("clock.onnx", {})``, or a schedule without a placeholder."""
    return Kind(text, (0.05, 0.1, 0.2, 0.4, 0.8) if PLACE in text else (1,), steps=False)


def schedule_of(net: StagedNetwork, candidate: Candidate) -> Schedule:
    """Return the schedule; ``UsageError`` if this network can't run it, or it can't be replayed from a recording."""
    made = schedule_for(parse_schedule(candidate.text), len(net))
    needs(net, [made], outputs=True)
    return made


def possible(net: StagedNetwork, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates that this network can run: an adaptive clock, for one, needs a stage with class scores."""
    found = []
    for candidate in candidates:
        try:
            schedule_of(net, candidate)
        except UsageError:
            continue
        found.append(candidate)
    return found
