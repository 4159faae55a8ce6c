"""``clockseg reproduce``: every experiment on stand-ins and on the paper's layouts, in small."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs torch")

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import dataset_trees
from clockseg import DataError
from clockseg.cli.main import main
from clockseg.cli.reproduce import EXPERIMENTS, experiment, text
from clockseg.datasets.official import CITYSCAPES, PASCAL
from clockseg.paper import adaptive_clock, tables, velocity
from clockseg.paper.adaptive_clock import PixelChange
from clockseg.paper.fcn import FCNDescription, FCNShape, write_fcn
from clockseg.paper.report import ORACLE, find, relative_loss, write
from clockseg.paper.source import Setting
from clockseg.showing.stream import run
from narrow_fcn import random_state
from toy_networks import CLASSES, toy, write_clip

TOY = replace(toy(), sidecar=SimpleNamespace(classes=CLASSES))
MODULES = (velocity, tables, adaptive_clock)


@pytest.fixture(scope="module")
def setting(tmp_path_factory) -> Setting:
    """A dense labelled clip wide enough to be translated, and a clip in place of the videos; the network is a toy."""
    root = tmp_path_factory.mktemp("data")
    write_clip(root / "camvid" / "val" / "dense", 14, labelled=14, size=(200, 24))
    write_clip(root / "davis" / "other", 12, size=(24, 16), seed=1)
    return Setting(root, lambda name: TOY, None, "street", step=7, distances=(1, 2), longest=12)


def test_each_experiment_has_a_module_that_says_what_it_costs():
    for module in MODULES:
        assert "clockseg reproduce" in " ".join(module.__doc__.split())
        assert "Cost:" in module.__doc__


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_each_experiment_runs_on_stand_ins_and_is_written(name, setting, tmp_path):
    report = experiment(name)(setting)
    files = {file.name for file in write(report, tmp_path, command="clockseg reproduce")}
    assert {f"{name}.md", f"{name}.json"} <= files
    assert all((tmp_path / file).stat().st_size for file in files)
    assert not list(tmp_path.glob("*.part"))
    facts = json.loads((tmp_path / f"{name}.json").read_text())
    assert facts["rows"]
    assert any("Stand-ins" in note for note in facts["notes"])
    assert report.title in text(report)
    for row in report.rows:
        if row.source == "measured" and row.method == ORACLE and find(report.rows, row.data, ORACLE, "measured"):
            assert relative_loss(row, report.rows) == 0


def test_the_curve_has_the_oracle_at_threshold_zero(setting):
    rows = adaptive_clock.run_curve(setting).rows
    for data in ("CamVid every 1", "CamVid every 2"):
        every, at_zero = (find(rows, data, name, "measured") for name in (ORACLE, "adaptive(0.0)"))
        assert (at_zero.mean_iu, at_zero.full_frames) == (every.mean_iu, 100)


def test_without_labels_videos_are_measured_alone(tmp_path):
    write_clip(tmp_path / "videos" / "street", 6, size=(24, 16))
    setting = Setting(tmp_path, lambda name: TOY, None, "street")
    table = experiment("velocity")(setting).table
    assert [line["mean IU"] for line in table if line["source"] == "measured"] == ["-"] * 6
    assert len(experiment("adaptive-videos")(setting).rows) > len(adaptive_clock.PAPER)


def test_the_pixel_clock_watches_the_picture_and_gates_the_last_stage():
    frames = dataset_trees.scene(8, 6, 0), dataset_trees.scene(8, 6, 0), dataset_trees.scene(8, 6, 1)
    fired = [record.fired for _, record in run(toy(), frames, PixelChange(0.1))]
    assert fired == [(True, True, True), (True, True, False), (True, True, True)]
    assert PixelChange(0.1).watches(3) == PixelChange(0.1).watches(1)


def save_narrow(folder: Path, stem: str, variant, classes) -> None:
    shape = FCNShape(variant, len(classes.names)).narrowed(1 / 64)
    write_fcn(random_state(shape), FCNDescription(shape, classes), folder / f"{stem}.onnx")


@pytest.fixture(scope="module")
def weights(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("weights")
    for stem, variant in (("voc-fcn8s-heavy", "fcn8s"), ("voc-fcn-pool3", "pool3"), ("voc-fcn-pool4", "pool4")):
        save_narrow(folder, stem, variant, PASCAL)
    save_narrow(folder, "cityscapes-fcn8s-heavy", "fcn8s", CITYSCAPES)
    return folder


def reproduced(experiment: str, data: Path, weights: Path, capsys) -> list[dict]:
    """The rows that are measured, as the command tells them."""
    arguments = ["reproduce", experiment, "--data", str(data), "--weights", str(weights), "--threads", "1", "--json"]
    assert main(arguments) == 0
    rows = json.loads(capsys.readouterr().out)[experiment]["rows"]
    return [row for row in rows if row["source"] == "measured"]


def test_on_pascals_layout_with_checkpoints(weights, tmp_path, capsys):
    year = dataset_trees.voc(tmp_path, ["2007_000033", "2008_000001"], split="seg11valid", size=(170, 20))
    assert year.is_dir()
    measured = [(row["data"], row["method"]) for row in reproduced("pipeline-pascal", tmp_path, weights, capsys)]
    assert ("PASCAL, shift 16", "3-stage baseline") in measured
    assert ("PASCAL, shift 32", "3-stage pipeline, notebook start-up") in measured


def test_on_the_cityscapes_layout(weights, tmp_path, capsys):
    dataset_trees.cityscapes(tmp_path / "cityscapes")
    measured = [row["method"] for row in reproduced("schedules", tmp_path, weights, capsys)]
    assert {"skip-frame", "alternating (1,1,2)", "adaptive at 50 %", "exponential"} <= set(measured)


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["velocity"], 2, "no data. Give --data DIR"),
        (["pipeline", "--standin"], 2, "CLIP/labels/*.png and classes.json into DIR/camvid/val"),
        (["velocity", "--data", "."], 2, "need the authors' weights: give --weights DIR"),
        (["pipeline-pascal", "--data", ".", "--weights", "."], 1, "VOCdevkit is missing"),
        (["schedules", "--data", ".", "--weights", "."], 1, "holds none of nyud, youtube-objects, cityscapes"),
        (["pipeline", "--data", ".", "--standin"], 1, "camvid/val holds no clip with labels"),
        (["adaptive-videos", "--data", ".", "--standin"], 1, "holds no video"),
    ],
)
def test_what_is_missing_is_named(arguments, code, told, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CLOCKSEG_DATA", raising=False)
    assert main(["reproduce", *arguments]) == code
    assert told in capsys.readouterr().err


def test_missing_weights_are_named(tmp_path):
    dataset_trees.voc(tmp_path, ["2007_000033"], split="seg11valid")
    setting = Setting(tmp_path, lambda name: TOY, tmp_path)
    with pytest.raises(DataError, match=r"no voc-fcn8s-heavy\.onnx; make it with"):
        setting.translated(16)
