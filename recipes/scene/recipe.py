"""The recipe of `scene`: everything that decides the result besides the data, the views and the seed."""

from __future__ import annotations

from dataclasses import replace

from recipes.street.augment import Augmentation
from recipes.street.network import Shape
from recipes.street.recipe import STREET

SCENE = replace(
    STREET,
    shape=Shape(encoder=0, features=(128, 64, 48), context=256, classes=32, dilations=(1, 2, 4, 6)),
    view=(352, 288),
    iterations=100_000,
    average=0.996,
    rare=0.25,
    overlap=0.8,
    augmentation=Augmentation(colour=0.4, shade=0.1, blur=0.1, noise=0.1, jpeg=0.1),
)
"""The time limit ends the training before its iterations do. Of the augmentation only changes of light and camera are used."""
