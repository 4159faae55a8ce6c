"""``clockseg evaluate``: its JSON, its table, and its exit codes."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from clockseg.cli import evaluate as command
from clockseg.cli.main import main
from toy_networks import CLASSES, toy, write_clip

KEYS = [
    "schedule",
    "carry",
    "mean_iu",
    "fw_iu",
    "pixel_acc",
    "mean_acc",
    "iu",
    "boundary",
    "agreement",
    "flicker",
    "uncut_flicker",
    "fire_rate",
    "network_rate",
    "seconds_per_frame",
    "relative_time",
    "multiply_adds_per_frame",
    "relative_multiply_adds",
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_clip(tmp_path / "data" / "a", 5, labelled=3)
    write_clip(tmp_path / "data" / "b", 3)
    return tmp_path / "data"


@pytest.fixture(autouse=True)
def _toy_network(monkeypatch: pytest.MonkeyPatch) -> None:
    net = replace(toy(), engine="toy engine", sidecar=SimpleNamespace(classes=CLASSES, schedule="alternating"))
    monkeypatch.setattr(command, "load_network", lambda args: net)


def evaluated(capsys: pytest.CaptureFixture[str], *args: object, code: int = 0) -> dict:
    assert main(["evaluate", *map(str, args), "--json"]) == code
    return json.loads(capsys.readouterr().out, parse_constant=pytest.fail)


def test_json_is_exactly_what_is_documented(capsys, data):
    out = evaluated(capsys, data, "--schedule", "frame_oracle", "--schedule", "skip_frame(2)")
    assert list(out) == ["data", "network", "engine", "schedules"]
    assert (out["data"], out["network"], out["engine"]) == (str(data), "toy", "toy engine")
    for schedule in out["schedules"]:
        assert list(schedule) == KEYS
        assert list(schedule["iu"]) == list(CLASSES)
        assert list(schedule["boundary"]) == ["mean_iu", "fw_iu"]
        assert list(schedule["agreement"]) == ["mean_iu", "fw_iu", "pixel_acc"]
        assert list(schedule["fire_rate"]) == ["one", "two", "three"]
        shares = [schedule[key] for key in ("mean_iu", "fw_iu", "pixel_acc", "network_rate")]
        assert all(0 <= share <= 1 for share in shares)
    oracle, skip = out["schedules"]
    assert oracle["agreement"] == {"mean_iu": 1, "fw_iu": 1, "pixel_acc": 1}
    assert skip["network_rate"] == 3 / 6


def test_schedules_come_in_the_order_given_and_may_come_twice(capsys, data):
    given = ["skip_frame(2)", "exponential", "skip_frame(2)", "fixed_rate((1, 2, 2))"]
    out = evaluated(capsys, data, *(part for text in given for part in ("--schedule", text)))
    assert [schedule["schedule"] for schedule in out["schedules"]] == given
    assert out["schedules"][0]["agreement"] == out["schedules"][2]["agreement"]


def test_the_default_schedule_is_the_networks_own(capsys, data):
    out = evaluated(capsys, data)
    assert [(one["schedule"], one["carry"]) for one in out["schedules"]] == [("alternating", "identity")]


def test_without_labels_there_is_null(capsys, data):
    out = evaluated(capsys, data / "b")
    (schedule,) = out["schedules"]
    assert schedule["mean_iu"] is schedule["boundary"] is None
    assert set(schedule["iu"].values()) == {None}
    assert schedule["agreement"]["mean_iu"] > 0


def test_several_data(capsys, data):
    out = evaluated(capsys, data / "a", data / "b")
    assert out["data"] == [str(data / "a"), str(data / "b")]
    assert out["schedules"][0]["fire_rate"]["three"] == (2 + 1) / (4 + 2)


@pytest.mark.parametrize(
    ("clip", "given", "network"), [("a", [], "street"), ("b", [], "scene"), ("b", ["street"], "street")]
)
def test_the_default_network_is_that_of_segment_for_clips_without_labels(
    clip, given, network, capsys, data, monkeypatch
):
    asked = []
    load = command.load_network
    monkeypatch.setattr(command, "load_network", lambda args: asked.append(args.network) or load(args))
    evaluated(capsys, data / clip, *(["--network", *given] if given else []))
    assert asked == [network]


def test_every_and_limit(capsys, data):
    out = evaluated(capsys, data / "a", "--every", 2, "--limit", 2)
    assert out["schedules"][0]["fire_rate"] == {"one": 1, "two": 1, "three": 0}


def test_nothing_but_json_on_standard_output_and_nothing_on_error_if_quiet(capsys, data):
    assert main(["evaluate", str(data), "--json", "--quiet"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)
    assert out.count("\n") == 1
    assert err == ""


def test_a_table_for_people(capsys, data):
    assert main(["evaluate", str(data), "--schedule", "frame_oracle", "--schedule", "skip_frame(2)"]) == 0
    head, oracle, skip = capsys.readouterr().out.splitlines()
    assert head.split("  ")[0] == "schedule"
    columns = re.split(r" {2,}", head)
    assert columns.index("pixels") == columns.index("agreement") + 1
    assert oracle.split()[3:5] == ["100.0", "%"]
    assert "50.0 %" in skip
    assert len({len(head), len(oracle), len(skip)}) == 1


def test_a_bad_clip_does_not_stop_the_others(capsys, data):
    label = data / "a" / "labels" / "000.png"
    label.write_bytes(label.read_bytes()[:30])
    assert main(["evaluate", str(data), "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["schedules"][0]["fire_rate"]["three"] == 1 / 2
    assert "000.png is cut off or damaged" in err
    assert "Clip a is left out" in err


def test_missing_data_does_not_stop_the_others(capsys, data):
    assert main(["evaluate", str(data / "nowhere"), str(data / "b"), "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["schedules"]
    assert "nowhere: no such file or folder" in err


def test_nothing_is_printed_if_no_clip_could_be_read(capsys, data):
    assert main(["evaluate", str(data / "nowhere"), "--json"]) == 1
    assert capsys.readouterr().out == ""


def test_a_clip_cut_short_is_counted_and_told(capsys, data, monkeypatch):
    from clockseg.datasets.clips import Clip

    whole = Clip.frames

    def cut_short(self, *, problem, **how):
        yield from whole(self, **how)
        problem("decoding stopped after 3 frames")

    monkeypatch.setattr(Clip, "frames", cut_short)
    assert main(["evaluate", str(data / "b"), "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["schedules"][0]["network_rate"] == 1
    assert err.startswith("clockseg: warning:")
    assert err.endswith("decoding stopped after 3 frames\n")


def test_other_classes_than_the_networks(capsys, data):
    (data / "classes.json").write_text('{"classes": ["a", "b", "c"]}')
    assert main(["evaluate", str(data / "a")]) == 1
    assert "3 classes (a, b, c), network 'toy' has 3 (dark, middle, light)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--schedule", "alternatin"], "Did you mean alternating?"),
        (["--schedule", "fixed_rate((1, 2))"], "has 2 stages and the network 3"),
        (["--schedule", "fixed_rate((1, 3, 2))"], "not nested"),
        (["--carry", "warp9"], "there is no carry 'warp9'"),
    ],
)
def test_wrong_usage_ends_with_2(capsys, data, options, message):
    assert main(["evaluate", str(data), *options]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err


@pytest.mark.parametrize("options", [[], ["DATA", "--every", "0"], ["DATA", "--engine", "tea"]])
def test_argparse_refuses_with_2(options):
    with pytest.raises(SystemExit) as ended:
        main(["evaluate", *options])
    assert ended.value.code == 2
