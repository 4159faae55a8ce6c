"""Thinner layers from what they give: exact where responses are of low rank, close and cheaper where they nearly are."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import networks
from clockseg import UsageError
from clockseg.graph.folding import folded
from clockseg.graph.low_rank import Responses, can_thin, thinned
from clockseg.graph.price import price
from clockseg.networks.load import assemble
from clockseg.networks.low_rank import low_rank


def samples(count: int = 4, size: tuple[int, int] = (48, 32)) -> list[dict[str, np.ndarray]]:
    """Noise that varies over some pixels, so that there are more places than channels."""
    rng = np.random.default_rng(0)
    return [{"input": rng.standard_normal((1, 3, size[1], size[0]), dtype=np.float32)} for _ in range(count)]


def run(model: onnx.ModelProto, sample: dict[str, np.ndarray]) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, sample)[0]


def of_rank(rank: int, *, stride: int = 1, bias: bool = True) -> onnx.ModelProto:
    """A convolution [16, 8, 3, 3] of that rank behind one that gives it 8 channels."""
    build = networks.Builder()
    seen = build.block("input", 3, 8, to="seen")
    matrix = build.random.standard_normal((16, rank)) @ build.random.standard_normal((rank, 72))
    weight = build.constant(matrix.reshape(16, 8, 3, 3).astype(np.float32) / 8)
    more = [build.constant(build.random.standard_normal(16).astype(np.float32))] if bias else []
    build.node("Conv", seen, weight, *more, to="y", kernel_shape=[3, 3], pads=[1] * 4, strides=[stride] * 2)
    return build.model({"y": 16})


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("bias", [True, False])
def test_a_layer_of_low_rank_becomes_two_that_give_the_same(stride, bias) -> None:
    model = of_rank(3, stride=stride, bias=bias)
    made = low_rank(model, samples(), keep=1 - 1e-9)
    dims = {weight.name: list(weight.dims) for weight in made.graph.initializer}
    assert (dims["y.thin.weight"], dims["y.wide.weight"]) == ([3, 8, 3, 3], [16, 3, 1, 1])
    fresh = samples(5)[-1]
    np.testing.assert_allclose(run(made, fresh), run(model, fresh), atol=2e-4)


def test_a_layer_of_full_rank_stays() -> None:
    made = low_rank(of_rank(16), samples(), keep=1.0)
    assert [node.op_type for node in made.graph.node] == ["Conv", "Relu", "Conv"]


@pytest.mark.parametrize("transposed", [0, 1])
def test_linear_layers_too(transposed) -> None:
    rng = np.random.default_rng(1)
    matrix = (rng.standard_normal((12, 2)) @ rng.standard_normal((2, 24))).astype(np.float32)
    weights = [numpy_helper.from_array(matrix if transposed else matrix.T, "w")]
    weights.append(numpy_helper.from_array(rng.standard_normal(12).astype(np.float32), "b"))
    node = helper.make_node("Gemm", ["input", "w", "b"], ["y"], name="linear", transB=transposed)
    ends = [helper.make_tensor_value_info("input", 1, ["n", 24]), helper.make_tensor_value_info("y", 1, ["n", 12])]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    seen = [{"input": rng.standard_normal((50, 24), dtype=np.float32)} for _ in range(3)]
    made = low_rank(model, seen[:2], keep=1 - 1e-9)
    assert [node.op_type for node in made.graph.node] == ["Gemm", "Gemm"]
    np.testing.assert_allclose(run(made, seen[2]), run(model, seen[2]), atol=2e-3)


def test_later_layers_make_up_for_what_earlier_ones_lost() -> None:
    """The same weights thinned by their own inputs alone would start from what the network no longer gives."""
    rng = np.random.default_rng(2)
    wanted = rng.standard_normal((500, 6))
    given = 0.5 * wanted + 3  # what comes in is half of what it should be, and shifted
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="layer")
    weights = {"w": numpy_helper.from_array(np.eye(6, dtype=np.float32).reshape(6, 6, 1, 1), "w")}
    seen = Responses(6)
    seen.add(wanted, given)
    found = thinned(node, weights, seen, keep=1.0)
    first, second, bias = (numpy_helper.to_array(found.weights[f"y.{name}"]) for name in
                           ("thin.weight", "wide.weight", "wide.bias"))  # fmt: skip
    np.testing.assert_allclose(given @ (second[:, :, 0, 0] @ first[:, :, 0, 0]).T + bias, wanted, atol=1e-3)


def test_names_and_cuts_stay_and_it_is_cheaper() -> None:
    before = networks.tiny()
    made = low_rank(before, samples(), keep=0.8)
    net, whole = (assemble(model, networks.TINY, engine="openvino") for model in (made, before))
    assert [stage.name for stage in net.stages] == ["low", "mid", "deep"]
    old, new = (price(assemble(one, networks.TINY, engine=None).whole, (48, 32)) for one in (before, made))
    assert new.multiply_adds < old.multiply_adds
    picture = np.random.default_rng(0).integers(0, 256, (32, 48, 3)).astype(np.uint8)
    np.testing.assert_array_equal(net(picture), net.uncut()(picture))
    assert np.mean(net(picture) == whole(picture)) > 0.5
    assert not np.array_equal(net(picture), whole(picture))


def test_what_can_be_thinned() -> None:
    weights = {"w": numpy_helper.from_array(np.zeros((4, 2, 3, 3), np.float32), "w"),
               "half": numpy_helper.from_array(np.zeros((4, 2), np.float16), "half")}  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["y"]),
        helper.make_node("Conv", ["x", "w"], ["y"], group=2),
        helper.make_node("Conv", ["x", "made"], ["y"]),
        helper.make_node("Gemm", ["x", "half"], ["y"]),
        helper.make_node("Gemm", ["x", "w"], ["y"], alpha=0.5),
        helper.make_node("Resize", ["x", "", "w"], ["y"]),
    ]
    assert [can_thin(node, weights) for node in nodes] == [True, False, False, False, False, False]


def test_folding_computes_rearranged_weights_and_drops_what_nothing_reads() -> None:
    build = networks.Builder()
    half = build.constant(np.arange(6, dtype=np.float16).reshape(2, 3))
    build.constant(np.zeros(5, np.float32))
    build.nodes.append(helper.make_node("Cast", [half], ["full"], to=TensorProto.FLOAT))
    build.nodes.append(helper.make_node("Transpose", ["full"], ["turned"]))
    build.node("MatMul", "input", "turned", to="y")
    [weight] = folded(build.model({"y": 2})).graph.initializer
    assert weight.name == "turned"
    np.testing.assert_array_equal(numpy_helper.to_array(weight), np.arange(6, dtype=np.float32).reshape(2, 3).T)


@pytest.mark.parametrize(("options", "said"), [({"keep": 0.0}, "keep=0.0"), ({"gain": 1.5}, "gain=1.5")])
def test_wrong_shares_are_refused(options, said) -> None:
    with pytest.raises(UsageError, match=said):
        low_rank(networks.tiny(), samples(), **options)
