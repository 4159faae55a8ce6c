"""Networks that mean harm: graphs of ``networks.tiny`` changed at random, and some made for one weak spot each."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import networks

SIZES = (0, -1, 1, 2, 7, 1 << 16, 1 << 31, 1 << 40, (1 << 62) + 1, (1 << 63) - 1, -(1 << 63))
OPERATORS = tuple(sorted({schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""}))


def changed_graph(chance: random.Random) -> onnx.ModelProto:
    """``networks.tiny`` after one to three changes of its nodes, weights, inputs or what it says of itself."""
    model = networks.tiny()
    for _ in range(chance.choice((1, 1, 2, 3))):
        with suppress(IndexError, ValueError):  # nothing is left to change
            _CHANGES[chance.randrange(len(_CHANGES))](model, chance)
    return model


def _rewire(model: onnx.ModelProto, chance: random.Random) -> None:
    """A node reads something else: perhaps what it makes itself."""
    node = chance.choice(model.graph.node)
    names = [name for one in model.graph.node for name in (*one.input, *one.output)]
    node.input[chance.randrange(len(node.input))] = chance.choice([*names, "", "nowhere"])


def _rename(model: onnx.ModelProto, chance: random.Random) -> None:
    """A node makes what another makes."""
    node, other = chance.choice(model.graph.node), chance.choice(model.graph.node)
    node.output[0] = chance.choice([other.output[0], node.input[0], "", "a" * 5000, "../x", "\x1b[2J", "é\n"])


def _operator(model: onnx.ModelProto, chance: random.Random) -> None:
    node = chance.choice(model.graph.node)
    node.op_type = chance.choice((*OPERATORS, "", "NoSuch", "../x"))
    if chance.random() < 0.5:
        del node.attribute[:]


def _attribute(model: onnx.ModelProto, chance: random.Random) -> None:
    node = chance.choice([one for one in model.graph.node if one.attribute])
    entry = chance.choice(node.attribute)
    if entry.ints and chance.random() < 0.8:
        entry.ints[chance.randrange(len(entry.ints))] = chance.choice(SIZES)
    elif chance.random() < 0.5:
        entry.i = chance.choice(SIZES)
    else:
        entry.type = chance.randrange(0, 15)


def _weight(model: onnx.ModelProto, chance: random.Random) -> None:
    weight = chance.choice(model.graph.initializer)
    what = chance.randrange(4)
    if what == 0 and weight.dims:
        weight.dims[chance.randrange(len(weight.dims))] = chance.choice(SIZES)
    elif what == 1:
        weight.dims.append(chance.choice(SIZES))
    elif what == 2:
        weight.data_type = chance.randrange(0, 30)
    else:
        weight.raw_data = weight.raw_data[: chance.randrange(len(weight.raw_data) + 1)]


def _value(model: onnx.ModelProto, chance: random.Random) -> None:
    """A weight of whole numbers, such as the sizes of a Resize, says something else."""
    found = [one for one in model.graph.initializer if one.data_type == TensorProto.INT64]
    weight = chance.choice(found)
    values = [chance.choice(SIZES) for _ in numpy_helper.to_array(weight).ravel()]
    weight.raw_data = np.array(values, np.int64).tobytes()


def _input(model: onnx.ModelProto, chance: random.Random) -> None:
    shape = model.graph.input[0].type.tensor_type.shape
    what = chance.randrange(3)
    if what == 0:
        shape.dim.add().dim_value = chance.choice(SIZES)
    elif what == 1:
        chance.choice(shape.dim).dim_value = chance.choice(SIZES)
    else:
        model.graph.input[0].type.tensor_type.elem_type = chance.randrange(0, 30)


def _remove(model: onnx.ModelProto, chance: random.Random) -> None:
    where = chance.choice((model.graph.node, model.graph.initializer, model.graph.output, model.graph.input))
    if len(where):
        del where[chance.randrange(len(where))]


def _double(model: onnx.ModelProto, chance: random.Random) -> None:
    where = chance.choice((model.graph.node, model.graph.initializer, model.graph.output, model.graph.input))
    if len(where):
        where.append(chance.choice(where))


def _version(model: onnx.ModelProto, chance: random.Random) -> None:
    versions = (0, 1, 5, 7, 9, 11, 13, 21, 99, 1 << 31, -1)
    if chance.random() < 0.7:
        model.opset_import[0].version = chance.choice(versions)
    elif chance.random() < 0.5:
        model.ir_version = chance.choice((0, 1, 3, 10, 99, 1 << 40))
    else:
        model.opset_import[0].domain = chance.choice(("x", "ai.onnx.ml", "../x"))


def _inserted(model: onnx.ModelProto, chance: random.Random) -> None:
    """Something new between a tensor and those that read it."""
    name = chance.choice([one.output[0] for one in model.graph.node])
    made = chance.choice(tuple(HOSTILE.values()))(name, "changed")
    for one in model.graph.node:
        one.input[:] = ["changed" if read == name and chance.random() < 0.7 else read for read in one.input]
    model.graph.node.extend(made)


_CHANGES = (
    *(_rewire, _rename, _operator, _attribute, _attribute, _weight, _value, _value, _input, _remove, _double, _version),
    *(_inserted, _inserted),
)


def _constant(name: str, values: list[int]) -> onnx.NodeProto:
    value = numpy_helper.from_array(np.array(values, np.int64))
    return helper.make_node("Constant", [], [name], value=value)


def _tiled(x: str, y: str) -> list[onnx.NodeProto]:
    return [_constant("times", [1, 1, 1 << 20, 1 << 20]), helper.make_node("Tile", [x, "times"], [y])]


def _expanded(x: str, y: str) -> list[onnx.NodeProto]:
    return [_constant("wide", [1 << 20, 1, 1, 1]), helper.make_node("Expand", [x, "wide"], [y])]


def _filled(x: str, y: str) -> list[onnx.NodeProto]:
    made = helper.make_node("ConstantOfShape", ["full"], ["filled"])
    return [_constant("full", [1 << 14] * 3), made, helper.make_node("Sum", [x, "filled"], [y])]


def _overflowing(x: str, y: str) -> list[onnx.NodeProto]:
    """Sizes whose product is small again in 64 bits."""
    return [_constant("over", [1 << 32, 1 << 32]), helper.make_node("ConstantOfShape", ["over"], [y])]


def _enlarged(x: str, y: str) -> list[onnx.NodeProto]:
    scales = numpy_helper.from_array(np.array([1, 1, 1e6, 1e6], np.float32))
    return [helper.make_node("Constant", [], ["by"], value=scales), helper.make_node("Resize", [x, "", "by"], [y])]


def _padded(x: str, y: str) -> list[onnx.NodeProto]:
    return [_constant("pads", [0, 0, 0, 0, 0, 0, 1 << 40, 1 << 40]), helper.make_node("Pad", [x, "pads"], [y])]


def _ranged(x: str, y: str) -> list[onnx.NodeProto]:
    ends = [
        helper.make_node("Constant", [], [name], value_int=value)
        for name, value in (("from", 0), ("to", 1 << 60), ("step", 1))
    ]
    return [*ends, helper.make_node("Range", ["from", "to", "step"], [y])]


def _looping(x: str, y: str) -> list[onnx.NodeProto]:
    """A loop over known numbers, that would be computed here, with 2^60 turns."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Add", ["last", "last"], ["next"])],
        "body",
        [
            helper.make_tensor_value_info("turn", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("last", TensorProto.INT64, []),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.INT64, []),
        ],
    )
    turns = helper.make_node("Constant", [], ["turns"], value_int=1 << 60)
    start = helper.make_node("Constant", [], ["start"], value_int=1)
    loop = helper.make_node("Loop", ["turns", "", "start"], ["looped"], body=body)
    cast = helper.make_node("Cast", ["looped"], ["floats"], to=TensorProto.FLOAT)
    return [turns, start, loop, cast, helper.make_node("Add", [x, "floats"], [y])]


def nested(x: str, y: str, *, depth: int = 30) -> list[onnx.NodeProto]:
    """An If in an If in an If, on conditions that aren't known."""
    kind = TensorProto.FLOAT
    inner = [helper.make_node("Identity", [x], [f"{y}_0"])]
    for level in range(1, depth):
        branch = helper.make_graph(
            inner, f"g{level}", [], [helper.make_tensor_value_info(f"{y}_{level - 1}", kind, None)]
        )
        inner = [
            helper.make_node("If", ["asked"], [f"{y}_{level}"], then_branch=branch, else_branch=branch)
            if level < 3
            else helper.make_node(
                "If", ["asked"], [f"{y}_{level}"], then_branch=branch, else_branch=_small(f"{y}_{level}e", x)
            )
        ]
    inner[0].output[0] = y
    total = helper.make_node("ReduceMax", [x], ["largest"], keepdims=0)
    return [total, helper.make_node("Cast", ["largest"], ["asked"], to=TensorProto.BOOL), *inner]


def _small(name: str, x: str) -> onnx.GraphProto:
    value = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
    return helper.make_graph([helper.make_node("Identity", [x], [name])], "e", [], [value])


def _circle(x: str, y: str) -> list[onnx.NodeProto]:
    return [helper.make_node("Add", [x, "round"], [y]), helper.make_node("Relu", [y], ["round"])]


def _itself(x: str, y: str) -> list[onnx.NodeProto]:
    return [helper.make_node("Relu", [y], [y])]


HOSTILE: dict[str, Callable[[str, str], list[onnx.NodeProto]]] = {
    "tile": _tiled,
    "expand": _expanded,
    "constant of shape": _filled,
    "overflow": _overflowing,
    "resize": _enlarged,
    "pad": _padded,
    "range": _ranged,
    "loop": _looping,
    "if in if": nested,
    "circle": _circle,
    "reads itself": _itself,
}
"""From a tensor's name and a new one's to nodes that lead from one to the other."""


def hostile(name: str) -> onnx.ModelProto:
    """``networks.tiny`` with ``HOSTILE[name]`` between its second stage and its third."""
    model = networks.tiny()
    for node in model.graph.node:
        node.input[:] = ["changed" if read == "mid" else read for read in node.input]
    model.graph.node.extend(HOSTILE[name]("mid", "changed"))
    return model
