"""The recipe of `scene`: everything that decides the result besides the data and the seed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from recipes.street.augment import Augmentation
from recipes.street.network import Shape
from recipes.street.recipe import STREET, Recipe


@dataclass(frozen=True)
class Phase:
    """A part of the training. `mix`: the share of views that are mixed from two pictures."""

    recipe: Recipe
    mix: float


MAIN = Phase(
    replace(
        STREET,
        shape=Shape(encoder=0, features=(128, 64, 48), context=256, classes=32, dilations=(1, 2, 4, 6)),
        view=(288, 288),
        iterations=20_000,
        average=0.998,
        rare=0.35,
        overlap=0.4,
        augmentation=Augmentation(
            scale=(0.5, 1.4), aspect=1.2, degrees=5.0, rare=0.0, paste=0.0, shade=0.2, noise=0.15
        ),
    ),
    mix=0.3,
)
"""Most of the training. The time limit ends it before its iterations do."""
FINISH = Phase(
    replace(
        MAIN.recipe,
        view=(384, 320),
        augmentation=replace(
            MAIN.recipe.augmentation,
            scale=(0.7, 1.2),
            aspect=1.1,
            degrees=3.0,
            colour=0.5,
            shade=0.1,
            blur=0.1,
            noise=0.1,
        ),
    ),
    mix=0.1,
)
"""The last third: nearly whole pictures at the size at which the network is to see them, with less augmentation."""
