"""The check that a cut network gives the output of the uncut one, on pictures and in an engine, before it is kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import onnx

from clockseg.clockwork.network import StagedNetwork, as_it_is
from clockseg.errors import NetworkError
from clockseg.graph.part import IMAGE, tensors
from clockseg.graph.sidecar import MOST_CLASSES, Input, Sidecar
from clockseg.graph.static import Static
from clockseg.graph.whole import staged_whole
from clockseg.types import Array, Image, Size

TOLERANCE = 1e-4
"""Largest difference of any number, as a share of the largest."""
HALF_TOLERANCE = 1e-2
"""The same of networks that compute in 16 bits: each map is rounded, and engines round in other places than in the whole."""
UNEQUAL_IDS = 1e-3
"""Share of pixels whose class ids may differ, where ids are all that a network gives."""

_DISCS = 600
_HALVES = (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)


def noise(size: Size) -> Image:
    """Draw a frame of noise, always the same."""
    return np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)


def picture(size: Size) -> Image:
    """Draw a frame of overlapping discs of all sizes, always the same: flat areas and edges, as in photographs.

    Radii r are drawn with a density of 1 / r^3, which makes it look alike at every scale (the "dead leaves" model).

    >>> picture((64, 48)).shape, bool(picture((64, 48)).std() > 30)
    ((48, 64, 3), True)
    """
    width, height = size
    random = np.random.default_rng(1)
    found = np.full((height, width, 3), 128, np.uint8)
    small, large = max(1.0, 0.01 * width), max(2.0, 0.25 * width)
    for place in random.random(_DISCS):
        radius = 1 / np.sqrt((1 - place) / small**2 + place / large**2)
        column, row = random.random(2) * size
        colour = 128 + 55 * (0.85 * random.standard_normal() + 0.5 * random.standard_normal(3))
        left, top = max(0, int(column - radius)), max(0, int(row - radius))
        window = found[top : int(row + radius) + 2, left : int(column + radius) + 2]
        rows, columns = np.ogrid[top : top + window.shape[0], left : left + window.shape[1]]
        window[(columns - column) ** 2 + (rows - row) ** 2 <= radius**2] = np.clip(colour, 0, 255)
    return found


def whole(model: onnx.ModelProto, reads: Input) -> StagedNetwork:
    """Return ``model``, from frames at their own size to its raw outputs by name, as an uncompiled network of one stage."""
    outputs = tuple(value.name for value in model.graph.output)
    net = staged_whole(model, Sidecar("whole", reads, outputs[0], (outputs,)), outputs)
    return replace(net, prepare=lambda image: {IMAGE: image[None]}, restore=lambda value, image: tensors(value))


def in_half_precision(static: Static) -> bool:
    """Return True if the graph computes any 16-bit float."""
    made = {name for node in static.nodes for name in node.output}
    return any(static.types[name][0] in _HALVES for name in made & static.types.keys())


def check_cut(
    net: StagedNetwork, images: Iterable[Image], *, tolerance: float | None = None, classes: int = 0
) -> float:
    """Compare ``net``, which gives raw outputs, with itself uncut, and return how far they are ``apart``.

    ``NetworkError`` beyond ``tolerance`` (default: ``TOLERANCE``), for class ids ``UNEQUAL_IDS``; and where the network gives
    an id beyond its named ``classes`` (0: not checked).
    """
    tolerance = TOLERANCE if tolerance is None else tolerance
    bare = replace(net, restore=as_it_is)
    found = 0.0
    for image in images:
        ours, theirs = _array(bare(image)), _array(bare.uncut()(image))
        found = max(found, apart(ours, theirs))
        if theirs.dtype.kind in "iu":
            tolerance = UNEQUAL_IDS
            if classes:
                _check_ids(theirs, classes)
    if not found <= tolerance:
        raise NetworkError(
            f"the network in stages does not give the output of the whole: {found:.1e} of the largest value, or of the class ids, "
            "is the difference. That is a fault of the cut rule or of the engine: try another --engine or other cuts, and "
            "report it. Nothing was written."
        )
    return found


def _check_ids(ids: Array, classes: int) -> None:
    """Check that each of ``ids`` has a name; 255 stands for no class."""
    nameless = ids[(ids >= classes) & (ids != MOST_CLASSES)]
    if nameless.size:
        raise NetworkError(
            f"the network gives the id {int(nameless.max())}, and {classes} classes are named, 0 to {classes - 1}: give a "
            f"--classes FILE with a name for each id ({MOST_CLASSES} stands for no class)."
        )


def apart(ours: Array, theirs: Array) -> float:
    """Return the largest difference of two outputs as a share of the largest of ``theirs``; of ids, the share of unequal ones.

    ``NetworkError`` if the numbers are not finite.

    >>> apart(np.array([[1.0, 2.0]]), np.array([[1.0, 2.5]])), apart(np.array([1, 2]), np.array([1, 1]))
    (0.2, 0.5)
    """
    if ours.shape != theirs.shape:
        raise NetworkError(f"in parts the network gives {list(ours.shape)}, whole {list(theirs.shape)}.")
    if theirs.dtype.kind != "f":
        return float((ours != theirs).mean())
    if not np.isfinite(theirs).all():
        raise NetworkError(
            "the network outputs NaN or infinity for a plain picture, so nothing can be "
            "compared: are --mean, --std and --scale right, and does the file work in other programs?"
        )
    return float(np.abs(ours.astype(np.float64) - theirs).max()) / max(float(np.abs(theirs).max()), 1e-30)


def _array(value: dict[str, Array]) -> Array:
    [found] = tensors(value).values()
    return found
