"""What do the report, the live page and the docs look like? In Chromium, at three sizes and in both themes.

    PYTHONPATH=tests python docs/making/page_screenshots.py drive.mp4

segments the first seconds of a video in three ways and writes the report, runs the whole of it live, and puts into
docs/figures what docs/report.md and docs/live.md show; ``--all FOLDER`` keeps every size and theme there as well, and of two
pages of the docs if `make docs` has been run. It needs Chromium and its driver, and selenium.
"""

from __future__ import annotations

import argparse
import base64
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from browser import chromium, complaints
from clockseg import load, parse_schedule, segment
from clockseg.report import write

ROOT = Path(__file__).resolve().parents[2]
FIGURES = ROOT / "docs" / "figures"
SITE = ROOT / "build" / "site"
SIZES = {390: 844, 1024: 768, 1600: 1000}
THEMES = {"light": False, "dark": True}
SCHEDULES = ("adaptive(0.2)", "frame_oracle", "carried(skip_frame(4), warp(flow))")
QUALITY = 82
TALLEST = 16_000
"""Pixels: WebP ends at 16,383."""
WORST = "document.getElementById('worst').click();"
LOOKS = {
    "one": WORST,
    "side": f"document.querySelector('[value=side]').click(); {WORST}",
    "difference": f"document.querySelector('[value=difference]').click(); {WORST}",
}
"""What is pressed before the report's picture is taken."""
SETTLED = {
    "report": "return document.getElementById('main').dataset.ready === 'yes'",
    "live": "return performance.now() > 4500 && document.querySelector('[data-figure=rate]').textContent !== '–'",
    "docs": "return document.readyState === 'complete'",
}
"""When each may be looked at."""
KEPT = {
    "report-light": (1600, "light", "one", 1060),
    "report-dark": (1600, "dark", "side", 1120),
}
"""For the docs: width, theme, look, and how much of the page."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("video", type=Path)
    parser.add_argument("--frames", type=int, default=150, help="of the report's video (default: %(default)s)")
    parser.add_argument("--all", type=Path, metavar="FOLDER", help="keep pictures of every size and theme there")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        _report(_page(args.video, Path(folder), args.frames), args.all)
    _live(args.video, args.all)
    if args.all and SITE.exists():
        for name, width, theme in product(("index", "frontier"), SIZES, THEMES):
            taken = _taken((SITE / f"{name}.html").as_uri(), width, theme, SETTLED["docs"])
            _save(taken, args.all / f"docs-{name}-{width}-{theme}.webp")


def _report(page: Path, every: Path | None) -> None:
    ready = SETTLED["report"]
    for name, (width, theme, look, height) in KEPT.items():
        _save(_taken(page.as_uri(), width, theme, ready, LOOKS[look])[:height], FIGURES / f"{name}.webp")
    for width, theme, look in product(SIZES, THEMES, LOOKS) if every else ():
        taken = _taken(page.as_uri(), width, theme, ready, LOOKS[look])
        _save(taken, every / f"report-{look}-{width}-{theme}.webp")


def _live(video: Path, every: Path | None) -> None:
    sizes = product(SIZES, THEMES) if every else [(1024, "dark")]
    for width, theme in sizes:
        with _running(video) as address:
            taken = _taken(address, width, theme, SETTLED["live"])
        if (width, theme) == (1024, "dark"):
            _save(taken, FIGURES / "live-dark.webp")
        if every:
            _save(taken, every / f"live-{width}-{theme}.webp")


def _page(video: Path, folder: Path, frames: int) -> Path:
    net = load("street")
    runs = [
        segment(video, folder / str(number), net, parse_schedule(schedule), limit=frames, name=schedule).folder
        for number, schedule in enumerate(SCHEDULES)
    ]
    return write(runs, folder / "report.html")


@contextmanager
def _running(video: Path) -> Iterator[str]:
    """The address of the page of a live run."""
    command = [sys.executable, "-m", "clockseg", "live", video.name, "--serve", "0"]
    with subprocess.Popen(command, cwd=video.parent, stderr=subprocess.PIPE, text=True) as process:
        try:
            for line in process.stderr or ():
                if address := line.partition("watch it on ")[2].strip():
                    yield address
                    return
            raise SystemExit("the live run ended before it served a page")
        finally:
            process.terminate()


def _taken(address: str, width: int, theme: str, settled: str, press: str = "") -> np.ndarray:
    """The whole page as it is seen, BGR."""
    with chromium(width, SIZES[width], dark=THEMES[theme]) as browser:
        browser.get(address)
        _until(browser, settled)
        browser.execute_script(press)
        time.sleep(1.5)
        if found := complaints(browser):
            raise SystemExit(f"the browser complains: {found}")
        tall = browser.execute_script("return document.documentElement.scrollHeight")
        clip = {"x": 0, "y": 0, "width": width, "height": tall, "scale": 1}
        taken = browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    return np.asarray(cv2.imdecode(np.frombuffer(base64.b64decode(taken["data"]), np.uint8), cv2.IMREAD_COLOR))


def _until(browser: Any, script: str) -> None:
    for _ in range(200):
        if browser.execute_script(script):
            return
        time.sleep(0.1)
    raise SystemExit("the page was not ready within 20 seconds")


def _save(picture: np.ndarray, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), picture[:TALLEST], [cv2.IMWRITE_WEBP_QUALITY, QUALITY])
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
