"""Narrow FCNs for the tests, with random weights; and the shared golden."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from clockseg.datasets import Classes
from clockseg.paper.fcn import FCNDescription, FCNShape, bilinear, layers
from recipes.fcn.net import FCN
from video_making import data_folder

NARROW = 1 / 16
CLASSES = Classes(("sky", "road", "tree", "car", "person"))


def golden() -> Path:
    """The folder of the shared golden."""
    return data_folder().parent / "goldens" / "fcn8s-tiny"


def random_state(shape: FCNShape, seed: int = 0) -> dict[str, np.ndarray]:
    """Random weights, such that maps keep their scale; the kernels of enlargements are bilinear."""
    random = np.random.default_rng(seed)
    state: dict[str, np.ndarray] = {}
    for each in layers(shape):
        for name, size in each.weights.items():
            scale = 1.5 / np.sqrt(each.inputs * each.kernel**2) if name.endswith("weight") else 0.1
            state[name] = (random.standard_normal(size) * scale).astype(np.float32)
            if each.kind == "deconv":
                state[name] = np.broadcast_to(bilinear(each.kernel), size).copy()
    return state


def with_state(shape: FCNShape, state: dict[str, np.ndarray]) -> FCN:
    """A module with these weights, in evaluation mode."""
    net = FCN(shape).eval()
    net.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in state.items()})
    return net


def narrow(variant: Any = "fcn8s", seed: int = 0) -> FCN:
    """A narrow net of five classes."""
    shape = FCNShape(variant, 5).narrowed(NARROW)
    return with_state(shape, random_state(shape, seed))


def description(net: FCN, **changes: Any) -> FCNDescription:
    """The description of a narrow net; frames are fitted into 48x32."""
    return FCNDescription(net.shape, CLASSES, **{"working": (48, 32), **changes})


def picture(size: tuple[int, int], seed: int = 0) -> np.ndarray:
    """A random frame, WIDTH, HEIGHT."""
    return np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
