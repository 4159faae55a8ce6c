"""Pages in a real browser: Debian's Chromium without a window, for the tests that look at pages."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def chromium(width: int, height: int, *, dark: bool = False) -> Iterator:
    """A browser whose window is so many pixels large, narrow ones as on a telephone; a skip where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    browser, driver = (shutil.which(name) for name in ("chromium", "chromedriver"))
    if not (browser and driver):
        pytest.skip("needs Chromium and its driver (Debian: chromium, chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    page = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [theme]})
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        yield page
    finally:
        page.quit()


def complaints(page) -> list[str]:
    """What the browser had to say of the page: errors and warnings of its console."""
    return [entry["message"] for entry in page.get_log("browser")]


def asked(page) -> list[str]:
    """The addresses that the page asked of the network."""
    events = (json.loads(entry["message"])["message"] for entry in page.get_log("performance"))
    addresses = [one["params"]["request"]["url"] for one in events if one["method"] == "Network.requestWillBeSent"]
    return [address for address in addresses if address.startswith("http")]
