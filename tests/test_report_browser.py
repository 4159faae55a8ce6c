"""The report in a real browser: loads without a complaint, plays, steps, toggles, compares, asks the network for nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser import asked, chromium, complaints
from clockseg import StagedNetwork, frame_oracle, load, segment, skip_frame
from clockseg.report import write
from networks import write_tiny
from video_making import write_video

FRAMES = 50
NAME = "<img src=x onerror=alert(1)>&"
READY = "return document.getElementById('main')?.dataset.ready === 'yes'"
TITLE = "return document.querySelector('#moment h2').textContent"
PIXEL = """
const canvas = document.querySelectorAll('.panel canvas')[arguments[0]];
const [x, y] = [canvas.width * arguments[1], canvas.height * arguments[2]].map(Math.floor);
const copy = new OffscreenCanvas(1, 1).getContext('2d');
copy.drawImage(canvas, -x, -y);
return [...copy.getImageData(0, 0, 1, 1).data.slice(0, 3)];
"""


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> StagedNetwork:
    return load(write_tiny(tmp_path_factory.mktemp("net")), threads=1)


@pytest.fixture(scope="module")
def pages(net: StagedNetwork, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages on a video whose k-th frame has the grey level 5 k, of variable rate."""
    folder = tmp_path_factory.mktemp("runs")
    images = [np.full((96, 128, 3), 5 * k, np.uint8) for k in range(FRAMES)]
    times = [40 * k + 13 * (k % 3) for k in range(FRAMES)]
    video = write_video(folder / f"{NAME}.mp4", images, times=times, crf="4")
    a = segment(video, folder / "a", net, skip_frame(3), name=NAME).folder
    b = segment(video, folder / "b", net, frame_oracle, name="frame_oracle").folder
    return {
        "one": write(a, folder / "one.html"),
        "two": write([a, b], folder / "two.html"),
        "reference": write(a, folder / "reference.html", video="reference"),
        "none": write(a, folder / "none.html", video="none"),
    }


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium(1280, 900) as page:
        yield page


@pytest.fixture
def opened(browser: Any, pages: dict[str, Path]) -> Iterator[Any]:
    """Opens a page by name; after the test, the browser must have had nothing to say and asked for nothing."""

    def opening(name: str) -> Any:
        browser.get(pages[name].as_uri())
        until(browser, READY)
        return browser

    complaints(browser)
    yield opening
    assert complaints(browser) == []
    assert asked(browser) == []


def until(page: Any, script: str, *arguments: object) -> None:
    """Wait until a script gives true."""
    deadline = time.monotonic() + 20
    while not page.execute_script(script, *arguments):
        assert time.monotonic() < deadline, script
        time.sleep(0.02)


def at(page: Any, frame: int) -> None:
    until(page, f"{TITLE} === 'Frame {frame}'")


def press(page: Any, *keys: str) -> None:
    page.switch_to.active_element.send_keys(*keys)


def shows(page: Any, frame: int) -> None:
    """Wait until the picture is that frame's: a browser may hand out a frame's pixels after it says that it is there."""
    deadline = time.monotonic() + 20
    while abs((level := np.mean(page.execute_script(PIXEL, 0, 0.5, 0.5))) - 5 * frame) > 2:
        assert time.monotonic() < deadline, f"frame {frame} has the grey level {5 * frame}, the picture {level}"
        time.sleep(0.02)


@pytest.mark.parametrize("page", ["one", "two", "none"])
def test_it_loads(opened: Any, page: str) -> None:
    shown = opened(page)
    assert shown.execute_script("return document.querySelector('h1').textContent") == NAME
    assert NAME in shown.title
    assert shown.execute_script("return document.images.length") == 0
    assert shown.execute_script("return document.querySelectorAll('.track canvas').length") >= 6


def test_every_step_shows_its_very_frame(opened: Any) -> None:
    page = opened("one")
    press(page, "m")
    for frame in range(1, FRAMES):
        press(page, "\ue014")  # right arrow
        at(page, frame)
        shows(page, frame)
    press(page, "\ue012")  # left arrow
    at(page, FRAMES - 2)
    shows(page, FRAMES - 2)


def test_keys_to_ends_and_firings(opened: Any) -> None:
    page = opened("one")
    for key, frame in (("\ue010", 49), ("p", 48), ("p", 45), ("\ue011", 0), ("n", 3), (".", 4), (",", 3)):
        press(page, key)
        at(page, frame)
    press(page, "?")
    assert page.execute_script("return document.getElementById('keys').open")
    press(page, "\ue00c")
    assert not page.execute_script("return document.getElementById('keys').open")


def test_masks_are_those_of_the_frame_and_can_be_switched(opened: Any) -> None:
    page = opened("one")
    press(page, "]", "]", "]", "]", "]")
    first = page.execute_script("return document.querySelector('.classes .class-name').textContent")
    until(page, "return document.querySelector('.opacity output').textContent === '100 %'")
    until(page, "return document.querySelectorAll('.classes input').length > 0")
    before = page.execute_script(PIXEL, 0, 0.5, 0.5)
    assert before in ([0, 0, 255], [128, 64, 128], [0, 128, 0], [255, 0, 0])
    page.execute_script("document.querySelectorAll('.classes input').forEach((box) => box.click())")
    assert page.execute_script(PIXEL, 0, 0.5, 0.5) == pytest.approx([0, 0, 0], abs=4)
    assert first in ("sky", "road", "tree", "car")
    assert page.execute_script("return document.querySelector('.share').textContent").endswith("%")


def test_a_click_on_the_timeline_goes_there(opened: Any) -> None:
    page = opened("one")
    script = """
    const track = document.querySelector('.track'), box = track.getBoundingClientRect();
    const clientX = box.left + box.width * arguments[0];
    track.dispatchEvent(new PointerEvent('pointerdown', { clientX, clientY: box.top + 40, pointerId: 1, bubbles: true }));
    """
    page.execute_script("Element.prototype.setPointerCapture = () => {}")
    page.execute_script(script, 0.53)
    at(page, 26)
    label = page.execute_script("return document.querySelector('.track').getAttribute('aria-valuetext')")
    assert "frame 26" in label
    assert "low holds" in label
    head = page.execute_script("return parseFloat(document.querySelector('.playhead').style.left)")
    assert head == pytest.approx(100 * 26.5 / FRAMES)


def test_zoom_shows_less_and_follows(opened: Any) -> None:
    page = opened("one")
    head = "return parseFloat(document.querySelector('.playhead').style.left)"
    press(page, "+")
    assert page.execute_script(head) == pytest.approx(100 * 0.5 / 25)
    press(page, "\ue010")
    at(page, FRAMES - 1)
    assert page.execute_script(head) == pytest.approx(100 * 24.5 / 25)
    press(page, "0")
    assert page.execute_script(head) == pytest.approx(100 * 49.5 / FRAMES)


def test_it_plays_to_its_end_and_again(opened: Any) -> None:
    page = opened("one")
    press(page, " ")
    until(page, "return document.querySelector('.play').getAttribute('aria-label') === 'Pause (space)'")
    at(page, FRAMES - 1)
    until(page, "return document.querySelector('.play').getAttribute('aria-label') === 'Play (space)'")
    press(page, " ")
    until(page, f"{TITLE} !== 'Frame {FRAMES - 1}'")
    press(page, " ")


def test_without_a_video_masks_play_by_the_clock(opened: Any) -> None:
    page = opened("none")
    until(page, "return document.querySelector('.opacity output').textContent === '100 %'")
    press(page, " ")
    at(page, FRAMES - 1)


def test_two_runs_side_by_side_and_their_differences(opened: Any) -> None:
    page = opened("two")
    page.execute_script("document.querySelector('[value=side]').click()")
    assert page.execute_script("return document.querySelectorAll('.panel canvas').length") == 2
    captions = page.execute_script("return [...document.querySelectorAll('figcaption')].map((one) => one.textContent)")
    assert captions[:2] == [NAME, "frame_oracle"]
    page.execute_script("document.getElementById('worst').click()")
    until(page, f"{TITLE} !== 'Frame 0'")
    page.execute_script("document.querySelector('[value=difference]').click()")
    striped = """
    const canvas = document.querySelector('.panel canvas');
    const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    for (let i = 0; i < data.length; i += 4) if (data[i] > data[i + 1] + 60) return true;
    return false;
    """
    until(page, striped)
    assert "agrees with the other run on" in page.execute_script("return document.getElementById('moment').textContent")


def test_a_video_beside_the_page_plays(opened: Any) -> None:
    page = opened("reference")
    press(page, "\ue010")
    at(page, FRAMES - 1)
    assert page.execute_script("return document.getElementById('main').dataset.video") is None


def test_a_video_that_is_not_there_is_told(opened: Any, browser: Any, pages: dict[str, Path], tmp_path: Path) -> None:
    alone = tmp_path / "deep" / "down" / "page.html"
    alone.parent.mkdir(parents=True)
    alone.write_bytes(pages["reference"].read_bytes())
    browser.get(alone.as_uri())
    until(browser, "return document.getElementById('picture-note').textContent.includes('is looked for at')")
    press(browser, "\ue014")
    at(browser, 1)
    until(browser, "return document.querySelector('.opacity output').textContent === '100 %'")
    assert [text for text in complaints(browser) if "ERR_FILE_NOT_FOUND" not in text] == []


def test_the_theme_is_the_systems_until_it_is_switched(pages: dict[str, Path]) -> None:
    ground = "return getComputedStyle(document.body).backgroundColor"
    with chromium(390, 844, dark=True) as page:
        page.get(pages["two"].as_uri())
        until(page, READY)
        assert page.execute_script(ground) == "rgb(20, 23, 26)"
        page.execute_script("document.getElementById('theme-button').click()")
        assert page.execute_script(ground) == "rgb(251, 251, 249)"
        assert page.execute_script("return document.documentElement.scrollWidth <= innerWidth")
        assert complaints(page) == []


def test_all_can_be_reached_and_has_a_name(opened: Any) -> None:
    page = opened("two")
    nameless = """
    const named = (one) => (one.ariaLabel || one.textContent || one.labels?.[0]?.textContent || '').trim();
    const all = document.querySelectorAll('button, input, select, [role=slider], [role=img]');
    return [...all].filter((one) => !named(one)).map((one) => one.outerHTML);
    """
    assert page.execute_script(nameless) == []
    reached = set()
    for _ in range(40):
        press(page, "\ue004")
        reached.add(page.execute_script("return document.activeElement.id || document.activeElement.className"))
    assert {"keys-button", "theme-button", "play", "opacity", "track"} <= reached
    assert page.execute_script("return [...document.querySelectorAll('[tabindex]')].every((one) => one.tabIndex <= 0)")
