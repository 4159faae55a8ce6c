"""A clock that keeps to a budget of firings on any video: its threshold adapts while it runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from clockseg.clocks.combine import PerStage, per_stage
from clockseg.clocks.difference import Difference
from clockseg.clocks.motion_residual import MotionResidual
from clockseg.clocks.scene_cut import scene_cut
from clockseg.clockwork.clock import PICTURE, Clock, Decision, Tick, Watch, as_clock, ask, facts, is_clock
from clockseg.errors import UsageError, number, whole_number

MEMORY = 96
"""Frames whose signals make the threshold: long enough that stretches of a second or two without motion save for others."""
SLACK = 0.015
"""Share of the frames so far that the firings may be away from what was asked for."""
LEAST, MOST = 1.0, 12.0
"""Firings that they may be away in any case, and at most: what a long still stretch can save for when motion is back."""
PULL = 24.0
"""Frames in which what is saved or owed is to be made up for, by a lower or a higher threshold."""
WEIGHT = 0.1
"""The weight of a new frame in what frames take."""
MOTION, PICTURES = MotionResidual(0.0), Difference(0.0, "pixels")


class _Spent(NamedTuple):
    """Seconds of frames on which it fired and of those on which it didn't; NaN until there was one."""

    fired: float = math.nan
    held: float = math.nan

    def plus(self, fired: bool, seconds: float) -> _Spent:
        before = self.fired if fired else self.held
        now = seconds if math.isnan(before) else before + WEIGHT * (seconds - before)
        return self._replace(fired=now) if fired else self._replace(held=now)

    def rate(self, seconds: float) -> float:
        """The share of frames that may fire so that the mean frame takes ``seconds``."""
        if math.isnan(self.fired) or math.isnan(self.held):
            # Nothing is known of one of them yet: fire in turn until it is.
            return 0.5
        return min(1.0, max(0.0, (seconds - self.held) / max(self.fired - self.held, 1e-9)))


class _State(NamedTuple):
    """``frames`` and firings so far; ``saved``: firings it may still make; recent signals; what is usual between frames."""

    frames: int = 0
    saved: float = 0.0
    signals: tuple[float, ...] = ()
    usual: float = 0.0
    spent: _Spent = _Spent()
    inner: Any = None


@dataclass(frozen=True)
class Budget:
    """Fires on the share ``network_rate`` of frames, where its signal is largest; or so often that ``fps`` can be kept.

    ``signal``: a clock whose signal is large where firing is worth it (its own threshold doesn't matter). None: what motion
    leaves unexplained, where the carry finds motion; else the difference of the pictures. ``cap``: as ``AtLeastEvery``,
    what is held is never older than that. A hard cut (``clockseg.clocks.scene_cut``) refills at that very frame.

    The rule. Every frame saves ``rate`` of a firing, every firing spends one. The threshold is the quantile of the last
    ``MEMORY`` signals above 0 that ``rate`` of them exceed, where more is asked for while something is saved, and less while
    something is owed. What is saved or owed is at most ``SLACK`` of the frames so far, between ``LEAST`` and ``MOST``: at
    the upper end it fires, at the lower end it doesn't. So after n frames the firings are within max(1, 0.015 n) of what was
    asked for, and a long still stretch leaves at most 12 more for when motion is back. Where nothing changes at all
    (a signal of 0) nothing fires but by the cap, and what that would save beyond the slack is let go. Firings that
    others caused (``Either``), the cap and cuts are counted, and owed until they are made up for.

    ``fps``: the rate is what the mean frame's seconds allow, as the last ones took with and without a firing. These are
    the network's seconds, clocks and motion included: decoding and showing are to be allowed for. It goes by the
    clock on the wall, so what it does can't be replayed.

    >>> Budget(0.25, cap=3)
    Traceback (most recent call last):
        ...
    clockseg.errors.UsageError: budget(network_rate=0.25, cap=3): the cap alone makes one frame in 3 fire; give a cap of more
    than 4, or none.
    """

    network_rate: float | None = None
    fps: float | None = None
    cap: int | None = None
    signal: Clock | None = None

    def __post_init__(self) -> None:
        if (self.network_rate is None) == (self.fps is None):
            raise UsageError("budget takes one of two: a rate, budget(network_rate=0.25), or a speed, budget(fps=30).")
        if self.network_rate is not None and not 0 < number(self.network_rate, "budget's network_rate") < 1:
            raise UsageError(
                f"budget(network_rate={self.network_rate!r}); give a share of frames between 0 and 1, such as 0.25."
            )
        if self.fps is not None and not 0 < number(self.fps, "budget's fps") < math.inf:
            raise UsageError(f"budget(fps={self.fps!r}); give frames a second, above 0, such as 30.")
        if self.signal is not None:
            object.__setattr__(self, "signal", as_clock(self.signal))
        if self.signal is not None and facts(self.signal).below:
            raise UsageError('budget fires where its signal is large; give confidence(.., sense="above") or another.')
        self._check_cap()

    def _check_cap(self) -> None:
        if self.cap is None:
            return
        whole_number(self.cap, "budget's cap")
        if self.network_rate is not None and self.cap * self.network_rate < 1:
            raise UsageError(
                f"budget(network_rate={self.network_rate:g}, cap={self.cap}): the cap alone makes one frame in {self.cap} "
                f"fire; give a cap of more than {math.floor(1 / self.network_rate)}, or none."
            )

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """The signal is that of its clock; the threshold shows in what fires."""
        past: _State = state or _State()
        spent = past.spent.plus(tick.since == 1, tick.took) if self.fps and past.frames and tick.took else past.spent
        rate = spent.rate(1 / self.fps) if self.fps is not None else float(self.network_rate or 0.0)
        saved = past.saved - (1.0 if past.frames and tick.since == 1 else 0.0) + rate
        cut, usual = self._cut(tick, past.usual)
        answer, inner = self._asked(tick, past.inner)
        signal = 0.0 if answer.signal is None else answer.signal
        frames = past.frames + 1
        slack = min(MOST, max(LEAST, SLACK * frames))
        fires = self._fires(past.signals, signal, rate, saved, slack)
        overdue = self.cap is not None and tick.since >= self.cap
        # What the threshold is for is not known from frames on which nothing changed.
        signals = (*past.signals, signal)[-MEMORY:] if signal > 0 else past.signals
        after = _State(frames, min(saved, slack + 1), signals, usual, spent, inner)
        return Decision(fires or overdue or cut, signal, refill=cut or answer.refill), after

    def _fires(self, signals: tuple[float, ...], signal: float, rate: float, saved: float, slack: float) -> bool:
        """Return True if the budget alone decides to fire. ``saved`` would be one less after a firing."""
        if not signal > 0 or saved - 1 < -slack:
            return False
        if saved > slack:
            return True
        share = max(0.0, rate + saved / PULL)
        if share >= 1:
            return True
        return bool(signal > np.quantile(signals, 1 - share)) if signals else saved >= 1

    def _asked(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        if self.signal is not None:
            return ask(self.signal, tick, state)
        return (PICTURES if tick.travel is None else MOTION)(tick, state)

    def _cut(self, tick: Tick, usual: float) -> tuple[bool, float]:
        if tick.motion is not None:
            return scene_cut(tick.motion, None, None, usual)
        if PICTURE not in tick.views:
            return False, usual
        pictures = tick.at(PICTURE)
        return scene_cut(None, pictures.watched, pictures.previous, usual)

    @property
    def parts(self) -> tuple[Clock, ...]:
        """The clock of the signal, if one is given."""
        return () if self.signal is None else (self.signal,)

    @property
    def after(self) -> int | None:
        """0, the whole network, by default; with a signal given, that says what is gated."""
        return 0 if self.signal is None else None

    @property
    def not_replayable(self) -> str:
        """The reason why a budget of time can't be replayed."""
        reason = (
            "it goes by the seconds that frames take while they run. Give a rate, such as budget(network_rate=0.25)."
        )
        return "" if self.fps is None else reason

    def watches(self, stage: int) -> frozenset[Watch]:
        """Return the picture where no signal is given."""
        return frozenset({PICTURE}) if self.signal is None else frozenset()

    def __str__(self) -> str:
        return f"budget(network_rate={self.network_rate:g})" if self.fps is None else f"budget(fps={self.fps:g})"


def budget(
    signal: Any = None, *, network_rate: float | None = None, fps: float | None = None, cap: int | None = None
) -> Budget | PerStage:
    """Return a clock that keeps to a share of frames, or to frames per second (``Budget``), and refills at cuts.

    ``signal``: a clock whose signal tells when firing is worth it, or a function that gives one for a threshold, such as
    ``motion_residual`` or ``adaptive``; it also says which stages are gated. By default the whole network is gated by the
    motion-compensated residual or, under a carry without motion, by the difference of pictures. ``cap``: frames after which
    it fires in any case.

    >>> budget(network_rate=0.25, cap=12).cap
    12
    """
    if signal is None:
        return Budget(network_rate, fps, cap)
    if callable(signal) and not isinstance(signal, PerStage) and not is_clock(signal):
        signal = signal(0.0)
    return per_stage("budget", lambda row: Budget(network_rate, fps, cap, row[0]), (signal,))
