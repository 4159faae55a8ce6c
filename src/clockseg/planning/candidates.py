"""The schedules that a plan may choose: a clock as text with a place for its number, and a carry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from clockseg.carry import parse_carry
from clockseg.clocks.spec import parse_schedule, spelled
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Schedule, schedule_for
from clockseg.errors import UsageError
from clockseg.execution.tape import wanted

Family: TypeAlias = tuple[str, str]
"""A clock and a carry: schedules that cost the same on a frame on which the same stages fire."""
RATES = (2, 3, 4, 6, 8, 12, 16)
PLACE = "{}"
CAP = 16
"""Frames after which a clock that goes by change fires in any case: what it does not see is bounded."""


class Kind(NamedTuple):
    """A clock as text, in which ``{}`` stands for a number, and the numbers to try first, in order.

    ``whole``: whether all stages fire or none. ``steps``: whether the number is a whole one, such as a period.

    >>> Kind("skip_frame({})", (2, 4), whole=True).text(4)
    'skip_frame(4)'
    """

    template: str
    numbers: tuple[float, ...]
    whole: bool = True
    steps: bool = True

    def text(self, number: float) -> str:
        """The clock with this number."""
        return self.template.replace(PLACE, f"{number:.4g}")


class Candidate(NamedTuple):
    """One schedule: of this kind, with this number, under this carry.

    >>> Candidate(Kind("skip_frame({})", (2, 4)), 4, "warp(flow)").text
    'carried(skip_frame(4), warp(flow))'
    """

    kind: Kind
    number: float
    carry: str

    @property
    def text(self) -> str:
        """As ``parse_schedule`` reads it."""
        return spelled(self.kind.text(self.number), parse_carry(self.carry))

    @property
    def family(self) -> Family:
        """Key of candidates that share their cost."""
        return self.kind.template, self.carry


ORACLE = Kind("frame_oracle", (1,))
SKIP = Kind("skip_frame({})", RATES)
CARRIES = ("identity", "warp(flow)", "warp(flow, scale=0.25)", "interpolate(flow)")
VECTORS = ("warp(codec)", "interpolate(codec)")
"""Where the video has some, of frames that refer to earlier ones only."""
UNCORRECTED = ('warp(flow, of="output")',)
"""Where a network has a correction, which on video unlike what it was trained on makes scores worse."""
_CAPPED = f"either({{}}, at_least_every({CAP}))"
CHANGES = (
    Kind('difference({}, of="pixels")', (0.02, 0.05, 0.1, 0.2, 0.4)),
    Kind("motion_residual({})", (0.03, 0.06, 0.12, 0.24, 0.48)),
)


def clocks(stages: int) -> list[Kind]:
    """Clocks for a network of so many stages, beside ``frame_oracle`` and ``skip_frame``.

    >>> [kind.template for kind in clocks(3) if not kind.whole]
    ['fixed_rate((1, 1, {}))', 'fixed_rate((1, {}, {}))', 'adaptive({})', 'adaptive({}, watch=1)']
    """
    capped = [kind._replace(template=_CAPPED.replace(PLACE, kind.template), steps=False) for kind in CHANGES]
    rates = (0.125, 0.17, 0.25, 0.33, 0.5)
    budget = Kind(f"budget(motion_residual, network_rate={{}}, cap={CAP})", rates, steps=False)
    return [*capped, budget, *_by_stages(stages)]


def _by_stages(stages: int) -> list[Kind]:
    if stages < 2:
        return []
    first = [f"fixed_rate(({', '.join(['1'] * fresh + [PLACE] * (stages - fresh))}))" for fresh in range(1, stages)]
    fixed = [Kind(template, (2, 4, 8), whole=False) for template in reversed(first)]
    levels = (0.005, 0.01, 0.02, 0.05, 0.1)
    change = [Kind("adaptive({})", levels, whole=False, steps=False)]
    if stages > 2:
        change.append(Kind("adaptive({}, watch=1)", levels, whole=False, steps=False))
    return [*fixed, *change]


def asked_for(text: str) -> Kind:
    """A clock that a user gave: ``learned("clock.onnx", {})``, or a whole schedule without a place for a number.

    >>> asked_for("alternating").numbers
    (1,)
    """
    return Kind(text, (0.05, 0.1, 0.2, 0.4, 0.8) if PLACE in text else (1,), whole=False, steps=False)


def schedule_of(net: StagedNetwork, candidate: Candidate) -> Schedule:
    """The schedule itself; ``UsageError`` if this network can't run it, or it can't be played from a tape."""
    made = schedule_for(parse_schedule(candidate.text), len(net))
    wanted(net, [made])
    return made


def possible(net: StagedNetwork, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Those that this network can run: an adaptive clock, for one, needs a stage that scores classes."""
    found = []
    for candidate in candidates:
        try:
            schedule_of(net, candidate)
        except UsageError:
            continue
        found.append(candidate)
    return found
