"""Networks in 8 bits: what the cut rule makes of them, what quantizing keeps, and `clockseg quantize`."""

from __future__ import annotations

import importlib
import json
import logging
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import networks
from clockseg import MissingDependency, NetworkError, UsageError, libraries, load
from clockseg.cli.main import main
from clockseg.datasets import read_data
from clockseg.evaluation.cost import part_seconds
from clockseg.graph import onnx_reader, sidecar
from clockseg.graph.part import FRAME_SIZE, AsFloats
from clockseg.graph.static import fix
from clockseg.networks.framing import Framing
from clockseg.networks.load import assemble
from clockseg.networks.quantization import (
    agreement,
    gather,
    interpolations,
    layers,
    quantize,
    quantized,
    ready,
    spread,
)
from toy_networks import write_clip

ENGINES = ("openvino", "onnxruntime")


def frames(count: int = 6, size: tuple[int, int] = (48, 32)) -> list[np.ndarray]:
    """Smooth pictures, so that neighbouring scores aren't all ties."""
    rng = np.random.default_rng(3)
    coarse = rng.integers(0, 256, (count, 4, 6, 3)).astype(np.uint8)
    return [one[np.arange(size[1]) * 4 // size[1]][:, np.arange(size[0]) * 6 // size[0]] for one in coarse]


def samples(said: sidecar.Sidecar) -> list[dict[str, np.ndarray]]:
    shape = (said.input.width, said.input.height)
    return [{said.input.name: said.input.normalised(one[None])} for one in frames(size=shape)]


def in_bytes(model: onnx.ModelProto, said: sidecar.Sidecar) -> onnx.ModelProto:
    return quantized(_named(model), samples(said))


def _named(model: onnx.ModelProto) -> onnx.ModelProto:
    for index, node in enumerate(model.graph.node):
        node.name = node.name or f"node_{index}"
    return model


@pytest.fixture(scope="module")
def tiny8() -> onnx.ModelProto:
    model = networks.tiny()
    del model.graph.output[1:]  # what is cut at need be no output
    return in_bytes(model, networks.TINY)


def bytes_passed(net) -> set[str]:
    """The names of maps in 8 bits that parts pass on or hold."""
    found, trunk = set(), net.prepare(frames(1)[0])
    values = {}
    for stage in net.stages:
        trunk = stage.body(trunk)
        values[stage.name] = stage.head(trunk)
        found |= {name for name, array in trunk.items() if array.dtype.itemsize == 1}
    return found


@pytest.mark.parametrize("engine", ENGINES)
def test_cut_is_whole_and_both_agree_with_the_network_in_float(tiny8, engine) -> None:
    whole32 = assemble(networks.tiny(), networks.TINY, engine=engine)
    net = assemble(tiny8, networks.TINY, engine=engine)
    pictures = frames(8)
    same = [np.mean(net(one) == net.uncut()(one)) for one in pictures]
    near = [np.mean(net(one) == whole32(one)) for one in pictures]
    assert np.mean(same) > 0.99
    assert np.mean(near) > 0.97
    assert any(np.any(net(one) != whole32(one)) for one in pictures)  # it is another network


def test_bytes_pass_under_the_name_of_the_map_they_are_of(tiny8) -> None:
    net = assemble(tiny8, networks.TINY, engine="openvino")
    assert [stage.name for stage in net.stages] == ["low", "mid", "deep"]
    assert {"low", "mid", "deep"} <= bytes_passed(net)
    trunk = net.stages[0].body(net.prepare(frames(1)[0]))
    assert trunk["low"].shape == (1, 8, 16, 24)
    assert trunk["scores_1"].dtype == np.float32  # clocks take the argmax of these
    features = net.stages[0].features(trunk)
    assert features.dtype == np.float32
    float_trunk = assemble(networks.tiny(), networks.TINY, engine="openvino").stages[0].body(net.prepare(frames(1)[0]))
    assert np.abs(features - float_trunk["low"]).max() < 0.05 * np.abs(float_trunk["low"]).max()


def test_a_map_that_is_an_output_passes_as_floats() -> None:
    model = in_bytes(networks.tiny(), networks.TINY)
    net = assemble(model, networks.TINY, engine="openvino")
    assert not {"low", "mid", "deep"} & bytes_passed(net)
    pictures = frames(4)
    assert np.mean([np.mean(net(one) == net.uncut()(one)) for one in pictures]) > 0.99


@pytest.mark.parametrize("name", ["fcn", "unet", "noskip", "branches"])
@pytest.mark.parametrize("engine", ENGINES)
def test_graphs_of_other_shapes(name, engine) -> None:
    make, said = networks.NETWORKS[name]
    model = in_bytes(make(), said)
    net, whole32 = (assemble(one, said, engine=engine) for one in (model, make()))
    for picture in frames(3, (said.input.width, said.input.height)):
        cut, whole, wanted = net(picture), net.uncut()(picture), whole32.uncut()(picture)
        if said.classes:
            assert np.mean(cut == whole) > 0.98
            assert np.mean(whole == wanted) > 0.9
        else:
            assert np.abs(cut - whole).max() < 0.02 * np.abs(whole).max()
            assert np.abs(whole - wanted).max() < 0.1 * np.abs(wanted).max()


def test_names_outputs_and_free_sizes_stay(tiny8) -> None:
    before = networks.tiny()
    assert [value.name for value in tiny8.graph.output] == ["scores"]
    assert tiny8.graph.input[0] == before.graph.input[0]
    made = {tensor for node in tiny8.graph.node for tensor in node.output}
    named = {name for cut in networks.TINY.cuts for name in cut} | set(networks.TINY.scores) | {"scores"}
    assert named <= made
    assert layers(tiny8) == (8, 8)
    assert all(weight.data_type != TensorProto.FLOAT for weight in tiny8.graph.initializer if len(weight.dims) == 4)


def test_interpolations_stay_in_float() -> None:
    model = ready(_named(networks.fcn()))
    assert len(interpolations(model)) == 3
    assert layers(in_bytes(networks.fcn(), networks.FCN)) == (7, 10)


def test_an_activation_is_never_lost() -> None:
    """Also where an output is read by another layer: it isn't rounded to bytes itself."""
    build = networks.Builder()
    x = build.conv("input", 3, 4)
    depth = build.node("Relu", build.conv(build.node("Relu", x), 4, 1), to="depth")
    build.node("Sigmoid", build.node("Relu", build.conv(depth, 1, 2)), to="other")
    model = in_bytes(build.model({"depth": 1, "other": 2}), networks.TINY)
    assert {node.output[0]: node.op_type for node in model.graph.node}["depth"] == "Relu"
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for one in samples(networks.TINY)[:2]:
        depth, other = session.run(None, one)
        assert depth.min() == 0
        assert other.min() >= 0.5


def test_a_cut_before_an_activation_stays(tmp_path: Path) -> None:
    build = networks.Builder()
    build.conv("input", 3, 4, stride=2, to="early")
    build.conv(build.node("Relu", "early"), 4, 4, stride=2, to="late")
    build.conv(build.node("Relu", "late"), 4, 3, to="y")
    said = sidecar.Sidecar("net", networks.TINY.input, "y", (("early",), ("late",)))
    path = networks.write_network(tmp_path, build.model({"y": 3}), said)
    write_clip(tmp_path / "clip", 4, size=(48, 32))
    quantize(path, list(read_data(tmp_path / "clip")), tmp_path / "net8.onnx", engine="onnxruntime", repeat=1)
    assert len(load(tmp_path / "net8.onnx", engine="onnxruntime")) == 2


def test_already_quantized_and_nothing_to_quantize_are_refused(tiny8) -> None:
    with pytest.raises(UsageError, match="quantized already; give the original network"):
        quantized(tiny8, [])
    build = networks.Builder()
    build.node("Relu", "input", to="y")
    with pytest.raises(NetworkError, match="nothing to quantize"):
        quantized(_named(build.model({"y": 3})), [])


def test_weights_in_half_floats_are_quantized_too() -> None:
    build = networks.Builder()
    half = build.constant(np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float16))
    build.nodes.append(helper.make_node("Cast", [half], ["full"], to=TensorProto.FLOAT))
    build.node("Conv", "input", "full", to="y", kernel_shape=[3, 3])
    made = in_bytes(build.model({"y": 4}), networks.TINY)
    assert layers(made) == (1, 1)


def test_an_old_opset_is_brought_to_where_a_scale_may_be_one_a_channel() -> None:
    build = networks.Builder()
    build.conv("input", 3, 4, to="y")
    made = in_bytes(build.model({"y": 4}, opset=11), networks.TINY)
    assert made.opset_import[0].version >= 13


def test_logs_are_silent_and_logging_is_as_it_was(caplog) -> None:
    before = (logging.root.manager.disable, list(logging.root.handlers))
    in_bytes(networks.tiny(), networks.TINY)
    assert (logging.root.manager.disable, list(logging.root.handlers)) == before
    assert not caplog.records


def test_without_the_library_the_error_says_what_to_install(monkeypatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(MissingDependency, match=r"pip install '\.\[onnxruntime\]'"):
        libraries.onnxruntime("onnxruntime.quantization")


# How others write quantized networks.


def pairs(model: onnx.ModelProto, *maps: str, apart: bool = False) -> onnx.ModelProto:
    """``model`` with a pair on each of ``maps``, read in its place: one, or one for each reader as TensorRT's tools do."""
    scale, zero = numpy_helper.from_array(np.float32(0.05), "s"), numpy_helper.from_array(np.uint8(7), "z")
    model.graph.initializer.extend([scale, zero])
    nodes = []
    for node in model.graph.node:
        for place, name in enumerate(node.input):
            if name in maps:
                tag = f"{name}.{node.name}" if apart else name
                if not any(one.output[0] == f"{tag}.q" for one in nodes):
                    nodes.append(helper.make_node("QuantizeLinear", [name, "s", "z"], [f"{tag}.q"], name=f"{tag}.q"))
                    nodes.append(
                        helper.make_node("DequantizeLinear", [f"{tag}.q", "s", "z"], [f"{tag}.d"], name=f"{tag}.d")
                    )
                node.input[place] = f"{tag}.d"
        nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


@pytest.mark.parametrize("apart", [False, True])
def test_a_pair_for_all_readers_passes_bytes_and_one_for_each_floats(apart) -> None:
    model = networks.tiny()
    del model.graph.output[1:]
    model = pairs(model, "low", "mid", apart=apart)
    net = assemble(model, networks.TINY, engine="openvino")
    assert bytes_passed(net).isdisjoint({"low", "mid"}) if apart else {"low", "mid"} <= bytes_passed(net)
    assert "deep" not in bytes_passed(net)
    for picture in frames(3):
        assert np.mean(net(picture) == net.uncut()(picture)) > 0.99


def test_a_cut_at_the_dequantized_map_is_a_cut_at_its_bytes() -> None:
    model = networks.tiny()
    del model.graph.output[1:]
    said = networks.renamed(networks.TINY, cuts=(("low.d",), ("mid",), ("deep",)))
    net = assemble(pairs(model, "low"), said, engine="openvino")
    assert "low" in bytes_passed(net)
    assert net.sidecar.cuts[0] == ("low",)


def test_a_map_may_be_quantized_twice_in_a_row() -> None:
    model = networks.tiny()
    del model.graph.output[1:]
    said = networks.renamed(networks.TINY, cuts=(("low.d",), ("mid",), ("deep",)))
    net = assemble(pairs(pairs(model, "low"), "low.d"), said, engine="openvino")
    assert "low.d" in bytes_passed(net)
    for picture in frames(3):
        assert np.mean(net(picture) == net.uncut()(picture)) > 0.99


def test_a_map_read_both_ways_passes_as_floats_and_scores_stay_floats() -> None:
    model = networks.tiny()
    del model.graph.output[1:]
    model = pairs(model, "low", "scores_1")
    model.graph.node.append(helper.make_node("Neg", ["low"], ["more"], name="more"))
    static = fix(model, {"input": (1, 3, 32, 48)}, floats=["scores_1"])
    graph = onnx_reader.neutral(static, "input")
    assert static.types["low"][0] == static.types["scores_1"][0] == TensorProto.FLOAT
    assert not any(node.name.endswith((".q", ".d")) for node in graph.nodes)
    assert {"low", "scores_1"} <= {tensor for node in graph.nodes for tensor in node.inputs}


def test_naming_again_changes_nothing(tiny8) -> None:
    net = assemble(tiny8, networks.TINY, engine=None)
    built = net.stages[0].body.build((48, 32))
    model = onnx.load_model_from_string(built.model)
    static = fix(model, {"clockseg.frame": (1, 32, 48, 3)})
    made = [[node.output[0] for node in nodes] for nodes in (model.graph.node, static.nodes)]
    assert {"low", "low.float"} <= set(made[0])
    assert {"low", "low.float"} <= set(made[1])
    assert static.types["low"] == (TensorProto.UINT8, (1, 8, 16, 24))


def test_floats_of_bytes_one_scale_a_channel() -> None:
    scale = np.array([0.5, 2.0], np.float32).reshape(1, 2, 1, 1)
    read = AsFloats("a", scale, np.array([0, 10], np.uint8).reshape(1, 2, 1, 1))
    found = read({"a": np.full((1, 2, 1, 1), 12, np.uint8), FRAME_SIZE: np.array([1, 1])})
    assert found.ravel().tolist() == [6.0, 4.0]


# Frames.


def test_frames_are_spread_however_many_come() -> None:
    assert spread(range(1000), 4) == [128, 384, 640, 896]
    assert spread(range(1100), 5) == [64, 320, 576, 768, 1024]
    assert spread(range(3), 4) == [0, 1, 2]
    assert spread([], 4) == []


def test_what_judges_was_not_calibrated_on(tmp_path) -> None:
    for number in range(2):
        write_clip(tmp_path / f"clip{number}", 20, labelled=3, seed=number)
    found = gather(read_data(tmp_path), Framing(24, 16), frames=12)
    kinds = [{one["image"].tobytes() for one in kind} for kind in found]
    assert [len(kind) for kind in kinds] == [12, 3]
    assert not kinds[0] & kinds[1]
    [alone] = read_data(tmp_path / "clip0", limit=1)
    assert [len(kind) for kind in gather([alone], Framing(24, 16), frames=12)] == [1, 0]


@pytest.mark.parametrize("colour", ["rgb", "bgr"])
def test_calibrated_on_what_the_network_reads(colour) -> None:
    """The same numbers as the graph makes of a frame: the Identity's output, at both ends."""
    build = networks.Builder()
    build.node("Identity", "input", to="same")
    build.conv("same", 3, 2, to="y")
    said = sidecar.Sidecar(
        "one", sidecar.Input("input", 24, 16, colour, 1 / 100, (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)), "y", (("same",),)
    )
    net = assemble(build.model({"y": 2}), said, engine="openvino")
    picture = np.random.default_rng(0).integers(0, 256, (16, 24, 3)).astype(np.uint8)
    read = net.stages[0].body(net.prepare(picture))["same"]
    np.testing.assert_allclose(said.input.normalised(picture[None]), read, rtol=1e-5, atol=1e-5)


# The function and the command.


def test_agreement_leaves_padding_out_and_seconds_are_of_every_part(tiny8) -> None:
    before, now = (assemble(one, networks.TINY, engine="openvino", size=(40, 30)) for one in (networks.tiny(), tiny8))
    frame = before.prepare(frames(1)[0][:30, :40])
    assert frame["image"].shape == (1, 32, 40, 3)
    found = agreement(before, now, [frame])
    assert 0.8 < found.mean_iu <= 1
    assert found.difference is None
    same = agreement(before, before, [frame])
    assert (same.mean_iu, same.pixel_acc) == (1.0, 1.0)
    for parts in part_seconds([before, now], [frame], 2):
        assert [*parts][:3] == ["low", "mid", "deep"]
        assert {"every stage", "whole"} <= parts.keys()
        assert parts["every stage"] > 0 < parts["whole"]


def test_the_command_writes_a_network_that_every_command_takes(tmp_path, capsys) -> None:
    path = networks.write_tiny(tmp_path)
    write_clip(tmp_path / "clip", 8, labelled=2, size=(96, 64))
    arguments = ["quantize", str(path), str(tmp_path / "clip"), "--out", str(tmp_path / "tiny8.onnx"), "--repeat", "2"]
    assert main([*arguments, "--frames", "5", "--engine", "openvino", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["calibration_frames"], facts["held_out_frames"], facts["size"]) == (5, 1, [48, 32])
    assert facts["layers"] == {"int8": 8, "all": 8}
    assert 0.8 < facts["agreement"]["mean_iu"] <= 1
    assert facts["bytes"]["int8"] == (tmp_path / "tiny8.onnx").stat().st_size
    assert set(facts["parts"]) >= {"low", "mid", "deep", "every stage", "whole"}
    assert sidecar.read(tmp_path / "tiny8.json") == networks.renamed(networks.TINY, name="tiny8")
    assert load(tmp_path / "tiny8.onnx", engine="openvino")(frames(1)[0]).shape == (32, 48)
    assert main([*arguments, "--engine", "openvino"]) == 2  # it is there already
    assert main([*arguments, "--engine", "openvino", "--size", "24", "--overwrite", "--quiet"]) == 0
    out = capsys.readouterr().out
    assert "8 of 8 layers with weights; 24x16" in out
    assert sidecar.read(tmp_path / "tiny8.json").input.width == 24
    assert sorted(file.name for file in tmp_path.iterdir() if file.is_file()) == [
        "classes.json", "tiny.json", "tiny.onnx", "tiny8.json", "tiny8.onnx"]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["NET", "CLIP", "--out", "NET"], 2, "is the network itself"),
        (["NET", "nowhere.mp4", "--out", "x.onnx"], 1, "no such file"),
        (["NET8", "CLIP", "--out", "x.onnx"], 2, "quantized already"),
    ],
)
def test_wrong_commands(tmp_path, monkeypatch, capsys, tiny8, arguments, code, said) -> None:
    monkeypatch.chdir(tmp_path)
    names = {"NET": str(networks.write_tiny(tmp_path)), "CLIP": str(tmp_path / "clip")}
    names["NET8"] = str(networks.write_network(tmp_path, tiny8, networks.renamed(networks.TINY, name="t8")))
    write_clip(tmp_path / "clip", 2, size=(48, 32))
    before = sorted(tmp_path.iterdir())
    assert main(["quantize", *(names.get(one, one) for one in arguments)]) == code
    assert said in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before


def test_nothing_is_left_if_the_sidecar_cannot_be_written(tmp_path, monkeypatch) -> None:
    path = networks.write_tiny(tmp_path)
    write_clip(tmp_path / "clip", 3, size=(48, 32))

    def full(said: sidecar.Sidecar, path: Path) -> None:
        raise OSError("no room")

    monkeypatch.setattr(sidecar, "write", full)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(NetworkError.__mro__[1], match="no room"):
        quantize(path, read_data(tmp_path / "clip"), tmp_path / "x.onnx", engine="openvino", repeat=1)
    assert sorted(tmp_path.iterdir()) == before
