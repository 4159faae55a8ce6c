"""Initial weights of an FCN: random, VGG-16's, or those of an FCN that was trained before."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from clockseg.datasets import Classes
from clockseg.errors import UsageError
from clockseg.paper.caffe import PUBLISHED
from clockseg.paper.fcn import MEAN
from recipes.fcn.checkpoint import load_fcn
from recipes.fcn.net import FCN
from recipes.fcn.vgg16 import Mean


def random_start(net: FCN, seed: int) -> None:
    """He et al.'s normal weights (2015), zero biases, and zero scores, as the published recipes have them."""
    generator = torch.Generator().manual_seed(seed)
    for name, layer in net.named_children():
        if isinstance(layer, nn.Conv2d):
            nn.init.zeros_(layer.bias)
            if name.startswith("score"):
                nn.init.zeros_(layer.weight)
            else:
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu", generator=generator)


def pixel_mean(classes: Classes) -> Mean:
    """The mean that the published net of these classes subtracts; else VGG-16's. Blue, green, red.

    >>> pixel_mean(Classes(("sky", "road"))) == MEAN
    True
    """
    return next((known.mean for known in PUBLISHED.values() if known.classes.names == classes.names), MEAN)


def fcn_state(file: Path, classes: Classes) -> dict[str, Tensor]:
    """The weights of a trained FCN; without its scores, if they are of other classes."""
    net, description = load_fcn(file)
    same = description.classes.names == classes.names
    return {name: value for name, value in net.state_dict().items() if same or not name.startswith("score")}


def take_over(net: FCN, state: Mapping[str, Tensor], *, source: Path) -> None:
    """Puts weights into the layers of the same names; enlargements stay bilinear, layers only one of them has as they are.

    `UsageError` where a layer has another shape, and where the state lacks the first layer.
    """
    own = net.state_dict()
    taken = {name: value for name, value in state.items() if name in own and not name.startswith("upscore")}
    for name, value in taken.items():
        if value.shape != own[name].shape:
            raise UsageError(
                f"{source}: {name} is {'x'.join(map(str, value.shape))}, the net's {'x'.join(map(str, own[name].shape))}; "
                "give weights of a net as wide as this one (--width, --fc), or --recipe scratch without any."
            )
    if "conv1_1.weight" not in taken:
        raise UsageError(f"{source} holds no conv1_1.weight; give weights of VGG-16 or of an FCN.")
    net.load_state_dict({**own, **taken})
