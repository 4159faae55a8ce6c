"""Clocks that fire places instead of stages: what a fixed camera sees changes in a few of them (the paper's elementwise C)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from clockseg._errors import UsageError
from clockseg._opencv import opencv
from clockseg._types import IMAGE, Array
from clockseg.clocks.change import number
from clockseg.clocks.every import whole_number
from clockseg.clocks.tick import PREPARED, Clock, Decision, Tick, Watch

_FINE = 8
"""Points that a tile is looked at in, along each side: their means are compared, which noise leaves alone."""


class _Seen(NamedTuple):
    """What each place looked like when it was last computed, [h, w, 3], and frames since the whole picture was."""

    picture: Array
    since: int


@dataclass(frozen=True)
class Regions:
    """Fires the tiles that have changed since they were last computed; each by itself, so that slow drift adds up.

    ``threshold``: the share of a tile, 0..1, that differs by more than ``level`` grey levels (in any of red, green, blue)
    for it to fire. ``tile``: its side in pixels of the working size, about: tiles are spread evenly. ``halo``: pixels
    around a tile that are computed with it and then left out; None: as many as the stages look beyond a place. ``spread``:
    pixels around it that are replaced with it, as they depend on what changed. ``every``: the whole picture fires after so
    many frames without. ``most``: the share of the picture from which on all of it fires.

    >>> Regions(0.1).tile
    32
    """

    threshold: float
    tile: int = 32
    halo: int | None = None
    spread: int = 0
    level: float = 16
    every: int | None = None
    most: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < number(self.threshold, "the threshold of regions") <= 1:
            raise UsageError(f"regions({self.threshold!r}); give the share of a tile that must change, above 0 to 1.")
        whole_number(self.tile, "regions' tile (pixels)", least=_FINE)
        if self.halo is not None:
            whole_number(self.halo, "regions' halo (pixels)", least=0)
        whole_number(self.spread, "regions' spread (pixels)", least=0)
        if self.every is not None:
            whole_number(self.every, "regions' every (frames)")
        if not 0 <= number(self.level, "regions' level (grey levels)") <= 255:
            raise UsageError(f"regions with level={self.level!r}; give grey levels, 0 to 255.")
        if not 0 < number(self.most, "regions' most") <= 1:
            raise UsageError(f"regions with most={self.most!r}; give a share of the picture, above 0 to 1.")

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """The mask of tiles; the signal is the largest share of a tile that changed."""
        tick = tick.at(PREPARED)
        now = self._fine(tick.watched)
        # After a fill everything was computed from its frame, whatever was seen before.
        past = _Seen(self._fine(tick.reference), 0) if state is None or tick.t == 1 else state
        changed = self._changed(now, past.picture)
        signal, mask = float(changed.max()), changed >= self.threshold
        if (self.every is not None and past.since + 1 >= self.every) or mask.mean() >= self.most:
            return Decision(True, signal), _Seen(now, 0)
        fresh = np.repeat(np.repeat(mask, _FINE, axis=0), _FINE, axis=1)[..., None]
        kept = np.where(fresh, now, past.picture) if mask.any() else past.picture
        return Decision(mask, signal), _Seen(kept, past.since + 1)

    def looks(self, stage: int) -> frozenset[Watch]:
        """At the picture as the network works on it."""
        return frozenset({PREPARED})

    def _fine(self, prepared: Any) -> Array:
        """The picture in points, uint8 [rows * 8, columns * 8, 3] for so many tiles."""
        picture = prepared[IMAGE][0]
        rows, columns = (_FINE * math.ceil(side / self.tile) for side in picture.shape[:2])
        return np.asarray(opencv().resize(picture, (columns, rows), interpolation=opencv().INTER_AREA))

    def _changed(self, now: Array, then: Array) -> Array:
        """The share of each tile that differs, float [rows, columns]."""
        apart = opencv().absdiff(now, then).max(axis=2) > self.level
        rows, columns = (side // _FINE for side in apart.shape)
        return np.asarray(apart.reshape(rows, _FINE, columns, _FINE).mean(axis=(1, 3)))


@dataclass(frozen=True)
class Along:
    """Fires where the stage before fires.

    >>> Along()(Tick(1, 2, None, None, None, None, 1, 0, places="these"), None)[0].fire
    'these'
    """

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """In the same places, or whole."""
        return Decision(True if tick.places is None else tick.places), None

    def looks(self, stage: int) -> frozenset[Watch]:
        """At nothing."""
        return frozenset()


@dataclass(frozen=True)
class Whole:
    """Fires where the stage before fires whole: then what it reads is all of one frame.

    >>> Whole()(Tick(1, 3, None, None, None, None, 1, 0, places="these"), None)[0].fire
    False
    """

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """Not where it fires in places."""
        return Decision(tick.places is None), None

    def looks(self, stage: int) -> frozenset[Watch]:
        """At nothing."""
        return frozenset()


def in_places(clocks: tuple[Clock, ...]) -> int:
    """How many of the first stages may fire in places: those before the first clock that answers for a whole stage.

    >>> in_places((Regions(0.1), Along(), Whole()))
    2
    """
    if not isinstance(clocks[0], Regions):
        return 0
    return next((index for index, clock in enumerate(clocks) if not isinstance(clock, Regions | Along)), len(clocks))
