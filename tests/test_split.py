"""Products of concatenations as sums of one product per source: the plan on symbolic graphs, and what comes of it in ONNX."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import networks
from clockseg.clockwork.network import StagedNetwork
from clockseg.engines import onnxruntime
from clockseg.errors import NetworkError
from clockseg.graph import onnx_reader
from clockseg.graph.extraction import applied
from clockseg.graph.neutral import CONCAT, CONVOLUTION, ENLARGE, PRODUCT, Graph, Node
from clockseg.graph.rule import divide
from clockseg.graph.sidecar import Input, Sidecar
from clockseg.graph.split import Split, Term, every_split, rewritten, splits
from clockseg.graph.staged import staged
from clockseg.graph.static import fix

KINDS = {"up": ENLARGE, "cat": CONCAT, "product": PRODUCT, "window": CONVOLUTION}
CUTS = [["a"], ["b"], ["c"]]
ENCODER = "a = conv x\nb = conv a\nc = conv b\n"
SIZES = [(48, 32), (40, 24)]


def graph(text: str) -> Graph:
    """A graph from lines "y = op a b"; the operation's name decides its kind."""
    nodes = []
    for line in filter(None, map(str.strip, text.splitlines())):
        made, _, rest = line.partition(" = ")
        operator, *reads = rest.split()
        nodes.append(Node(made, tuple(reads), (made,), KINDS.get(operator, ""), 1 if operator in KINDS else None))
    return Graph(tuple(nodes), ("x",))


def plan(net: Graph, channels: dict[str, int] | None = None, cuts: list[list[str]] = CUTS) -> tuple[Split, ...]:
    shapes = {tensor: (1, (channels or {}).get(tensor, 8), 4, 4) for tensor in net.position}
    return splits(replace(net, shapes=shapes), cuts, output="y")


SEGFORMER = graph(ENCODER + "ub = up b\nuc = up c\nj = cat uc ub a\nf = product j w\nr = relu f\ny = conv r")


def test_what_rests_longest_is_summed_first() -> None:
    [split] = plan(SEGFORMER)
    assert split.leaves == ("uc", "ub", "a")
    assert split.terms == (Term((0,), ("c",), "uc"), Term((1,), ("b",), "ub"), Term((2,), ("a",)))
    assert [step.name for step in split.steps if step.bias] == ["f.term3.product"]


def test_each_product_is_held_at_its_own_stride_and_partial_sums_rest() -> None:
    found = divide(rewritten(SEGFORMER, plan(SEGFORMER)), CUTS, output="y")
    assert [stage.held for stage in found.stages] == [("f.term3.product",), ("f.term2.product",), ("f.term1.product",)]
    assert [(group.name, group.nodes) for group in found.groups] == [
        ("stage2+stage3", ("f.term1.enlarged", "f.term2.enlarged", "f.sum2")),
        ("stage1+stage2+stage3", ("f.sum3", "r", "y")),
    ]


def test_maps_of_one_stage_stay_together_unless_they_are_enlarged() -> None:
    net = graph(ENCODER + "p = conv a\nq = conv a\nuc = up c\nud = up c\nj = cat p uc q ud\ny = product j w")
    [split] = plan(net)
    assert split.terms == (Term((1,), ("c",), "uc"), Term((3,), ("c",), "ud"), Term((0, 2), ("p", "q")))
    made = {node.name: node for node in rewritten(net, [split]).nodes}
    assert made["y.term3.joined"].inputs == ("p", "q")
    assert made["y.term3.product"].inputs == ("y.term3.joined", "w")
    assert made["y.sum3"].outputs == ("y",)


@pytest.mark.parametrize(
    "text",
    [
        "p = conv c\nq = conv c\nj = cat p q\ny = product j w",  # one stage
        "q = add a c\nj = cat a q\ny = product j w",  # both run whenever the first stage fires
        "j = cat a k\ns = product j w\ny = add s c",  # a constant
        "j = cat a c\ns = softmax j\ny = product s w",  # something between
        "j = add a c\ny = product j w",  # no concatenation
    ],
)
def test_what_is_left_whole(text: str) -> None:
    assert plan(graph(ENCODER + text)) == ()


def test_a_convolution_with_a_window_is_split_where_most_of_it_rests() -> None:
    net = graph(ENCODER + "uc = up c\nj = cat a uc\ny = window j w")
    assert plan(net, {"a": 48, "uc": 256})[0].terms == (Term((1,), ("uc",)), Term((0,), ("a",)))
    assert plan(net, {"a": 8, "uc": 8}) == ()


def test_concatenations_of_concatenations() -> None:
    net = graph(ENCODER + "uc = up c\ni = cat b uc\nui = up i\nj = cat a i ui\ny = product j w")
    first, second = plan(net)
    assert first.leaves == ("a", "b", "uc", "ui")
    assert first.terms == (Term((2,), ("c",), "uc"), Term((3,), ("i",), "ui"), Term((1,), ("b",)), Term((0,), ("a",)))
    assert second.product == "y.term2.product", "the product before the enlargement reads a concatenation again"
    assert second.terms == (Term((1,), ("c",), "uc"), Term((0,), ("b",)))


def test_every_split_takes_every_map_apart() -> None:
    net = graph("p = conv x\nq = conv x\nj = cat p q\ny = product j w")
    net = replace(net, shapes={"p": (1, 4, 2, 2), "q": (1, 4, 2, 2)})
    assert [split.terms for split in every_split(net)] == [(Term((1,), ("q",)), Term((0,), ("p",)))]


def test_work_is_shared_by_channels_and_positions() -> None:
    [split] = plan(SEGFORMER, {"a": 2, "ub": 2, "uc": 4})
    shapes = {"a": (1, 2, 8, 8), "b": (1, 2, 4, 4), "c": (1, 4, 2, 2), "f": (1, 16, 8, 8)}
    shapes |= {"ub": (1, 2, 8, 8), "uc": (1, 4, 8, 8)}
    made = rewritten(replace(SEGFORMER, shapes=shapes, work={"f": 800.0, "uc": 10.0}), [split])
    assert made.shapes["f.term1.product"] == (1, 16, 2, 2)
    found = made.work
    assert found["f.term3.product"] == 200
    assert found["f.term2.product"] == 200 / 4
    assert found["f.term1.product"] == 400 / 16
    assert found["f.term1.enlarged"] == 10 * 16 / 4, "it enlarges more channels than before"


class Decoder(networks.Builder):
    """Three encoder stages and, behind a concatenation of all, what a test adds."""

    def encode(self) -> list[str]:
        low = self.block("input", 3, 6, stride=2, to="a")
        mid = self.block(low, 6, 8, stride=2, to="b")
        return [low, mid, self.block(mid, 8, 10, stride=2, to="c")]

    def enlarged(self, x: str, by: int, mode: str) -> str:
        scales = self.constant(np.array([1, 1, by, by], np.float32))
        how = "asymmetric" if mode == "nearest" else "align_corners" if mode == "linear" else "half_pixel"
        options: dict[str, Any] = {"nearest_mode": "floor"} if mode == "nearest" else {}
        return self.node("Resize", x, "", scales, mode=mode, coordinate_transformation_mode=how, **options)


def joined(build: Decoder, mode: str) -> str:
    """The encoder's maps at the stride of the finest, 24 channels."""
    low, mid, deep = build.encode()
    if mode == "sizes":
        return build.node("Concat", build.up_to(deep, low, 10), low, build.up_to(mid, low, 8), axis=1)
    return build.node("Concat", build.enlarged(deep, 4, mode), low, build.enlarged(mid, 2, mode), axis=1)


def plain(mode: str) -> onnx.ModelProto:
    build = Decoder(7)
    build.conv(build.node("Relu", build.conv(joined(build, mode), 24, 12, kernel=1, to="fused")), 12, 5, to="y")
    return build.model({"y": 5})


def windowed() -> onnx.ModelProto:
    build = Decoder(9)
    build.conv(build.node("Relu", build.conv(joined(build, "linear"), 24, 12, kernel=3, to="fused")), 12, 5, to="y")
    return build.model({"y": 5})


def tokens() -> onnx.ModelProto:
    """Maps [1, h, w, c] joined along their last axis, a linear layer behind, as transformers' decoders have it."""
    build = Decoder(10)
    low, mid, deep = build.encode()
    maps = [build.up_to(deep, low, 10), low, build.up_to(mid, low, 8)]
    last = build.node("Concat", *(build.node("Transpose", one, perm=[0, 2, 3, 1]) for one in maps), axis=-1)
    weights = build.constant(build.random.standard_normal((24, 12)).astype(np.float32))
    made = build.node("MatMul", last, weights, to="fused")
    build.conv(build.node("Relu", build.node("Transpose", made, perm=[0, 3, 1, 2])), 12, 5, to="y")
    return build.model({"y": 5})


def halved() -> onnx.ModelProto:
    """Weights kept as float16, made float32 by a node; too many to be computed beforehand."""
    build = Decoder(11)
    low, mid, deep = build.encode()
    wide = [build.conv(low, 6, 40, kernel=1), build.up_to(build.conv(deep, 10, 80, kernel=1), low, 80)]
    weights = build.constant((build.random.standard_normal((64, 120, 1, 1)) * 0.1).astype(np.float16))
    build.nodes.append(helper.make_node("Cast", [weights], ["wide_weights"], name="cast", to=TensorProto.FLOAT))
    build.node("Conv", build.node("Concat", *wide, axis=1), "wide_weights", to="fused")
    build.conv(build.node("Add", "fused", build.conv(build.up_to(mid, low, 8), 8, 64, kernel=1)), 64, 5, to="y")
    return build.model({"y": 5})


def made_of(model: onnx.ModelProto, size: tuple[int, int]) -> StagedNetwork:
    said = Sidecar("it", Input("input", *size), "y", (("a",), ("b",), ("c",)))
    return staged(model, said, size=size)


def operations(net: StagedNetwork, size: tuple[int, int]) -> list[str]:
    """Of all parts but the whole."""
    parts = [*(stage.body for stage in net.stages), *(group.function for group in net.groups)]
    return [node.op_type for part in parts for node in onnx.load_model_from_string(part.build(size).model).graph.node]


MODELS = {
    **{f"plain, {mode}": lambda mode=mode: plain(mode) for mode in ("sizes", "nearest", "linear", "cubic")},
    "windowed": windowed,
    "tokens": tokens,
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", MODELS)
def test_the_sum_is_what_the_whole_gives(name: str, size: tuple[int, int]) -> None:
    net = made_of(MODELS[name](), SIZES[0])
    assert "Concat" not in operations(net, size)
    assert "Concat" in [node.op_type for node in onnx.load_model_from_string(net.whole.build(size).model).graph.node]
    value = {"image": np.random.default_rng(1).integers(0, 256, (1, size[1], size[0], 3), dtype=np.uint8)}
    assert apart(onnxruntime(net), value) <= 1e-5


def apart(running: StagedNetwork, image: dict[str, np.ndarray]) -> float:
    """The largest difference between parts and whole, as a share of the largest value."""
    trunk, values = image, {}
    for stage in running.stages:
        trunk = stage.body(trunk)
        values[stage.name] = stage.head(trunk)
    for group in running.groups:
        values[group.name] = group.function(*(values[part] for part in group.reads))
    found, wanted = running.finish(values[running.last])["y"], running.whole(image)["y"]
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


@pytest.mark.parametrize("name", MODELS)
def test_the_graph_becomes_what_was_planned(name: str) -> None:
    static = fix(MODELS[name](), {"input": (1, 3, 32, 48)})
    before = onnx_reader.neutral(static, "input")
    found = splits(before, CUTS, output="y")
    planned, made = rewritten(before, found), onnx_reader.neutral(applied(static, found), "input")
    assert [(node.name, node.outputs, node.kind, node.axis) for node in made.nodes] == [
        (node.name, node.outputs, node.kind, node.axis) for node in planned.nodes
    ]
    assert [made.reads(node) for node in made.nodes] == [planned.reads(node) for node in planned.nodes]


def test_products_before_interpolations_are_held_small() -> None:
    net = made_of(plain("linear"), SIZES[0])
    shapes = {}
    for stage in net.stages:
        built = onnx.load_model_from_string(stage.body.build(SIZES[0]).model)
        shapes |= {one.name: [dim.dim_value for dim in one.type.tensor_type.shape.dim] for one in built.graph.output}
    assert [shapes[name] for stage in net.stages for name in stage.head.names] == [
        [1, 12, 16, 24],
        [1, 12, 8, 12],
        [1, 12, 4, 6],
    ]


def test_weights_that_a_node_makes_are_cut_by_one() -> None:
    made = made_of(halved(), SIZES[0])
    assert operations(made, SIZES[0]).count("Gather") == 2
    value = {"image": np.random.default_rng(1).integers(0, 256, (1, 32, 48, 3), dtype=np.uint8)}
    assert apart(onnxruntime(made), value) <= 1e-5


def test_a_bias_is_added_once() -> None:
    static = fix(plain("sizes"), {"input": (1, 3, 32, 48)})
    graph_ = onnx_reader.neutral(static, "input")
    made = applied(static, splits(graph_, CUTS, output="y"))
    products = [node for node in made.nodes if node.name.endswith(".product")]
    assert [len(node.input) for node in products] == [2, 2, 3]


def test_if_is_folded_where_its_condition_is_known() -> None:
    build = networks.Builder()
    build.block("input", 3, 4, stride=2, to="a")
    known = build.constant(np.array(True))
    branches = [
        helper.make_graph(
            [helper.make_node(operator, ["a"], ["inside"])],
            operator,
            [],
            [helper.make_tensor_value_info("inside", TensorProto.FLOAT, None)],
        )
        for operator in ("Relu", "Neg")
    ]
    build.nodes.append(
        helper.make_node("If", [known], ["b"], name="if", then_branch=branches[0], else_branch=branches[1])
    )
    build.conv("b", 4, 2, to="y")
    static = fix(build.model({"y": 2}), {"input": (1, 3, 8, 8)})
    assert "If" not in [node.op_type for node in static.nodes]
    assert "Relu" in [node.op_type for node in static.nodes]


def test_loops_are_refused() -> None:
    build = networks.Builder()
    build.block("input", 3, 4, stride=2, to="a")
    values = {"i": TensorProto.INT64, "go": TensorProto.BOOL, "v": TensorProto.FLOAT}
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Relu", ["v"], ["w"])],
        "body",
        [helper.make_tensor_value_info(name, kind, None if name == "v" else []) for name, kind in values.items()],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, []), helper.make_tensor_value_info("w", 1, None)],
    )
    ends = [build.constant(np.array(3, np.int64)), build.constant(np.array(True))]
    build.nodes.append(helper.make_node("Loop", [*ends, "a"], ["b"], name="again", body=body))
    build.conv("b", 4, 2, to="y")
    with pytest.raises(
        NetworkError, match=r"node 'again', Loop.* control flow can't be cut\. Export the network traced"
    ):
        fix(build.model({"y": 2}), {"input": (1, 3, 8, 8)})


def test_files_stay_as_they_are(tmp_path: Path) -> None:
    model = plain("sizes")
    before = model.SerializeToString()
    made_of(model, SIZES[0])
    assert model.SerializeToString() == before
