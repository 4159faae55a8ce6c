"""Clocks: ``clock(tick, state) -> (decision, state)``, one kind a file; a plain function of the tick will do."""

from clockseg.clocks.budget import Budget
from clockseg.clocks.change import Change
from clockseg.clocks.combine import Both, Either, Invert
from clockseg.clocks.confidence import Confidence
from clockseg.clocks.difference import Difference
from clockseg.clocks.every import ALWAYS, AtLeastEvery, Every
from clockseg.clocks.learned import Learned
from clockseg.clocks.motion_residual import MotionResidual
from clockseg.clocks.paced import Paced
from clockseg.clockwork.clock import PICTURE, Clock, Decision, Mask, Plain, Tick, View, Watch, as_clock

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
    "Difference",
    "Either",
    "Every",
    "Invert",
    "Learned",
    "Mask",
    "MotionResidual",
    "Paced",
    "Plain",
    "Tick",
    "View",
    "Watch",
    "as_clock",
]
