"""A schedule and its carry in one text: on the command line, in sidecars and in files; ``--carry`` overrides."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clockseg.carry import Flow, Warp, identity, parse_carry
from clockseg.cli import evaluate as command
from clockseg.cli.loading import parse_schedules
from clockseg.cli.main import main
from clockseg.clocks.rates import alternating, carried, frame_oracle, skip_frame
from clockseg.clocks.spec import parse_schedule, spelled
from clockseg.clockwork.schedule import schedule_for
from clockseg.errors import NetworkError, UsageError
from clockseg.evaluation.evaluate import evaluate
from clockseg.planning.schedule_file import ScheduleFile, write_schedule_file
from toy_networks import CLASSES, toy, write_clip

MOVED = "carried(skip_frame(4), warp(flow))"
TEXTS = [
    "skip_frame(4)",
    "alternating",
    " exponential ",
    "either(adaptive(0.25), at_least_every(8))",
    'difference(0.1, of="pixels")',
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_clip(tmp_path / "data" / "a", 6, labelled=3)
    return tmp_path / "data"


@pytest.mark.parametrize("schedule", [skip_frame(4), skip_frame(4)(3)])
def test_in_python_it_is_the_same_schedule_with_that_carry(schedule) -> None:
    made = carried(schedule, Warp(Flow(0.25)))(3)
    assert made == replace(skip_frame(4)(3), carry=Warp(Flow(0.25)))
    assert carried(carried(schedule, Warp(Flow())), identity)(3) == skip_frame(4)(3)
    with pytest.raises(UsageError, match="give one clock per stage"):
        schedule_for(carried(skip_frame(4)(3), identity), 2)


@pytest.mark.parametrize(
    ("text", "carry"),
    [
        (MOVED, "warp(flow)"),
        ("carried(skip_frame(4), warp)", "warp(flow)"),
        ("carried(skip_frame(4), identity)", "identity"),
        ('carried(skip_frame(4), warp(flow, scale=0.25, of="held"))', 'warp(flow(scale=0.25), of="held")'),
        ("carried(carried(skip_frame(4), identity), warp(flow))", "warp(flow)"),
    ],
)
def test_as_text(text: str, carry: str) -> None:
    made = schedule_for(parse_schedule(text), 3)
    assert made.clocks == skip_frame(4)(3).clocks
    assert str(made.carry) == carry


def test_either_part_may_be_of_a_package() -> None:
    made = schedule_for(parse_schedule("carried(clockseg.clocks.rates:alternating, clockseg.carry:identity)"), 3)
    assert made == alternating(3)
    assert (
        spelled("clockseg.clocks.rates:alternating", Warp(Flow()))
        == "carried(clockseg.clocks.rates:alternating, warp(flow))"
    )


@given(st.sampled_from(TEXTS), st.lists(st.sampled_from(["identity", "warp", "warp(flow, scale=0.3)"]), max_size=3))
def test_what_is_spelled_parses_back(text: str, carries: list[str]) -> None:
    told = text
    for carry in carries:
        told = spelled(told, parse_carry(carry))
    made, plain = (schedule_for(parse_schedule(one), 3) for one in (told, text))
    assert made == replace(plain, carry=parse_carry(carries[-1]) if carries else identity)
    assert spelled(told, identity) == text.strip()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("carried", r"needs arguments, such as carried\(skip_frame\(4\), warp\(flow\)\)"),
        ("carried(skip_frame(6))", "^carried takes a schedule and a carry, such as carried"),
        ("skip_frame()", "missing 1 required"),
        ("carried(skip_frame(4), alternating)", "not a carry"),
        ("carried(skip_frame(4), flow)", "not a carry"),
        ("carried(warp(flow), skip_frame(4))", r"warp\(flow\) is a carry, not a schedule"),
        ("carried(warp(flow), identity)", r"warp\(flow\) is a carry, not a schedule"),
        ("carried(warp, identity)", "warp is a carry, not a schedule"),
        ("carried(skip_frame(4), warp(flow, scale=7))", "above 0 and at most 1"),
        ("drift", "there is no schedule 'drift'"),
        (
            "carried(skip_frame(4), drift)",
            r"^schedule 'carried\(skip_frame\(4\), drift\)': there is no 'drift'\. Known",
        ),
        ("carried(skip_frame(4), interpolate(flw))", r"there is no 'flw'\. Did you mean flow"),
        ("plan.tml", r"^schedule 'plan\.tml': there is no such file\. Give FILE\.toml"),
        ("plans/my plan.tml", "there is no such file"),
        (__file__, r"a schedule file ends in \.toml"),
        ('carried(skip_frame(4), "drift")', "carry 'drift': 'drift' is not a carry"),
        ("either(carried(skip_frame(4), warp), every(2))", "takes clocks"),
        ("warp(flow)", r"warp\(flow\) is a carry, not a schedule"),
        ("warp", "is a carry, not a schedule"),
        ("flow", "is a carry, not a schedule"),
        ("identity", "is a carry, not a schedule"),
    ],
)
def test_what_is_wrong_is_told(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        schedule_for(parse_schedule(text), 3)


def test_python_refuses_what_is_no_carry() -> None:
    for wrong in (Warp, "warp(flow)", None):
        with pytest.raises(UsageError, match=r"is not a carry|is a class"):
            carried(alternating, wrong)


def test_each_schedule_of_a_command_has_its_own_unless_one_is_given_for_all() -> None:
    texts = ["skip_frame(4)", MOVED]
    assert [str(one.carry) for _, one in parse_schedules(texts, toy())] == ["identity", "warp(flow)"]
    assert [name for name, _ in parse_schedules(texts, toy())] == texts
    for carry, name in (("identity", "skip_frame(4)"), ("warp", MOVED)):
        for told, schedule in parse_schedules(texts, toy(), carry):
            assert told == name
            assert schedule.carry == parse_carry(carry)


def test_a_sidecar_recommends_one_with_its_carry() -> None:
    net = replace(toy(), sidecar=SimpleNamespace(classes=(), schedule=MOVED))
    [(name, schedule)] = parse_schedules(None, net)
    assert name == MOVED
    assert str(schedule.carry) == "warp(flow)"
    assert parse_schedules(None, net, "identity")[0][0] == "skip_frame(4)"
    with pytest.raises(NetworkError, match=r"recommends: .*drift"):
        parse_schedules(None, replace(net, sidecar=SimpleNamespace(classes=(), schedule="carried(alternating, drift)")))


def test_a_schedule_file_holds_both(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    write_schedule_file(ScheduleFile(MOVED), path)
    [(name, schedule)] = parse_schedules([str(path)], toy())
    assert name == MOVED
    assert str(schedule.carry) == "warp(flow)"


@pytest.fixture
def _toy_network(monkeypatch: pytest.MonkeyPatch) -> None:
    net = replace(toy(), engine="toy engine", sidecar=SimpleNamespace(classes=CLASSES, schedule=MOVED))
    monkeypatch.setattr(command, "load_network", lambda args: net)


@pytest.mark.usefixtures("_toy_network")
def test_evaluate_tells_the_carry_of_each(capsys, data: Path) -> None:
    given = ["--schedule", "skip_frame(4)", "--schedule", "carried(skip_frame(4), warp)"]
    assert main(["evaluate", str(data), "--json", *given]) == 0
    found = json.loads(capsys.readouterr().out)["schedules"]
    assert [(one["schedule"], one["carry"]) for one in found] == [("skip_frame(4)", "identity"), (MOVED, "warp(flow)")]
    assert main(["evaluate", str(data), "--quiet"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith(MOVED)
    assert main(["evaluate", str(data), "--json", "--carry", "identity"]) == 0
    [one] = json.loads(capsys.readouterr().out)["schedules"]
    assert (one["schedule"], one["carry"]) == ("skip_frame(4)", "identity")


def test_another_network_runs_under_a_schedule_of_its_own(data: Path) -> None:
    from clockseg.datasets import read_data

    other, clips = replace(toy(), name="other"), read_data(data)
    beside = [
        ("whole", other),
        ("skipping", other, skip_frame(2)),
        ("moved", other, carried(skip_frame(2), Warp(Flow()))),
    ]
    own, whole, skipping, moved = evaluate(toy(), {"own": skip_frame(2)}, clips, classes=CLASSES, baselines=beside)
    assert [one.schedule for one in (own, whole, skipping, moved)] == ["own", "whole", "skipping", "moved"]
    assert whole.agreement.pixel_acc == 1
    assert whole.tally.network_rate == 1
    assert skipping.agreement == own.agreement
    assert skipping.tally.network_rate == 2 / 5
    assert (skipping.carry, moved.carry) == ("identity", "warp(flow)")
    with pytest.raises(UsageError, match="give one clock per stage"):
        evaluate(toy(), {}, clips, classes=CLASSES, baselines=[("x", other, frame_oracle(2))])


def test_a_video_is_asked_for_its_vectors_only_where_a_carry_reads_them(tmp_path: Path, monkeypatch) -> None:
    from clockseg.datasets import Clip, read_data
    from video_making import picture, write_video

    asked, decode = [], Clip.frames
    monkeypatch.setattr(Clip, "frames", lambda self, **how: asked.append(how["vectors"]) or decode(self, **how))
    clips = read_data(write_video(tmp_path / "drive.mp4", [picture(64, 48, seed) for seed in range(3)]))
    for text in ("carried(skip_frame(2), warp(flow))", "carried(skip_frame(2), warp(codec))"):
        evaluate(toy(), {text: parse_schedule(text)}, clips, classes=CLASSES)
    assert asked == [False, True]
