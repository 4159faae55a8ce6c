"""Pictures of what was measured, in one style that holds for all (``style``); needs matplotlib, which loads when one draws."""

from __future__ import annotations

from clockseg.plots.evaluation import draw_evaluation
from clockseg.plots.frontier import draw_plan
from clockseg.plots.published import draw_published, draw_rates
from clockseg.plots.tuning import draw_tuning
from clockseg.plots.velocity import draw_velocity

__all__ = ["draw_evaluation", "draw_plan", "draw_published", "draw_rates", "draw_tuning", "draw_velocity"]
