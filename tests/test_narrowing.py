"""Weights in 16 bits: half the bytes, the same network."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from clockseg.graph.nodes import folded
from recipes.street.half_precision import narrowed


def product(weight: np.ndarray) -> onnx.ModelProto:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 32]) for name in "xy"]
    weights = [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(np.float32([1]), "shift")]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Add", ["h", "shift"], ["y"])]
    return helper.make_model(
        helper.make_graph(nodes, "g", ends[:1], ends[1:], weights), opset_imports=[helper.make_opsetid("", 17)]
    )


def test_weights_are_half_as_large_and_what_they_give_is_close() -> None:
    rng = np.random.default_rng(0)
    model = product(rng.standard_normal((32, 32), np.float32))
    found = narrowed(model)
    assert {weight.name: weight.data_type for weight in found.graph.initializer} == {
        "w.half": TensorProto.FLOAT16,
        "shift": TensorProto.FLOAT,
    }
    x = rng.standard_normal((1, 32), np.float32)
    [here], [there] = (ReferenceEvaluator(one).run(None, {"x": x}) for one in (model, found))
    assert 0 < np.abs(here - there).max() < 1e-2 * np.abs(here).max()
    assert [node.op_type for node in folded(found).graph.node] == ["MatMul", "Add"]
    assert len(model.graph.node) == 2


def test_what_16_bits_cannot_hold_stays() -> None:
    weight = np.full((32, 32), 1e6, np.float32)
    [kept, _] = narrowed(product(weight)).graph.initializer
    assert np.array_equal(numpy_helper.to_array(kept), weight)
