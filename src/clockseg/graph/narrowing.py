"""Weights kept in 16 bits, in half the bytes; they are widened as the network is loaded, and it computes as before."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SMALLEST = 256
"""Weights of fewer numbers stay as they are: shifts, sizes, scales."""


def narrowed(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of ``model`` whose float32 weights are stored as float16, each with a cast behind it.

    A weight that holds numbers beyond what float16 can (65504) stays as it is.

    >>> weight = numpy_helper.from_array(np.full(300, 0.1, np.float32), "w")
    >>> ends = [helper.make_tensor_value_info(name, 1, [300]) for name in "xy"]
    >>> graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", ends[:1], ends[1:], [weight])
    >>> [node.op_type for node in narrowed(helper.make_model(graph)).graph.node]
    ['Cast', 'Add']
    """
    made = onnx.ModelProto()
    made.CopyFrom(model)
    casts = []
    for weight in made.graph.initializer:
        if weight.data_type != TensorProto.FLOAT or np.prod(weight.dims) < SMALLEST:
            continue
        values = numpy_helper.to_array(weight)
        if np.abs(values).max() > np.finfo(np.float16).max:
            continue
        name = weight.name
        weight.CopyFrom(numpy_helper.from_array(values.astype(np.float16), f"{name}.half"))
        casts.append(helper.make_node("Cast", [f"{name}.half"], [name], to=TensorProto.FLOAT))
    nodes = [*casts, *model.graph.node]
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    onnx.checker.check_model(made)
    return made
