"""A segmentation network of three stages in a few lines of numpy, and clips for it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import cv2
import numpy as np

from clockseg.clockwork.network import Group, Stage, StagedNetwork

CLASSES = ("dark", "middle", "light")


def scores_of(channel: int):
    """A head: how near a channel is to dark, middle and light, [1, 3, h, w]."""
    levels = np.array([0.0, 0.5, 1.0], np.float32)[None, :, None, None]
    return lambda trunk: -np.abs(trunk[:, channel : channel + 1] - levels)


def toy(*, seconds: float = 0.0) -> StagedNetwork:
    """Stage n scores by colour channel n; the sum of the three is the output. Each body takes ``seconds`` at least."""

    def body(trunk: np.ndarray) -> np.ndarray:
        time.sleep(seconds)
        return trunk

    def whole(image: np.ndarray) -> np.ndarray:
        time.sleep(3 * seconds)
        return finish(sum(scores_of(channel)(image) for channel in range(3)))

    def finish(scores: np.ndarray) -> np.ndarray:
        return scores[0].argmax(axis=0).astype(np.uint8)

    stages = tuple(Stage(name, body, scores_of(channel)) for channel, name in enumerate(("one", "two", "three")))
    fuse = Group("fuse", ("one", "two", "three"), lambda *heads: sum(heads))
    return StagedNetwork(
        "toy",
        stages,
        (fuse,),
        finish,
        lambda image: np.moveaxis(image, -1, 0)[None].astype(np.float32) / 255,
        whole=whole,
    )


def write_clip(
    folder: Path, frames: int, *, labelled: int = 0, seed: int = 0, size: tuple[int, int] = (24, 16)
) -> None:
    """A clip of noise that drifts, its first ``labelled`` frames with random labels; ``classes.json`` beside it."""
    rng = np.random.default_rng(seed)
    picture = rng.integers(0, 256, (size[1], size[0], 3)).astype(np.uint8)
    (folder / "images").mkdir(parents=True)
    for index in range(frames):
        changed = rng.random(picture.shape) < 0.05 * (index % 4)
        picture = np.where(changed, rng.integers(0, 256, picture.shape), picture).astype(np.uint8)
        cv2.imwrite(str(folder / "images" / f"{index:03}.png"), picture)
        if index < labelled:
            (folder / "labels").mkdir(exist_ok=True)
            labels = rng.choice([0, 1, 2, 255], picture.shape[:2]).astype(np.uint8)
            cv2.imwrite(str(folder / "labels" / f"{index:03}.png"), labels)
    (folder.parent / "classes.json").write_text(json.dumps({"classes": list(CLASSES), "ignore": 255}))
