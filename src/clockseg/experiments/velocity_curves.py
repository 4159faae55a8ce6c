"""Feature velocity over time: the curves of the stillest and the most moving shot (the paper's figure in section 3)."""

from __future__ import annotations

import os

from clockseg.experiments.plotting import CYCLE, MUTED, PAGE, figure
from clockseg.velocity import Velocity


def draw_velocity(found: Velocity, stem: str | os.PathLike[str]) -> None:
    """``stem``.svg and ``stem``.png: each stage, the output and the pixels of the shots with the least and the most motion.

    One panel where there is one shot. Needs matplotlib.

    >>> import tempfile
    >>> import numpy as np
    >>> from clockseg.velocity import Shot
    >>> shot = Shot("still", (0, 1), np.zeros(2), (np.zeros(2),), np.zeros(2), np.full(2, np.nan))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     draw_velocity(Velocity("one", ("a",), (shot,)), f"{folder}/velocity")
    ...     sorted(os.listdir(folder))
    ['velocity.png', 'velocity.svg']
    """
    ordered = found.by_motion()
    shots = [("", ordered[0])] if len(ordered) == 1 else [("low motion: ", ordered[0]), ("high motion: ", ordered[-1])]
    with figure(stem, size=(PAGE, 0.4 + 2.3 * len(shots))) as drawn:
        axes = drawn.subplots(len(shots), 1, squeeze=False, sharey=True)[:, 0]
        for (motion, shot), panel in zip(shots, axes, strict=True):
            series = {"pixels": shot.pixels, **dict(zip(found.stages, shot.stages, strict=True)), "output": shot.output}
            for index, (name, changes) in enumerate(series.items()):
                # The first frame has none before it.
                panel.plot(shot.indices[1:], changes[1:], color=MUTED if not index else _colour(index), label=name)
            panel.set_title(f"{motion}{shot.name}")
            panel.set_ylabel("change")
            panel.set_ylim(bottom=0)
        axes[0].legend(ncols=len(found.stages) + 2)
        axes[-1].set_xlabel("frame")


def _colour(index: int) -> str:
    return CYCLE[(index - 1) % len(CYCLE)]
