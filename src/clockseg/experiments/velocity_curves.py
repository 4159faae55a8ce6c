"""Feature velocity over time: the curves of the stillest and the most moving shot (the paper's figure in section 3)."""

from __future__ import annotations

import os

import numpy as np

from clockseg.experiments.plotting import CYCLE, MUTED, PAGE, figure
from clockseg.velocity import Shot, Velocity


def draw_velocity(found: Velocity, stem: str | os.PathLike[str]) -> None:
    """``stem``.svg and ``stem``.png: each stage, the output and the pixels of the shots with the least and the most motion.

    One panel where there is one shot. Needs matplotlib.

    >>> import tempfile
    >>> shot = Shot("still", (0, 1), np.zeros(2), (np.zeros(2),), np.zeros(2), np.full(2, np.nan))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     draw_velocity(Velocity("one", ("a",), (shot,)), f"{folder}/velocity")
    ...     sorted(os.listdir(folder))
    ['velocity.png', 'velocity.svg']
    """
    ordered = found.by_motion()
    shots = [("", ordered[0])] if len(ordered) == 1 else [("low motion: ", ordered[0]), ("high motion: ", ordered[-1])]
    with figure(stem, size=(PAGE, 0.4 + 2.3 * len(shots))) as drawn:
        axes = drawn.subplots(len(shots), 1, squeeze=False)[:, 0]
        for (motion, shot), panel in zip(shots, axes, strict=True):
            panel.plot(shot.indices, shot.pixels, color=MUTED, label="pixels")
            for (name, series), colour in zip(_series(found, shot), _colours(len(found.stages) + 1), strict=True):
                panel.plot(shot.indices, series, color=colour, label=name)
            panel.set_title(f"{motion}{shot.name}")
            panel.set_ylabel("change")
            panel.set_ylim(bottom=0)
        axes[0].legend(ncols=len(found.stages) + 2)
        axes[-1].set_xlabel("frame")


def _series(found: Velocity, shot: Shot) -> list[tuple[str, np.ndarray]]:
    return [*zip(found.stages, shot.stages, strict=True), ("output", shot.output)]


def _colours(count: int) -> list[str]:
    return [CYCLE[index % len(CYCLE)] for index in range(count)]
