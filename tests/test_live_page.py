"""The page of a live run: who may see it, what it is sent, and that a browser shows it."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from browser import chromium, complaints
from clockseg import UsageError, frame_oracle, load
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import schedule_for
from clockseg.clockwork.trace import Record, Seconds
from clockseg.live.channel import Channel, Shown
from clockseg.live.feed import Feed
from clockseg.live.server import HISTORY, Address, Board, parse_address, serving
from clockseg.live.sources import source
from clockseg.video import Frame
from networks import write_tiny
from video_making import picture

NAME = "<img src=x onerror=alert(1)>&.mp4"


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> StagedNetwork:
    """It is never run, so it is not compiled either."""
    return replace(load(write_tiny(tmp_path_factory.mktemp("net")), engine=None), executor=None)


def channel(net: StagedNetwork) -> Channel:
    """One that has not run."""
    changed = threading.Condition()
    feed = Feed(lambda pause, ready: pytest.fail("not to be opened"), "latest", latency_seconds=0.1, changed=changed)
    return Channel(source(NAME), feed, net, lambda channel: schedule_for(frame_oracle, len(net)), began=0.0)


def shown(index: int, *, width: int = 64, height: int = 48, fired: bool = True) -> Shown:
    """A frame whose labels are in four stripes."""
    labels = np.repeat(np.arange(4, dtype=np.uint8), width // 4)[None].repeat(height, axis=0)
    record = Record(index == 0, (True, fired, fired), (None, 0.25, float("nan")), (0, 0, 0), Seconds((0.1, 0.1, 0.1)))
    return Shown(Frame(index, picture(width, height, index)), labels, record, index / 30, 0.02, 3 if index == 5 else 0)


@contextmanager
def served(net: StagedNetwork, frames: int = 0, address: Address | None = None) -> Iterator[tuple[Board, Address, int]]:
    address = address or parse_address("0")
    board = Board(net, [NAME, "two"], "on time")
    for index in range(frames):
        board.show(0, channel(net), shown(index))
    with serving(board, address) as url:
        yield board, address, int(url.split(":")[2].split("/")[0])


def ask(port: int, path: str, *, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    found = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    connection.close()
    return found


def message(body: bytes) -> tuple[dict[str, Any], bytes, bytes]:
    length = int.from_bytes(body[:4], "big")
    told = json.loads(body[4 : 4 + length])
    pictures = body[4 + length :]
    return told, pictures[: told["picture"]], pictures[told["picture"] :]


class TestWhoMaySeeIt:
    """Hosts and tokens."""

    def test_a_name_of_others_that_leads_here_is_refused(self, net: StagedNetwork) -> None:
        with served(net, 1) as (_, _, port):
            assert ask(port, "/about")[0] == 200
            for host in (
                "evil.example",
                f"evil.example:{port}",
                "",
                "localhost.evil.example",
                "127.0.0.1@evil.example",
            ):
                assert ask(port, "/about", Host=host)[0] == 421
            for host in ("localhost", f"LOCALHOST:{port}", "127.0.0.1", f"[::1]:{port}"):
                assert ask(port, "/about", Host=host)[0] == 200

    def test_it_is_bound_to_this_machine_unless_told_otherwise(self) -> None:
        assert parse_address("8080") == Address("127.0.0.1", 8080)
        for text in ("127.0.0.1:1", "localhost:1", "[::1]:1", "127.3.4.5:1"):
            assert parse_address(text).token == ""
        for text in ("0.0.0.0:1", "[::]:1", "192.168.1.4:1", "camera.lan:1", "localhost.evil:1"):
            assert len(parse_address(text).token) >= 43

    @pytest.mark.parametrize("text", ["", "x", "70000", "host:", ":80", "http://x:1", "1.2.3.4:5:6", "::1:80", "-1"])
    def test_no_address(self, text: str) -> None:
        with pytest.raises(UsageError, match="give a port"):
            parse_address(text)

    @given(st.text(max_size=40))
    def test_any_host_is_answered_to_or_not(self, text: str) -> None:
        address = Address("127.0.0.1", 1)
        assert not address.answers_to(f"{text}.evil.example")
        assert address.answers_to(text) in (True, False)
        assert not Address("0.0.0.0", 1, "secret").admits(text if text != "Bearer secret" else "")

    def test_with_a_token(self, net: StagedNetwork) -> None:
        # What binds to another host asks for a token; here it is bound to this machine, and asks all the same.
        address = Address("127.0.0.1", 0, "secret-token")
        with served(net, 1, address) as (_, _, port):
            for path in ("/about", "/new?source=0&after=0", "/nothing", "/about?token=secret-token"):
                assert ask(port, path)[0] == 403
            for path in ("/", "/live.js", "/live.css"):
                assert ask(port, path)[0] == 200
            assert ask(port, "/about", Authorization="Bearer secret-token")[0] == 200
            for wrong in ("", "secret-token", "Bearer secret-toke", "Bearer \xe6"):
                assert ask(port, "/about", Authorization=wrong)[0] == 403

    def test_a_port_that_is_taken(self, net: StagedNetwork) -> None:
        with (
            served(net) as (_, _, port),
            pytest.raises(UsageError, match="Give another --serve"),
            served(net, 0, parse_address(str(port))),
        ):
            pass


class TestWhatItIsSent:
    """Messages."""

    def test_the_newest_frame_its_masks_and_what_happened(self, net: StagedNetwork) -> None:
        with served(net, 7) as (_, _, port):
            told, jpeg, png = message(ask(port, "/new?source=0&after=2")[2])
            assert told["number"] == 7
            assert [moment[0] for moment in told["moments"]] == [3, 4, 5, 6, 7]
            assert told["moments"][-1] == [7, 7, False, 20.0, 0]
            decoded = cv2.cvtColor(cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)
            assert np.abs(decoded.astype(int) - picture(64, 48, 6)).mean() < 4
            masks = cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_UNCHANGED)
            assert np.array_equal(masks, shown(6).output)

    def test_it_waits_for_something_newer(self, net: StagedNetwork) -> None:
        with served(net, 3) as (board, _, port):
            threading.Timer(0.2, lambda: board.show(0, channel(net), shown(3))).start()
            assert message(ask(port, "/new?source=0&after=3")[2])[0]["number"] == 4

    def test_all_viewers_get_the_same_bytes_encoded_once(self, net: StagedNetwork, monkeypatch: Any) -> None:
        encoded = []
        real = cv2.imencode
        monkeypatch.setattr(cv2, "imencode", lambda *given: encoded.append(given[0]) or real(*given))
        with served(net, 2) as (_, _, port):
            answers = {ask(port, "/new?source=0&after=0")[2] for _ in range(5)}
        assert len(answers) == 1
        assert encoded == [".jpg", ".png"]

    def test_large_frames_are_sent_small(self, net: StagedNetwork) -> None:
        with served(net) as (board, _, port):
            board.show(0, channel(net), shown(0, width=1920, height=1080))
            told, _, png = message(ask(port, "/new?source=0&after=0")[2])
            assert told["size"] == [960, 540]
            assert cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_UNCHANGED).shape == (540, 960)

    def test_history_is_bounded(self, net: StagedNetwork) -> None:
        board, one, frame = Board(net, ["one"], ""), channel(net), shown(1)
        for _ in range(HISTORY + 50):
            board.show(0, one, frame)
        assert len(message(board.message(0, 0))[0]["moments"]) == HISTORY

    def test_a_slow_viewer_does_not_slow_the_run(self, net: StagedNetwork) -> None:
        with served(net, 1) as (board, _, port):
            slow = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            slow.request("GET", "/new?source=0&after=0")
            one, frames = channel(net), [shown(index) for index in range(20)]
            begun = time.monotonic()
            for frame in frames * 20:
                board.show(0, one, frame)
            # The viewer reads nothing: a run that waited for it would stay here until the connection ends.
            assert time.monotonic() - begun < 30
            slow.close()

    def test_what_there_is_not(self, net: StagedNetwork) -> None:
        with served(net, 1) as (_, _, port):
            for path in ("/../../etc/passwd", "/page/live.js", "/%2e%2e/x"):
                assert ask(port, path)[0] == 404
            for path in (
                "/new",
                "/new?source=9&after=0",
                "/new?source=-1&after=0",
                "/new?source=0&after=1e9",
                "/new?source=²&after=0",
            ):
                assert ask(port, path.replace("²", "%C2%B2"))[0] == 400
            assert ask(port, "/", method="POST")[0] == 501

    def test_headers(self, net: StagedNetwork) -> None:
        with served(net, 1) as (_, _, port):
            for path in ("/", "/about", "/nothing", "/new?source=0&after=0"):
                headers = ask(port, path)[1]
                assert "default-src 'none'" in headers["content-security-policy"]
                assert headers["x-content-type-options"] == "nosniff"
                assert "access-control-allow-origin" not in headers


class TestBrowser:
    """In Chromium."""

    @pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
    def test_it_shows_frames_masks_and_the_timeline(self, net: StagedNetwork, width: int, dark: bool) -> None:
        with chromium(width, 900, dark=dark) as page, served(net, 12) as (board, _, port):
            page.get(f"http://127.0.0.1:{port}/")
            until(page, "return document.querySelector('.picture')?.width === 64")
            assert page.execute_script("return document.querySelector('h2').textContent") == NAME
            assert page.execute_script("return document.images.length") == 0
            label = "return document.querySelector('.timeline').getAttribute('aria-label')"
            until(page, f"{label}.includes('12 frames')")
            assert "low fired on 12" in page.execute_script(label)
            assert "3 dropped" in page.execute_script(label)
            assert colour(page, 8) == [0, 0, 255, 255]
            assert colour(page, 24) == [128, 64, 128, 255]
            page.execute_script("document.querySelector('#classes input').click()")
            assert colour(page, 8) == [0, 0, 0, 0]
            assert colour(page, 24) == [128, 64, 128, 255]
            board.show(0, channel(net), shown(12))
            until(page, f"{label}.includes('13 frames')")
            assert page.execute_script("return document.documentElement.scrollWidth <= innerWidth")
            assert complaints(page) == []

    def test_it_brings_the_token_of_its_address(self, net: StagedNetwork) -> None:
        with chromium(1000, 800) as page, served(net, 2, Address("127.0.0.1", 0, "secret-token")) as (_, _, port):
            page.get(f"http://127.0.0.1:{port}/")
            until(page, "return document.getElementById('setting').textContent.includes('Open the address')")
            page.get("about:blank")
            page.get(f"http://127.0.0.1:{port}/#secret-token")
            until(page, "return document.querySelector('.picture')?.width === 64")

    def test_the_keyboard(self, net: StagedNetwork) -> None:
        keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
        with chromium(1000, 800) as page, served(net, 2) as (_, _, port):
            page.get(f"http://127.0.0.1:{port}/")
            until(page, "return document.querySelector('.picture')?.width === 64")
            page.switch_to.active_element.send_keys("m")
            assert page.execute_script("return document.querySelector('.mask').style.opacity") == "0"
            reached = []
            for _ in range(5):
                page.switch_to.active_element.send_keys(keys.TAB)
                reached.append(
                    page.execute_script("return document.activeElement.id || document.activeElement.className")
                )
            assert reached[:4] == ["pause", "masks", "opacity", "timeline"]
            page.switch_to.active_element.send_keys("p")
            assert page.execute_script("return document.getElementById('pause').getAttribute('aria-pressed')") == "true"


def until(page: Any, script: str) -> None:
    """Wait until a script gives true."""
    deadline = time.monotonic() + 15
    while not page.execute_script(script):
        assert time.monotonic() < deadline, script
        time.sleep(0.05)


def colour(page: Any, x: int) -> list[int]:
    """Of the mask, in a column."""
    found: list[int] = page.execute_script(
        f"return [...document.querySelector('.mask').getContext('2d').getImageData({x}, 20, 1, 1).data]"
    )
    return found


def test_the_page_is_in_the_package() -> None:
    folder = Path(__import__("clockseg.live").live.__file__).parent / "page"
    assert sorted(path.name for path in folder.iterdir()) == ["index.html", "live.css", "live.js"]
