"""Clocks made of clocks: combinations, a cap on staleness, and firings at a rate or a speed by a threshold that adapts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from clockseg.clocks.expressions import Written, text_of
from clockseg.clocks.maps import scene_cut
from clockseg.clocks.threshold import Change, MotionResidual
from clockseg.clockwork.clock import (
    PICTURE,
    Clock,
    ClockLike,
    Decision,
    Facts,
    Tick,
    Watch,
    as_clock,
    ask,
    declared_gate,
    facts,
    is_clock,
    name_of,
)
from clockseg.errors import UsageError, number, whole_number

MEMORY = 96
"""Frames whose signals set the threshold: enough for a second or two without motion to save firings for later."""
SLACK = 0.015
"""Deviation of the firings from the budget that is allowed, as a share of the frames so far."""
LEAST, MOST = 1.0, 12.0
"""Limits of that deviation in firings. The upper one bounds how much a long still stretch can save."""
PULL = 24.0
"""Frames over which savings are spent and debts are repaid, by a lower or a higher threshold."""
WEIGHT = 0.1
"""The weight of a new frame in the running mean of seconds."""
GAIN = 0.2
"""The speed at which the threshold of ``Paced`` adapts: with a larger gain, the rate holds over fewer frames."""
SPAN = 32.0
"""The threshold of ``Paced`` stays between 1/32 and 32 times its initial value."""


def part_of(name: str, given: Any) -> Clock:
    """Return ``as_clock(given)``; the error names the combinator, which takes clocks."""
    try:
        return as_clock(given)
    except UsageError as error:
        kinds = "adaptive, difference, confidence, every or at_least_every, and combinations of them"
        raise UsageError(f"{name} takes clocks, such as {kinds}. {error}") from error


RULES: dict[str, Callable[[list[bool]], bool]] = {"either": any, "both": all, "invert": lambda fired: not any(fired)}
"""For each combinator, whether it fires, given which of its clocks do."""


@dataclass(frozen=True)
class Combined:
    """A clock that asks all of its clocks on every frame; its signal is the first that one of them gives.

    ``rule``: one of ``RULES``. ``threshold``, ``below``: those of the first clock that has a threshold.
    """

    rule: str
    parts: tuple[Clock, ...]
    threshold: float | None = field(init=False, repr=False, compare=False)
    below: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.parts:
            raise UsageError(
                f"{self.rule} of no clocks; give at least one, such as {self.rule}(adaptive(0.25), at_least_every(8))."
            )
        object.__setattr__(self, "parts", tuple(part_of(self.rule, clock) for clock in self.parts))
        compared = next((one for one in map(facts, self.parts) if one.threshold is not None), Facts())
        object.__setattr__(self, "threshold", compared.threshold)
        object.__setattr__(self, "below", compared.below != (self.rule == "invert"))
        declared_gate(self)

    def __str__(self) -> str:
        return f"{self.rule}({', '.join(map(text_of, self.parts))})"

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        past = state or (None,) * len(self.parts)
        asked = [ask(part, tick, one) for part, one in zip(self.parts, past, strict=True)]
        decisions = [decision for decision, _ in asked]
        # A refill runs every stage, so it counts as a firing.
        fire = RULES[self.rule]([one.fire or one.refill for one in decisions])
        signal = next((one.signal for one in decisions if one.signal is not None), None)
        refill = fire and any(one.refill for one in decisions)
        return Decision(fire, signal, refill), tuple(state for _, state in asked)


def either(*clocks: ClockLike) -> Combined:
    """Return a clock that fires when any of these clocks does.

    >>> print(either(AtLeastEvery(8), AtLeastEvery(5)))
    either(at_least_every(8), at_least_every(5))
    """
    return Combined("either", clocks)  # type: ignore[arg-type]  # makes clocks of functions


def both(*clocks: ClockLike) -> Combined:
    """Return a clock that fires when all of these clocks do."""
    return Combined("both", clocks)  # type: ignore[arg-type]


def invert(clock: ClockLike) -> Combined:
    """Return a clock that fires when this clock does not; the stages before the one that it gates still always fire."""
    return Combined("invert", (clock,))  # type: ignore[arg-type]


@dataclass(frozen=True)
class AtLeastEvery(Written):
    """Fires after ``frames`` frames without a firing: a cap on staleness, as in ``either(adaptive(0.25), at_least_every(8))``.

    >>> AtLeastEvery(8)(Tick(9, 3, None, None, None, None, 8, 0), None)[0].fire
    True
    """

    frames: int
    watches: ClassVar[frozenset[Watch]] = frozenset()

    def __post_init__(self) -> None:
        whole_number(self.frames, "at_least_every's number of frames")

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        return Decision(tick.since >= self.frames), None


@dataclass(frozen=True)
class Movement:
    """The signal of a budget by default: the motion-compensated residual if the carry estimates motion, else the change of pixels."""

    gates_after: ClassVar[int] = 0
    watches: ClassVar[frozenset[Watch]] = frozenset({PICTURE})

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        return (PIXELS if tick.travel is None else RESIDUAL)(tick, state)


RESIDUAL, PIXELS, MOVEMENT = MotionResidual(0.0), Change(0.0, of="pixels"), Movement()


class _State(NamedTuple):
    """``frames`` so far; ``saved`` firings, negative for a debt; recent ``signals``; the ``usual`` change between frames.

    ``seconds``: mean seconds of frames with a firing (True) and of frames without, as far as there were any.
    """

    frames: int = 0
    saved: float = 0.0
    signals: tuple[float, ...] = ()
    usual: float = 0.0
    seconds: Mapping[bool, float] = {}
    inner: Any = None


@dataclass(frozen=True)
class Budget(Written):
    """A clock that fires on the share ``network_rate`` of frames, where its signal is largest, or as often as ``fps`` allows.

    The share is that of the stages that the clock decides for: of the whole network, unless ``signal`` declares others.

    ``signal``: a clock whose signal is large where a firing helps (its threshold is ignored), or a function from thresholds to
    clocks, such as ``motion_residual`` or ``adaptive``; by default ``Movement``, of the whole network. ``cap``: the largest
    number of frames between firings, as ``AtLeastEvery``. A scene cut (``clockseg.clocks.maps.scene_cut``) refills at once.

    The rule: every frame saves ``rate`` of a firing, every firing spends one. The threshold is the quantile of the last
    ``MEMORY`` positive signals that the share ``rate`` of them exceeds, and the share is higher while firings are saved and
    lower while they are owed. Savings and debts are at most ``SLACK`` of the frames so far, between ``LEAST`` and ``MOST``:
    at the upper limit it fires, at the lower limit it holds. So after n frames the firings are within max(1, 0.015 n) of the
    budget, and a long still stretch saves at most 12. Where nothing changes (a signal of 0) only the cap fires, and savings
    beyond the limit are dropped. Firings caused by other clocks (``Either``), the cap and cuts count as debts.

    ``fps``: the rate is the one at which the mean frame takes 1 / ``fps`` seconds, from the seconds of recent frames with and
    without a firing. These are the network's, with clocks and motion; leave room for decoding and drawing. It depends on
    measured time, so it can't be replayed.

    >>> print(Budget(network_rate=0.25, cap=12))
    budget(network_rate=0.25, cap=12)
    """

    signal: Clock = MOVEMENT
    _: KW_ONLY
    network_rate: float | None = None
    fps: float | None = None
    cap: int | None = None

    def __post_init__(self) -> None:
        rate, fps = self.network_rate, self.fps
        if (rate is None) == (fps is None):
            raise UsageError("budget takes one of two: a rate, budget(network_rate=0.25), or a speed, budget(fps=30).")
        if rate is not None:
            _check_share(rate, "budget's network_rate")
        if fps is not None and not 0 < number(fps, "budget's fps") < math.inf:
            raise UsageError(f"budget(fps={fps!r}); give frames per second, above 0, such as 30.")
        given: Any = self.signal
        signal = given(0.0) if callable(given) and not is_clock(given) else given
        object.__setattr__(self, "signal", part_of("budget", signal))
        if facts(self.signal).below:
            raise UsageError('budget fires where its signal is large; give confidence(.., sense="above") or another.')
        if self.cap is not None and whole_number(self.cap, "budget's cap") * (rate or 1.0) < 1 and rate:
            raise UsageError(
                f"budget(network_rate={rate:g}, cap={self.cap}): the cap alone makes one frame in {self.cap} fire; give a cap of "
                f"more than {math.floor(1 / rate)}, or none."
            )

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """Decide by the budget; the signal is that of its clock."""
        past: _State = state or _State()
        fired, frames, rate, seconds = tick.since == 1, past.frames + 1, self.network_rate, past.seconds
        if rate is None:
            if past.frames and tick.last_seconds:
                mean = seconds.get(fired, tick.last_seconds)
                seconds = {**seconds, fired: mean + WEIGHT * (tick.last_seconds - mean)}
            rate = _affordable(seconds, 1 / (self.fps or math.inf))
        saved = past.saved - (past.frames > 0 and fired) + rate
        picture = tick.views.get(PICTURE)
        now, before = (None, None) if picture is None else (picture.now, picture.previous)
        cut, usual = scene_cut(tick.motion, now, before, past.usual)
        answer, inner = ask(self.signal, tick, past.inner)
        if answer.signal is None:
            raise UsageError(
                f"the clock {name_of(self.signal)} of stage {tick.stage} gave no signal at frame {tick.t}, and a budget fires "
                "where the signal is largest. Return a Decision with a signal: Decision(fire, signal)."
            )
        slack = min(MOST, max(LEAST, SLACK * frames))
        fires = _pays(past.signals, answer.signal, rate, saved, slack)
        overdue = self.cap is not None and tick.since >= self.cap
        # Frames without any change say nothing about the threshold.
        signals = (*past.signals, answer.signal)[-MEMORY:] if answer.signal > 0 else past.signals
        after = _State(frames, min(saved, slack + 1), signals, usual, seconds, inner)
        return Decision(fires or overdue or cut, answer.signal, refill=cut or answer.refill), after

    @property
    def parts(self) -> tuple[Clock, ...]:
        return (self.signal,)

    @property
    def not_replayable(self) -> str:
        """The reason why a budget of seconds can't be replayed; empty for a rate."""
        if self.fps is None:
            return ""
        return "it goes by the seconds that frames take while they run. Give a rate, such as budget(network_rate=0.25)."


def _check_share(share: float, what: str) -> None:
    if not 0 < number(share, what) < 1:
        raise UsageError(f"{what} is {share!r}; give a share of frames between 0 and 1, such as 0.25.")


def _affordable(seconds: Mapping[bool, float], mean: float) -> float:
    """Return the share of frames that may fire if the mean frame is to take ``mean`` seconds; 0.5 until both kinds are measured."""
    if len(seconds) < 2:
        return 0.5
    return min(1.0, max(0.0, (mean - seconds[False]) / max(seconds[True] - seconds[False], 1e-9)))


def _pays(signals: tuple[float, ...], signal: float, rate: float, saved: float, slack: float) -> bool:
    """Return True if a firing pays by the rule alone. ``saved``: with this frame's share, before the firing is spent."""
    if not signal > 0 or saved - 1 < -slack:
        return False
    share = max(0.0, rate + saved / PULL)
    if saved > slack or share >= 1:
        return True
    return bool(signal > np.quantile(signals, 1 - share)) if signals else saved >= 1


@dataclass(frozen=True)
class Paced(Written):
    """A change clock whose threshold adapts so that its stage fires on the share ``rate`` of frames, whatever the motion.

    With a fixed threshold the fire rate depends on the motion, and differs on other videos than those it was tuned on.
    Here a firing raises the threshold by the factor exp(gain * (1 - rate)), and a frame without lowers it by
    exp(gain * rate), so it is always the clock's own times exp(gain * (firings - rate * frames)). While it is within its
    range (``SPAN``), the number of firings deviates from the rate by at most ln(32) / ``GAIN`` = 17, however long the
    video. It stays above 0, so nothing fires where nothing changes. Firings caused by another clock (``Either``) count.
    """

    clock: Clock
    rate: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "clock", part_of("paced", self.clock))
        declared = facts(self.clock)
        if declared.threshold is None or declared.below or declared.parts:
            reason = (
                "combines clocks"
                if declared.parts
                else "fires below its threshold"
                if declared.below
                else "has no threshold"
            )
            raise UsageError(
                f"{text_of(self.clock)} can't be paced: it {reason}. Give a clock whose threshold can adapt, such as adaptive or "
                "difference. Use either and both around paced(..), not inside it; tune other clocks with --keep threshold."
            )
        _check_share(self.rate, "paced's rate")

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """Compare the threshold with the signal divided by the threshold's growth, which is also the signal in traces."""
        moved, frames, fires, inner = state or (0.0, 0, 0, None)
        behind = (tick.fires - fires) - self.rate * (tick.t - 1 - frames)
        moved = min(max(moved + GAIN * behind, -math.log(SPAN)), math.log(SPAN))
        decision, inner = ask(self.clock, tick, inner)
        signal = math.nan if decision.signal is None else decision.signal / math.exp(moved)
        strict = getattr(self.clock, "strict", False)
        fire = signal > self.threshold if strict else signal >= self.threshold
        return Decision(fire, signal), (moved, tick.t - 1, tick.fires, inner)

    @property
    def parts(self) -> tuple[Clock, ...]:
        return (self.clock,)

    @property
    def threshold(self) -> float:
        """The clock's threshold, with which the signal in the trace is comparable."""
        return float(self.clock.threshold)  # type: ignore[attr-defined]  # only a clock with a threshold is taken
