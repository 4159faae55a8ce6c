"""The small network that a learned clock is, in torch and as an ONNX graph."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import onnx
import torch
from torch import Tensor, nn

from clockseg.clocks.learned import Input
from clockseg.networks.onnx_export import traced

HEIGHT, WIDTH = 36, 48
"""Size of the pictures that the clock reads."""
CHANNELS, HIDDEN = (8, 16, 16), 16


def inputs_of(*, motion: bool) -> tuple[Input, ...]:
    """Return the inputs of a clock; ``motion``: True if the carry estimates motion.

    >>> [one.name for one in inputs_of(motion=True)]
    ['now', 'fired', 'residual', 'since']
    """
    pictures = ("now", "fired", "residual") if motion else ("now", "fired")
    return (*(Input(name, (1, 1, HEIGHT, WIDTH)) for name in pictures), Input("since", (1, 1)))


class ClockNet(nn.Module):
    """Three convolutions over small pictures, and two linear layers on their mean.

    The linear layers also read the mean of the pictures themselves, so that a clock on the residual alone is within reach
    from the start. ``mean``, ``scale``: of the planes that the convolutions read, [channels].
    """

    def __init__(self, names: Sequence[str], mean: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.names = tuple(names)
        self.register_buffer("mean", mean)
        self.register_buffer("scale", scale)
        widths = (len(mean), *CHANNELS)
        self.convs = nn.ModuleList(nn.Conv2d(a, b, 3, 2, 1) for a, b in pairwise(widths))
        self.hidden = nn.Linear(CHANNELS[-1] + len(mean) + 1, HIDDEN)
        self.last = nn.Linear(HIDDEN, 1)

    @classmethod
    def for_samples(cls, values: Mapping[str, Tensor], change: Tensor) -> ClockNet:
        """Return an untrained network that normalizes ``values`` and answers with about the mean ``change``."""
        planes = stacked(values)
        net = cls(tuple(values), planes.mean((0, 2, 3)), planes.std((0, 2, 3)).clamp_min(1e-4))
        mean = float(change.mean().clamp(1e-4, 1 - 1e-4))
        nn.init.constant_(net.last.bias, math.log(mean / (1 - mean)))
        return net

    def forward(self, values: Mapping[str, Tensor]) -> Tensor:
        """Return the logit of the predicted change, [n]; ``values``: a batch of every input, by name."""
        planes = (stacked(values) - self.mean.reshape(1, -1, 1, 1)) / self.scale.reshape(1, -1, 1, 1)
        found = planes
        for conv in self.convs:
            found = torch.relu(conv(found))
        features = torch.cat([found.mean((2, 3)), planes.mean((2, 3)), values["since"]], 1)
        answer: Tensor = self.last(torch.relu(self.hidden(features)))[:, 0]
        return answer


def stacked(values: Mapping[str, Tensor]) -> Tensor:
    """Return the planes that the convolutions read, [n, channels, h, w]: the pictures and their absolute difference."""
    planes = [values[name] for name in ("now", "fired", "residual") if name in values]
    return torch.cat([*planes, (values["now"] - values["fired"]).abs()], 1)


class _Positional(nn.Module):
    """The network with its inputs in order, and a sigmoid at its end: [1, 1], 0..1."""

    def __init__(self, net: ClockNet) -> None:
        super().__init__()
        self.net = net

    def forward(self, *values: Tensor) -> Tensor:
        return torch.sigmoid(self.net(dict(zip(self.net.names, values, strict=True))))[:, None]


def exported(net: ClockNet, inputs: Sequence[Input]) -> onnx.ModelProto:
    """Return ``net`` as a graph with these inputs and one output ``change``, [1, 1], 0..1."""
    given = {one.name: torch.zeros([side or 1 for side in one.shape]) for one in inputs}
    return traced(_Positional(net).eval(), given, "change", axes={})
