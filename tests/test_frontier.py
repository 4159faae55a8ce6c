"""The frontier benchmark's own reckoning, on points made up for it."""

from __future__ import annotations

from typing import Any

import pytest

from clockseg.clocks.spec import parse_schedule
from clockseg.clockwork.schedule import schedule_for
from frontier_page import frontier, headline, lines, shown_goals, text
from frontier_ways import EVERY, LARGE, MOVED, Way, codec, large, still, street


def point(
    network: str, time: float, mean_iu: float | None, family: str = MOVED, agreement: float = 0.9
) -> dict[str, Any]:
    way = Way(family, network, "frame_oracle" if family == EVERY else "skip_frame(4)")
    whole = {LARGE: 0.70, "street": 0.60}[way.base]
    return {
        **way._asdict(),
        "base": way.base,
        "mean_iu": mean_iu,
        "kept": None if mean_iu is None else mean_iu / whole,
        "agreement": {"mean_iu": agreement, "pixel_acc": agreement},
        "flicker": None,
        "network_rate": 0.25,
        "relative_time": time,
    }


def part(name: str, *ways: dict[str, Any]) -> dict[str, Any]:
    made = {"machine": {"cores": 2, "processor": "any"}, "date": "today", "commit": "abc"}
    return {"part": name, "clip": "clip", "frames": 9, "people_flicker": 0.1, "ways": list(ways), "provenance": made}


def test_the_frontier_is_what_nothing_beats_in_both() -> None:
    ways = [point(LARGE, time, score) for time, score in ((1, 0.7), (0.3, 0.6), (0.3, 0.65), (0.5, 0.64), (0.1, 0.5))]
    assert [(way["relative_time"], way["mean_iu"]) for way in frontier(ways)] == [(0.1, 0.5), (0.3, 0.65), (1, 0.7)]


def test_without_labels_agreement_stands_for_the_score() -> None:
    ways = [point(LARGE, time, None, agreement=score) for time, score in ((0.3, 0.9), (0.5, 0.8), (0.2, 0.7))]
    assert [way["relative_time"] for way in frontier(ways)] == [0.2, 0.3]


@pytest.mark.parametrize(
    ("time", "mean_iu", "told"), [(0.3, 0.694, "Shown."), (0.34, 0.694, "Not"), (0.3, 0.69, "Not")]
)
def test_99_percent_in_a_third_of_the_time(time: float, mean_iu: float, told: str) -> None:
    ways = [point(LARGE, 1, 0.7, EVERY), point(LARGE, time, mean_iu), point(f"{LARGE} 1/2", 0.1, 0.7, EVERY)]
    found, *_ = shown_goals({"large": part("large", *ways)})
    assert f"least {told}" in found or found.split(". ")[-1].startswith(told)


def test_above_the_small_network_in_its_time() -> None:
    big = part("large", point(LARGE, 1, 0.7, EVERY), point(LARGE, 0.31, 0.69), point(LARGE, 0.2, 0.625))
    small = part("street", point(LARGE, 1, 0.7, EVERY), point("street", 0.3, 0.6, EVERY), point("street", 0.1, 0.59))
    told = shown_goals({"large": big, "street": small})
    assert "+2.5 points" in told[3]
    assert told[4].startswith("street, its own frontier: street under `skip_frame(4)`, 10.0 % of the time, 59.0 %")
    big = part("large", point(LARGE, 1, 0.7, EVERY))
    assert "Nothing of street-large is that fast. Not shown." in shown_goals({"large": big, "street": small})[3]


def test_the_headline_is_the_cheapest_that_keeps_99_percent() -> None:
    big = part(
        "large", point(LARGE, 1, 0.7, EVERY), point(LARGE, 0.4, 0.699), point(LARGE, 0.3, 0.694), point(LARGE, 0.2, 0.6)
    )
    small = part("street", point("street", 0.35, 0.6, EVERY), point("street", 0.1, 0.59))
    told = headline({"large": big, "street": small})
    assert "kept 99.1 % of every-frame `street-large`'s mean IU in 30.0 % of its time" in told
    assert "took 35.0 % and scored 9.4 points less" in told


def test_tables_tell_every_way() -> None:
    found = {"large": part("large", point(LARGE, 1, 0.7, EVERY), point(LARGE, 0.31, 0.69))}
    assert [line[-1] for line in lines(found["large"])[1].splitlines()[1:]] == ["*", "*"]
    page = text(found)
    assert "| street-large | `skip_frame(4)` | **25.0 %** | **31.0 %** | **69.0 %** | **98.6 %** |" in page
    assert "Flicker of the human labels: 10.0 %" in page


@pytest.mark.parametrize("ways", [large, street, codec, still])
def test_every_way_can_be_read(ways) -> None:
    for way in ways():
        assert len(schedule_for(parse_schedule(way.schedule), 3)) == 3
        assert way.base in (LARGE, "street")
    assert len(set(ways())) == len(ways())
