"""The measurements' own reckoning: stored results make pages, ways are schedules, and the frontier is one."""

from __future__ import annotations

import importlib
import json
import pkgutil
from typing import Any

import pytest

pytest.importorskip("torch", reason="measurements compare with torch")

from benchmarks import cases, harness
from benchmarks.cases.frontier import EVERY, LARGE, MOVED, PARTS, Way, frontier, sentences, ways
from clockseg import parse_schedule
from clockseg.clockwork.schedule import schedule_for

NAMES = [module.name for module in pkgutil.iter_modules(cases.__path__)]


@pytest.mark.parametrize("name", NAMES)
def test_each_case_explains_itself_and_makes_pages_of_stored_results(name: str, capsys) -> None:
    case = importlib.import_module(f"benchmarks.cases.{name}")
    with pytest.raises(SystemExit, match="0"):
        harness.main([name, "--help"])
    assert case.__doc__.splitlines()[0] in " ".join(capsys.readouterr().out.split())
    stored = harness.RESULTS / f"{name}.json"
    if stored.exists():
        for page, text in case.pages(json.loads(stored.read_text())).items():
            assert "| ---" in text
            assert (harness.RESULTS / f"{page}.md").exists()


def test_results_are_written_only_if_no_option_was_changed() -> None:
    case = importlib.import_module("benchmarks.cases.wall")
    assert harness._options("wall", case, []).write
    assert not harness._options("wall", case, ["--rounds", "9"]).write
    assert harness._options("wall", case, ["--rounds", "9", "--write"]).write


def test_an_unknown_case_is_refused_with_those_there_are(capsys) -> None:
    assert harness.main(["no-such"]) == 2
    assert "there is no case 'no-such'; there are any_video" in capsys.readouterr().err


def point(
    network: str, time: float, mean_iu: float | None, family: str = MOVED, agreement: float = 0.9
) -> dict[str, Any]:
    way = Way(family, network, "frame_oracle" if family == EVERY else "skip_frame(4)")
    return {
        **way._asdict(),
        "mean_iu": mean_iu,
        "kept": None if mean_iu is None else mean_iu / 0.7,
        "agreement": {"mean_iu": agreement, "pixel_acc": agreement},
        "relative_time": time,
    }


def test_the_frontier_is_what_nothing_beats_in_both() -> None:
    found = [point(LARGE, time, score) for time, score in ((1, 0.7), (0.3, 0.6), (0.3, 0.65), (0.5, 0.64), (0.1, 0.5))]
    assert [(way["relative_time"], way["mean_iu"]) for way in frontier(found)] == [(0.1, 0.5), (0.3, 0.65), (1, 0.7)]


def test_without_labels_agreement_stands_for_the_score() -> None:
    found = [point(LARGE, time, None, agreement=score) for time, score in ((0.3, 0.9), (0.5, 0.8), (0.2, 0.7))]
    assert [way["relative_time"] for way in frontier(found)] == [0.2, 0.3]


def test_the_cheapest_way_that_keeps_99_percent_is_told() -> None:
    found = [point(LARGE, 1, 0.7, EVERY), point(LARGE, 0.4, 0.699), point(LARGE, 0.35, 0.694), point(LARGE, 0.2, 0.6)]
    cheapest, best = sentences(found)
    assert "keeps 99 %: street-large under `skip_frame(4)`, 35.0 % of the time, 69.4 %, 99.1 % kept" in cheapest
    assert "a third of the time: street-large under `skip_frame(4)`, 20.0 % of the time" in best


@pytest.mark.parametrize("part", PARTS)
def test_every_way_can_be_read(part: str) -> None:
    for way in ways(part):
        assert len(schedule_for(parse_schedule(way.schedule), 3)) == 3
        assert way.base in (LARGE, "street")
    assert len(set(ways(part))) == len(ways(part))
