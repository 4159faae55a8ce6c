"""Heads added to a network's graph: at a cut, a 1x1 convolution that turns features into score maps clocks can watch.

What the network had is left as it is, node for node; the heads stand behind it, and what they give follows its outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from clockseg.errors import NetworkError
from clockseg.graph import onnx_reader
from clockseg.graph.nodes import extended, inputs_of
from clockseg.graph.places import CHANNELS_FIRST, CHANNELS_LAST, grids
from clockseg.graph.static import Static
from clockseg.types import Array

PREFIX = "clockseg.scores."
"""What the score map of a head is called, before the stage's name."""
_FLOATS = {TensorProto.FLOAT: np.float32, TensorProto.FLOAT16: np.float16, TensorProto.DOUBLE: np.float64}
_BEFORE = "it was given heads before"


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


def feature_map(model: onnx.ModelProto, static: Static, cut: str, *, stage: str) -> FeatureMap:
    """Return tensor ``cut`` of ``stage`` as a map; NetworkError where it is none, as [1, channels, h, w] or [1, h, w, channels].

    ``static``: ``model``, whose first input is the frame, at a working size.
    """
    kind, shape = static.types[cut]
    if kind not in _FLOATS:
        raise NetworkError(
            f"stage {stage!r}: its cut {cut!r} holds {TensorProto.DataType.Name(kind)}, and a head reads floats. Train heads on the "
            "network in float, and quantize that (clockseg quantize keeps its heads)."
        )
    grid = grids(onnx_reader.neutral(static, inputs_of(model.graph)[0].name), static.shapes).get(cut)
    axes = None if grid is None else grid.axes
    if axes == CHANNELS_FIRST:
        return FeatureMap(stage, cut, cut, (), shape[1], kind)
    if axes == CHANNELS_LAST:
        name = f"clockseg.map.{stage}"
        node = helper.make_node("Transpose", [cut], [name], name=name, perm=[0, 3, 1, 2])
        return FeatureMap(stage, cut, name, (node,), shape[3], kind)
    raise NetworkError(
        f"stage {stage!r}: its cut {cut!r} has shape {list(shape)}, which is no map [1, channels, h, w]; a head is a "
        "convolution on a map. Cut where the features are one (clockseg inspect lists the candidates), or leave this stage "
        "out by --stage."
    )


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
