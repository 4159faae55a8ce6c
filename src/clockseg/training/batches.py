"""Batches of random views, drawn by worker processes ahead of the training step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import cv2
import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from clockseg.training.augment import Views

Place = tuple[int, int]
"""Which step's batch, and which view of it."""


@dataclass(frozen=True)
class Batches:
    """An endless row of batches; batch k depends on `seed` and k alone, so a resumed training sees the same ones.

    `workers`: processes that draw views; 0 draws them in this one.
    """

    views: Views
    size: int
    seed: int
    workers: int

    def from_step(self, first: int) -> Iterator[list[Tensor]]:
        """Pictures [n, h, w, 3] and labels [n, h, w], uint8, from batch `first` on."""
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
            )
        )


@dataclass(frozen=True)
class _Drawing(Dataset[tuple[np.ndarray, np.ndarray]]):
    batches: Batches
    rare: np.ndarray

    def __getitem__(self, place: Place) -> tuple[np.ndarray, np.ndarray]:
        """Every frame once before any a second time, in an order of its own each time."""
        frames, seed = self.batches.views.frames.frames, self.batches.seed
        number = place[0] * self.batches.size + place[1]
        order = np.random.default_rng([seed, number // len(frames)]).permutation(len(frames))
        rng = np.random.default_rng([seed, *place])
        return self.batches.views.draw(int(order[number % len(frames)]), self.rare, rng)


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
