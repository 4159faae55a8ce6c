"""Inputs that are replaced while they are read: no result is of two versions, and no run ends as if all was well."""

from __future__ import annotations

import argparse
import os
import pickle
import shutil
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import onnx
import pytest

from clockseg import DataError, evaluate, load, parse_schedule, read_summary, segment, skip_frame
from clockseg.cli.main import main
from clockseg.cli.segment import make_work, recipe
from clockseg.datasets import read_data
from clockseg.live import live
from clockseg.report.run import read_run
from clockseg.segmenting.inputs import Input
from clockseg.segmenting.segmentation import segment_many
from clockseg.segmenting.work import Work
from clockseg.segmenting.workers import Here
from clockseg.video import InputChanged, open_clip, write_png
from networks import write_tiny
from video_making import write_video

DARK, LIGHT = (np.full((32, 48, 3), value, np.uint8) for value in (20, 230))


def video(path: Path, image: np.ndarray, frames: int = 12) -> Path:
    return write_video(path, [image] * frames, container_format="matroska")


def swap(path: Path, other: Path) -> None:
    """Put a copy of another file in its place, of the same size and time as far as its content allows."""
    was = path.stat()
    copy = path.with_name(".copy")
    shutil.copyfile(other, copy)
    os.utime(copy, ns=(was.st_atime_ns, was.st_mtime_ns))
    copy.replace(path)


@pytest.fixture
def dark(tmp_path) -> Path:
    return video(tmp_path / "clip.mkv", DARK)


@pytest.fixture
def light(tmp_path) -> Path:
    return video(tmp_path / "other.bin", LIGHT)


@pytest.fixture(scope="module")
def network(tmp_path_factory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("network"))


@pytest.fixture
def net(network):
    return load(network, engine="openvino", threads=1)


# A clip.
def test_a_clip_whose_file_is_replaced_raises_where_a_pass_begins(dark, light) -> None:
    clip = open_clip(dark)
    assert len(list(clip)) == 12
    swap(dark, light)
    with pytest.raises(InputChanged, match=r"clip\.mkv: it was replaced or written to while it was being read"):
        next(iter(clip))


def test_and_where_it_ends(dark, light) -> None:
    frames = iter(open_clip(dark))
    next(frames)
    swap(dark, light)
    with pytest.raises(InputChanged):
        list(frames)


def test_a_file_that_is_written_to_in_place_is_another_one(dark) -> None:
    frames = iter(open_clip(dark))
    next(frames)
    with dark.open("ab") as file:
        file.write(b"more")
    with pytest.raises(InputChanged):
        list(frames)


def test_a_file_that_only_gets_a_second_name_is_the_same(dark) -> None:
    clip = open_clip(dark)
    os.link(dark, dark.with_name("second.mkv"))
    dark.chmod(0o600)
    assert len(list(clip)) == 12
    clip.check_unchanged(open_clip(dark).identity)


def test_one_picture_of_a_folder_is_enough(tmp_path) -> None:
    for number in range(4):
        write_png(DARK[..., 0], tmp_path / f"{number}.png")
    frames = iter(open_clip(tmp_path))
    next(frames)
    write_png(LIGHT[..., 0], tmp_path / "2.png")
    with pytest.raises(InputChanged, match=r"2\.png"):
        list(frames)


def test_the_error_comes_whole_out_of_another_process(dark) -> None:
    clip = open_clip(dark)
    dark.touch()
    with pytest.raises(InputChanged) as caught:
        clip.check_unchanged()
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is InputChanged
    assert str(again) == str(caught.value)


# The main job.
def cut_at(monkeypatch: pytest.MonkeyPatch, *seconds: float) -> None:
    """Cut videos there, however short the pieces are."""
    monkeypatch.setattr("clockseg.segmenting.work.boundaries", lambda *a, **k: tuple(map(Fraction, seconds)))


@pytest.mark.parametrize("options", [{}, {"limit": 5}, {"end_seconds": 0.3}])
def test_segment_refuses_a_video_that_is_replaced_meanwhile(net, dark, light, tmp_path, options) -> None:
    def progress(now: object) -> None:
        if dark.stat().st_ino not in seen:
            return
        swap(dark, light)

    seen = {dark.stat().st_ino}
    with pytest.raises(InputChanged):
        segment(dark, tmp_path / "out", net, skip_frame(2), progress=progress, **options)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("when", ["first", "between", "last", "joining"])
def test_a_video_in_pieces_that_is_replaced_leaves_nothing(net, dark, light, tmp_path, monkeypatch, when) -> None:
    cut_at(monkeypatch, 0.16, 0.32)
    done: list[int] = []
    run, finish = Work.run, Work.finish

    def watched(self, on_progress, planned, piece, **how):
        if when == "first" and piece.number == 0:
            swap(dark, light)
        found = run(self, on_progress, planned, piece, **how)
        done.append(piece.number)
        if (when, piece.number) in (("between", 1), ("last", 2)):
            swap(dark, light)
        return found

    def finished(self, on_progress, planned, results):
        monkeypatch.setattr("clockseg.segmenting.work.join_pieces", lambda *a: swap(dark, light) or ())
        return finish(self, on_progress, planned, results)

    monkeypatch.setattr(Work, "run", watched)
    if when == "joining":
        monkeypatch.setattr(Work, "finish", finished)
    with pytest.raises(InputChanged):
        segment(dark, tmp_path / "out", net, skip_frame(2))
    assert done == {"first": [], "between": [0, 1], "last": [0, 1, 2], "joining": [0, 1, 2]}[when]
    assert not (tmp_path / "out").exists()


def command(network: Path, source: Path, out: Path, *more: str, beside: tuple[Path, ...] = ()) -> int:
    given = [str(source), *map(str, beside), "--quiet", "--engine", "openvino", "--schedule", "skip_frame(2)"]
    return main(["segment", *given, "--network", str(network), "--out", str(out), *more])


def brightness(out: Path) -> set[bool]:
    """Whether the frames of an overlay are light."""
    return {bool(frame.image[:20].mean() > 100) for frame in open_clip(out / "overlay.mp4")}


def test_the_command_fails_tells_and_does_the_new_video_when_resumed(
    network, dark, light, tmp_path, monkeypatch, capsys
) -> None:
    cut_at(monkeypatch, 0.2)
    out, run, after = tmp_path / "out", Work.run, [lambda: swap(dark, light)]

    def watched(self, on_progress, planned, piece, **how):
        found = run(self, on_progress, planned, piece, **how)
        if after:
            after.pop()()
        return found

    monkeypatch.setattr(Work, "run", watched)
    assert command(network, dark, out) == 1
    assert "it was replaced or written to while it was being read" in capsys.readouterr().err
    assert not (out / "clip").exists()
    assert command(network, dark, out, "--resume") == 0
    assert brightness(out / "clip") == {True}


def test_a_clip_that_is_replaced_stops_no_other(network, dark, light, tmp_path, monkeypatch) -> None:
    other, out, run = video(tmp_path / "b.mkv", LIGHT), tmp_path / "out", Work.run

    def watched(self, on_progress, planned, piece, **how):
        found = run(self, on_progress, planned, piece, **how)
        if planned.source.name == dark.name:
            dark.touch()
        return found

    monkeypatch.setattr(Work, "run", watched)
    assert command(network, dark, out, beside=(other,)) == 1
    assert read_summary(out / "b")["frames"] == 12
    assert not (out / "clip").exists()


def test_a_result_of_a_video_that_is_another_one_now_is_made_anew(network, dark, light, tmp_path) -> None:
    assert command(network, dark, tmp_path / "out") == 0
    swap(dark, light)
    assert command(network, dark, tmp_path / "out", "--resume") == 0
    assert brightness(tmp_path / "out" / "clip") == {True}


def test_so_is_that_of_a_folder_of_images_of_which_one_is_another_one(network, tmp_path) -> None:
    folder, out = tmp_path / "images", tmp_path / "out"
    folder.mkdir()
    for number in range(3):
        write_png(DARK[..., 0], folder / f"{number}.png")
    assert command(network, folder, out) == 0
    (folder / "1.png").write_bytes(_png(tmp_path, LIGHT))
    assert command(network, folder, out, "--resume") == 0
    assert brightness(out / "images") == {True, False}


def _png(folder: Path, image: np.ndarray) -> bytes:
    write_png(image[..., 0], folder / "one.png")
    return (folder / "one.png").read_bytes()


def test_what_a_result_is_of_is_what_was_read_not_what_is_there_at_the_end(
    net, dark, light, tmp_path, monkeypatch
) -> None:
    """A video replaced between the last look at it and the manifest's last line is not taken for the one that was segmented."""
    work = Work(net, skip_frame(2)(3), ("overlay",))
    finish = Work.finish

    def late(self, on_progress, planned, results):
        found = finish(self, on_progress, planned, results)
        swap(dark, light)
        return found

    monkeypatch.setattr(Work, "finish", late)
    given = [Input(str(dark), Path("clip"))]
    for _ in range(2):
        [outcome] = segment_many(given, tmp_path / "out", lambda: Here(work), {}, resume=True)
        assert not outcome.before
        assert outcome.error is None


# Networks.
def test_a_network_that_is_replaced_gives_workers_no_second_one(network, tmp_path) -> None:
    given = _given(network, tmp_path)
    how = recipe(given, make_work(given), threads=1)
    how()
    _change_weights(tmp_path / network.name)
    with pytest.raises(DataError, match="were replaced during the run"):
        how()


def test_nor_does_one_that_is_replaced_while_it_is_loaded(network, tmp_path, monkeypatch) -> None:
    given = _given(network, tmp_path)

    def slow(path, **options):
        net = load(path, **options)
        _change_weights(tmp_path / network.name)
        return net

    monkeypatch.setattr("clockseg.networks.load.load", slow)
    with pytest.raises(DataError, match="were replaced"):
        make_work(given)


def test_weights_in_a_file_of_their_own_are_part_of_a_network(network, dark, tmp_path, capsys) -> None:
    model = onnx.load(network)
    kept = {"save_as_external_data": True, "location": "weights.bin", "size_threshold": 0}
    onnx.save(model, tmp_path / "net.onnx", **kept)
    shutil.copy(network.with_suffix(".json"), tmp_path / "net.json")
    assert command(tmp_path / "net.onnx", dark, tmp_path / "out") == 0
    data = bytearray((tmp_path / "weights.bin").read_bytes())
    data[:4] = b"\0" * 4
    (tmp_path / "weights.bin").write_bytes(data)
    assert command(tmp_path / "net.onnx", dark, tmp_path / "out", "--resume") == 2
    assert "its manifest is of another run: digest" in capsys.readouterr().err


# Clocks.
def _write_clock(path: Path, operator: str) -> Path:
    """A learned clock whose answer is ``operator`` of the frames since the last firing, over 32."""
    given = onnx.helper.make_tensor_value_info("since", onnx.TensorProto.FLOAT, [1, 1])
    gives = onnx.helper.make_tensor_value_info("change", onnx.TensorProto.FLOAT, [1, 1])
    graph = onnx.helper.make_graph([onnx.helper.make_node(operator, ["since"], ["change"])], "clock", [given], [gives])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def test_a_learned_clock_that_is_replaced_ends_the_run(net, dark, tmp_path, monkeypatch) -> None:
    clock = _write_clock(tmp_path / "clock.onnx", "Identity")
    schedule = parse_schedule(f'either(learned("{clock}", 0.5), at_least_every(4))')
    with pytest.raises(InputChanged, match=r"clock\.onnx: it was replaced"):
        segment(dark, tmp_path / "out", net, schedule, progress=lambda now: _write_clock(clock, "Sigmoid"))
    assert not (tmp_path / "out").exists()
    cut_at(monkeypatch, 0.2)
    run = Work.run

    def watched(self, on_progress, planned, piece, **how):
        found = run(self, on_progress, planned, piece, **how)
        _write_clock(clock, "Abs")
        return found

    monkeypatch.setattr(Work, "run", watched)
    with pytest.raises(InputChanged, match=r"clock\.onnx"):
        segment(dark, tmp_path / "out", net, parse_schedule(f'learned("{clock}", 0.5)'))


def test_a_run_with_another_learned_clock_is_not_resumed(network, dark, tmp_path, capsys) -> None:
    clock, out = _write_clock(tmp_path / "clock.onnx", "Identity"), tmp_path / "out"
    schedule = ["--schedule", f'budget(learned("{clock}"), network_rate=0.25)']
    assert command(network, dark, out, *schedule) == 0
    assert command(network, dark, out, *schedule, "--resume") == 0
    _write_clock(clock, "Sigmoid")
    assert command(network, dark, out, *schedule, "--resume") == 2
    assert "its manifest is of another run: digest" in capsys.readouterr().err


@pytest.mark.parametrize(
    "schedule", ["edited:clock", "either(edited:clock, every(5))", "carried(skip_frame(2), edited:carry)"]
)
def test_a_run_with_edited_code_is_not_resumed(network, dark, tmp_path, capsys, monkeypatch, schedule) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "edited", raising=False)
    code = "from clockseg.carry import Identity\nclass Own(Identity): pass\ncarry = Own()\n"
    code += "def clock(tick): return tick.since >= 2\n"
    (tmp_path / "edited.py").write_text(code)
    given = (network, dark, tmp_path / "out", "--schedule", schedule)
    assert command(*given) == 0
    assert command(*given, "--resume") == 0
    (tmp_path / "edited.py").write_text(code.replace("2", "3"))
    assert command(*given, "--resume") == 2
    assert "its manifest is of another run: digest" in capsys.readouterr().err


CARRIES = """
from clockseg.carry import Identity

class Inherits(Identity):
    def __init__(self, number): self.number = number

class Silent:
    estimates_motion, reads_vectors, of = False, False, "held"
    def __init__(self, number): self.number = number
    def see(self, prepare, image, vectors): return None
    def observe(self, before, now): return None
    def compose(self, first, then): return None
    def move(self, value, motion): return value
"""


@pytest.mark.parametrize("carry", ["Inherits", "Silent"])
def test_a_carry_that_does_not_print_its_arguments_is_resumed_with_the_same_ones_only(
    network, dark, tmp_path, capsys, monkeypatch, carry
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "unprinted", raising=False)
    (tmp_path / "unprinted.py").write_text(CARRIES)
    given = (network, dark, tmp_path / "out", "--schedule", "skip_frame(2)", "--jobs", "2", "--carry")
    assert command(*given, f"unprinted:{carry}(1)") == 0
    assert command(*given, f"unprinted:{carry}(1)", "--resume") == 0
    assert command(*given, f"unprinted:{carry}(2)", "--resume") == 2
    assert "its manifest is of another run: digest" in capsys.readouterr().err


def _given(network: Path, folder: Path) -> argparse.Namespace:
    from clockseg.cli.main import parser

    for file in (network, network.with_suffix(".json")):
        shutil.copy(file, folder / file.name)
    given = ["segment", "x.mp4", "--out", "out", "--network", str(folder / network.name), "--engine", "openvino"]
    return parser().parse_args(given)


def _change_weights(path: Path) -> None:
    model = onnx.load(path)
    model.graph.initializer[0].raw_data = bytes(len(model.graph.initializer[0].raw_data))
    onnx.save(model, path)


# Everything else that reads an input more than once.
def test_evaluate_refuses_pictures_that_are_replaced_meanwhile(net, tmp_path) -> None:
    for number in range(4):
        write_png(DARK[..., 0], tmp_path / f"{number}.png")
    clips = read_data(tmp_path)

    def progress(now) -> None:
        if now.done == 2:
            write_png(LIGHT[..., 0], tmp_path / "3.png")

    with pytest.raises(InputChanged, match=r"3\.png"):
        evaluate(net, {"a": skip_frame(2)}, clips, classes=net.sidecar.classes, progress=progress)


@pytest.mark.parametrize("limit", [None, 4])
def test_and_a_video(net, dark, light, limit) -> None:
    def progress(now) -> None:
        if now.done == 2:
            swap(dark, light)

    with pytest.raises(InputChanged):
        evaluate(net, {"a": skip_frame(2)}, read_data(dark, limit=limit), progress=progress)


def test_a_clip_of_a_data_set_is_the_same_in_every_pass(dark, light) -> None:
    [clip] = read_data(dark)
    assert len(list(clip)) == 12
    swap(dark, light)
    for reading in (lambda: next(iter(clip)), clip.open, clip.check_unchanged):
        with pytest.raises(InputChanged):
            reading()
    assert len(list(replace(clip))) == 12


def test_a_tape_is_of_one_video(net, tmp_path) -> None:
    from clockseg.planning.trial import Callbacks, taped

    dark, light = video(tmp_path / "clip.mkv", DARK, 90), video(tmp_path / "other.bin", LIGHT, 90)
    seen = iter(range(1000))

    def progress(done: int, of: int) -> None:
        if next(seen) == 3:
            swap(dark, light)

    with pytest.raises(InputChanged):
        taped([net], [[]], read_data(dark), 4, most=40, most_bytes=10**9, callbacks=Callbacks(progress))


def test_a_live_file_that_is_replaced_leaves_no_result(net, dark, light, tmp_path) -> None:
    def seen(number, channel, shown) -> None:
        if dark.stat().st_ino == first:
            swap(dark, light)

    first = dark.stat().st_ino
    [lived] = live(net, [str(dark)], skip_frame(2), out=tmp_path / "out", on_frame=seen, drop="all")
    assert isinstance(lived.error, InputChanged)
    assert lived.folder is None
    assert not list((tmp_path / "out").rglob("summary.json"))


def test_a_report_does_not_show_another_video(net, dark, light, tmp_path) -> None:
    segment(dark, tmp_path / "out", net, skip_frame(2))
    assert read_run(tmp_path / "out").source == dark
    swap(dark, light)
    assert read_run(tmp_path / "out").source is None
    assert read_run(tmp_path / "out", source=dark).source == dark
