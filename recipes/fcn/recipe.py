"""Recipes of FCNs: the published ones, and one for training without VGG-16 weights.

| recipe  | nets           | rate of each                  | steps            |
|---------|----------------|-------------------------------|------------------|
| at-once | any, in one go | 1e-10                         | 300k (8s), 100k  |
| staged  | 32s, 16s, 8s   | 1e-10, 1e-12, 1e-14           | 100k each        |
| scratch | any, in one go | 1e-3, Adam, falling to zero   | ours             |

(Long, Shelhamer, Darrell, 2015, section 4.3, and the solvers published with it. The paper on clocks trains nothing of its
own but the single nets that end at pool3 and pool4, about whose training nothing is known: they get FCN-32s' recipe.)
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from clockseg.errors import UsageError, nearest
from clockseg.paper.fcn import Variant
from clockseg.types import Size
from recipes.fcn.scales import Scales
from recipes.street.augment import Augmentation

RecipeName = Literal["at-once", "staged", "scratch"]
Loss = Literal["sum", "mean"]
PIXELS = 187_500
"""Of a picture of PASCAL VOC, 500x375: what relates the summed loss' rate to the mean loss'."""
MILD = Augmentation(
    scale=(0.9, 1.4),
    aspect=1.05,
    degrees=1.0,
    rare=0.2,
    paste=0.0,
    colour=0.3,
    shade=0.0,
    blur=0.0,
    noise=0.0,
    jpeg=0.0,
)
"""Mild augmentation for short trainings: flips, scales, positions, some colours."""


@dataclass(frozen=True)
class Phase:
    """One net of a recipe: it starts from the net of the phase before."""

    variant: Variant
    rate: float
    iterations: int
    scales: Scales = field(default_factory=Scales)


@dataclass(frozen=True)
class FCNRecipe:
    """Everything that decides the result besides the data, the net's width, what it starts from, and the seed.

    `loss`: the softmax loss' sum or its mean over the labelled pixels of a step. `bias_rate`: share of the rate that
    biases learn at; they don't decay. `batch`: pictures a step. `warm_up`: share of the training in which the rate rises;
    `falls`: then it falls to zero along half a cosine, else it stays. `clip`: longest gradient. `working`: the size
    pictures are seen at, None for their own. `augmentation`: of random views, None for pictures as they are.
    `every`: steps between saved states, and scores on the validation data.
    """

    phases: tuple[Phase, ...]
    optimiser: Literal["sgd", "adam"] = "sgd"
    momentum: float = 0.99
    decay: float = 5e-4
    bias_rate: float = 2.0
    loss: Loss = "sum"
    batch: int = 1
    warm_up: float = 0.0
    falls: bool = False
    clip: float | None = None
    working: Size | None = None
    augmentation: Augmentation | None = None
    every: int = 4000

    def averaged(self, pixels: int = PIXELS) -> FCNRecipe:
        """The same steps with the mean loss: its gradient is 1 / pixels of the sum's, so the rate is `pixels` times as
        high and the decay, which the rate multiplies too, as much lower. Exact for pictures of so many labelled pixels.

        >>> f"{recipe('at-once', 'fcn8s').averaged().phases[0].rate:.3g}"
        '1.88e-05'
        """
        phases = tuple(replace(phase, rate=phase.rate * pixels) for phase in self.phases)
        return replace(self, phases=phases, loss="mean", decay=self.decay / pixels)


def recipe(name: RecipeName, variant: Variant) -> FCNRecipe:
    """The recipe of that name for one net; `UsageError` if there is none.

    >>> [(phase.variant, phase.rate) for phase in recipe("staged", "fcn16s").phases]
    [('fcn32s', 1e-10), ('fcn16s', 1e-12)]
    """
    if name == "at-once":
        return FCNRecipe((_at_once(variant),))
    if name == "staged":
        return FCNRecipe(_staged(variant))
    if name == "scratch":
        return _scratch(variant)
    raise UsageError(f"there is no recipe {name!r}. {nearest(name, get_args(RecipeName))}")


def _at_once(variant: Variant) -> Phase:
    scales = {"fcn8s": Scales(pool4=0.01, pool3=0.0001), "fcn16s": Scales(pool4=0.01)}
    return Phase(variant, 1e-10, 300_000 if variant == "fcn8s" else 100_000, scales.get(variant, Scales()))


def _staged(variant: Variant) -> tuple[Phase, ...]:
    stages = (Phase("fcn32s", 1e-10, 100_000), Phase("fcn16s", 1e-12, 100_000), Phase("fcn8s", 1e-14, 100_000))
    upto = {"fcn32s": 1, "fcn16s": 2, "fcn8s": 3}
    if variant not in upto:
        raise UsageError(f"{variant} has no stages to be trained in: --recipe at-once, or scratch.")
    return stages[: upto[variant]]


def _scratch(variant: Variant) -> FCNRecipe:
    return FCNRecipe(
        (Phase(variant, 1e-3, 10_000, Scales(data=1 / 58)),),
        optimiser="adam",
        momentum=0.9,
        decay=0.0,
        bias_rate=1.0,
        loss="mean",
        batch=2,
        warm_up=0.03,
        falls=True,
        clip=1.0,
        working=(320, 240),
        augmentation=MILD,
        every=500,
    )
