"""The frames before a still, made up: what a camera would have seen that moved on to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import cv2
import numpy as np

from clockseg.carry.motion import grid
from clockseg.types import Array, Image, Labels, Size

_NOISES = 4
"""Pictures of noise that are drawn once, and shown moved about."""
_MARGIN = 64


@dataclass(frozen=True)
class Wander:
    """The size of synthetic motion per frame: standard deviations unless said otherwise; shifts as shares of the width.

    ``zoom``: mean and deviation (driving on: above 0). ``bend``: the largest deviation of a smooth field, which stands for
    depth. ``speeds``: each sequence's factor on all of these, one of them. ``things``: share of the sequences in which
    pieces of other pictures lie before the scene and are gone by the still; ``near``: share of those in which segments of the
    still move on their own, by ``near_shift`` and ``near_zoom`` more than the rest, as what is near the camera does;
    ``gain``, ``level``, ``noise``: of its light, and the most noise, in grey levels.
    """

    zoom: tuple[float, float] = (0.008, 0.008)
    turn: float = 0.0015
    shift: tuple[float, float] = (0.004, 0.0015)
    bend: float = 0.0025
    speeds: tuple[float, ...] = (0.3, 1.0, 1.0, 2.0)
    things: float = 0.6
    near: float = 0.7
    near_shift: tuple[float, float] = (0.005, 0.0015)
    near_zoom: float = 0.008
    gain: float = 0.01
    level: float = 1.0
    noise: float = 4.0


STROLL = Wander()
"""As a car drives through a town, about, at 15 frames a second."""


class _Thing(NamedTuple):
    """A piece of another picture, where it is at the first frame, how it moves, and how long before the still it is gone."""

    picture: Array
    mask: Array
    place: Array
    speed: Array
    gone: int

    def scaled(self, by: float) -> _Thing:
        """In a picture ``by`` times as large."""
        size = tuple(max(1, round(side * by)) for side in self.mask.shape[1::-1])
        picture, mask = (cv2.resize(each, size, interpolation=cv2.INTER_AREA) for each in (self.picture, self.mask))
        return _Thing(picture, mask[..., None], self.place * by, self.speed * by, self.gone)


@dataclass(frozen=True)
class _Path:
    """The motion of one sequence, a frame: the still seen ``n`` frames before is the still at ``places(n)``."""

    centre: Array
    zoom: float
    turn: float
    shift: Array
    field: Array

    def places(self, n: int) -> Array:
        """float32 [h, w, 2], x and y."""
        scale = np.exp(self.zoom * n)
        cos, sin = np.cos(self.turn * n) * scale, np.sin(self.turn * n) * scale
        turned = np.array([[cos, sin], [-sin, cos]])
        # One product over the grid: x' = (x - centre) turned + centre + shift, and the field on top.
        offset = np.float32(self.centre + self.shift * n - self.centre @ turned)
        return np.asarray(grid(self.field) @ turned.astype(np.float32) + offset + self.field * np.float32(n))

    def scaled(self, size: Size) -> _Path:
        """In a picture of another size."""
        by = size[0] / self.field.shape[1]
        field = cv2.resize(self.field, size, interpolation=cv2.INTER_LINEAR) * np.float32(by)
        return replace(self, centre=(self.centre + 0.5) * by - 0.5, shift=self.shift * by, field=field)


class _Near(NamedTuple):
    """Segments of the still that move on their own: where they are, [h, w], what is seen behind them, and their path."""

    mask: Array
    behind: Image
    path: _Path

    def scaled(self, size: Size) -> _Near:
        """In a picture of another size."""
        mask, behind = (cv2.resize(each, size, interpolation=cv2.INTER_AREA) for each in (self.mask, self.behind))
        return _Near(mask, behind, self.path.scaled(size))


@dataclass(frozen=True, eq=False)
class Past:
    """The ``lag`` frames of a synthetic camera that moved on to ``still``, uint8 RGB [h, w, 3]; made by ``past``."""

    still: Image
    lag: int
    path: _Path
    near: _Near | None
    things: tuple[_Thing, ...]
    gains: Array
    levels: Array
    noise: float
    seed: int

    def frame(self, n: int) -> Image:
        """The frame ``n`` before the still, uint8 RGB [h, w, 3]; at most ``lag``."""
        picture = _seen(self.still if self.near is None else self.near.behind, self.path.places(n)).astype(np.float32)
        if self.near is not None:
            places = self.near.path.places(n)
            picture += (_seen(self.still, places) - picture) * _seen(self.near.mask, places)[..., None]
        for thing in self.things:
            if n > thing.gone:
                _put(picture, thing, self.lag - n)
        picture *= np.float32(1 + self.gains[n - 1])
        picture += np.float32(self.levels[n - 1])
        if self.noise:
            picture += np.float32(self.noise) * _noise(picture.shape, np.random.default_rng([self.seed, n]))
        return np.clip(picture, 0, 255).astype(np.uint8)

    def scaled(self, size: Size) -> Past:
        """The same at another size, (WIDTH, HEIGHT); averaged, there is less noise in it."""
        by = size[0] / self.still.shape[1]
        return replace(
            self,
            still=cv2.resize(self.still, size, interpolation=cv2.INTER_AREA),
            path=self.path.scaled(size),
            near=None if self.near is None else self.near.scaled(size),
            things=tuple(thing.scaled(by) for thing in self.things),
            noise=self.noise * min(1.0, by),
        )


def past(
    still: Image,
    lag: int,
    random: np.random.Generator,
    *,
    others: Sequence[Image] = (),
    labels: Labels | None = None,
    wander: Wander = STROLL,
) -> Past:
    """The ``lag`` frames before ``still``, uint8 RGB [h, w, 3], made up.

    ``others``: where pieces come from that pass before it. ``labels``, [h, w]: its segments, of which some may be near.

    >>> found = past(np.zeros((24, 32, 3), np.uint8), 3, np.random.default_rng(0))
    >>> found.frame(3).shape, found.scaled((16, 12)).frame(1).shape
    ((24, 32, 3), (12, 16, 3))
    """
    path = _path(still.shape, random, wander)
    things = _things(still.shape, lag, random, others) if len(others) and random.random() < wander.things else []
    near = None if labels is None or random.random() >= wander.near else _near(still, labels, path, random, wander)
    gains, levels = (np.cumsum(random.normal(0, spread, lag)) for spread in (wander.gain, wander.level))
    noise, seed = random.uniform(0, wander.noise), int(random.integers(1 << 31))
    return Past(still, lag, path, near, tuple(things), gains, levels, noise, seed)


def _path(shape: tuple[int, ...], random: np.random.Generator, wander: Wander) -> _Path:
    height, width = shape[:2]
    speed = random.choice(wander.speeds)
    coarse = random.normal(size=(*random.integers(3, 7, 2), 2)).astype(np.float32)
    bend = random.uniform(0, wander.bend) * width * speed
    field = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC) * np.float32(bend)
    return _Path(
        np.array([width * random.uniform(0.2, 0.8), height * random.uniform(0.3, 0.7)]),
        random.normal(*wander.zoom) * speed,
        random.normal(0, wander.turn) * speed,
        random.normal(0, wander.shift) * width * speed,
        field,
    )


def _seen(picture: Array, places: Array) -> Array:
    return np.asarray(cv2.remap(picture, places, None, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101))


def _near(still: Image, labels: Labels, path: _Path, random: np.random.Generator, wander: Wander) -> _Near | None:
    """Half of the segments of a few classes, each at most a seventh of the picture; None where there are none."""
    there = np.flatnonzero(np.bincount(labels.ravel(), minlength=256))
    mask = np.zeros(labels.shape, np.float32)
    for label in random.choice(there, min(3, len(there)), replace=False):
        count, segments, facts, _ = cv2.connectedComponentsWithStats((labels == label).astype(np.uint8))
        areas = facts[:, cv2.CC_STAT_AREA] / labels.size
        fit = (areas > 0.0005) & (areas < 1 / 7) & (random.random(count) < 0.5)
        fit[0] = False
        mask[fit[segments]] = 1
    if not mask.any():
        return None
    width, speed = labels.shape[1], random.choice(wander.speeds)
    shift = path.shift + random.normal(0, wander.near_shift) * width * speed
    own = replace(path, shift=shift, zoom=path.zoom + random.normal(0, wander.near_zoom) * speed)
    return _Near(cv2.GaussianBlur(mask, (3, 3), 0), _filled(still, mask), own)


def _filled(still: Image, mask: Array) -> Image:
    """``still`` with what lies about it spread over the ``mask``."""
    height, width = mask.shape
    wide = cv2.dilate(mask, np.ones((7, 7), np.uint8))
    small = max(1, width // 16), max(1, height // 16)
    light, weight = still * (1 - wide)[..., None], 1 - wide
    spread = [cv2.GaussianBlur(cv2.resize(a, small, interpolation=cv2.INTER_AREA), (0, 0), 2) for a in (light, weight)]
    about = cv2.resize(spread[0] / (spread[1][..., None] + 1e-3), (width, height), interpolation=cv2.INTER_LINEAR)
    return np.where(wide[..., None] > 0, about, still).clip(0, 255).astype(np.uint8)


def _things(shape: tuple[int, ...], lag: int, random: np.random.Generator, others: Sequence[Image]) -> list[_Thing]:
    height, width = shape[:2]
    other = others[int(random.integers(len(others)))]
    found = []
    for _ in range(random.integers(1, 4)):
        tall, wide = (max(2, int(side * random.uniform(0.05, 0.35))) for side in (height, width))
        y, x = (int(random.integers(0, max(1, of - side))) for of, side in zip(other.shape, (tall, wide)))
        picture = other[y : y + tall, x : x + wide].astype(np.float32)
        mask = np.zeros((*picture.shape[:2], 1), np.float32)
        middle, half = (wide // 2, tall // 2), (max(1, wide // 2 - 1), max(1, tall // 2 - 1))
        cv2.ellipse(mask, middle, half, 0, 0, 360, 1, -1)
        place = np.array([random.uniform(-wide / 2, width - wide / 2), random.uniform(-tall / 2, height - tall / 2)])
        speed = random.normal(0, 0.008 * width, 2)
        found.append(_Thing(picture, mask, place, speed, int(random.integers(0, lag + 1))))
    return found


def _put(picture: Array, thing: _Thing, frame: int) -> None:
    """``thing`` into ``picture``, as far as it reaches into it."""
    x, y = (int(place) for place in np.round(thing.place + thing.speed * frame))
    top, left = max(0, y), max(0, x)
    bottom, right = (min(side, start + size) for side, start, size in zip(picture.shape, (y, x), thing.mask.shape))
    if top >= bottom or left >= right:
        return
    piece = slice(top - y, bottom - y), slice(left - x, right - x)
    mask, under = thing.mask[piece], picture[top:bottom, left:right]
    picture[top:bottom, left:right] = under * (1 - mask) + thing.picture[piece] * mask


def _noise(shape: tuple[int, ...], random: np.random.Generator) -> Array:
    height, width = shape[:2]
    one = _noises(height, width)[random.integers(_NOISES)]
    y, x = random.integers(0, _MARGIN, 2)
    return np.asarray(one[y : y + height, x : x + width])


@lru_cache(maxsize=2)
def _noises(height: int, width: int) -> Array:
    shape = (_NOISES, height + _MARGIN, width + _MARGIN, 3)
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
