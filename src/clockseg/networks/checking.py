"""Pictures on which two forms of a network are compared, a network as it is in a file, and the difference of two outputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx

from clockseg.clockwork.network import StagedNetwork
from clockseg.errors import NetworkError
from clockseg.graph.part import IMAGE, tensors
from clockseg.graph.sidecar import Input, Sidecar
from clockseg.graph.staged import staged_whole
from clockseg.libraries import opencv
from clockseg.types import Array, Image, Size

TOLERANCE = 1e-4
"""Largest difference of any number, as a share of the largest."""

_DISCS = 600


def noise(size: Size) -> Image:
    """Draw a frame of noise, always the same."""
    return np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)


def picture(size: Size) -> Image:
    """Draw a frame of overlapping discs of all sizes, always the same: flat areas and edges, as in photographs.

    Radii r are drawn with a density of 1 / r^3, which makes it look alike at every scale (the "dead leaves" model).
    """
    width, height = size
    random = np.random.default_rng(1)
    found = np.full((height, width, 3), 128, np.uint8)
    small, large = max(1.0, 0.01 * width), max(2.0, 0.25 * width)
    for place in random.random(_DISCS):
        radius = 1 / np.sqrt((1 - place) / small**2 + place / large**2)
        column, row = (random.random(2) * size).astype(int).tolist()
        colour = 128 + 55 * (0.85 * random.standard_normal() + 0.5 * random.standard_normal(3))
        opencv().circle(found, (column, row), int(radius), np.clip(colour, 0, 255).tolist(), opencv().FILLED)
    return found


def whole(model: onnx.ModelProto, reads: Input) -> StagedNetwork:
    """Return ``model``, from frames at their own size to its raw outputs by name, as an uncompiled network of one stage."""
    outputs = tuple(value.name for value in model.graph.output)
    net = staged_whole(model, Sidecar("whole", reads, outputs[0], (outputs,)), outputs)
    return replace(net, prepare=lambda image: {IMAGE: image[None]}, restore=lambda value, image: tensors(value))


def apart(ours: Array, theirs: Array) -> float:
    """Return the largest difference of two outputs as a share of the largest of ``theirs``; of ids, the share of unequal ones.

    ``NetworkError`` if the numbers are not finite.
    """
    if ours.shape != theirs.shape:
        raise NetworkError(f"in parts the network gives {list(ours.shape)}, whole {list(theirs.shape)}.")
    if theirs.dtype.kind != "f":
        return float((ours != theirs).mean())
    if not np.isfinite(theirs).all():
        raise NetworkError(
            "the network outputs NaN or infinity, so nothing can be compared: is the normalisation of frames right (--mean, "
            "--std, --scale), and does the network work in other programs?"
        )
    return float(np.abs(ours.astype(np.float64) - theirs).max()) / max(float(np.abs(theirs).max()), 1e-30)
