"""A network of one stage that tells bright (1) from dark (0): its labels show what was in the picture, and in which."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from clockseg.graph.sidecar import Input, Sidecar, write

_SIDECAR = Sidecar(
    name="bright",
    input=Input("input", 192, 128, scale=1 / 255, pad_multiple=8),
    output="scores",
    cuts=(("grey",),),
    stages=("grey",),
    scores=("scores",),
    classes=("dark", "bright"),
    palette=((0, 0, 128), (255, 200, 0)),
    ignore=255,
    schedule="frame_oracle",
)
_MIDDLE = 0.44
"""What divides bright from dark, of white."""


def write_bright(folder: Path) -> Path:
    """The network and its sidecar in ``folder``; the ONNX file's path."""
    weights = {
        "third": np.full((1, 3, 1, 1), 1 / 3, np.float32),
        "sign": np.array([-1, 1], np.float32).reshape(2, 1, 1, 1),
        "border": np.array([_MIDDLE, -_MIDDLE], np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["input", "third"], ["grey"], name="grey"),
        helper.make_node("Conv", ["grey", "sign", "border"], ["scores"], name="scores"),
    ]
    graph = helper.make_graph(
        nodes,
        "bright",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, [1, 3, "h", "w"])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 2, None, None])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    path = folder / "bright.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    write(_SIDECAR, path.with_suffix(".json"))
    return path
