"""Clocks: ``clock(tick, state) -> (decision, state)``, a plain function of the tick also works."""

from clockseg.clocks.combine import AtLeastEvery as at_least_every
from clockseg.clocks.combine import Budget as budget
from clockseg.clocks.combine import Paced as paced
from clockseg.clocks.combine import both, either, invert
from clockseg.clocks.learned import Learned as learned
from clockseg.clocks.threshold import Change as difference
from clockseg.clocks.threshold import Confidence as confidence
from clockseg.clocks.threshold import MotionResidual as motion_residual
from clockseg.clocks.threshold import adaptive, with_threshold
from clockseg.clockwork.clock import (
    ALWAYS,
    PICTURE,
    Clock,
    Decision,
    Every,
    Facts,
    Plain,
    Tick,
    View,
    Watch,
    as_clock,
    facts,
    watches,
)

every = Every

__all__ = [
    "ALWAYS",
    "PICTURE",
    "Clock",
    "Decision",
    "Every",
    "Facts",
    "Plain",
    "Tick",
    "View",
    "Watch",
    "adaptive",
    "as_clock",
    "at_least_every",
    "both",
    "budget",
    "confidence",
    "difference",
    "either",
    "every",
    "facts",
    "invert",
    "learned",
    "motion_residual",
    "paced",
    "watches",
    "with_threshold",
]
