"""What a learned clock may be given, by the name of its graph's input."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from clockseg.clocks.motion_residual import FULL
from clockseg.clockwork.clock import PICTURE, Tick, Watch
from clockseg.errors import UsageError
from clockseg.libraries import opencv
from clockseg.types import Array

PICTURES = ("now", "fired")
MOTIONS = ("residual", "history")
MAPS = {
    "features_now": "features",
    "features_fired": "features",
    "scores_now": "scores",
    "scores_fired": "scores",
}
NAMES = (*PICTURES, *MOTIONS, *MAPS, "since")
SIGNALS = 5
"""Numbers a frame in ``history``."""
AGE = 32
"""Frames since the last firing that count as 1."""

ALLOWED = """now, fired: float32 [1, 1, h, w], the picture in grey, 0..1, at this frame and at the last firing;
residual: float32 [1, 1, h, w], 0..1, what motion leaves unexplained since the last firing;
history: float32 [1, 5, n], five numbers for each of the last n frames;
since: float32 [1, 1], frames since the last firing over 32;
features_now, features_fired, scores_now, scores_fired: float32 [1, c, h, w], of the stage that the sidecar names as "watch"."""


class Input(NamedTuple):
    """One input of the graph: its name and shape; a side that isn't fixed is None."""

    name: str
    shape: tuple[int | None, ...]


def check_input(one: Input, file: str) -> None:
    """Refuse an input that no clock is given, or one of another shape, with what is allowed.

    >>> check_input(Input("since", (1, 1)), "clock.onnx")
    """
    shapes = {"since": (1, 1), "history": (1, SIGNALS, 0)}
    wanted = shapes.get(one.name, (1, 0, 0, 0) if one.name in MAPS else (1, 1, 0, 0))
    fits = len(one.shape) == len(wanted) and all(
        not want or have == want for have, want in zip(one.shape, wanted, strict=True)
    )
    sized = one.name in MAPS or None not in one.shape
    if one.name not in NAMES or not fits or not sized:
        raise UsageError(
            f"learned clock {file}: its input {one.name!r} {list(one.shape)} is none that a clock is given. "
            f"Sides are fixed (but those of features and scores). Allowed are:\n{ALLOWED}"
        )


def looks(inputs: tuple[Input, ...], watch: int | None) -> frozenset[Watch]:
    """What these inputs are made of."""
    found = {Watch(MAPS[one.name], watch or 0) for one in inputs if one.name in MAPS}
    return frozenset(found | ({PICTURE} if any(one.name in PICTURES for one in inputs) else set()))


def value(one: Input, tick: Tick, rows: tuple[tuple[float, ...], ...], watch: int | None) -> Array:
    """What the input ``one`` is given at ``tick``; ``rows``: of the history so far, this frame's last."""
    if one.name == "since":
        return np.full((1, 1), tick.since / AGE, np.float32)
    if one.name == "history":
        found = np.zeros((1, SIGNALS, one.shape[2] or 0), np.float32)
        last = rows[-found.shape[2] :]
        found[0, :, found.shape[2] - len(last) :] = np.transpose(last)
        return found
    if one.name == "residual":
        return _resized(np.minimum(tick.travel.residual, FULL), one) / np.float32(FULL)
    if one.name in PICTURES:
        view = tick.views[PICTURE]
        return _grey(view.now if one.name == "now" else view.reference, one)
    view = tick.views[Watch(MAPS[one.name], watch or 0)]
    return np.ascontiguousarray(view.now if one.name.endswith("now") else view.reference, np.float32)


def signals(tick: Tick) -> tuple[float, ...]:
    """This frame's column of ``history``.

    What motion leaves unexplained since the last firing, and since the frame before, 0..1; how far the picture moved
    since the last firing, and since the frame before, in parts of its width; frames since the last firing over ``AGE``.
    """
    unexplained = [float(np.minimum(motion.residual, FULL).mean() / FULL) for motion in (tick.travel, tick.motion)]
    moved = [float(np.abs(motion.flow).mean() / motion.flow.shape[1]) for motion in (tick.travel, tick.motion)]
    return (*unexplained, *moved, tick.since / AGE)


def _grey(picture: Any, one: Input) -> Array:
    cv2 = opencv()
    height, width = one.shape[2:]
    small = cv2.resize(np.asarray(picture), (width, height), interpolation=cv2.INTER_AREA)
    return np.asarray(cv2.cvtColor(small, cv2.COLOR_RGB2GRAY), np.float32)[None, None] / np.float32(255)


def _resized(plane: Array, one: Input) -> Array:
    cv2 = opencv()
    height, width = one.shape[2:]
    return np.asarray(cv2.resize(plane, (width, height), interpolation=cv2.INTER_AREA), np.float32)[None, None]
