"""Synthetic frames before a still: what a moving camera would have seen on its way to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import cv2
import numpy as np

from clockseg.carry.motion import grid
from clockseg.types import Array, Image, Labels


@dataclass(frozen=True)
class Wander:
    """Size of the motion per frame: standard deviations unless said otherwise; shifts as shares of the width.

    ``zoom``: mean and deviation (driving forward: above 0). ``bend``: the largest deviation of a smooth field, which stands
    for depth. ``speeds``: one of these factors on all of the above per sequence. ``things``: share of the sequences in which
    pieces of other pictures occlude the scene and are gone by the still. ``near``: share in which segments of the still move
    by ``near_shift`` and ``near_zoom`` more than the rest, as what is near the camera does. ``gain``, ``level``, ``noise``:
    of the light, and the most noise, in grey levels. The defaults are about those of a car in a town at 15 FPS.
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


@dataclass(frozen=True)
class _Path:
    """The motion of one sequence per frame, as zoom, turn and shift about a centre and a smooth ``field`` [h, w, 2]."""

    centre: Array
    zoom: float
    turn: float
    shift: Array
    field: Array

    def seen(self, picture: Array, n: int) -> Array:
        """Return ``picture`` as it was seen ``n`` frames before."""
        scale = np.exp(self.zoom * n)
        cos, sin = np.cos(self.turn * n) * scale, np.sin(self.turn * n) * scale
        turned = np.array([[cos, sin], [-sin, cos]])
        # One product over the grid: x' = (x - centre) turned + centre + shift, and the field on top.
        offset = np.float32(self.centre + self.shift * n - self.centre @ turned)
        places = grid(self.field) @ turned.astype(np.float32) + offset + self.field * np.float32(n)
        return np.asarray(cv2.remap(picture, places, None, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101))


class _Thing(NamedTuple):
    """A piece of another picture, its place at the first frame, its speed, and the frame before the still at which it is gone."""

    picture: Array
    mask: Array
    place: Array
    speed: Array
    gone: int

    def put(self, picture: Array, frame: int) -> None:
        """Draw it into ``picture`` where it overlaps it, ``frame`` frames after the first."""
        x, y = (int(place) for place in np.round(self.place + self.speed * frame))
        top, left = max(0, y), max(0, x)
        bottom, right = (min(side, at + size) for side, at, size in zip(picture.shape, (y, x), self.mask.shape))
        if top < bottom and left < right:
            piece = slice(top - y, bottom - y), slice(left - x, right - x)
            under = picture[top:bottom, left:right]
            under += (self.picture[piece] - under) * self.mask[piece]


def past(
    still: Image,
    lag: int,
    random: np.random.Generator,
    *,
    others: Sequence[Image] = (),
    labels: Labels | None = None,
    wander: Wander = Wander(),
) -> list[Image]:
    """Return ``lag`` synthetic frames that lead to ``still``, uint8 RGB [h, w, 3], the oldest first.

    ``others``: pictures whose pieces pass in front. ``labels``, [h, w]: its segments, of which some may be near the camera.

    >>> [frame.shape for frame in past(np.zeros((24, 32, 3), np.uint8), 2, np.random.default_rng(0))]
    [(24, 32, 3), (24, 32, 3)]
    """
    path = _path(still.shape, random, wander)
    things = _things(still.shape, lag, random, others) if len(others) and random.random() < wander.things else []
    near = None if labels is None or random.random() >= wander.near else _near(labels, random)
    behind = still if near is None else _filled(still, near)
    own = path if near is None else _nearer(path, random, wander)
    gains, levels = (np.cumsum(random.normal(0, spread, lag)) for spread in (wander.gain, wander.level))
    noise = random.uniform(0, wander.noise)
    frames = []
    for n in range(lag, 0, -1):
        picture = path.seen(behind, n).astype(np.float32)
        if near is not None:
            picture += (own.seen(still, n) - picture) * own.seen(near, n)[..., None]
        for thing in things:
            if n > thing.gone:
                thing.put(picture, lag - n)
        picture = picture * np.float32(1 + gains[n - 1]) + np.float32(levels[n - 1])
        picture += np.float32(noise) * random.standard_normal(picture.shape, np.float32)
        frames.append(np.clip(picture, 0, 255).astype(np.uint8))
    return frames


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


def _nearer(path: _Path, random: np.random.Generator, wander: Wander) -> _Path:
    speed, width = random.choice(wander.speeds), path.field.shape[1]
    shift = path.shift + random.normal(0, wander.near_shift) * width * speed
    return replace(path, shift=shift, zoom=path.zoom + random.normal(0, wander.near_zoom) * speed)


def _near(labels: Labels, random: np.random.Generator) -> Array | None:
    """Return a mask of half of the segments of up to three classes, each at most a seventh of the picture; None if empty."""
    there = np.unique(labels)
    mask = np.zeros(labels.shape, np.float32)
    for label in random.choice(there, min(3, len(there)), replace=False):
        count, segments, facts, _ = cv2.connectedComponentsWithStats((labels == label).astype(np.uint8))
        areas = facts[:, cv2.CC_STAT_AREA] / labels.size
        fit = (areas > 0.0005) & (areas < 1 / 7) & (random.random(count) < 0.5)
        fit[0] = False
        mask[fit[segments]] = 1
    return cv2.GaussianBlur(mask, (3, 3), 0) if mask.any() else None


def _filled(still: Image, mask: Array) -> Image:
    """Return ``still`` with its surroundings spread over the ``mask``."""
    height, width = mask.shape
    outside = 1 - cv2.dilate((mask > 0).astype(np.float32), np.ones((7, 7), np.uint8))
    small = max(1, width // 16), max(1, height // 16)
    parts = (still * outside[..., None], outside)
    light, weight = (
        cv2.GaussianBlur(cv2.resize(part, small, interpolation=cv2.INTER_AREA), (0, 0), 2) for part in parts
    )
    about = cv2.resize(light / (weight[..., None] + 1e-3), (width, height), interpolation=cv2.INTER_LINEAR)
    return np.where(outside[..., None] == 0, about, still).clip(0, 255).astype(np.uint8)


def _things(shape: tuple[int, ...], lag: int, random: np.random.Generator, others: Sequence[Image]) -> list[_Thing]:
    height, width = shape[:2]
    other = others[int(random.integers(len(others)))]
    found = []
    for _ in range(random.integers(1, 4)):
        tall, wide = (max(2, int(side * random.uniform(0.05, 0.35))) for side in (height, width))
        y, x = (int(random.integers(0, max(1, of - side))) for of, side in zip(other.shape, (tall, wide)))
        picture = other[y : y + tall, x : x + wide].astype(np.float32)
        mask = np.zeros((*picture.shape[:2], 1), np.float32)
        cv2.ellipse(mask, (wide // 2, tall // 2), (max(1, wide // 2 - 1), max(1, tall // 2 - 1)), 0, 0, 360, 1, -1)
        place = np.array([random.uniform(-wide / 2, width - wide / 2), random.uniform(-tall / 2, height - tall / 2)])
        found.append(_Thing(picture, mask, place, random.normal(0, 0.008 * width, 2), int(random.integers(0, lag + 1))))
    return found
