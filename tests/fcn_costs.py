"""Sizes and costs of an FCN's layers by hand, from the list of layers, to check those that are read from its graph."""

from __future__ import annotations

import math
from collections.abc import Iterable

from clockseg.graph.cost import Cost, multiply_adds
from clockseg.paper.fcn import FCNShape, Layer, layers
from clockseg.types import Size


def sides(net: Iterable[Layer], side: int) -> dict[str, int]:
    """Return the side of each map for a picture of ``side`` pixels, by layer; poolings round up, as Caffe's do."""
    found = {"data": side}
    for layer in net:
        before = found[layer.reads[0]]
        if layer.kind in ("crop", "fuse"):
            found[layer.name] = found[layer.reads[1]]
        elif layer.kind == "deconv":
            found[layer.name] = layer.stride * (before - 1) + layer.kernel - 2 * layer.pad
        else:
            room = before + 2 * layer.pad - layer.kernel
            found[layer.name] = 1 + (-(-room // layer.stride) if layer.kind == "pool" else room // layer.stride)
    return found


def stage_costs(shape: FCNShape, size: Size) -> dict[str, Cost]:
    """Return the multiply-adds and parameters of each stage, of "fuse", and of each enlargement under its own name."""
    net = layers(shape)
    across, down = (sides(net, side) for side in size)
    found: dict[str, Cost] = {}
    cuts = iter(shape.cuts)
    stage = next(cuts)
    for layer in net:
        weights = list(layer.weights.values())
        read, made = (
            (1, channels, down[name], across[name])
            for channels, name in ((layer.inputs, layer.reads[0]), (layer.outputs, layer.name))
        )
        operator = "ConvTranspose" if layer.kind == "deconv" else "Conv"
        spent = multiply_adds(operator, [read, weights[0]], made) if weights else 0
        part = layer.name if layer.kind == "deconv" else stage
        found[part] = found.get(part, Cost()) + Cost(spent, sum(map(math.prod, weights)))
        if layer.name.startswith("score_"):  # the head, with which a stage ends
            stage = next(cuts, "fuse")
    return found
