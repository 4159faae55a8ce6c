"""The time promised for the whole command, and the promise of a plan whose held-back blocks disagree."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import networks
from clockseg import DataError
from clockseg.cli.main import main
from clockseg.datasets import read_data
from clockseg.planning import command_time
from clockseg.planning.candidates import SKIP, Candidate
from clockseg.planning.command_time import CommandTime, command_times, promise
from clockseg.planning.planner import Goal, Plan, Variant
from clockseg.planning.trial import Agreement, Trial
from toy_networks import toy
from video_making import picture, write_video


def trial(time: float, tuned: int, held_back: int) -> Trial:
    """In ``time`` of the uncut network's, so many of a hundred pixels agree."""
    half, other = (Agreement(np.array([[right], [100], [100]])) for right in (tuned, held_back))
    return Trial(0, Candidate(SKIP, 4, "warp(flow)"), time, 0.25, half, other, (half,))


def planned(goal: Goal, chosen: Trial) -> Plan:
    return Plan(goal, (Variant(toy(), "toy"),), chosen, (chosen,), (chosen,), 0.01, 2, 0)


def test_the_worse_half_of_the_video_is_promised() -> None:
    plan = planned(Goal(keep=0.95), trial(0.2, 97, 94))
    assert (plan.met, plan.kept, plan.promised) == (True, False, 0.94)
    plan = planned(Goal(keep=0.95), trial(0.2, 97, 99))
    assert (plan.met, plan.kept, plan.promised) == (True, True, 0.97)
    assert planned(Goal(time=0.25), trial(0.2, 97, 90)).kept
    assert not planned(Goal(time=0.25), trial(0.3, 97, 99)).kept


@pytest.fixture
def video(tmp_path: Path) -> Path:
    return write_video(tmp_path / "a.mp4", [np.roll(picture(48, 32), t, axis=1) for t in range(30)])


def test_the_command_is_measured_with_the_plan_and_with_the_reference_on_every_frame(
    video: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def measured(source: Path, frames: int, ways: list[list[str]]) -> list[CommandTime]:
        asked.extend([source, frames, ways])
        return [CommandTime(1.0, 0.1), CommandTime(1.0, 0.2)]

    monkeypatch.setattr(command_time, "command_times", measured)
    chosen = trial(0.2, 97, 97)
    variants = (Variant(toy(), "large", "320"), Variant(toy(), "small", None, "bf16"))
    plan = replace(planned(Goal(keep=0.9), replace(chosen, variant=1)), variants=variants)
    found = promise(plan, read_data(video), write=("labels",), engine="openvino", threads=2)
    source, frames, (way, every), *_ = asked
    assert (source, frames) == (video, 30)
    common = ["--write", "labels", "--engine", "openvino", "--every", "1", "--threads", "2"]
    small = ["--network", "small", "--precision", "bf16", "--schedule", chosen.candidate.text]
    large = ["--network", "large", "--precision", "f32", "--size", "320", "--schedule", "frame_oracle"]
    assert (way, every) == ([*common, *small], [*common, *large])
    assert found.facts()["planned"] == {"start": 1.0, "per_frame": 0.1, "seconds": 4.0}
    assert found.faster == pytest.approx(7 / 4)
    limited = promise(plan, read_data(video), limit=20)
    assert (asked[4], limited.frames, limited.timed_frames) == (20, 30, 20)


@pytest.mark.parametrize(("per_frame", "warned"), [(0.3, True), (0.1, False)])
def test_a_plan_that_slows_the_command_down_is_told(tmp_path, monkeypatch, capsys, per_frame, warned) -> None:
    video = write_video(tmp_path / "b.mp4", [np.roll(picture(48, 32), t, axis=1) for t in range(40)])
    times = [CommandTime(1.0, per_frame), CommandTime(1.0, 0.2)]
    monkeypatch.setattr(command_time, "command_times", lambda *given: times)
    network = ["--network", str(networks.write_tiny(tmp_path)), "--engine", "onnxruntime"]
    assert main(["plan", str(video), *network, "--keep", "0.5", "--quiet"]) == 0
    assert ("the whole command takes longer with this plan (0." in capsys.readouterr().err) == warned


@pytest.mark.slow
def test_the_command_itself_is_run(video: Path, tmp_path: Path) -> None:
    network = ["--network", str(networks.write_tiny(tmp_path)), "--engine", "onnxruntime"]
    [found] = command_times(video, 30, [network])
    assert found.per_frame > 0
    assert found.start > 0
    with pytest.raises(DataError, match="nowhere"):
        command_times(video, 30, [["--network", "nowhere.onnx"]])


def test_a_video_that_is_too_short_is_refused() -> None:
    with pytest.raises(DataError, match="3 frames are too few"):
        command_times(Path("a.mp4"), 3, [[]])
