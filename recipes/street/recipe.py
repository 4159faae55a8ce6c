"""Recipes of `street`: everything that decides the result besides the data and the seed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from recipes.street.augment import Augmentation
from recipes.street.network import LARGE, Shape


@dataclass(frozen=True)
class Recipe:
    """One network's training. Sizes are (width, height) in pixels.

    `working`: into which a whole frame is fitted, which sets the scale of the views; `view`: the size of a view.
    `batch`: views a step. `rate`: AdamW's learning rate for new layers; the pretrained encoder's is `encoder_rate` of it.
    `frozen`: so many of the encoder's rows, and the stem, stay as ImageNet left them: half the time of a step goes into
    learning them, and what they see is edges and colours. `rare`: class weights are share ** -rare. `aux`: weights of
    the three stages' own losses. `overlap`: weight of the soft intersection over union. `distil`: weight of the
    teachers' answers, where there are teachers. `average`: how much of the averaged weights a step keeps.
    """

    shape: Shape = field(default_factory=Shape)
    working: tuple[int, int] = (480, 360)
    view: tuple[int, int] = (320, 256)
    iterations: int = 3_000
    batch: int = 8
    rate: float = 2e-3
    encoder_rate: float = 0.25
    frozen: int = 2
    decay: float = 0.02
    warm_up: float = 0.03
    drop: float = 0.05
    average: float = 0.996
    rare: float = 0.4
    aux: tuple[float, float, float] = (0.1, 0.2, 0.2)
    overlap: float = 0.5
    distil: float = 1.0
    augmentation: Augmentation = field(default_factory=Augmentation)


STREET = Recipe()
"""The bundled network."""

STREET_LARGE = replace(
    STREET, shape=LARGE, working=(640, 480), view=(416, 320), iterations=3_600, drop=0.15, average=0.998
)
"""Its larger sister, whose frames are enlarged: small things are what `street` misses."""

TEACHER = replace(STREET, shape=Shape(encoder=2, features=(128, 96, 64), context=192), drop=0.2)
"""The teacher: the same design on EfficientNet-Lite2, wider."""


def shortened(recipe: Recipe, iterations: int | None, batch: int | None, view: tuple[int, int] | None) -> Recipe:
    """The recipe with what a user chose otherwise."""
    return replace(
        recipe, iterations=iterations or recipe.iterations, batch=batch or recipe.batch, view=view or recipe.view
    )
