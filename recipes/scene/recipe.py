"""The recipe of `scene`: everything that decides the result besides the data and the seed."""

from __future__ import annotations

from dataclasses import replace

from recipes.street.augment import Augmentation
from recipes.street.network import Shape
from recipes.street.recipe import STREET

SCENE = replace(
    STREET,
    shape=Shape(encoder=0, features=(128, 64, 48), context=256, classes=32, dilations=(1, 2, 4, 6)),
    view=(288, 288),
    iterations=20_000,
    average=0.998,
    rare=0.2,
    overlap=0.4,
    augmentation=Augmentation(scale=(0.5, 1.4), aspect=1.2, degrees=5.0, rare=0.0, paste=0.0, shade=0.2, noise=0.15),
)
"""The bundled network. The time limit of a training ends it before its iterations do."""
MIX = 0.3
"""The share of views that are mixed from two pictures."""
