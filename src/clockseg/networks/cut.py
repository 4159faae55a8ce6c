"""Cutting of a torch module; torch is imported by the first call, so that ``clockseg.cut`` exists without it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from clockseg.clockwork.network import StagedNetwork
from clockseg.graph.sidecar import Input


def cut(
    module: Any,
    example: Any,
    *,
    at: Sequence[str | Sequence[str]] | Literal["auto"],
    names: Sequence[str] = (),
    scores: Sequence[str | None] = (),
    output: str | int | None = None,
    input: Input | None = None,
    classes: Sequence[str] = (),
    stages: int = 3,
) -> StagedNetwork:
    """Cut ``module`` into stages that compute with its own weights, on their device and also while they are trained.

    ``example``: a tensor like those it reads, [n, channels, h, w]; only its shape, type and device count. Other shapes may
    come; the module is exported again for each. ``at``: the last tensor of each stage in order, or several where branches
    cross; "auto": ``stages`` are chosen. A tensor has the path of the submodule that returns it as its name
    ("layer3", "encoder.0" for the first of several, "relu@1" for a second call), or as ``candidates`` names it. ``names``
    and ``scores``, per stage, as in a sidecar; ``output``: which of the module's outputs to use ("out", 0, "aux.0").

    Without ``input``, the network maps tensors to tensors as the module does, in torch's own grad mode, so it can be
    trained. With ``input``, it reads frames, uint8 RGB [h, w, 3], and returns its output at the frame's size: labels if
    there are ``classes``. ``NetworkError`` gives the reason if the module can't be exported or cut.

    >>> import torch
    >>> from torch import nn
    >>> module = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.ReLU(), nn.Conv2d(4, 2, 3, 2, 1))
    >>> net = cut(module, torch.zeros(1, 3, 32, 32), at=["1", "2"], names=("fine", "deep"))
    >>> image = torch.rand(1, 3, 32, 32)
    >>> [stage.name for stage in net.stages], torch.equal(net(image), module(image))
    (['fine', 'deep'], True)
    """
    from clockseg.networks import cut_torch

    return cut_torch.cut(
        module,
        example,
        at=at,
        names=names,
        scores=scores,
        output=output,
        input=input,
        classes=classes,
        stages=stages,
    )
