"""How deep in a network its stages end, as the paper counts: layers that have a window or weights, from the frame on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx

from clockseg.clockwork.network import StagedNetwork
from clockseg.graph.part import GraphPart
from clockseg.types import Size

LAYERS = ("Conv", "ConvTranspose", "MaxPool", "AveragePool", "GlobalAveragePool", "Gemm", "MatMul")
"""Convolutions, poolings and products count; activations, sums and resizing don't."""


def depths(net: StagedNetwork, size: Size) -> tuple[int, ...]:
    """For each stage the index, from 0, of its last layer on the longest way from the frame to where it is cut.

    VGG-16's pool3, pool4 and fc7 are layers 9, 13 and 19 (paper, Table 1). ``net``: uncompiled, from
    ``load(.., engine=None)``; ``size``: a working size. Empty for a network whose bodies are no graphs.
    """
    bodies = [stage.body for stage in net.stages if isinstance(stage.body, GraphPart)]
    return tuple(_depths(bodies, size)) if len(bodies) == len(net) else ()


def _depths(bodies: Iterable[GraphPart], size: Size) -> Iterator[int]:
    passed: dict[str, int] = {}
    for body in bodies:
        built = body.build(size)
        graph = onnx.load_model_from_string(built.model).graph
        inside = {own: passed.get(name, 0) for own, name in zip(built.inputs, body.read_by(built), strict=True)}
        inside = layers_passed(graph.node, inside)
        ends = {name: inside.get(own, 0) for own, name in zip(built.outputs, body.made, strict=True)}
        # The first of a body's outputs is the trunk, whatever heads hang on it.
        yield ends[body.made[0]] - 1
        passed |= ends


def layers_passed(nodes: Iterable[onnx.NodeProto], passed: dict[str, int]) -> dict[str, int]:
    """For each tensor, how many layers lie on the longest way to it; ``passed``: for those that are given.

    >>> node = onnx.helper.make_node
    >>> layers_passed([node("Conv", ["x", "w"], ["a"]), node("Relu", ["a"], ["b"]), node("MaxPool", ["b"], ["c"])], {})
    {'a': 1, 'b': 1, 'c': 2}
    """
    found = dict(passed)
    for node in nodes:  # ONNX keeps them in topological order
        before = max((found.get(name, 0) for name in node.input), default=0)
        found |= dict.fromkeys(node.output, before + (node.op_type in LAYERS))
    return found
