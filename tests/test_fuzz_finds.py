"""What fuzzing found, each as a small input: once mended it stays so."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import networks
from clockseg.carry import parse_carry
from clockseg.cli.main import main
from clockseg.clocks.learned import load as load_clock
from clockseg.clocks.rates import frame_oracle
from clockseg.clocks.spec import parse_schedule
from clockseg.clockwork.clock import facts
from clockseg.clockwork.schedule import schedule_for
from clockseg.engines import cache_directory, onnxruntime
from clockseg.errors import DataError, NetworkError, UsageError
from clockseg.graph import onnx_reader, sidecar
from clockseg.graph.limits import BYTES, NODES, TENSOR_BYTES, check_nodes, check_tensor
from clockseg.graph.static import fix
from clockseg.networks.load import load
from clockseg.planning.schedule_file import read_schedule_file
from clockseg.segmenting.manifest import Entry, manifest
from clockseg.segmenting.results import folder_name
from clockseg.segmenting.segmentation import segment
from clockseg.video.images import Page, pages
from hostile_graphs import HOSTILE, hostile
from toy_networks import toy
from video_making import picture, write_video


def stored(folder: Path, model: onnx.ModelProto) -> Path:
    return networks.write_network(folder, model, networks.TINY)


class TestTexts:
    @pytest.mark.parametrize("text", ["carried(paced, warp)", "carried(carried, warp)"])
    def test_what_needs_arguments_is_no_schedule_yet(self, text: str) -> None:
        with pytest.raises(UsageError, match="needs arguments, such as"):
            parse_schedule(text)

    def test_a_function_of_something_else_is_told(self) -> None:
        with pytest.raises(UsageError, match="failed as a function of the number of stages"):
            schedule_for(parse_schedule("os.path:join"), 3)

    def test_a_module_that_ends_the_process_when_it_is_imported(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "ends_all.py").write_text("import sys; sys.exit(3)")
        monkeypatch.chdir(tmp_path)
        with pytest.raises(UsageError, match="can't be imported"):
            parse_schedule("ends_all:thing")


class TestNoCodeOutOfFiles:
    """A file that one was sent must not run what lies beside it."""

    @pytest.fixture(autouse=True)
    def _beside(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "lies_in_wait.py").write_text("raise RuntimeError('it ran')")
        monkeypatch.chdir(tmp_path)

    @pytest.mark.parametrize(
        "schedule", ["lies_in_wait:it", "carried(lies_in_wait:it, warp)", "carried(alternating, lies_in_wait:it)"]
    )
    def test_a_sidecar_s_schedule(self, schedule: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        network = networks.write_tiny(tmp_path, networks.renamed(networks.TINY, schedule=schedule))
        video = write_video(tmp_path / "v.mp4", [picture(48, 32)])
        assert main(["segment", str(video), "--network", str(network), "--out", "out", "--engine", "openvino"]) == 1
        assert "what a file names is not imported" in capsys.readouterr().err
        assert "lies_in_wait" not in sys.modules

    def test_a_schedule_file_s(self, tmp_path: Path) -> None:
        (tmp_path / "s.toml").write_text('format = "clockseg-schedule-1"\nschedule = "lies_in_wait:it"\n')
        with pytest.raises(DataError, match="what a file names is not imported"):
            read_schedule_file(tmp_path / "s.toml")

    @pytest.mark.parametrize("read", [parse_schedule, parse_carry])
    def test_on_the_command_line_it_is_asked_for(self, read: Callable[[str], Any]) -> None:
        with pytest.raises(UsageError, match="it ran"):
            read("lies_in_wait:it")


class TestGraphs:
    @pytest.mark.parametrize("name", HOSTILE)
    def test_a_hostile_graph_is_refused_before_it_is_computed(self, name: str, tmp_path: Path) -> None:
        with pytest.raises(NetworkError):
            load(stored(tmp_path, hostile(name)), engine=None)

    def test_what_a_tensor_would_take_is_told(self, tmp_path: Path) -> None:
        with pytest.raises(
            NetworkError, match=r"'changed' would be 1x12x\d+x\d+ and take [\d,]+ bytes; at most .*CLOCKSEG_MAX_TENSOR"
        ):
            load(stored(tmp_path, hostile("tile")), engine=None)

    @pytest.mark.parametrize(
        ("variable", "value", "said"),
        [
            (NODES, "3", "more than 3 nodes"),
            (BYTES, "100", "at most 100 are read"),
            (TENSOR_BYTES, "1000", "at most 1,000 are taken"),
            (NODES, "many", "give a whole number"),
            (NODES, "0", "give a whole number"),
        ],
    )
    def test_the_limits_are_those_of_the_environment(
        self, variable: str, value: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = networks.write_tiny(tmp_path)
        monkeypatch.setenv(variable, value)
        with pytest.raises((NetworkError, UsageError), match=said):
            load(path, engine=None)
        monkeypatch.setenv(variable, "9" * 18)
        load(path, engine=None)

    def test_a_million_nodes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(NODES, "999")
        graph = onnx.GraphProto()
        relu = helper.make_node("Relu", ["x"], ["x"])
        graph.node.extend([relu] * 1000)
        with pytest.raises(NetworkError, match="more than 999 nodes"):
            check_nodes(graph)

    def test_a_shape_below_zero(self) -> None:
        with pytest.raises(NetworkError, match="a size can't be negative"):
            check_tensor("x", TensorProto.FLOAT, (1, -1))

    def test_weights_that_name_the_same_bytes_again_and_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Each of them is read by itself: a small file would become a large network."""
        model = networks.tiny()
        (tmp_path / "w.bin").write_bytes(bytes(60_000))
        for weight in model.graph.initializer:
            onnx.external_data_helper.set_external_data(weight, "w.bin", offset=0)
            weight.ClearField("raw_data")
        (tmp_path / "tiny.onnx").write_bytes(model.SerializeToString())
        monkeypatch.setenv("CLOCKSEG_MAX_NETWORK_BYTES", "100000")
        with pytest.raises(NetworkError, match="at most 100,000 are read"):
            onnx_reader.read(tmp_path / "tiny.onnx")

    def test_an_engine_that_fails_when_it_runs_is_told(self, tmp_path: Path) -> None:
        """Engines and ONNX may disagree on shapes, which shows only then."""
        net = load(networks.write_tiny(tmp_path), engine=onnxruntime)
        part = net.stages[0].body
        part.compile = lambda built: lambda inputs: 1 / 0  # type: ignore[attr-defined]
        with pytest.raises(NetworkError, match=r"can't run part 'low\.body' .*division by zero"):
            net(np.zeros((32, 48, 3), np.uint8))

    def test_arithmetic_that_no_shape_needs_is_not_done_here(self) -> None:
        """Pooling over constants would be done in Python, for as long as the file likes."""
        model = networks.tiny()
        ones = helper.make_tensor("ones", TensorProto.FLOAT, [1, 1, 8, 8], [1.0] * 64)
        model.graph.initializer.append(ones)
        pooled = helper.make_node("AveragePool", ["ones"], ["pooled"], kernel_shape=[2, 2], name="pool")
        model.graph.node.append(pooled)
        static = fix(model, {"input": (1, 3, 32, 48)})
        assert "pooled" not in static.folded
        assert static.shape("pooled") == (1, 1, 7, 7)


class TestLearnedClocks:
    def clock(self, folder: Path, *nodes: onnx.NodeProto, weights: Any = ()) -> str:
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            list(nodes),
            "clock",
            [value("now", TensorProto.FLOAT, [1, 1, 6, 8])],
            [value("fire", TensorProto.FLOAT, ["n"])],
            weights,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        (folder / "clock.onnx").write_bytes(model.SerializeToString())
        return str(folder / "clock.onnx")

    def test_maps_of_any_size(self, tmp_path: Path) -> None:
        wide = helper.make_node("Constant", [], ["wide"], value_ints=[1 << 24, 1, 6, 8])
        with pytest.raises(UsageError, match="must be one number"):
            load_clock(self.clock(tmp_path, wide, helper.make_node("Expand", ["now", "wide"], ["fire"])))

    def test_loops(self, tmp_path: Path) -> None:
        nodes = HOSTILE["loop"]("now", "fire")
        with pytest.raises(UsageError, match="plain graph"):
            load_clock(self.clock(tmp_path, *nodes))

    def test_weights_elsewhere(self, tmp_path: Path) -> None:
        weight = helper.make_tensor("w", TensorProto.FLOAT, [8], [0.0] * 8)
        weight.ClearField("float_data")
        weight.data_location = TensorProto.EXTERNAL
        weight.external_data.add(key="location", value="w.bin")
        (tmp_path / "w.bin").write_bytes(bytes(32))
        with pytest.raises(UsageError, match="in one file"):
            load_clock(self.clock(tmp_path, helper.make_node("Add", ["now", "w"], ["fire"]), weights=[weight]))


def test_a_constant_that_is_resized_along_the_batch(tmp_path: Path) -> None:
    """OpenVINO writes past its memory when it computes that, and the process dies, then or later."""
    model = networks.tiny()
    resize = next(node for node in model.graph.node if node.op_type == "Resize")
    resize.input[0] = model.graph.initializer[0].name  # 8 kernels of 3x3x3
    with pytest.raises(NetworkError, match="along the batch axis"):
        load(stored(tmp_path, model), engine=None)


def test_a_sound_track_of_a_codec_that_nobody_knows(tmp_path: Path) -> None:
    """The video is segmented, and told is that the sound is left out."""
    images = [picture(48, 32, k) for k in range(5)]
    path = write_video(tmp_path / "v.mkv", images, audio=("aac", 8000, 0.0, 0.2))
    path.write_bytes(path.read_bytes().replace(b"A_AAC", b"A_ZZZ"))
    done = segment(path, tmp_path / "out", toy(), frame_oracle)
    assert done.summary["frames"] == 5
    assert any("audio stream" in problem for problem in done.problems)


@pytest.mark.parametrize("stem", ["manifest.jsonl", "summary.json", "labels.mkv", "..", "\x9b31m", "\u202egpj"])
def test_names_that_would_be_others_in_the_output_folder(stem: str) -> None:
    name = folder_name(stem)
    assert name not in ("manifest.jsonl", "summary.json", "labels.mkv", "", ".", "..")
    assert not set(name) & set("\x9b\u202e/")


def test_a_manifest_that_can_not_be_written_any_more(tmp_path: Path) -> None:
    def vanishing() -> None:
        with manifest(tmp_path / "out") as known:
            known.put(Entry("/a.mp4", "a"))
            (tmp_path / "out").rename(tmp_path / "elsewhere")

    with pytest.raises(DataError, match="can't be written"):
        vanishing()


def test_nobody_has_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in containers whose user has no name."""

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for variable in ("CLOCKSEG_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    monkeypatch.setattr(sys, "platform", "linux")
    folder = cache_directory()
    with pytest.raises(OSError, match="Not a directory"):
        folder.mkdir(parents=True)


def test_a_sidecar_of_any_values_is_refused_in_words(tmp_path: Path) -> None:
    said = json.loads(sidecar.dump(networks.TINY)) | {"name": "\x1b[2J", "stages": ["../a", "b", "c"]}
    assert sidecar.parse(json.dumps(said), source="x").name == "\x1b[2J"  # it is shown, see test_fuzz_terminal


def test_a_convolution_over_weights_without_channels(tmp_path: Path) -> None:
    weights = helper.make_tensor("w", TensorProto.FLOAT, [8], [0.0] * 8)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["input", "w"], ["scores"], name="first", kernel_shape=[3, 3])],
        "net",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 8, 6, 6])],
        [weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    with pytest.raises(NetworkError):
        load(str(stored(tmp_path, model)), engine=None)


def test_a_tiff_that_promises_terabytes(tmp_path: Path) -> None:
    # One directory at byte 8 with one field of four billion numbers of four bytes, at byte 8.
    field = (273).to_bytes(2, "little") + (4).to_bytes(2, "little") + (2**32 - 1).to_bytes(4, "little") + b"\x08\0\0\0"
    (tmp_path / "a.tif").write_bytes(b"II*\0\x08\0\0\0\x01\0" + field + bytes(4))
    assert pages(tmp_path / "a.tif") == [Page(cut=True)]


def test_a_frame_beyond_all_numbers(tmp_path: Path) -> None:
    model = onnx.load(stored(tmp_path, networks.tiny()))
    with pytest.raises(NetworkError, match=r"\(Conv\) doesn't fit what it reads"):
        fix(model, {"input": (1, 3, 2**66, 48)})


@pytest.mark.parametrize("name", ["either", "both", "invert"])
def test_deeply_nested_clocks_are_read_at_once(name: str) -> None:
    """What a nested clock declares was asked for four times a level, so that no machine got through sixty levels."""
    schedule = schedule_for(parse_schedule(f"{name}(" * 60 + 'difference(0.1, of="scores")' + ")" * 60), 3)
    assert facts(schedule.clocks[-1]).threshold == 0.1
