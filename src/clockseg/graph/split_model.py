"""A network's file with its concatenations split (``split``): for what works on files, such as quantization.

Products whose weights are in 8 bits can't be split any more when the network is cut, so they are split before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import onnx

from clockseg.graph import onnx_reader
from clockseg.graph.folding import folded, keep_nodes
from clockseg.graph.onnx_split import applied
from clockseg.graph.sidecar import Sidecar
from clockseg.graph.split import Split, splits
from clockseg.graph.static import fix
from clockseg.types import Size


def split_model(model: onnx.ModelProto, said: Sidecar, size: Size) -> onnx.ModelProto:
    """A copy of ``model`` that computes the same, split as it would be when it is cut as ``said`` says; sizes stay free.

    Planned at the working size ``size``. Without anything to split, the network as it is.
    """
    model = folded(model)
    width, height = size
    static = fix(model, {said.input.name: (1, 3, height, width)}, floats=[said.output, *filter(None, said.scores)])
    graph = onnx_reader.neutral(static, said.input.name)
    plan = splits(graph, said.cuts, output=said.output, shapes=static.shapes)
    if not plan or not _there(model, plan):
        return model
    # Of the graph at one size come only the shapes; what computes sizes stays.
    weights = {weight.name: weight for weight in model.graph.initializer}
    done = applied(replace(static, nodes=list(model.graph.node), weights=weights), plan)
    keep_nodes(model.graph, done.nodes, done.weights)
    del model.graph.value_info[:]
    onnx.checker.check_model(model)
    return model


def _there(model: onnx.ModelProto, plan: Sequence[Split]) -> bool:
    """Whether the file has the nodes by these names: those inside an If have others."""
    names = {node.name for node in model.graph.node}
    return {name for split in plan for name in (split.product, *split.between)} <= names
