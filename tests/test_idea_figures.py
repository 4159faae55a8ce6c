"""The pictures of "The idea": of what ran, and the committed files are those that the script draws."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from xml.etree import ElementTree

import drawn_network
import idea_figures
import numpy as np
import pytest

from browser import chromium
from clockseg import adaptive, alternating, fixed_rate, frame_oracle

FIGURES = Path(__file__).resolve().parents[1] / "docs/figures"


@pytest.mark.parametrize("name", idea_figures.FIGURES)
def test_the_committed_figures_are_up_to_date(name) -> None:
    drawn = (FIGURES / f"idea-{name}.svg").read_text(encoding="utf-8")
    assert drawn == idea_figures.FIGURES[name](), "draw them anew: python docs/making/idea_figures.py"


@pytest.mark.parametrize("name", idea_figures.FIGURES)
def test_each_is_a_picture_with_a_title_that_fetches_nothing(name) -> None:
    text = idea_figures.FIGURES[name]()
    root = ElementTree.fromstring(text)
    assert root.find("{http://www.w3.org/2000/svg}title").text
    assert re.findall(r"https?://[^\"]+", text) == ["http://www.w3.org/2000/svg"]
    width, height = (float(root.get(side)) for side in ("width", "height"))
    for label in root.iter("{http://www.w3.org/2000/svg}text"):
        assert 0 < float(label.get("x")) < width
        assert 0 < float(label.get("y")) < height


def test_the_adaptive_clock_rests_while_the_car_waits_and_only_then_in_a_row() -> None:
    fired = [one.fired[2] for one in drawn_network.shown(adaptive(idea_figures.THRESHOLD))]
    waits = [t for t in range(1, len(fired)) if drawn_network.CARS[t] == drawn_network.CARS[t - 1]]
    assert not any(fired[t] for t in waits[1:])
    assert any(fired[: waits[0]][1:])
    assert any(fired[waits[-1] + 1 :])


def test_where_all_fires_what_is_drawn_is_what_is_there() -> None:
    oracle = drawn_network.shown(frame_oracle)
    held = drawn_network.shown(fixed_rate((1, 2, 2)))
    assert [one.fired for one in drawn_network.shown(alternating)][1::2] == [(True, True, False)] * 6
    for t, (whole, kept) in enumerate(zip(oracle, held, strict=True)):
        assert all(whole.fired)
        assert np.array_equal(kept.held[0], whole.held[0])
        assert np.array_equal(kept.held[2], oracle[t - t % 2].held[2])


@pytest.mark.parametrize("name", [name for name in idea_figures.FIGURES if name != "mark"])
def test_no_text_overlaps_another_or_the_edge(name, tmp_path) -> None:
    (tmp_path / "page.html").write_text(f"<body>{idea_figures.FIGURES[name]()}</body>", encoding="utf-8")
    with chromium(1280, 844) as page:
        page.get((tmp_path / "page.html").as_uri())
        frame, *boxes = page.execute_script(
            "return ['svg', 'svg text'].flatMap(what => [...document.querySelectorAll(what)]).map(one => {"
            " const box = one.getBoundingClientRect(); return [box.left, box.top, box.right, box.bottom]; })"
        )
    for left, top, right, bottom in boxes:
        assert frame[0] <= left < right <= frame[2]
        assert frame[1] <= top < bottom <= frame[3]
    for one, other in itertools.combinations(boxes, 2):
        apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] + 3 or other[3] <= one[1] + 3
        assert apart, (one, other)
