"""Small edits of an ONNX graph that make frames its input and labels its output; the result is checked later."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from clockseg.graph.nodes import copied
from clockseg.types import Size

NEAR = "clockseg.input"
"""Name of the network's own input behind a transpose."""


def read_channels_first(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """Change the input ``name`` of ``model`` from [n, h, w, 3] to [n, 3, h, w]."""
    model = copied(model)
    for node in model.graph.node:
        for index, read in enumerate(node.input):
            if read == name:
                node.input[index] = NEAR
    [value] = [value for value in model.graph.input if value.name == name]
    dims = value.type.tensor_type.shape.dim
    batch, height, width, channels = (
        onnx.TensorShapeProto.Dimension.FromString(dim.SerializeToString()) for dim in dims
    )
    del dims[:]
    dims.extend([batch, channels, height, width])
    model.graph.node.insert(0, helper.make_node("Transpose", [name], [NEAR], name=NEAR, perm=[0, 2, 3, 1]))
    return model


def one_frame(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """Change a fixed batch of ``model`` to one; recorded shapes are dropped."""
    model = copied(model)
    [value] = [value for value in model.graph.input if value.name == name]
    value.type.tensor_type.shape.dim[0].dim_value = 1
    del model.graph.value_info[:]
    for output in model.graph.output:
        for dim in output.type.tensor_type.shape.dim[:1]:
            dim.Clear()
    return model


def of_size(model: onnx.ModelProto, name: str, size: Size) -> onnx.ModelProto:
    """Return ``model`` with its input ``name``, [n, 3, h, w], fixed to ``size`` (width, height)."""
    model = copied(model)
    [value] = [value for value in model.graph.input if value.name == name]
    for dim, side in zip(value.type.tensor_type.shape.dim[2:], reversed(size), strict=True):
        dim.dim_value = side
    return model


def batched(model: onnx.ModelProto, name: str, batch: int, output: str) -> onnx.ModelProto:
    """Change ``model``, of a fixed ``batch``, to read one frame, repeat it over the batch, and return the first output."""
    model = one_frame(model, name)
    tiled, last = f"{name}.tiled", f"{output}.batch"
    for node in model.graph.node:
        node.input[:] = [tiled if read == name else read for read in node.input]
        node.output[:] = [last if made == output else made for made in node.output]
    constants = {
        f"{tiled}.repeats": np.array([batch, 1, 1, 1], np.int64),
        f"{output}.start": np.array([0], np.int64),
        f"{output}.end": np.array([1], np.int64),
        f"{output}.axis": np.array([0], np.int64),
    }
    model.graph.initializer.extend(numpy_helper.from_array(value, key) for key, value in constants.items())
    model.graph.node.insert(0, helper.make_node("Tile", [name, f"{tiled}.repeats"], [tiled], name=tiled))
    ends = [last, *(key for key in constants if key.startswith(f"{output}."))]
    model.graph.node.append(helper.make_node("Slice", ends, [output], name=f"{output}.first"))
    return model


def appended(model: onnx.ModelProto, nodes: Sequence[onnx.NodeProto], kind: int) -> onnx.ModelProto:
    """Append ``nodes`` to ``model``; the last one makes another output, [n, c, h, w] of the element type ``kind``."""
    model = copied(model)
    model.graph.node.extend(nodes)
    free = [None, None, None, None]
    model.graph.output.append(helper.make_tensor_value_info(nodes[-1].output[0], kind, free))
    return model


def channels_first(tensor: str, name: str) -> list[onnx.NodeProto]:
    """Make a node from ``tensor`` [n, h, w, c] to ``name`` [n, c, h, w]."""
    return [helper.make_node("Transpose", [tensor], [name], name=name, perm=[0, 3, 1, 2])]


def above_zero(tensor: str, name: str) -> list[onnx.NodeProto]:
    """Make nodes from ``tensor``, floats, to ``name``, uint8: 1 where it is above 0."""
    zero, sign = f"{name}.zero", f"{name}.above"
    value = numpy_helper.from_array(np.zeros((), np.float32), zero)
    return [
        helper.make_node("Cast", [tensor], [f"{name}.float"], name=f"{name}.float", to=TensorProto.FLOAT),
        helper.make_node("Constant", [], [zero], name=zero, value=value),
        helper.make_node("Greater", [f"{name}.float", zero], [sign], name=sign),
        helper.make_node("Cast", [sign], [name], name=name, to=TensorProto.UINT8),
    ]
