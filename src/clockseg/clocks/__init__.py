"""Clocks: ``clock(tick, state) -> (decision, state)``, a plain function of the tick also works."""

from clockseg.clocks.budget import Budget, budget
from clockseg.clocks.change import Change, adaptive, difference, with_threshold
from clockseg.clocks.combine import (
    AtLeastEvery,
    Both,
    Either,
    Invert,
    at_least_every,
    both,
    either,
    every,
    invert,
)
from clockseg.clocks.confidence import Confidence, confidence
from clockseg.clocks.learned import Learned, learned
from clockseg.clocks.motion_residual import MotionResidual, motion_residual
from clockseg.clocks.paced import Paced, paced
from clockseg.clockwork.clock import ALWAYS, PICTURE, Clock, Decision, Every, Plain, Tick, View, Watch, as_clock
from clockseg.clockwork.facts import Facts, facts, watches

__all__ = [
    "ALWAYS",
    "PICTURE",
    "AtLeastEvery",
    "Both",
    "Budget",
    "Change",
    "Clock",
    "Confidence",
    "Decision",
    "Either",
    "Every",
    "Facts",
    "Invert",
    "Learned",
    "MotionResidual",
    "Paced",
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
