"""A made-up network of three stages that see the drawn street ever coarser; it runs in clockseg's own session."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import street_scene

from clockseg.clockwork.network import Group, Stage, StagedNetwork
from clockseg.clockwork.schedule import ScheduleLike
from clockseg.clockwork.session import Session

STRIDES = (4, 8, 16)
STAGES = ("stage 1", "stage 2", "stage 3")
# Finer stages weigh more; where the first stage is unsure, the deeper ones decide.
_WEIGHTS = (1.0, 0.6, 0.35)
_UNSURE = 0.4
_MISTAKEN = np.random.default_rng(7).random((24, 40)) < 0.14
"""Cells in which the first stage confuses classes, since it sees edges but not objects."""
CARS = (4, 12, 20, 28, 36, 40, 40, 40, 40, 52, 66, 82)
"""Positions of the car on twelve frames: it drives, waits, and drives on."""


class Shown(NamedTuple):
    """A frame to draw: which stages fired, the clock's signal, each stage's held map, and the output."""

    fired: tuple[bool, ...]
    signal: float | None
    held: tuple[np.ndarray, ...]
    output: np.ndarray


def network() -> StagedNetwork:
    """Build the three stages, fused at the first one's stride.

    >>> network()(street_scene.labels(10)).shape
    (24, 40)
    """
    stages = (
        Stage(STAGES[0], lambda picture: street_scene.coarse(picture, STRIDES[0]), _hasty),
        Stage(STAGES[1], lambda trunk: street_scene.coarse(trunk, 2), _scores),
        Stage(STAGES[2], lambda trunk: street_scene.coarse(trunk, 2), _scores),
    )
    return StagedNetwork("drawn", stages, (Group("fuse", STAGES, _fused),), finish=lambda scores: _labels(scores))


def _scores(labels: np.ndarray) -> np.ndarray:
    """Return scores of 1 for the class of each cell, float32 [1, classes, h, w]."""
    return np.eye(len(street_scene.CLASSES), dtype=np.float32)[labels].transpose(2, 0, 1)[None]


def _hasty(labels: np.ndarray) -> np.ndarray:
    """Return scores that are wrong and unsure in some cells."""
    wrong = (labels + 1 + np.arange(labels.shape[1]) % (len(street_scene.CLASSES) - 1)) % len(street_scene.CLASSES)
    return np.where(_MISTAKEN, _UNSURE * _scores(wrong), _scores(labels))


def _fused(*held: np.ndarray) -> np.ndarray:
    height = held[0].shape[2]
    enlarged = [scores.repeat(height // scores.shape[2], 2).repeat(height // scores.shape[2], 3) for scores in held]
    return sum(weight * scores for weight, scores in zip(_WEIGHTS, enlarged, strict=True))


def _labels(scores: np.ndarray) -> np.ndarray:
    return scores[0].argmax(0).astype(np.uint8)


def shown(schedule: ScheduleLike, cars: tuple[float, ...] = CARS) -> list[Shown]:
    """Run the network over the drawn street and return what each frame showed.

    >>> from clockseg.clocks.rates import alternating
    >>> [one.fired for one in shown(alternating)][:2]
    [(True, True, True), (True, True, False)]
    """
    session, found = Session(network(), schedule), []
    for t, car in enumerate(cars):
        output = session(street_scene.labels(car, 118 - 2 * t))
        record = session.record
        signal = next((one for one in record.signal if one is not None), None)
        assert session.memory is not None
        held = tuple(_labels(stage.held.value) for stage in session.memory.stages)
        found.append(Shown(record.fired, signal, held, output))
    return found
