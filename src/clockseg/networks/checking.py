"""The check that a cut network gives the output of the uncut one, on pictures and in an engine, before it is kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import onnx

from clockseg.clockwork.network import Stage, StagedNetwork, as_it_is
from clockseg.errors import NetworkError
from clockseg.graph.extraction import built, extract, with_frame
from clockseg.graph.part import IMAGE, Built, GraphPart, tensors
from clockseg.graph.sidecar import MOST_CLASSES, Input
from clockseg.graph.static import Static, fix
from clockseg.types import Array, Image, Size

TOLERANCE = 1e-4
"""Largest difference of any number, as a share of the largest."""
HALF_TOLERANCE = 1e-2
"""The same of networks that compute in 16 bits: each map is rounded, and engines round in other places than in the whole."""
UNEQUAL_IDS = 1e-3
"""Share of pixels whose class ids may differ, where ids are all that a network gives."""

_DISCS = 600
_HALVES = (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)


class Apart(NamedTuple):
    """The difference of two outputs; see ``apart``."""

    difference: float
    labels: float

    def worst(self, other: Apart) -> Apart:
        """Return the larger of each difference."""
        return Apart(max(self.difference, other.difference), max(self.labels, other.labels))


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


def whole(model: onnx.ModelProto, reads: Input, output: str) -> StagedNetwork:
    """Return ``model``, from frames at their own size to its raw ``output``, as an uncompiled network of one stage."""

    def build(size: Size) -> Built:
        static = fix(model, {reads.name: (1, 3, size[1], size[0])}, floats=[output])
        return built(with_frame(extract(static, (reads.name,), (output,), name="whole"), reads.name, reads))

    return StagedNetwork(
        "whole",
        (Stage("whole", GraphPart("whole", (IMAGE,), (output,), build), scores=None),),
        prepare=lambda image: {IMAGE: image[None]},
        restore=lambda value, image: _array(value),
    )


def in_half_precision(static: Static) -> bool:
    """Return True if the graph computes any 16-bit float."""
    made = {name for node in static.nodes for name in node.output}
    return any(static.types[name][0] in _HALVES for name in made & static.types.keys())


def check_cut(
    net: StagedNetwork, images: Iterable[Image], *, tolerance: float | None = None, classes: int = 0
) -> Apart:
    """Compare ``net``, which gives raw outputs, with itself uncut; ``NetworkError`` beyond the tolerance.

    ``tolerance``: the largest difference, as a share of the largest value (default: ``TOLERANCE``). ``classes``: the number
    of named classes; ``NetworkError`` where the network gives an id beyond them (0: not checked).
    """
    tolerance = TOLERANCE if tolerance is None else tolerance
    bare = replace(net, restore=as_it_is)
    found = Apart(0.0, 0.0)
    for image in images:
        ours, theirs = _array(bare(image)), _array(bare.uncut()(image))
        found = found.worst(apart(ours, theirs, tolerance))
        if classes and theirs.dtype.kind in "iu":
            _check_ids(theirs, classes)
    if not (found.difference <= tolerance and found.labels <= UNEQUAL_IDS):
        raise NetworkError(
            f"the network in stages does not give the output of the whole: they are {found.difference:.1e} of the largest value apart, "
            f"{100 * found.labels:.2f} % of labels unequal. That is a fault of the cut rule or of the engine: try another "
            "--engine or other cuts, and report it. Nothing was written."
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


def apart(ours: Array, theirs: Array, tolerance: float = TOLERANCE) -> Apart:
    """Compare two outputs: the largest difference as a share of the largest of ``theirs``, and the share of unequal labels.

    Scores [1, classes, h, w]: labels whose margin is within the tolerance are not counted. Ids: all are counted, and the
    difference is 0. ``NetworkError`` if the numbers are not finite.

    >>> apart(np.array([[[[1.0]], [[2.0]]]]), np.array([[[[1.0]], [[2.5]]]]))
    Apart(difference=0.2, labels=0.0)
    >>> apart(np.array([[1, 2]]), np.array([[1, 1]]))
    Apart(difference=0.0, labels=0.5)
    """
    if ours.shape != theirs.shape:
        raise NetworkError(f"in parts the network gives {list(ours.shape)}, whole {list(theirs.shape)}.")
    if theirs.dtype.kind != "f":
        return Apart(0.0, float((ours != theirs).mean()))
    if not np.isfinite(theirs).all():
        raise NetworkError(
            "the network outputs NaN or infinity for a plain picture, so nothing can be "
            "compared: are --mean, --std and --scale right, and does the file work in other programs?"
        )
    largest = max(float(np.abs(theirs).max()), 1e-30)
    difference = float(np.abs(ours.astype(np.float64) - theirs).max()) / largest
    return Apart(difference, _unequal(ours, theirs, tolerance * largest))


def _unequal(ours: Array, theirs: Array, margin: float) -> float:
    if theirs.ndim != 4 or theirs.shape[1] < 2:
        return 0.0
    second, first = np.sort(np.partition(theirs, -2, axis=1)[:, -2:], axis=1).swapaxes(0, 1)
    sure = first - second > margin
    return float((ours.argmax(axis=1) != theirs.argmax(axis=1))[sure].mean()) if sure.any() else 0.0


def _array(value: dict[str, Array]) -> Array:
    [found] = tensors(value).values()
    return found
