"""What an FCN costs at a size, from shapes alone: nothing is built or run."""

from __future__ import annotations

import math

from clockseg.graph.cost import Cost, multiply_adds
from clockseg.paper.fcn_geometry import sides
from clockseg.paper.fcn_layers import FCNShape, Layer, layers
from clockseg.types import Size

_OPERATORS = {"conv": "Conv", "deconv": "ConvTranspose"}


def costs(shape: FCNShape, size: Size) -> dict[str, Cost]:
    """The cost of each layer for a picture of ``size`` (width, height): multiply-adds, parameters, bytes of its map, traffic.

    The kernels of enlargements count as parameters of theirs, although they aren't learned.

    >>> costs(FCNShape(), (500, 500))["upscore2"]
    Cost(multiply_adds=86016, parameters=336, bytes=97104, moved=119952)
    """
    net = layers(shape)
    width, height = size
    across, down = sides(net, width), sides(net, height)
    found = {}
    for layer in net:
        before = layer.reads[0]
        read = (1, layer.inputs, down[before], across[before])
        made = (1, layer.outputs, down[layer.name], across[layer.name])
        weights = list(layer.weights.values())
        spent = multiply_adds(_OPERATORS[layer.kind], [read, weights[0]], made) if weights else 0
        learned, given = sum(map(math.prod, weights)), 4 * math.prod(made)
        reads = 4 * sum(layer.inputs * down[name] * across[name] for name in _read(layer))
        found[layer.name] = Cost(spent, learned, given, reads + 4 * learned + given)
    return found


def _read(layer: Layer) -> tuple[str, ...]:
    """Of a crop, what it is cut from; the other gives its size alone."""
    return layer.reads[:1] if layer.kind == "crop" else layer.reads


def stage_costs(shape: FCNShape, size: Size) -> dict[str, Cost]:
    """The cost of each stage, and under "fuse" of what runs on every frame; enlargements apart, under their names.

    >>> stage_costs(FCNShape(), (500, 500))["pool3"].multiply_adds
    90942640896
    """
    found: dict[str, Cost] = {}
    by_layer = costs(shape, size)
    for layer in layers(shape):
        part = layer.name if layer.kind == "deconv" else layer.stage
        found[part] = found.get(part, Cost()) + by_layer[layer.name]
    return found
