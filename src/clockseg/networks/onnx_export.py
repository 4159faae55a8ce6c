"""From a torch module to an ONNX graph with readable names, checked against the module in an engine."""

from __future__ import annotations

import copy
import functools
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import torch
from torch import Tensor, nn

from clockseg.clockwork.network import StagedNetwork
from clockseg.errors import ClocksegError, NetworkError, first_line
from clockseg.graph.sidecar import Input
from clockseg.graph.torch_export import check_shape
from clockseg.networks.cut_check import TOLERANCE, apart, noise, picture, whole
from clockseg.networks.cut_source import Told
from clockseg.types import Array, Size

OPSET = 17
INPUT, OUTPUT = "image", "scores"
_PIXELS = Input(INPUT, 1, 1, scale=1 / 255, mean=(0.45, 0.45, 0.45), std=(0.25, 0.25, 0.25))
"""Preprocessing of the frames to compare on, near that of any training."""


@dataclass(frozen=True)
class Exported:
    """A graph with the input ``INPUT`` and the output ``OUTPUT``; ``told``: if its size is free, and how far it is from the module."""

    model: onnx.ModelProto
    told: tuple[Told, ...]


def export(module: nn.Module, size: Size, *, engine: Callable[[StagedNetwork], StagedNetwork], of: str) -> Exported:
    """Export ``module``, from [1, 3, height, width] to [1, c, h, w], with free sizes if that works, else fixed to ``size``.

    Both are compared with the module in ``engine`` on pictures, the free one also at a second size; ``NetworkError`` if even
    the fixed graph differs, or if the module does not take ``size``. ``of``: the module's origin, for the report.
    """
    module = module.eval()
    check_shape(module, torch.zeros(1, 3, size[1], size[0]))
    other = (size[0] + 64, size[1])
    try:
        model = to_onnx(module, size, free=True)
        difference = max(_apart(module, model, one, engine) for one in (size, other))
        if difference <= TOLERANCE:
            told = Told(
                "export", f"{difference:.1e} apart", f"from {of} at {_shown(size)} and {_shown(other)}; takes any size"
            )
            return Exported(model, (told,))
    except ClocksegError:
        pass
    model = to_onnx(module, size, free=False)
    difference = _apart(module, model, size, engine)
    if not difference <= TOLERANCE:
        raise NetworkError(
            f"the exported graph is {difference:.1e} of its largest value away from what {of} gives; at most "
            f"{TOLERANCE:.0e} is allowed. This is a fault of the export; nothing was written."
        )
    told = Told(
        "export", f"{difference:.1e} apart", f"from {of} at {_shown(size)}, and fixed to it: it fails at others"
    )
    return Exported(model, (told,))


def to_onnx(module: nn.Module, size: Size, *, free: bool) -> onnx.ModelProto:
    """Export ``module`` as a graph; ``free``: of any height and width. ``NetworkError`` with torch's reason if that fails.

    By the exporter that traces: its tensors carry the paths of their modules, so that one can say where to cut; its
    operators are plain ones; and it needs no further package. torch warns that it is the older one. The newer's tensors
    are numbered by operator; when the older goes, their paths are in its nodes' metadata.
    """
    width, height = size
    axes = {INPUT: {2: "height", 3: "width"}, OUTPUT: {2: "scores_height", 3: "scores_width"}} if free else {}
    try:
        found = traced(module if free else pooled(module), {INPUT: torch.zeros(1, 3, height, width)}, OUTPUT, axes=axes)
    except Exception as error:  # whatever a module or the exporter raises
        raise NetworkError(f"the network can't be exported at {_shown(size)}: {first_line(error)}") from error
    return _without_prefix(found)


def traced(
    module: nn.Module, inputs: Mapping[str, Tensor], output: str, *, axes: Mapping[str, Mapping[int, str]]
) -> onnx.ModelProto:
    """Export ``module``, called with ``inputs`` in their order, by tracing it; ``axes``: the free sides of named tensors."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), _quiet():
        warnings.simplefilter("ignore")
        file = Path(folder) / "exported.onnx"
        torch.onnx.export(
            module,
            tuple(inputs.values()),
            str(file),
            dynamo=False,
            opset_version=OPSET,
            input_names=list(inputs),
            output_names=[output],
            dynamic_axes=dict(axes),
        )
        return onnx.load(file)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter, which prints the whole graph past Python's own standard output if an operator is unknown."""
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def pooled(module: nn.Module) -> nn.Module:
    """Copy ``module``, with pooling to a grid, which ONNX lacks, as products with constant matrices of a fixed size."""
    copied = copy.deepcopy(module)
    for child in copied.modules():
        if isinstance(child, nn.AdaptiveAvgPool2d) and child.output_size not in (1, (1, 1)):
            # Its forward, not it: some keep their pools in plain lists too.
            child.forward = functools.partial(grid_means, cells=child.output_size)  # type: ignore[method-assign]
    return copied


def grid_means(x: Tensor, *, cells: int | Sequence[int | None]) -> Tensor:
    """Compute the mean over each cell of a grid, as ``nn.AdaptiveAvgPool2d(cells)`` does.

    >>> grid_means(torch.arange(6.0).view(1, 1, 2, 3), cells=(1, 2)).tolist()
    [[[[2.0, 3.0]]]]
    """
    wanted = (cells, cells) if isinstance(cells, int) else cells
    rows, columns = (_means(int(x.shape[axis - 2]), wanted[axis]) for axis in (0, 1))
    return rows @ x @ columns.T


def _means(length: int, cells: int | None) -> Tensor:
    """Return the matrix [cells, length] whose rows average a line of values over each cell; cell ends are rounded outwards.

    >>> _means(3, 2).tolist()
    [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]
    """
    cells = cells or length
    found = torch.zeros(cells, length)
    for cell in range(cells):
        start, end = cell * length // cells, -(-(cell + 1) * length // cells)
        found[cell, start:end] = 1 / (end - start)
    return found


def _without_prefix(model: onnx.ModelProto) -> onnx.ModelProto:
    """Name tensors and nodes by their paths in the user's own module, which adapters keep as ``clockseg``."""

    def bare(name: str) -> str:
        return re.sub(r"^(/clockseg(?=/)|clockseg\.)", "", name)

    for node in model.graph.node:
        node.name = bare(node.name)
        node.input[:] = [bare(name) for name in node.input]
        node.output[:] = [bare(name) for name in node.output]
    for weight in model.graph.initializer:
        weight.name = bare(weight.name)
    del model.graph.value_info[:]
    onnx.checker.check_model(model)
    return model


def _apart(
    module: nn.Module, model: onnx.ModelProto, size: Size, engine: Callable[[StagedNetwork], StagedNetwork]
) -> float:
    running = engine(whole(model, _PIXELS, OUTPUT))
    found = 0.0
    for image in (noise(size), picture(size)):
        found = max(found, apart(running(image), _by_torch(module, image)).difference)
    return found


def _by_torch(module: nn.Module, image: Array) -> Array:
    mean, std = np.array(_PIXELS.mean, np.float32), np.array(_PIXELS.std, np.float32)
    values = ((image.astype(np.float32) * np.float32(_PIXELS.scale) - mean) / std).transpose(2, 0, 1)[None]
    try:
        with torch.inference_mode():
            made: Array = module(torch.from_numpy(np.ascontiguousarray(values))).numpy()
    except Exception as error:  # modules raise what they like at a size that they can't take
        raise NetworkError(f"the network fails at {image.shape[1]}x{image.shape[0]}: {first_line(error)}") from error
    return made


def _shown(size: Size) -> str:
    return f"{size[0]}x{size[1]}"
