"""Fixed multipliers of what layers read, while they train; a saved net has them folded into its weights.

The published at-once FCN-8s multiplies pool4 by 0.01 and pool3 by 0.0001 before they are scored, where staged training has
lower rates by these factors. A multiplier of a convolution's input, and its weights times that multiplier, are the same
function; the bias is not scaled. `data` is for training from random weights: pixels minus the mean are some tens, and so
would all maps be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from torch import Tensor, nn


@dataclass(frozen=True)
class Scales:
    """By what the picture, pool4 and pool3 are multiplied before conv1_1, score_pool4 and score_pool3 read them."""

    data: float = 1.0
    pool4: float = 1.0
    pool3: float = 1.0

    @property
    def layers(self) -> Mapping[str, float]:
        """The layers that read something scaled, and by how much.

        >>> Scales(pool4=0.01).layers
        {'score_pool4': 0.01}
        """
        all = {"conv1_1": self.data, "score_pool4": self.pool4, "score_pool3": self.pool3}
        return {layer: factor for layer, factor in all.items() if factor != 1}


def attach(net: nn.Module, scales: Scales) -> None:
    """From now on the layers read their inputs scaled; the weights stay as they are."""
    for layer, module in net.named_children():
        if layer in scales.layers:
            module.register_forward_pre_hook(partial(_multiplied, scales.layers[layer]))


def _multiplied(factor: float, module: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
    return (inputs[0] * factor,)


def folded(state: Mapping[str, Tensor], scales: Scales) -> dict[str, Tensor]:
    """The weights that do without scales what these do with them."""
    factors = {f"{layer}.weight": factor for layer, factor in scales.layers.items()}
    return {name: value * factors[name] if name in factors else value for name, value in state.items()}


def unfolded(state: Mapping[str, Tensor], scales: Scales) -> dict[str, Tensor]:
    """The weights that do with scales what these do without: the inverse of `folded`."""
    factors = {f"{layer}.weight": factor for layer, factor in scales.layers.items()}
    return {name: value / factors[name] if name in factors else value for name, value in state.items()}
