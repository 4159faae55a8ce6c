"""Plan files: a schedule and what to run it on; options may leave that out, and must not contradict it."""

from __future__ import annotations

import argparse
import tomllib
from pathlib import Path

import pytest

from clockseg import DataError, UsageError
from clockseg.cli import main
from clockseg.cli.loading import as_planned
from clockseg.cli.options import add_network_options, add_schedule_options
from clockseg.planning.schedule_file import FORMAT, ScheduleFile, read_schedule_file, write_schedule_file

RUN = {"network": "street", "size": "320x240", "precision": "bf16"}


def written(path: Path, **run: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_schedule_file(ScheduleFile("carried(skip_frame(4), warp(flow))", run=run), path)
    return str(path)


def asked(*options: str) -> argparse.Namespace:
    """What a command is given on its line."""
    parser = argparse.ArgumentParser()
    add_network_options(parser)
    add_schedule_options(parser)
    return parser.parse_args(options)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = written(tmp_path / "plan.toml", **RUN)
    assert read_schedule_file(path).run == RUN
    assert tomllib.loads(Path(path).read_text())["run"] == RUN
    assert str(read_schedule_file(path)(3).carry) == "warp(flow)"


def test_a_network_s_file_is_found_from_wherever_the_plan_is_read(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nets").mkdir()
    path = written(Path("plans/night.toml"), network="nets/own.onnx")
    assert tomllib.loads(Path(path).read_text())["run"] == {"network": "../nets/own.onnx"}
    monkeypatch.chdir(tmp_path / "plans")
    found = as_planned(asked("--schedule", "night.toml"), "night.toml")
    assert Path(found.network).resolve() == tmp_path / "nets/own.onnx"
    (tmp_path / "nets/own.onnx").touch()
    assert as_planned(asked("--network", str(tmp_path / "nets/own.onnx")), "night.toml").network == "../nets/own.onnx"


def test_what_the_options_leave_out_is_the_plan_s(tmp_path: Path) -> None:
    path = written(tmp_path / "plan.toml", **RUN)
    found = as_planned(asked("--schedule", path, "--threads", "2"), path)
    assert (found.network, found.size, found.precision, found.threads) == ("street", (320, 240), "bf16", 2)
    same = as_planned(asked("--network", "street", "--size", "320x240", "--precision", "bf16"), path)
    assert (same.network, same.size, same.precision) == ("street", (320, 240), "bf16")
    partly = as_planned(asked("--size", "64"), written(tmp_path / "any.toml", network="street-int8"))
    assert (partly.network, partly.size, partly.precision) == ("street-int8", 64, "f32")


def test_without_a_plan_nothing_changes(tmp_path: Path) -> None:
    plain = written(tmp_path / "tuned.toml")
    for schedule in (None, "alternating", plain):
        assert as_planned(asked(), schedule) == asked()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--network", "street-int8"), r"--network street-int8, but .*plan.toml is a plan for street"),
        (("--size", "320"), r"--size 320, but .*plan.toml is a plan for 320x240"),
        (("--precision", "f32"), r"--precision f32, but .*plan.toml is a plan for bf16"),
    ],
)
def test_contradictions_are_refused(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    path = written(tmp_path / "plan.toml", **RUN)
    with pytest.raises(UsageError, match=said):
        as_planned(asked(*options), path)


def test_two_plans_for_different_networks_are_refused(tmp_path: Path) -> None:
    one, other = written(tmp_path / "a.toml", **RUN), written(tmp_path / "b.toml", **{**RUN, "size": "96"})
    with pytest.raises(UsageError, match=r"b.toml is a plan for --size 96, .*a.toml for 320x240"):
        as_planned(asked(), one, other)
    assert as_planned(asked(), one, one, "alternating").size == (320, 240)


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ('run = "street"', "run is 'street'; it holds texts for network, size, precision"),
        ("[run]\nengine = 'torch'", "it holds texts for network, size, precision"),
        ("[run]\nsize = 320", "it holds texts"),
    ],
)
def test_files_that_say_something_else_are_refused(tmp_path: Path, run: str, said: str) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(f'format = "{FORMAT}"\nschedule = "alternating"\n{run}\n')
    with pytest.raises(DataError, match=said):
        read_schedule_file(path)


def test_a_size_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"plan.toml: '12xy' is not a size"):
        as_planned(asked(), written(tmp_path / "plan.toml", size="12xy"))


def test_segment_and_evaluate_say_so_before_any_work(tmp_path: Path, capsys) -> None:
    path = written(tmp_path / "plan.toml", **RUN)
    video = tmp_path / "x.mp4"
    video.write_bytes(b"no video, which is not read")
    for command in (["segment", str(video), "--out", str(tmp_path / "out")], ["evaluate", str(video)]):
        assert main.main([*command, "--schedule", path, "--network", "street-int8"]) == 2
        assert "is a plan for street" in capsys.readouterr().err
