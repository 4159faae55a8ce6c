"""Batches of random views, drawn by worker processes ahead of the training step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import cv2
import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from clockseg.types import Array, Image

Place = tuple[int, int]
"""The step of a batch, and the number of a view in it."""


class Drawn(Protocol):
    """A source of views of pictures, such as `augment.Views`; its length is the number of pictures."""

    def __len__(self) -> int: ...
    def rare(self) -> Array: ...
    def draw(self, index: int, rare: Array, rng: np.random.Generator) -> tuple[Image, Array]: ...


@dataclass(frozen=True)
class Batches:
    """An endless row of batches; batch k depends on `seed` and k alone, so a resumed training sees the same ones.

    `workers`: processes that draw views; 0 draws them in this one. `replacement`: any frame at any time; else every frame
    once before any a second time, in an order of its own each time.
    """

    views: Drawn
    size: int
    seed: int
    workers: int
    replacement: bool = False

    def from_step(self, first: int) -> Iterator[list[Tensor]]:
        """Pictures [n, h, w, 3], uint8, and what is to be learnt about them, such as labels, from batch `first` on."""
        return iter(
            DataLoader(
                _Drawing(self, self.views.rare()),
                batch_sampler=_Places(first, self.size),
                num_workers=self.workers,
                pin_memory=torch.cuda.is_available(),
                worker_init_fn=_quiet,
                prefetch_factor=4 if self.workers else None,
                # Processes, not threads: a view is some hundred small calls, and threads queue for the interpreter's lock.
                # Forked ones share the frames' memory.
                multiprocessing_context="fork" if self.workers else None,
                # One of its own, so that the network's random numbers are the same after resuming.
                generator=torch.Generator(),
            )
        )


@dataclass(frozen=True)
class _Drawing(Dataset[tuple[np.ndarray, np.ndarray]]):
    batches: Batches
    rare: np.ndarray

    def __getitem__(self, place: Place) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng([self.batches.seed, *place])
        frames = len(self.batches.views)
        index = int(rng.integers(frames)) if self.batches.replacement else self._in_turn(place, frames)
        return self.batches.views.draw(index, self.rare, rng)

    def _in_turn(self, place: Place, frames: int) -> int:
        number = place[0] * self.batches.size + place[1]
        order = np.random.default_rng([self.batches.seed, number // frames]).permutation(frames)
        return int(order[number % frames])


class _Places(Sampler[list[Place]]):
    def __init__(self, first: int, size: int) -> None:
        self.first, self.size = first, size

    def __iter__(self) -> Iterator[list[Place]]:
        step = self.first
        while True:
            yield [(step, place) for place in range(self.size)]
            step += 1


def _quiet(worker: int) -> None:
    cv2.setNumThreads(0)
