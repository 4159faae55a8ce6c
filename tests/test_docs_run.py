"""Blocks of the documentation marked ``<!-- runs -->`` are run, page by page, on small synthetic videos."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from clockseg import read_summary, read_trace
from clockseg.cli.main import main
from test_docs import DOCS, PAGES, source
from video_making import picture, write_video

_RUNS = re.compile(r"^<!-- runs -->\n```(bash|python)\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", re.DOTALL | re.MULTILINE)
"""A block that runs, and the output that the page shows below it."""
# Commands that run the network on every frame get small pictures here.
_SMALLER = {"plan": ["--size", "96"], "evaluate": ["--size", "96"]}
PAGES_THAT_RUN = [page for page in PAGES if _RUNS.search(page.read_text(encoding="utf-8"))]


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLOCKSEG_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def videos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Working folder with a video in which the picture moves and one in which it does not; 1.4 s each."""
    wide = picture(320, 96)
    write_video(tmp_path / "drive.mp4", [np.roll(wide, -3 * t, 1)[:, :160] for t in range(34)])
    write_video(tmp_path / "yard.mp4", [picture(160, 96)] * 34)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PAGES_THAT_RUN, ids=lambda page: str(page.relative_to(DOCS)))
@pytest.mark.slow
@pytest.mark.usefixtures("videos")
def test_marked_blocks_run(page, capsys) -> None:
    names: dict[str, object] = {"__name__": "docs"}
    for language, content, shown in _RUNS.findall(page.read_text(encoding="utf-8")):
        if language == "python":
            exec(compile(source(content), page.name, "exec", dont_inherit=True), names)
        else:
            _typed(content)
        printed = "".join(capsys.readouterr())
        assert [word for word in _words(shown) if word not in printed] == []


def _words(shown: str) -> list[str]:
    """The words of shown output that do not depend on the video: those of letters alone, in its first line."""
    return [word for word in shown.partition("\n")[0].split() if word.isalpha()]


def _typed(content: str) -> None:
    """Run each line as the shell would, without starting a process for it."""
    for line in content.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words:
            assert words[0] == "clockseg", f"{line!r}: only clockseg's own commands are run; leave the mark out"
            assert main([*words[1:], *_SMALLER.get(words[1], [])]) == 0, line


@pytest.mark.usefixtures("videos")
def test_results_page_lists_every_key() -> None:
    assert main(["segment", "yard.mp4", "--size", "96", "--limit", "3", "--out", "results", "--quiet"]) == 0
    line, summary = read_trace("results/yard")[-1], read_summary("results/yard")
    text = (DOCS / "results.md").read_text(encoding="utf-8")
    tables = {
        title: set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", part, re.MULTILINE))))
        for title, part in zip(("trace", "summary"), text.split("\n## ")[-2:], strict=True)
    }
    assert tables["trace"] == {*line, "file"}  # of images only
    assert tables["summary"] == set(summary)
    [seconds] = re.findall(r"where the time went: (.*?) \|", text)
    assert re.findall(r"`(\w+)`", seconds) == list(line["seconds"])


def test_tutorial_is_run() -> None:
    found = _RUNS.findall((DOCS / "index.md").read_text(encoding="utf-8"))
    assert [language for language, *_ in found].count("bash") >= 3
    assert [language for language, *_ in found].count("python") >= 2
