"""The measurements' own reckoning: stored results make pages, ways are schedules, and the frontier is one."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="measurements compare with torch")

from benchmarks import cases, harness
from benchmarks.cases.frontier import EVERY, LARGE, MOVED, PARTS, Way, frontier, sentences, ways
from clockseg import parse_schedule
from clockseg.clockwork.schedule import schedule_for

NAMES = [module.name for module in pkgutil.iter_modules(cases.__path__)]


EARLIER = ("cost", "archive")
"""Pages that were measured by an earlier form of their case, and hold more than it stores now."""


@pytest.mark.parametrize("name", NAMES)
def test_each_case_explains_itself(name: str, capsys) -> None:
    with pytest.raises(SystemExit, match="0"):
        harness.main([name, "--help"])
    summary = importlib.import_module(f"benchmarks.cases.{name}").__doc__.splitlines()[0]
    assert summary in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("name", [name for name in NAMES if (harness.RESULTS / f"{name}.json").exists()])
def test_stored_results_make_the_stored_pages(name: str) -> None:
    facts = json.loads((harness.RESULTS / f"{name}.json").read_text())
    for page, text in harness.pages(importlib.import_module(f"benchmarks.cases.{name}"), facts).items():
        if page not in EARLIER:
            _, _, stored = (harness.RESULTS / f"{page}.md").read_text().partition(f"benchmarks {name}`.\n\n")
            assert stored == f"{text}\n", f"run python -m benchmarks {name} --render"


def test_every_page_of_results_is_made_by_a_case_that_there_is() -> None:
    for page in harness.RESULTS.glob("*.md"):
        for name in re.findall(r"^Measured by `python -m benchmarks (\w+)`", page.read_text(), re.MULTILINE):
            assert name in NAMES, page.name


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for results, and cases that measure nothing."""
    kills = {"videos": 1, "kills": 1, "runs": 1, "killed": {}, "there": [[]], "different": []}
    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    monkeypatch.setattr("benchmarks.cases.kills.measure", lambda asked: kills)
    found = {"frames": 100, "pieces": 1, "schedule": "s", "first_mib": 100.0, "last_mib": 110.0}
    monkeypatch.setattr("benchmarks.cases.memory.part", lambda name, asked: dict(found))
    return tmp_path


@pytest.mark.parametrize(
    ("options", "written"), [([], True), (["--kills", "9"], False), (["--kills", "9", "--write"], True)]
)
def test_results_are_written_only_if_no_option_was_changed(results: Path, options, written: bool) -> None:
    assert harness.main(["kills", *options]) == 0
    assert {file.name for file in results.iterdir()} == ({"kills.json", "kills.md"} if written else set())


def test_a_part_measured_alone_leaves_the_others_as_they_were(results: Path) -> None:
    assert harness.main(["memory"]) == 0
    before = json.loads((results / "memory.json").read_text())["parts"]
    before["160x90"]["seen"] = True
    (results / "memory.json").write_text(json.dumps({"parts": before}))
    assert harness.main(["memory", "--parts", "640x360", "--write"]) == 0
    after = json.loads((results / "memory.json").read_text())["parts"]
    assert [after[name].get("seen") for name in ("160x90", "640x360", "3840x2160")] == [True, None, None]
    assert "| 640x360, 100 frames in 1 pieces | `s` | 100.0 | 110.0 | +10.0% |" in (results / "memory.md").read_text()


def test_nothing_can_be_rendered_before_it_was_measured(results: Path, capsys) -> None:
    assert harness.main(["kills", "--render"]) == 2
    assert "measure first" in capsys.readouterr().err


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
