"""The small network that a learned clock is, in torch and as an ONNX graph."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import onnx
import torch
from torch import Tensor, nn

from clockseg.clocks.learned import SIGNALS, Input
from clockseg.networks.onnx_export import traced

Form = Literal["frames", "history"]
HEIGHT, WIDTH = 36, 48
"""Size of the pictures that the form ``frames`` reads."""
FRAMES = 16
"""Number of frames that the form ``history`` reads."""
CHANNELS, HIDDEN = (8, 16, 16), 16


def inputs_of(form: Form, *, motion: bool) -> tuple[Input, ...]:
    """Return the inputs of a clock of this form; ``motion``: the carry estimates motion.

    >>> [one.name for one in inputs_of("history", motion=True)]
    ['history', 'since']
    """
    since, side = Input("since", (1, 1)), (1, 1, HEIGHT, WIDTH)
    if form == "history":
        return Input("history", (1, SIGNALS, FRAMES)), since
    pictures = [Input(name, side) for name in ("now", "fired", *(["residual"] if motion else []))]
    return (*pictures, since)


class ClockNet(nn.Module):
    """Three convolutions over small pictures, or over the last frames, and two linear layers on their mean.

    The linear layers also read the mean of the pictures themselves (of the history its last frame), so that a clock on the
    residual alone is within reach from the start. ``mean``, ``scale``: of what the convolutions read, [channels].
    """

    def __init__(self, names: Sequence[str], mean: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.names = tuple(names)
        self.history = "history" in self.names
        self.register_buffer("mean", mean)
        self.register_buffer("scale", scale)
        kind = nn.Conv1d if self.history else nn.Conv2d
        widths = (len(mean), *CHANNELS)
        steps = [{"padding": 2**n, "dilation": 2**n} if self.history else {"padding": 1, "stride": 2} for n in range(3)]
        self.convs = nn.ModuleList(kind(a, b, 3, **step) for a, b, step in zip(widths, widths[1:], steps, strict=False))
        self.hidden = nn.Linear(CHANNELS[-1] + len(mean) + 1, HIDDEN)
        self.last = nn.Linear(HIDDEN, 1)

    @classmethod
    def for_samples(cls, values: Mapping[str, Tensor], change: Tensor) -> ClockNet:
        """Return an untrained network that normalizes ``values`` and answers with about the mean ``change``."""
        planes = stacked(values)
        places = [0, *range(2, planes.ndim)]
        net = cls(tuple(values), planes.mean(places), planes.std(places).clamp_min(1e-4))
        mean = float(change.mean().clamp(1e-4, 1 - 1e-4))
        nn.init.constant_(net.last.bias, math.log(mean / (1 - mean)))
        return net

    def forward(self, values: Mapping[str, Tensor]) -> Tensor:
        """Return the logit of the predicted change, [n]; ``values``: a batch of every input, by name."""
        planes = stacked(values)
        places = tuple(range(2, planes.ndim))
        found = planes = (planes - self._wide(self.mean)) / self._wide(self.scale)
        for conv in self.convs:
            found = torch.relu(conv(found))
        own = planes[:, :, -1] if self.history else planes.mean(places)
        features = torch.cat([found.mean(places), own, values["since"]], 1)
        answer: Tensor = self.last(torch.relu(self.hidden(features)))[:, 0]
        return answer

    def _wide(self, each: Tensor) -> Tensor:
        return each.reshape(1, -1, 1) if self.history else each.reshape(1, -1, 1, 1)


def stacked(values: Mapping[str, Tensor]) -> Tensor:
    """Return the planes that the convolutions read: the history, or the pictures and their absolute difference."""
    if "history" in values:
        return values["history"]
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
