"""From a torch module to an ONNX graph with readable names, checked against the module in an engine."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import onnx
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from clockseg.engines.auto import Engine
from clockseg.errors import ClocksegError, NetworkError, first_line
from clockseg.graph.sidecar import Input
from clockseg.graph.torch_export import check_shape
from clockseg.networks.checking import TOLERANCE, apart, noise, picture, whole
from clockseg.networks.source import Told
from clockseg.types import Size

OPSET = 17
INPUT, OUTPUT = "image", "scores"
MAPS = (INPUT, OUTPUT, "masks")
"""Names of the tensors [1, c, h, w]; other outputs are no maps."""
_PIXELS = Input(INPUT, 1, 1, scale=1 / 255, mean=(0.45, 0.45, 0.45), std=(0.25, 0.25, 0.25))
"""Preprocessing of the frames to compare on, near that of any training."""


def adapted(module: nn.Module, call: Callable[[Callable[..., Any], Tensor], Any]) -> nn.Module:
    """Let ``module`` map a frame [1, 3, h, w] to ``call(forward, frame)``, the tensors to export, and return it.

    ``forward``: its own. As no other module is put around it, tensors are exported under their paths in ``module``.
    """
    module.forward = partial(call, module.forward)
    return module


def export(
    module: nn.Module,
    size: Size,
    *,
    engine: Engine,
    of: str,
    outputs: Sequence[str] = (OUTPUT,),
) -> tuple[onnx.ModelProto, Told]:
    """Export ``module``, which reads [1, 3, height, width], with free sizes if that works, else fixed to ``size``.

    ``outputs``: names for the tensors that it gives, of which ``MAPS`` are maps [1, c, h, w]. Both graphs are
    compared with the module in ``engine`` on pictures, the free one also at a second size; ``NetworkError`` if even the fixed
    graph differs, or if the module does not take ``size``. Returns the graph and a report that names the module's origin, ``of``.
    """
    module = module.eval()
    check_shape(module, torch.zeros(1, 3, size[1], size[0]))
    other = (size[0] + 64, size[1])
    for free in (True, False):
        try:
            model = to_onnx(module, size, free=free, outputs=outputs)
            difference = max(_apart(module, model, one, engine) for one in ((size, other) if free else (size,)))
        except ClocksegError:
            if not free:
                raise
            continue
        if difference <= TOLERANCE:
            takes = (
                f" and {other[0]}x{other[1]}; takes any size"
                if free
                else ", and fixed to it: it fails at others, so frames are scaled to fit and padded"
            )
            return model, Told("export", f"{difference:.1e} apart", f"from {of} at {size[0]}x{size[1]}{takes}")
    raise NetworkError(
        f"the exported graph is {difference:.1e} of its largest value away from what {of} gives; at most "
        f"{TOLERANCE:.0e} is allowed. This is a fault of the export; nothing was written."
    )


def to_onnx(module: nn.Module, size: Size, *, free: bool, outputs: Sequence[str] = (OUTPUT,)) -> onnx.ModelProto:
    """Export ``module`` as a graph; ``free``: of any height and width. ``NetworkError`` with torch's reason if that fails.

    By the exporter that traces, though it is the older one: its tensors carry the paths of their modules, so that one can say where
    to cut. The newer's tensors are numbered by operator, and their paths are in its nodes' metadata.
    """
    width, height = size
    image = torch.zeros(1, 3, height, width)
    maps = [name for name in (INPUT, *outputs) if name in MAPS]
    axes = {name: {2: f"{name}_height", 3: f"{name}_width"} for name in maps} if free else {}
    try:
        model = traced(module, {INPUT: image}, outputs, axes=axes)
    except Exception as error:  # whatever a module or the exporter raises
        raise NetworkError(f"the network can't be exported at {width}x{height}: {first_line(error)}") from error
    del model.graph.value_info[:]
    onnx.checker.check_model(model)
    return model


def traced(
    module: nn.Module, inputs: Mapping[str, Tensor], outputs: Sequence[str], *, axes: Mapping[str, Mapping[int, str]]
) -> onnx.ModelProto:
    """Export ``module``, called with ``inputs`` in their order, by tracing it; ``axes``: the free sides of named tensors."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), _quiet(), _Plainly():
        warnings.simplefilter("ignore")
        file = Path(folder) / "exported.onnx"
        torch.onnx.export(
            module,
            tuple(inputs.values()),
            str(file),
            dynamo=False,
            opset_version=OPSET,
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_axes=dict(axes),
        )
        return onnx.load(file)


class _Plainly(TorchFunctionMode):
    """Runs some of torch's functions by plainer ones that give the same, while a module is traced.

    Filling where a condition holds does without the list of these places, as its length depends on the frame. Square patches that
    lie side by side become channels and back. Pooling to a grid is two products with constant matrices, for one size. Position
    embeddings, resized with antialiasing, become constants; where the frame is resized so, the comparison with the module fails.
    Positions to sample are cast to float32, as the exporter may have made them float64, which ONNX Runtime does not sample at.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.where and len(args) == 1:
            return args[0]
        if func is Tensor.__setitem__ and isinstance(args[1], Tensor) and args[1].dtype == torch.bool:
            filled, places, value = args
            return filled.masked_fill_(places[(..., *[None] * (filled.ndim - places.ndim))], torch.as_tensor(value))
        if func is nn.functional.adaptive_avg_pool2d and args[1] not in (1, (1, 1)):
            return grid_means(*args)
        if func is nn.functional.interpolate and kwargs.get("antialias"):
            return _constant(func(*args, **kwargs))
        if func is nn.functional.grid_sample:
            args = (args[0], args[1].double().float(), *args[2:])
        if func is nn.functional.unfold and (side := _side(args[1], kwargs)):
            return unfolded(args[0], side)
        if func is nn.functional.fold and (side := _side(args[2], kwargs)):
            return folded(args[0], args[1], side)
        return func(*args, **kwargs)


def _side(patch: int | tuple[int, int], options: Mapping[str, Any]) -> int:
    """Return the side of patches of ``fold`` and ``unfold`` that are square and lie side by side; 0 for others."""
    sides = {patch} if isinstance(patch, int) else {*patch}
    return sides.pop() if len(sides) == 1 and options == {"dilation": 1, "padding": 0, "stride": patch} else 0


def unfolded(x: Tensor, side: int) -> Tensor:
    """Return the square patches of ``x`` [n, c, h, w], side by side, as columns [n, c * pixels of a patch, patches]."""
    down, across = (length // side * side for length in x.shape[2:])
    return nn.functional.pixel_unshuffle(x[:, :, :down, :across], side).flatten(2)


def folded(columns: Tensor, size: tuple[int, int], side: int) -> Tensor:
    """Return the picture [n, c, h, w] of ``size`` (h, w) whose square patches are ``columns``; 0 where there is none."""
    down, across = (length // side for length in size)
    found = nn.functional.pixel_shuffle(columns.reshape(*columns.shape[:2], down, across), side)
    return nn.functional.pad(found, (0, size[1] - across * side, 0, size[0] - down * side))


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


def grid_means(x: Tensor, cells: int | Sequence[int | None]) -> Tensor:
    """Return the mean over each cell of a grid, as ``nn.AdaptiveAvgPool2d(cells)`` does, by two constant matrices."""
    wanted = (cells, cells) if isinstance(cells, int) else cells
    sides = [(int(side), cell or int(side)) for side, cell in zip(x.shape[2:], wanted, strict=True)]
    rows, columns = (
        _constant(nn.functional.adaptive_avg_pool1d(torch.eye(side)[None], cell)[0]) for side, cell in sides
    )
    return rows.T @ x @ columns


def _constant(x: Tensor) -> Tensor:
    """Return ``x`` without the operations that made it, which then are not exported."""
    return torch.from_numpy(x.detach().numpy().copy())


def _apart(module: nn.Module, model: onnx.ModelProto, size: Size, engine: Engine) -> float:
    """Return the largest difference of any output, as a share of its largest value."""
    running, largest = engine(whole(model, _PIXELS)), 0.0
    for image in (noise(size), picture(size)):
        try:
            with torch.inference_mode():
                made = module(torch.from_numpy(_PIXELS.normalised(image[None])))
        except Exception as error:  # modules raise what they like at a size that they can't take
            raise NetworkError(f"the network fails at {size[0]}x{size[1]}: {first_line(error)}") from error
        pairs = zip(running(image).values(), made if isinstance(made, tuple) else (made,), strict=True)
        largest = max(largest, *(apart(given, wanted.numpy()) for given, wanted in pairs))
    return largest
