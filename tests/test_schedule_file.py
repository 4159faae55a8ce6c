"""Schedule files: written, read back, refused with what is wrong, and taken by --schedule."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clockseg import DataError, NetworkError, Session, UsageError
from clockseg.cli.loading import parse_schedules
from clockseg.planning.schedule_file import FORMAT, ScheduleFile, dump, read_schedule_file, write_schedule_file
from toy_networks import toy

NET = toy()
STAGES = ("one", "two", "three")
HEAD = f'format = "{FORMAT}"\n'
values = st.one_of(
    st.text(), st.booleans(), st.integers(-(2**62), 2**62), st.floats(allow_nan=False), st.lists(st.text()), st.just([])
)


@given(
    st.sampled_from(["adaptive(0.25)", 'either(difference(0.1, of="pixels"), at_least_every(8))']),
    st.text(),
    st.lists(st.text(), max_size=3),
    st.dictionaries(st.text(), values, max_size=4),
)
def test_what_is_written_is_read_back(schedule, network, stages, tuned) -> None:
    data = tomllib.loads(dump(ScheduleFile(schedule, network, tuple(stages), tuned)))
    assert (data["format"], data["schedule"]) == (FORMAT, schedule)
    assert data.get("tuned", {}) == tuned
    assert (data.get("network", {}).get("name", ""), data.get("network", {}).get("stages", [])) == (network, stages)


def test_a_file_is_a_schedule(tmp_path: Path) -> None:
    file = ScheduleFile(
        "either(adaptive(0.1834), at_least_every(8))", "toy", STAGES, {"asked": 0.5, "clips": ["a.mp4"]}
    )
    write_schedule_file(file, tmp_path / "night.toml")
    found = read_schedule_file(tmp_path / "night.toml")
    assert found == file
    assert str(found) == file.schedule
    assert Session(NET, found).schedule.clocks[2].parts[0].threshold == 0.1834
    assert [path.name for path in tmp_path.iterdir()] == ["night.toml"]


def test_it_is_not_replaced_unless_asked_to(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    write_schedule_file(ScheduleFile("alternating"), path)
    with pytest.raises(UsageError, match="exists already"):
        write_schedule_file(ScheduleFile("exponential"), path)
    assert read_schedule_file(path).schedule == "alternating"
    write_schedule_file(ScheduleFile("exponential"), path, overwrite=True)
    assert read_schedule_file(path).schedule == "exponential"


def test_what_toml_cannot_hold_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="can't be written"):
        write_schedule_file(ScheduleFile("alternating", tuned={"when": None}), tmp_path / "s.toml")
    assert list(tmp_path.iterdir()) == []


def test_names_that_are_no_unicode_are_written_somehow() -> None:
    assert tomllib.loads(dump(ScheduleFile("alternating", tuned={"clips": ["caf\udce9.mp4"]})))["tuned"]["clips"] == [
        "caf?.mp4"
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "format is None"),
        ('format = "clockseg-schedule-9"\nschedule = "alternating"', "'clockseg-schedule-9'; this version reads"),
        ("format = ", "is not valid TOML"),
        (HEAD, "schedule must be a text"),
        (HEAD + "schedule = 0.25", "schedule must be a text"),
        (HEAD + 'schedule = "adaptiv(0.25)"', "Did you mean adaptive"),
        (HEAD + 'schedule = "alternating"\nschedul = 1', "unknown keys schedul"),
        (HEAD + 'schedule = "alternating"\nnetwork = "street"', "network and tuned must be tables"),
        (HEAD + 'schedule = "alternating"\n[network]\nstages = [1]', "stages, a list of names"),
        (HEAD + 'schedule = "alternating"\n[network]\nsize = 3', "it holds a name, and stages"),
    ],
)
def test_what_is_wrong_in_a_file_is_told_with_its_name(tmp_path: Path, text, message) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(DataError, match=message) as raised:
        read_schedule_file(path)
    assert str(path) in str(raised.value)


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="is not valid TOML"):
        read_schedule_file(tmp_path / "bad.toml")
    with pytest.raises(DataError, match="can't be read"):
        read_schedule_file(tmp_path)


def write(folder: Path, **changes) -> str:
    file = ScheduleFile(**{"schedule": "adaptive(0.25)", "network": "toy", "stages": STAGES} | changes)
    write_schedule_file(file, folder / "s.toml", overwrite=True)
    return str(folder / "s.toml")


def test_the_command_line_takes_it_under_the_schedules_own_name(tmp_path: Path, capsys) -> None:
    [(name, schedule), (other, _)] = parse_schedules([write(tmp_path), "alternating"], NET, "identity")
    assert (name, other) == ("adaptive(0.25)", "alternating")
    assert schedule.clocks[2].threshold == 0.25
    assert capsys.readouterr().err == ""


def test_one_for_another_network_is_told_of(tmp_path: Path, capsys) -> None:
    parse_schedules([write(tmp_path, network="street")], NET, "identity")
    assert "was made for network 'street' (one, two, three), but this is 'toy'" in capsys.readouterr().err
    parse_schedules([write(tmp_path, stages=("a", "b", "c"))], NET, "identity")
    assert "Thresholds do not carry over" in capsys.readouterr().err
    parse_schedules([write(tmp_path, network="", stages=())], NET, "identity")
    assert capsys.readouterr().err == ""


def test_one_for_another_number_of_stages_is_refused(tmp_path: Path, capsys) -> None:
    path = write(tmp_path, network="street", stages=("a", "b"))
    with pytest.raises(UsageError, match=r"made for the 2 stages of network 'street' \(a, b\), but this network has 3"):
        parse_schedules([path], NET, "identity")
    assert capsys.readouterr().err == ""


def test_a_schedule_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file"):
        parse_schedules([str(tmp_path / "nowhere.toml")], NET, "identity")


def test_a_sidecar_recommends_no_file() -> None:
    from dataclasses import replace
    from types import SimpleNamespace

    net = replace(NET, sidecar=SimpleNamespace(schedule="night.toml"))
    with pytest.raises(NetworkError, match="recommends"):
        parse_schedules(None, net, "identity")
