"""Plans: which frames are looked at, what is promised of which, and what is chosen."""

from __future__ import annotations

import argparse
import json
import math
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import networks
from clockseg import DataError, Session, UsageError, alternating, exponential, run, skip_frame
from clockseg.cli import plan as command
from clockseg.clocks import Plain, adaptive
from clockseg.clocks.spec import parse_schedule
from clockseg.clockwork.schedule import schedule_for
from clockseg.datasets import read_data
from clockseg.evaluation.metrics import confusion
from clockseg.planning import command_time, planner
from clockseg.planning.candidates import Candidate, Costs, Kind, forced, measured, possible
from clockseg.planning.command_time import CommandTime
from clockseg.planning.planner import Goal, Plan, Variant, frontier, plan
from clockseg.planning.trial import (
    UNKNOWN,
    Agreement,
    Callbacks,
    Slot,
    Taped,
    Trial,
    bytes_per_frame,
    shares,
    slots,
    thinned,
)
from clockseg.video.clip import Frame
from toy_networks import CLASSES, toy

FRAMES = 56
KEEP = 0.97
SKIP = Kind("skip_frame({})", (2, 4))


@given(st.one_of(st.just(UNKNOWN), st.integers(0, 3000)), st.integers(1, 2000))
def test_slots_are_as_many_frames_as_allowed_in_blocks_of_both_kinds(frames, most) -> None:
    found = list(slots(frames, most))
    indices = [slot.frame for slot in found]
    assert indices == sorted(set(indices))
    assert len(found) == min(most, frames)
    assert all(index < frames for index in indices)
    runs = [slot.frame for slot, before in zip(found[1:], found, strict=False) if slot.frame != before.frame + 1]
    assert runs == [slot.frame for slot in found[1:] if slot.first]
    if len(found) >= 16:
        held_back = sum(slot.held_back for slot in found)
        assert 0.25 * len(found) <= held_back <= 0.6 * len(found)
    by_block = {slot.block: slot.held_back for slot in found}
    assert all(by_block[slot.block] == slot.held_back for slot in found)


@given(st.lists(st.integers(0, 300), min_size=1, max_size=6), st.integers(1, 500))
def test_what_short_clips_leave_goes_to_the_others(lengths, most) -> None:
    found = shares(lengths, most)
    assert sum(found) == min(most, sum(lengths))
    assert all(count <= length for count, length in zip(found, lengths, strict=True))
    largest = max(found)
    # Only a clip that is used up has fewer frames than another, but for the remainder.
    assert all(count in (length, largest) or largest - count <= len(lengths) for count, length in zip(found, lengths))


@given(st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_agreement_is_what_the_confusion_says(classes, seed) -> None:
    rng = np.random.default_rng(seed)
    # Some classes are rare.
    rare = rng.random(classes) ** 6
    truth, shown = (rng.choice(classes, (40, 50), p=rare / rare.sum()).astype(np.uint8) for _ in range(2))
    one, counted = Agreement.of(truth, shown, classes), confusion(truth, shown, classes)
    assert one.pixel_acc == counted.pixel_acc
    assert one.mean_iu == pytest.approx(counted.mean_iu_of())
    assert (one + one).mean_iu == pytest.approx(counted.mean_iu_of())
    assert math.isnan(Agreement(np.zeros((3, classes))).pixel_acc)


def right_of_thousand(right: int) -> Agreement:
    return Agreement(np.array([[right], [1000], [1000]]))


def trial(right: int, time: float, blocks: tuple[int, ...] = ()) -> Trial:
    parts = tuple(map(right_of_thousand, blocks or (right,)))
    return Trial(0, Candidate(SKIP, 2, "identity"), time, 0.5, reduce(add, parts), right_of_thousand(right), parts)


def test_the_best_is_the_fastest_that_keeps_or_the_best_in_time() -> None:
    trials = [trial(990, 0.5), trial(995, 0.6), trial(985, 0.2), trial(999, 1.0), trial(985, 0.25)]
    assert Goal(keep=0.99).best(trials) is trials[0]
    assert Goal(keep=0.991).best(trials) is trials[1]
    assert Goal(time=0.5).best(trials) is trials[0]
    assert Goal(time=0.4).best(trials) is trials[2]
    assert Goal(keep=1).best(trials) is trials[3]
    assert not Goal(keep=1).met(trials[3])
    assert Goal(time=0.1).best(trials) is trials[2]
    assert Goal(fps=50).settled(0.01).best(trials) is trials[3]
    assert frontier(Goal(keep=0.99), trials) == [trials[2], trials[0], trials[1], trials[3]]


def test_what_varies_over_the_blocks_is_not_promised() -> None:
    steady, lucky = trial(0, 0.5, (990, 990, 990, 990)), trial(0, 0.4, (999, 999, 999, 970))
    goal = Goal(keep=0.988)
    assert goal.error(steady) == 0
    # The standard error of the mean of four.
    assert goal.error(lucky) == pytest.approx(np.std([0.999, 0.999, 0.999, 0.97], ddof=1) / 2)
    assert goal.agreement(lucky.tuned) > goal.agreement(steady.tuned)
    assert goal.best([lucky, steady]) is steady


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "give one of them"),
        ({"keep": 0.9, "time": 0.5}, "give one of them"),
        ({"keep": 99}, "keep=99; give a share"),
        ({"time": 0}, "time=0; give a number above 0"),
        ({"fps": math.inf}, "fps=inf"),
    ],
)
def test_goals_that_are_none_are_refused(given: dict[str, float], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Goal(**given)


def test_what_a_network_cannot_run_is_left_out() -> None:
    net = replace(toy(), stages=tuple(replace(stage, scores=None) for stage in toy().stages))
    kinds = [SKIP, Kind("adaptive({})", (0.1,)), Kind("no_such_clock({})", (1,))]
    found = possible(net, [Candidate(kind, kind.numbers[0], "warp(flow)") for kind in kinds])
    assert [one.text for one in found] == ["carried(skip_frame(2), warp(flow))"]


def images(frames: int, seed: int = 0) -> list[np.ndarray]:
    """A picture that moves."""
    import cv2

    coarse = np.random.default_rng(seed).integers(0, 256, (9, 30, 3), dtype=np.uint8)
    wide = cv2.resize(coarse, (48 + 2 * frames, 40), interpolation=cv2.INTER_CUBIC)
    return [np.ascontiguousarray(wide[:, 2 * t : 2 * t + 48]) for t in range(frames)]


def test_costs_are_known_of_every_way_a_frame_may_go() -> None:
    made = {
        (0, "skip", "flow"): schedule_for(parse_schedule("carried(skip_frame(9), warp(flow))"), 3),
        (0, "exponential", "identity"): exponential(3),
        (0, "adaptive", "identity"): adaptive(0.9, 0.9)(3),
    }
    net = toy()
    found = measured(
        net,
        {key: (net, one) for key, one in made.items()},
        [Frame(index, image) for index, image in enumerate(images(20))],
    )
    none, first, two, every = ((True,) * n + (False,) * (3 - n) for n in range(4))
    assert set(found.seconds[0, "skip", "flow"]) == {(every, ""), (none, "output")}
    assert set(found.seconds[0, "exponential", "identity"]) == {(first, ""), (two, ""), (every, "")}
    assert set(found.seconds[0, "adaptive", "identity"]) == {(first, ""), (two, ""), (every, "")}
    assert found.uncut > 0
    assert all(second > 0 for known in found.seconds.values() for second in known.values())
    assert forced(alternating(3)).clocks[-1].period == 3


def test_a_clock_of_the_whole_network_is_asked_while_it_is_timed() -> None:
    asked: list[int] = []
    clock = Plain(lambda tick: asked.append(tick.t) or False, gates_after=0)
    found = [record.fired for _, record in run(toy(), images(5), forced(schedule_for(clock, 3)))]
    assert asked == [1, 2, 3, 4]
    assert found == [(fires,) * 3 for fires in (True, False, False, True, False)]


def test_costs_of_another_run_are_against_the_reference_of_that_time() -> None:
    way, family = ((True,), ""), (0, "skip", "identity")
    calm, busy = (
        Costs(1.0, {(0, "other", "identity"): {way: 1.0}}),
        Costs(2.0, {family: {way: 1.0, ((False,), ""): 0.2}}),
    )
    session = Session(replace(toy(), stages=toy().stages[:1], groups=()), skip_frame(2))
    times = []
    for image in images(2):
        session(image)
        times.append(calm.plus(busy).of(family, session.record))
    assert times == [0.5, 0.1]
    # What was never met is as dear as the dearest.
    assert calm.plus(busy).of(family, session.record._replace(propagated="fused")) == 0.5


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import cv2

    folder = tmp_path_factory.mktemp("data") / "drive"
    (folder / "images").mkdir(parents=True)
    for index, image in enumerate(images(FRAMES)):
        cv2.imwrite(str(folder / f"images/{index:03}.png"), image[..., ::-1])
    return folder


class Priced:
    """Costs that no machine's load changes: 1 a stage that fires, a quarter for motion, a tenth for looking at pixels."""

    def __init__(self, costs: Costs, cheap: str = "") -> None:
        self.uncut, self.seconds, self.cheap = 3.0, costs.seconds, cheap

    def of(self, family: Any, record: Any) -> float:
        moving, looking = "flow" in family[2], "difference" in family[1]
        return (sum(record.fired) + 0.25 * moving + 0.1 * looking) / 3

    def plus(self, other: Any) -> Priced:
        return Priced(Costs(3.0, {**self.seconds, **other.seconds}))


@pytest.fixture(scope="module")
def priced() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planner, "measured", lambda *args: Priced(measured(*args)))
        patch.setattr(planner, "Costs", lambda uncut, seconds: Priced(Costs(uncut, seconds)))
        yield


@pytest.fixture(scope="module")
def found(clip: Path, priced: None) -> Plan:
    return planned(clip, Goal(keep=KEEP))


def planned(clip: Path, goal: Goal, **more: Any) -> Plan:
    return plan([Variant(toy(), "toy")], read_data(clip), goal, classes=CLASSES, **more)


@pytest.mark.slow
def test_what_is_told_of_the_blocks_is_what_a_run_gives_there(found: Plan) -> None:
    assert found.frames == FRAMES
    assert found.met
    assert len(found.trials) > 40
    net, truth = toy(), [thinned(toy()(image)) for image in images(FRAMES)]
    for one in [found.chosen, *found.frontier]:
        schedule = parse_schedule(one.candidate.text)
        shown = [thinned(output) for output, _ in run(net, images(FRAMES), schedule)]
        for side, held_back in ((one.tuned, False), (one.held_back, True)):
            pairs = zip(slots(FRAMES, 400), truth, shown, strict=True)
            counted = [Agreement.of(a, b, 3) for slot, a, b in pairs if slot.held_back == held_back and slot.frame]
            assert reduce(add, counted).pixel_acc == side.pixel_acc
            assert reduce(add, counted).mean_iu == side.mean_iu


def test_the_cheapest_that_keeps_is_chosen_and_motion_pays(found: Plan) -> None:
    cheaper = [one for one in found.trials if one.relative_time < found.chosen.relative_time]
    assert cheaper
    assert all(found.goal.promised(one) < KEEP for one in cheaper)
    assert "(flow" in found.chosen.candidate.text
    times = [one.relative_time for one in found.frontier]
    assert times == sorted(times)


def test_the_most_agreement_in_a_time(clip: Path, priced: None) -> None:
    fast = planned(clip, Goal(fps=1 / (0.35 * 3)), limit=40)
    assert fast.goal.time == pytest.approx(0.35)
    assert fast.met
    in_time = [one for one in fast.trials if one.relative_time <= fast.goal.time]
    assert len(in_time) > 3
    assert fast.goal.promised(fast.chosen) == max(map(fast.goal.promised, in_time))


def test_rates_of_fixed_clocks_are_no_chance_of_the_blocks(found: Plan) -> None:
    [one] = [trial for trial in found.trials if trial.candidate.text == "skip_frame(4)"]
    # Neither the fill at the start, which isn't part of a period, nor what is begun at the end and not ended.
    assert one.relative_time == pytest.approx(1 / 4)


def test_short_looks_make_no_clock_cheap(clip: Path, priced: None) -> None:
    """Runs of 16 frames hold no period of 16."""
    rare = planned(clip, Goal(keep=0.9), limit=32).trials
    [one] = [trial for trial in rare if trial.candidate.text == "skip_frame(16)"]
    assert one.network_rate == pytest.approx(1 / 16)
    assert min(trial.network_rate for trial in rare) >= 1 / 16


@pytest.mark.slow
def test_a_smaller_network_is_chosen_where_it_agrees(clip: Path, priced: None) -> None:
    small = replace(toy(), name="small", stages=toy().stages[:1], groups=())
    large = replace(small, name="large", stages=(*small.stages, replace(small.stages[0], name="again")))
    found = plan(
        [Variant(large, "large"), Variant(small, "small")], read_data(clip), Goal(keep=1), classes=CLASSES, limit=40
    )
    assert found.variant.network == "small"
    assert found.promised == 1
    assert found.frames == 40


def test_tapes_stay_within_their_bytes(clip: Path, priced: None) -> None:
    most = 4_000_000
    told: list[str] = []
    found = planned(clip, Goal(keep=0.9), most_bytes=most, callbacks=Callbacks(step=told.append))
    assert 32 <= found.frames < FRAMES
    assert found.bytes <= most
    assert told[0] == f"4 MB of disk space hold {found.frames} frames; 400 were allowed"
    with pytest.raises(DataError, match="too few to plan on"):
        planned(clip, Goal(keep=0.9), limit=20)


def test_a_frame_is_counted_with_the_motion_that_the_first_one_lacks() -> None:
    net = toy()
    candidates = [[Candidate(SKIP, 2, "warp(flow)")]]
    made, empty = Taped([net], candidates, 3), Taped([net], candidates, 3)
    frames = [Frame(index, image) for index, image in enumerate(images(10))]
    clip = argparse.Namespace(frames=lambda vectors: iter(frames[:3]))
    each = bytes_per_frame(empty, [clip], vectors=False)
    for number, frame in enumerate(frames):
        made.add(frame, Slot(number, number == 0, 0, False))
    assert 0.8 * 10 * each < made.bytes <= 10 * each


def test_a_clock_of_one_s_own_is_tried_or_refused(clip: Path, priced: None) -> None:
    tried = planned(clip, Goal(keep=0.9), also=["either(confidence({}), every(5))"], limit=40).trials
    assert any(one.candidate.text.startswith("carried(either(confidence(0.05), every(5))") for one in tried)
    for text, said in (
        ("no_such({})", "no_such"),
        ("budget(fps=30)", "fps"),
        ("adaptive({}, watch=7)", "after stage 7"),
    ):
        with pytest.raises(UsageError, match=said):
            planned(clip, Goal(keep=0.9), also=[text])


CLOCKS = """
from clockseg.clocks import Decision

class Dear:
    gates_after = 0
    def __init__(self, threshold): self.threshold = threshold
    def __call__(self, tick, state):
        return Decision(tick.since / 20 >= self.threshold, tick.since / 20), state

class Late(Dear):
    def __call__(self, tick, state): return Decision(tick.last_seconds > self.threshold), state

class Seen:
    def __init__(self, threshold): self.threshold = threshold
    def __call__(self, tick, state): return Decision(tick.image.mean() / 255 >= self.threshold), state
"""


@pytest.fixture
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A plan on a small network, of few kinds of schedule, that knows the module ``plan_clocks``."""
    monkeypatch.setattr(planner, "clocks", lambda stages: [])
    monkeypatch.setattr(planner, "CARRIES", ("identity", "interpolate(flow)"))
    monkeypatch.setattr(command_time, "command_times", lambda *given: [CommandTime(1.0, 0.1), CommandTime(1.0, 0.3)])
    # Every clock looks too dear to win.
    monkeypatch.setattr(planner.Search, "_may_win", lambda self, family: False)
    (tmp_path / "plan_clocks.py").write_text(CLOCKS)
    monkeypatch.syspath_prepend(tmp_path)
    return [
        "--network",
        str(networks.write_tiny(tmp_path)),
        "--engine",
        "onnxruntime",
        "--keep",
        "0.6",
        "--limit",
        "40",
    ]


def test_the_best_schedule_of_each_clock_given_is_told_though_it_can_not_win(
    clip: Path, quick: list[str], capsys: Any
) -> None:
    from clockseg.cli.main import main

    # The last one can't be replayed under interpolate(flow).
    given = ["plan_clocks:Dear({})", "skip_frame(5)", "alternating"]
    asked = ["plan", str(clip), *quick, "--quiet", *(word for text in given for word in ("--clock", text))]
    assert main([*asked, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    shown = [one["schedule"] for one in facts["clocks"]]
    assert ["plan_clocks:Dear(" in shown[0], "skip_frame(5)" in shown[1], shown[2]] == [True, True, "alternating"]
    assert all(0 < one["network_rate"] <= 1 for one in facts["clocks"])
    assert (facts["command"]["frames"], facts["command"]["timed_frames"]) == (FRAMES, 40)
    assert main(asked) == 0
    out = capsys.readouterr().out
    rows = [line[2:] for line in out.splitlines() if line.startswith(("+ ", "* "))]
    assert all(any(row.startswith(text) for row in rows) for text in shown)
    assert "+ the best schedule of a --clock" in out
    assert "estimated from runs on 40 frames" in out


@pytest.mark.parametrize(
    ("clock", "reason"),
    [
        ("plan_clocks:Late({})", "reads tick.last_seconds can't be replayed"),
        (
            "plan_clocks:Seen({})",
            "a clock that reads it must declare it in watches(stage)",
        ),
    ],
)
def test_a_clock_that_can_t_be_replayed_is_refused_as_by_tune(
    clip: Path, quick: list[str], capsys: Any, clock: str, reason: str
) -> None:
    from clockseg.cli.main import main

    asked = ["--clock", clock, "--quiet"]
    # The picture itself is recorded, for a clock that declares it.
    assert main(["plan", str(clip), *quick, *asked, "--clock", 'difference({}, of="pixels")']) == 2
    said = capsys.readouterr().err
    assert reason in said
    assert main(["tune", str(clip), *quick[:4], *asked, "--fire-rate", "0.5", "--keep", "threshold"]) == 2
    assert capsys.readouterr().err == said


def test_networks_without_labels_or_of_other_classes_are_refused(clip: Path) -> None:
    numbers = replace(toy(), finish=lambda scores: scores[0], conclude=None)
    with pytest.raises(UsageError, match="give a network whose output is a label map"):
        plan([Variant(numbers, "depth")], read_data(clip), Goal(keep=0.9), classes=CLASSES)
    with pytest.raises(UsageError, match="at least one network"):
        plan([], read_data(clip), Goal(keep=0.9))


def test_the_command_writes_what_segment_runs(
    tmp_path: Path, clip: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clockseg.cli import main as top

    # Fewer kinds of schedule, since each is compiled.
    monkeypatch.setattr(planner, "clocks", lambda stages: [])
    monkeypatch.setattr(planner, "CARRIES", ("identity", "warp(flow)"))
    monkeypatch.setattr(command_time, "command_times", lambda *given: [CommandTime(1.0, 0.1), CommandTime(1.0, 0.3)])
    out = tmp_path / "plans/plan.toml"
    asked = [
        str(clip),
        "--size",
        "96",
        "--engine",
        "openvino",
        "--threads",
        "1",
        "--limit",
        "48",
        "--keep",
        "0.6",
    ]
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    args = parser.parse_args([*asked, "--out", str(out), "--json", "--quiet"])
    assert command.run(args) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["chosen"]["network"] == "scene"
    assert facts["chosen"]["size"] == "96"
    assert facts["command"]["planned"]["seconds"] == pytest.approx(1 + 0.1 * FRAMES)
    assert facts["chosen"]["held_back"]["pixel_acc"] >= 0.6
    data = tomllib.loads(out.read_text())
    assert data["run"] == {"network": "scene", "precision": "f32", "size": "96"}
    assert data["schedule"] == facts["chosen"]["schedule"]
    with pytest.raises(UsageError, match="exists already"):
        command.run(args)
    run = ["segment", str(clip / "images"), "--schedule", str(out), "--out", str(tmp_path / "seg")]
    assert top.main([*run, "--engine", "openvino", "--threads", "1", "--write", "labels", "--quiet"]) == 0
    summary = json.loads(next((tmp_path / "seg").glob("*/summary.json")).read_text())
    assert summary["schedule"] == data["schedule"]
