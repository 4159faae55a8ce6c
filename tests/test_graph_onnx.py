"""Networks from ONNX files: what the cut network computes is what the file computes, and hostile files are refused."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import networks
from clockseg.clockwork.network import StagedNetwork
from clockseg.engines import onnxruntime, openvino
from clockseg.errors import NetworkError, UsageError
from clockseg.graph import onnx_reader
from clockseg.graph.nodes import in_order
from clockseg.graph.part import FRAME_SIZE, LABELS, GraphPart
from clockseg.graph.static import fix
from clockseg.networks.framing import Framing
from clockseg.networks.load import load

ENGINES = {"openvino": openvino, "onnxruntime": onnxruntime}
SIZES = [(24, 32), (40, 24), (48, 64)]


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What engines keep on disk goes to the tests' own folder."""
    monkeypatch.setenv("CLOCKSEG_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def picture(size: tuple[int, int], seed: int = 0) -> np.ndarray:
    """A random frame, WIDTH, HEIGHT."""
    return np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)


def parts_value(net: StagedNetwork, image: np.ndarray) -> dict[str, Any]:
    """What ``finish`` reads, every stage firing."""
    trunk, values = net.prepare(image), {}
    for stage in net.stages:
        trunk = stage.body(trunk)
        values[stage.name] = stage.head(trunk)
    for group in net.groups:
        values[group.name] = group.function(*(values[name] for name in group.reads))
    return values[net.last]


def before_finish(net: StagedNetwork, image: np.ndarray) -> np.ndarray:
    """The scores before the last enlargement."""
    [scores] = [array for name, array in parts_value(net, image).items() if name not in (FRAME_SIZE, LABELS)]
    return scores


def reference(path: Path, net: StagedNetwork, image: np.ndarray) -> np.ndarray:
    """The network's output by ONNX Runtime on the untouched file, preprocessing in numpy."""
    import onnxruntime as library

    said = net.sidecar
    frame = net.prepare(image)["image"][..., :: -1 if said.input.colour == "bgr" else 1]
    x = (frame.astype(np.float64) * said.input.scale - said.input.mean) / said.input.std
    session = library.InferenceSession(path, providers=["CPUExecutionProvider"])
    [found] = session.run([said.output], {said.input.name: x.transpose(0, 3, 1, 2).astype(np.float32)})
    return found


@pytest.fixture(params=networks.NETWORKS)
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Each test network on disk."""
    make, sidecar = networks.NETWORKS[request.param]
    return networks.write_network(tmp_path, make(), sidecar)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("size", SIZES)
def test_cut_equals_file(stored: Path, engine: str, size: tuple[int, int]) -> None:
    net = load(stored, engine=ENGINES[engine], size=size)
    image = picture(size)
    wanted = reference(stored, net, image)
    if not net.sidecar.classes:
        for value in (net.finish(parts_value(net, image)), net.whole(net.prepare(image))):
            assert np.abs(value["depth"] - wanted).max() <= 1e-4 * np.abs(wanted).max()
        assert net(image).shape == (1, size[1], size[0])
        return
    wanted = wanted[:, :, : size[1], : size[0]]
    best = np.sort(wanted[0], axis=0)
    clear = best[-1] - best[-2] > 2e-4 * np.abs(wanted).max()
    labels = wanted[0].argmax(0)
    for found in (net(image), net.uncut()(image)):
        assert found.dtype == np.uint8
        assert found.shape == (size[1], size[0])
        assert (found == labels)[clear].all()
        assert clear.mean() > 0.9


@pytest.mark.parametrize("engine", ENGINES)
def test_scores_before_finish(tmp_path: Path, engine: str) -> None:
    path = networks.write_tiny(tmp_path)
    net = load(path, engine=ENGINES[engine])
    image = picture((48, 32))
    scores = before_finish(net, image)
    assert scores.shape == (1, 4, 16, 24)
    same = load(path, engine=ENGINES["onnxruntime" if engine == "openvino" else "openvino"])
    other = before_finish(same, image)
    assert np.abs(scores - other).max() <= 1e-4 * np.abs(scores).max()


def test_stages_of_tiny(tmp_path: Path) -> None:
    net = load(networks.write_tiny(tmp_path), engine=None)
    assert [stage.body.inputs for stage in net.stages] == [("image",), ("low",), ("mid",)]
    assert [stage.body.outputs for stage in net.stages] == [
        ("low", "scores_1"),
        ("mid", "scores_2"),
        ("deep", "scores_3"),
    ]
    assert [(group.name, group.reads) for group in net.groups] == [
        ("mid+deep", ("mid", "deep")),
        ("low+mid+deep", ("low", "mid+deep")),
    ]
    assert net.sidecar == networks.TINY
    assert net.whole.outputs == net.finish.names == ("labels",)


def test_bilinear_transposed_convolutions_are_enlargements(tmp_path: Path) -> None:
    net = load(networks.write_network(tmp_path, networks.fcn(), networks.FCN), engine=None)
    assert [stage.head.names for stage in net.stages] == [("score_pool3",), ("score_pool4",), ("score_fr",)]
    assert net.groups[0].function.inputs == ("score_fr", "score_pool4")
    assert net.groups[-1].function.outputs[-1] == "labels"


def test_learned_transposed_convolutions_are_heads(tmp_path: Path) -> None:
    net = load(networks.write_network(tmp_path, networks.unet(), networks.UNET), engine=None)
    [held] = net.stages[-1].head.names
    assert held.startswith("convtranspose")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_tensor_that_is_only_passed_on(tmp_path: Path, engine: str) -> None:
    """The last stage passes `low` on, and nothing in it reads it."""
    said = networks.renamed(networks.TINY, cuts=(("low",), ("mid", "low"), ("deep", "low")))
    net = load(networks.write_network(tmp_path, networks.tiny(), said), engine=ENGINES[engine])
    image = picture((48, 32))
    trunk = net.prepare(image)
    for stage in net.stages:
        trunk = stage.body(trunk)
    assert {"deep", "low"} < set(trunk)
    assert np.array_equal(net(image), net.uncut()(image))


@pytest.mark.parametrize("engine", ENGINES)
def test_street(engine: str) -> None:
    net = load("street", engine=engine)
    said = net.sidecar.input
    image = cv2.resize(picture((40, 30)), (said.width, said.height), interpolation=cv2.INTER_CUBIC)
    agreement = (net(image) == net.uncut()(image)).mean()
    assert agreement > 0.9999
    assert [stage.scores is not None for stage in net.stages] == [True] * 3


def test_scores_and_features_of_a_stage(tmp_path: Path) -> None:
    net = load(networks.write_tiny(tmp_path), engine=openvino)
    trunk = net.stages[0].body(net.prepare(picture((48, 32))))
    assert net.stages[0].scores(net.stages[0].head(trunk)).shape == (1, 4, 16, 24)
    assert net.stages[0].features(trunk) is trunk["low"]
    plain = load(networks.write_network(tmp_path, networks.unet(), networks.UNET), engine=None)
    assert [stage.scores for stage in plain.stages] == [None] * 3


def test_an_uncompiled_part_says_so(tmp_path: Path) -> None:
    net = load(networks.write_tiny(tmp_path), engine=None)
    with pytest.raises(UsageError, match=r"part 'low\.body' is a graph and not compiled yet"):
        net(picture((48, 32)))


def test_a_tensor_that_was_not_given() -> None:
    part = GraphPart("sum", ("a", "b"), ("c",), lambda size: pytest.fail("not built"))
    with pytest.raises(UsageError, match="part 'sum' reads tensor 'b', which it wasn't given; it was given a"):
        part.gather([{"a": np.zeros(1)}])


@pytest.mark.parametrize("image", [(1, 1), (300, 1), (1, 300), (47, 31), (96, 64), (1000, 7)])
def test_frames_of_any_size(tmp_path: Path, image: tuple[int, int]) -> None:
    net = load(networks.write_tiny(tmp_path), engine=openvino)
    found = net(picture(image))
    assert found.shape == (image[1], image[0])
    assert not found.flags.writeable
    assert np.array_equal(found, net.uncut()(picture(image)))


def test_sizes_that_give_a_part_the_same_shapes_are_told_apart(tmp_path: Path) -> None:
    said = networks.renamed(networks.NO_SKIP, input=networks.Input("input", 32, 24))
    net = load(networks.write_network(tmp_path, networks.no_skip(), said), engine=openvino)
    for width in (32, 31, 30, 32):
        fitted = (width, 24)
        assert net(picture(fitted)).shape == (24, width)


def test_a_file_of_fixed_size(tmp_path: Path) -> None:
    path = networks.write_tiny(tmp_path, size=(32, 48))
    net = load(path, engine=openvino)
    assert net.prepare(picture((10, 10)))["image"].shape == (1, 32, 48, 3)
    assert net(picture((10, 10))).shape == (10, 10)
    with pytest.raises(UsageError, match="fixed to 48x32"):
        load(path, engine=None, size=64)


def test_scores_smaller_than_the_frame_are_enlarged(tmp_path: Path) -> None:
    said = networks.renamed(networks.TINY, output="scores_3", cuts=(("low",), ("deep",)), stages=(), scores=())
    net = load(networks.write_network(tmp_path, networks.tiny(), said), engine=openvino)
    assert net.groups == ()
    assert net(picture((48, 32))).shape == (32, 48)
    assert np.array_equal(net(picture((48, 32))), net.uncut()(picture((48, 32))))


def test_a_network_that_gives_class_ids(tmp_path: Path) -> None:
    model = networks.tiny()
    model.graph.node.append(helper.make_node("ArgMax", ["scores"], ["ids"], name="ids", axis=1, keepdims=0))
    model.graph.output.append(helper.make_tensor_value_info("ids", TensorProto.INT64, [1, None, None]))
    path = networks.write_network(tmp_path, model, networks.renamed(networks.TINY, output="ids"))
    plain = tmp_path / "plain"
    plain.mkdir()
    image = picture((48, 32))
    for engine in ENGINES.values():
        assert np.array_equal(load(path, engine=engine)(image), load(networks.write_tiny(plain), engine=engine)(image))


def test_weights_stored_as_float16(tmp_path: Path) -> None:
    model = networks.tiny()
    casts = []
    for weight in model.graph.initializer:
        if weight.data_type == TensorProto.FLOAT:
            half = numpy_helper.from_array(numpy_helper.to_array(weight).astype(np.float16), f"{weight.name}_half")
            casts.append(
                helper.make_node("Cast", [half.name], [weight.name], name=f"cast_{weight.name}", to=TensorProto.FLOAT)
            )
            weight.CopyFrom(half)
    nodes = [*casts, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    path = networks.write_network(tmp_path, model, networks.TINY)
    image = picture((48, 32))
    for engine in ENGINES.values():
        net = load(path, engine=engine)
        assert np.array_equal(net(image), net.uncut()(image))


def test_nodes_behind_their_readers_are_put_in_order() -> None:
    nodes = [helper.make_node("Relu", ["a"], ["b"]), helper.make_node("Neg", ["x"], ["a"])]
    graph = helper.make_graph(nodes, "g", [], [])
    in_order(graph)
    assert [node.op_type for node in graph.node] == ["Neg", "Relu"]
    circle = helper.make_graph([*nodes, helper.make_node("Abs", ["b"], ["x"])], "g", [], [])
    in_order(circle)
    assert [node.op_type for node in circle.node] == ["Relu", "Neg", "Abs"]


def test_shape_arithmetic_is_folded() -> None:
    static = fix(networks.tiny(), {"input": (1, 3, 32, 48)})
    assert not {node.op_type for node in static.nodes} & {"Shape", "Slice", "Concat"}
    assert static.shape("scores") == (1, 4, 32, 48)
    with pytest.raises(NetworkError, match="doesn't fit"):
        fix(networks.tiny(size=(16, 16)), {"input": (1, 3, 32, 48)})


@pytest.mark.parametrize(
    ("operator", "opset", "options", "weights"),
    [("GroupNormalization", 21, {"num_groups": 2}, 2), ("MeanVarianceNormalization", 13, {}, 0)],
)
def test_normalisations_of_which_onnx_knows_no_shapes(
    operator: str, opset: int, options: dict[str, int], weights: int
) -> None:
    names = ["scale", "bias"][:weights]
    node = helper.make_node(operator, ["image", *names], ["out"], **options)
    image, out = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4, None, None]) for name in ("image", "out")
    )
    constants = [helper.make_tensor(name, TensorProto.FLOAT, [4], [1.0] * 4) for name in names]
    graph = helper.make_graph([node], "g", [image], [out], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    assert fix(model, {"image": (1, 4, 8, 16)}).shape("out") == (1, 4, 8, 16)


def test_two_inputs_are_refused() -> None:
    build = networks.Builder()
    build.node("Add", "input", "other", to="y")
    model = build.model({"y": 3}, inputs=("input", "other"))
    with pytest.raises(NetworkError, match="also reads an input 'other'"):
        fix(model, {"input": (1, 3, 8, 8)})


def test_ties_go_to_the_lowest_class(tmp_path: Path) -> None:
    model = networks.tiny()
    for weight in model.graph.initializer:
        if weight.data_type == TensorProto.FLOAT:
            weight.CopyFrom(numpy_helper.from_array(np.zeros(tuple(weight.dims), np.float32), weight.name))
    path = networks.write_network(tmp_path, model, networks.TINY)
    for engine in ENGINES.values():
        assert not load(path, engine=engine)(picture((48, 32))).any()


def test_not_onnx(tmp_path: Path) -> None:
    path = networks.write_tiny(tmp_path)
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(NetworkError, match="not a valid ONNX file"):
        load(path, engine=None)
    path.write_bytes(b"")
    with pytest.raises(NetworkError, match=r"tiny\.onnx"):
        load(path, engine=None)
    path.write_bytes(b"\x80\x04cposix\nsystem\n")
    with pytest.raises(NetworkError, match="not a valid ONNX file"):
        load(path, engine=None)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_files_are_network_errors(tmp_path: Path, seed: int) -> None:
    path = networks.write_tiny(tmp_path)
    good, random = path.read_bytes(), np.random.default_rng(seed)
    for _ in range(25):
        bad = bytearray(good)
        for place in random.integers(0, len(bad), 3):
            bad[place : place + random.integers(0, 4)] = random.bytes(random.integers(0, 4))
        path.write_bytes(bad)
        with contextlib.suppress(NetworkError):
            load(path, engine=None)


def test_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = networks.write_tiny(tmp_path)
    monkeypatch.setenv("CLOCKSEG_MAX_NETWORK_BYTES", "100")
    with pytest.raises(NetworkError, match=r"at most 100 are read. .*CLOCKSEG_MAX_NETWORK_BYTES"):
        onnx_reader.read(path)


@pytest.mark.parametrize("location", ["../weights.bin", "/etc/hostname", "a/../../weights.bin"])
def test_weights_outside_the_folder(tmp_path: Path, location: str) -> None:
    model = networks.tiny()
    outside = tmp_path / "weights.bin"
    outside.write_bytes(bytes(10000))
    folder = tmp_path / "net"
    folder.mkdir()
    weight = model.graph.initializer[0]
    onnx.external_data_helper.set_external_data(weight, location, offset=0, length=len(weight.raw_data))
    weight.ClearField("raw_data")
    (folder / "tiny.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(NetworkError, match="only files inside it are read"):
        onnx_reader.read(folder / "tiny.onnx")


def test_weights_beside_the_file(tmp_path: Path) -> None:
    path = networks.write_tiny(tmp_path)
    wanted = load(path, engine=openvino)(picture((48, 32)))
    onnx.save(networks.tiny(), path, save_as_external_data=True, location="tiny.bin", size_threshold=0)
    assert np.array_equal(load(path, engine=openvino)(picture((48, 32))), wanted)
    (tmp_path / "tiny.bin").unlink()
    with pytest.raises(NetworkError, match=r"keeps weights in another file.*tiny\.bin.*Put both files in one folder"):
        load(path, engine=None)


def test_an_operator_that_can_not_read_the_type_of_the_frame() -> None:
    model = networks.tiny()
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.UINT8
    with pytest.raises(NetworkError, match=r"doesn't fit what it reads.*uint8"):
        fix(model, {"input": (1, 3, 32, 48)})


def test_what_is_no_network(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"or a file NAME\.onnx .* Did you mean street"):
        load("streets", engine=None)
    (tmp_path / "nine.onnx").touch()
    with pytest.raises(UsageError, match=r"there is no file .*Did you mean nine\.onnx"):
        load(tmp_path / "none.onnx", engine=None)


class TestFraming:
    framing = Framing(48, 32, pad_multiple=16, pad_value=(1, 2, 3))

    def test_a_frame_of_the_working_size_is_not_copied(self) -> None:
        image = picture((48, 32))
        assert np.shares_memory(self.framing.prepare(image)["image"], image)

    def test_padding_is_right_and_below(self) -> None:
        image = picture((40, 32))
        found = self.framing.prepare(image)["image"][0]
        assert found.shape == (32, 48, 3)
        assert np.array_equal(found[:, :40], image)
        assert (found[:, 40:] == (1, 2, 3)).all()

    def test_small_frames_are_enlarged_and_large_ones_reduced(self) -> None:
        assert self.framing.scaled((24, 16)) == self.framing.scaled((4800, 3200)) == (48, 32)

    def test_labels_come_back_by_the_nearest_pixel(self) -> None:
        labels = np.arange(6, dtype=np.uint8).reshape(1, 2, 3)
        found = Framing(3, 2).restore({"labels": labels}, np.zeros((4, 6, 3), np.uint8))
        assert np.array_equal(found, labels[0].repeat(2, 0).repeat(2, 1))

    @pytest.mark.parametrize(
        "image", [np.zeros((4, 4), np.uint8), np.zeros((4, 4, 3)), np.zeros((0, 4, 3), np.uint8), None]
    )
    def test_what_is_no_frame(self, image: Any) -> None:
        with pytest.raises(UsageError, match="a frame"):
            self.framing.prepare(image)
