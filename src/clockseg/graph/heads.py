"""Heads added to a network's graph: at a cut, a 1x1 convolution that turns features into score maps clocks can watch.

What the network had is left as it is, node for node; the heads stand behind it, and what they give follows its outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from clockseg.errors import NetworkError
from clockseg.graph import onnx_reader
from clockseg.graph.nodes import extended, inputs_of, renamed
from clockseg.graph.places import CHANNELS_FIRST, Grid, grids
from clockseg.graph.static import Static
from clockseg.types import Array, Size

PREFIX = "clockseg.scores."
"""What the score map of a head is called, before the stage's name."""
_FLOATS = {TensorProto.FLOAT: np.float32, TensorProto.FLOAT16: np.float16, TensorProto.DOUBLE: np.float64}
_BEFORE = "it was given heads before"
_REARRANGE = ("Transpose", "Reshape", "Squeeze", "Unsqueeze", "Identity", "Flatten")
"""What only rearranges numbers: from tokens [1, n, channels] to the map they are of."""


class FeatureMap(NamedTuple):
    """Features of a stage as a map [1, channels, h, w]: ``tensor``, and the nodes to be added that make it of the ``cut``."""

    stage: str
    cut: str
    tensor: str
    nodes: tuple[onnx.NodeProto, ...]
    channels: int
    kind: int


class Head(NamedTuple):
    """A 1x1 convolution on a feature map: ``weight`` [classes, channels], ``bias`` [classes]."""

    features: FeatureMap
    weight: Array
    bias: Array


def feature_map(model: onnx.ModelProto, static: Static, cut: str, *, size: Size, stage: str) -> FeatureMap:
    """Return tensor ``cut`` of ``stage`` as a map at the working size; NetworkError where it can't be one.

    A map lies in it as [1, channels, h, w], as [1, h, w, channels], or as tokens [1, h * w, channels] of which the network
    itself makes a map by nothing but rearranging. ``static``: ``model`` at that size.
    """
    kind, shape = static.types[cut]
    found = _grids(model, static)
    if kind in _FLOATS and _is_map(shape, size, found.get(cut)):
        return FeatureMap(stage, cut, cut, (), shape[1], kind)
    if kind not in _FLOATS:
        raise NetworkError(
            f"stage {stage!r}: its cut {cut!r} holds {TensorProto.DataType.Name(kind)}, and a head reads floats. Train heads on the "
            "network in float, and quantize that (clockseg quantize keeps its heads)."
        )
    if len(shape) == 4 and _is_map((1, shape[3], shape[1], shape[2]), size):
        name = _map_name(stage)
        node = helper.make_node("Transpose", [cut], [name], name=name, perm=[0, 3, 1, 2])
        return FeatureMap(stage, cut, name, (node,), shape[3], kind)
    chain = _to_map(static, cut, size, found)
    if not chain:
        raise NetworkError(
            f"stage {stage!r}: its cut {cut!r} has shape {list(shape)} at {size[0]}x{size[1]}, and the network makes no map "
            "[1, channels, h, w] of it by rearranging alone; a head is a convolution on a map. Cut where the features "
            "are one (clockseg inspect lists the candidates), or leave this stage out by --stage."
        )
    nodes = _copied(chain, cut, stage)
    return FeatureMap(stage, cut, nodes[-1].output[0], nodes, static.shape(chain[-1].output[0])[1], kind)


def _map_name(stage: str) -> str:
    return f"clockseg.map.{stage}"


def _grids(model: onnx.ModelProto, static: Static) -> dict[str, Grid]:
    """Return the grids of all tensors; the network's first input is the frame."""
    return grids(onnx_reader.neutral(static, inputs_of(model.graph)[0].name), static.shapes)


def _is_map(shape: Sequence[int], size: Size, grid: Grid | None = None) -> bool:
    """Return True for the shape [1, channels, h, w] of a map: about the same stride both ways, and no larger than the frame.

    ``grid``, where it is known, tells such a map from one with channels last, which may look alike.
    """
    if len(shape) != 4 or shape[0] != 1 or min(shape) < 1:
        return False
    if grid is not None and len(grid.axes) == 2 and grid.axes != CHANNELS_FIRST:
        return False
    down, across = size[1] / shape[2], size[0] / shape[3]
    return min(down, across) >= 1 and abs(down - across) <= 0.25 * max(down, across)


def _to_map(static: Static, cut: str, size: Size, known: Mapping[str, Grid]) -> list[onnx.NodeProto]:
    """Return the nodes that rearrange ``cut`` to a map, in order; none if the network has no such chain of nodes."""
    ways: list[tuple[str, list[onnx.NodeProto]]] = [(cut, [])]
    while ways:
        tensor, chain = ways.pop(0)
        for node in static.nodes:
            if node.op_type in _REARRANGE and node.input[0] == tensor and _fixed(static, node):
                longer = [*chain, node]
                if _is_map(static.shape(node.output[0]), size, known.get(node.output[0])):
                    return longer
                ways.append((node.output[0], longer))
    return []


def _fixed(static: Static, node: onnx.NodeProto) -> bool:
    return all(name in static.folded for name in node.input[1:] if name)


def _copied(chain: Sequence[onnx.NodeProto], cut: str, stage: str) -> tuple[onnx.NodeProto, ...]:
    """Return the chain once more, under names of its own: the network's own belongs to the next stage."""
    names = {node.output[0]: f"{_map_name(stage)}.{index}" for index, node in enumerate(chain)}
    nodes = renamed(chain, {cut: cut, **names})
    for node in nodes:
        node.name = node.output[0]
    return nodes


def with_maps(model: onnx.ModelProto, maps: Sequence[FeatureMap]) -> onnx.ModelProto:
    """Return a copy of ``model`` that also makes these maps."""
    return extended(model, [node for one in maps for node in one.nodes], why=_BEFORE)


def with_heads(model: onnx.ModelProto, heads: Sequence[Head]) -> onnx.ModelProto:
    """Return a copy of ``model`` with these heads; their score maps, called by ``score_name``, are its last outputs."""
    nodes = [node for head in heads for node in head.features.nodes]
    weights: list[TensorProto] = []
    outputs: list[onnx.ValueInfoProto] = []
    for head in heads:
        stage, kind = head.features.stage, head.features.kind
        given = {
            f"clockseg.head.{stage}.weight": head.weight[:, :, None, None].astype(_FLOATS[kind]),
            f"clockseg.head.{stage}.bias": head.bias.astype(_FLOATS[kind]),
        }
        weights += [numpy_helper.from_array(value, key) for key, value in given.items()]
        inputs, name = [head.features.tensor, *given], score_name(stage)
        nodes.append(helper.make_node("Conv", inputs, [name], name=f"clockseg.head.{stage}", kernel_shape=[1, 1]))
        outputs.append(helper.make_tensor_value_info(name, kind, [1, len(head.bias), None, None]))
    return extended(model, nodes, weights=weights, outputs=outputs, why=_BEFORE)


def score_name(stage: str) -> str:
    """Return the name of the score map of a stage's head.

    >>> score_name("stage1")
    'clockseg.scores.stage1'
    """
    return f"{PREFIX}{stage}"
