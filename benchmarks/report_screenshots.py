"""What does a report look like? Its page in Chromium, at three sizes and in both themes.

    PYTHONPATH=tests python benchmarks/report_screenshots.py drive.mp4

segments the first seconds of a video in three ways, writes the report, and puts into docs/figures what docs/report.md shows;
``--all FOLDER`` keeps every size and theme there as well. It needs Chromium and its driver, and selenium.
"""

from __future__ import annotations

import argparse
import base64
import tempfile
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from browser import chromium, complaints
from clockseg import load, parse_schedule, segment
from clockseg.report import write

FIGURES = Path(__file__).resolve().parents[1] / "docs" / "figures"
SIZES = ((390, 844), (1024, 768), (1600, 1000))
SCHEDULES = ("adaptive(0.2)", "frame_oracle", "carried(skip_frame(4), warp(flow))")
QUALITY = 82
LOOKS = {
    "one": "document.getElementById('worst').click();",
    "side": "document.querySelector('[value=side]').click(); document.getElementById('worst').click();",
    "difference": "document.querySelector('[value=difference]').click(); document.getElementById('worst').click();",
}
"""What is pressed before the picture is taken."""
KEPT = {
    "report-light": (1600, False, "one", 1060),
    "report-dark": (1600, True, "side", 1120),
    "report-phone": (390, False, "difference", 1400),
}
"""For the docs: width, dark, look, and how much of the page."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("video", type=Path)
    parser.add_argument("--frames", type=int, default=150, help="of the video (default: %(default)s)")
    parser.add_argument("--all", type=Path, metavar="FOLDER", help="keep pictures of every size and theme there")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        page = _page(args.video, Path(folder), args.frames)
        for name, (width, dark, look, height) in KEPT.items():
            _save(_taken(page, width, dark, look)[:height], FIGURES / f"{name}.webp")
        if args.all:
            args.all.mkdir(parents=True, exist_ok=True)
            for width, _ in SIZES:
                for dark in (False, True):
                    for look in LOOKS:
                        name = f"{look}-{width}-{'dark' if dark else 'light'}.webp"
                        _save(_taken(page, width, dark, look), args.all / name)


def _page(video: Path, folder: Path, frames: int) -> Path:
    net = load("street")
    runs = [
        segment(video, folder / str(number), net, parse_schedule(schedule), limit=frames, name=schedule).folder
        for number, schedule in enumerate(SCHEDULES)
    ]
    return write(runs, folder / "report.html")


def _taken(page: Path, width: int, dark: bool, look: str) -> np.ndarray:
    """The whole page as it is seen, BGR."""
    height = dict(SIZES)[width]
    with chromium(width, height, dark=dark) as browser:
        browser.get(page.as_uri())
        _until(browser, "return document.getElementById('main').dataset.ready === 'yes'")
        browser.execute_script(LOOKS[look])
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
    cv2.imwrite(str(path), picture, [cv2.IMWRITE_WEBP_QUALITY, QUALITY])
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
