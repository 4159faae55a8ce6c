"""Pictures of what was measured, in one style that holds for all (``style``); needs matplotlib, which loads when one draws."""

from __future__ import annotations

from clockseg.report.plots.evaluation import draw_evaluation
from clockseg.report.plots.frontier import draw_plan
from clockseg.report.plots.tuning import draw_tuning

__all__ = ["draw_evaluation", "draw_plan", "draw_tuning"]
