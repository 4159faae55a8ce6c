"""Modules of ``shapes``, ``shape_branches`` and ``shape_traps`` with settled statistics, and their ONNX files."""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from shape_branches import BRANCHES
from shape_traps import TRAPS
from shapes import SHAPES

NETWORKS = {**SHAPES, **BRANCHES, **TRAPS}
SIZE = (128, 64)
"""WIDTH, HEIGHT."""
FIXED = ("pspnet", "upernet", "fast-scnn", "enet-unpooling")
"""Networks that can't be exported with free sizes: they pool to a grid, or unpool."""


def main_output(found: Any) -> Tensor:
    """The first tensor of what a network gives: a tensor, or a tuple or dict of such."""
    while not isinstance(found, Tensor):
        found = next(iter(found.values())) if isinstance(found, dict) else found[0]
    return found


class Main(nn.Module):
    """A network that gives its main output alone."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, image: Tensor) -> Tensor:
        return main_output(self.network(image))


@functools.cache
def module(name: str) -> nn.Module:
    """The network of this name, seeded, its normalisations trained on noise; in eval mode. Tests share it."""
    torch.manual_seed(sum(name.encode()))
    return settled(NETWORKS[name]())


def settled(network: nn.Module) -> nn.Module:
    """``network`` in eval mode, with means, variances, scales and offsets that change what they normalise."""
    norms = [layer for layer in network.modules() if isinstance(layer, nn.BatchNorm2d)]
    for layer in norms:
        nn.init.uniform_(layer.weight, 0.5, 1.5)
        nn.init.normal_(layer.bias, std=0.3)
        layer.momentum = 0.9
    width, height = SIZE
    with torch.no_grad():
        network.train()(torch.rand(2, 3, height, width))
    return network.eval()


def export(
    network: nn.Module,
    path: Path,
    *,
    dynamo: bool = False,
    opset: int = 17,
    free: bool = True,
    size: tuple[int, int] = SIZE,
) -> Path:
    """``network`` as ONNX at ``path``: input "image" [1, 3, h, w], its main output "scores"; ``free``: of any size."""
    width, height = size
    sizes: dict[str, Any] = {}
    if free and dynamo:
        sizes = {"dynamic_shapes": {"image": {2: torch.export.Dim.AUTO, 3: torch.export.Dim.AUTO}}}
    elif free:
        sizes = {"dynamic_axes": {"image": {2: "height", 3: "width"}, "scores": {2: "h", 3: "w"}}}
    with _quiet():
        torch.onnx.export(
            Main(network).eval(),
            (torch.rand(1, 3, height, width),),
            path,
            dynamo=dynamo,
            opset_version=opset,
            input_names=["image"],
            output_names=["scores"],
            external_data=False,
            **({"verbose": False} if dynamo else {}),
            **sizes,
        )
    return path


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporters' warnings on shapes that become constants, and their tables of progress."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            logger.setLevel(level)
