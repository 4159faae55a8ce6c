"""Blocks of the docs that say ``<!-- runs -->``: what they tell to type is run, page by page, on small made videos."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from clockseg.commands.main import main
from test_docs import DOCS, PAGES, source
from video_making import picture, write_video

_RUNS = re.compile(r"^<!-- runs -->\n```(bash|python)\n(.*?)^```", re.DOTALL | re.MULTILINE)
PAGES_THAT_RUN = [page for page in PAGES if _RUNS.search(page.read_text(encoding="utf-8"))]


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLOCKSEG_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def videos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be in, with a drive in which the picture moves on and a yard in which it doesn't; half a second each."""
    wide = picture(320, 96)
    write_video(tmp_path / "drive.mp4", [np.roll(wide, -3 * t, 1)[:, :160] for t in range(12)])
    write_video(tmp_path / "yard.mp4", [picture(160, 96)] * 12)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PAGES_THAT_RUN, ids=lambda page: str(page.relative_to(DOCS)))
@pytest.mark.usefixtures("videos")
def test_what_it_tells_to_type_runs(page, capsys) -> None:
    names: dict[str, object] = {"__name__": "docs"}
    for language, content in _RUNS.findall(page.read_text(encoding="utf-8")):
        if language == "python":
            exec(compile(source(content), page.name, "exec"), names)
        else:
            _typed(content)
    capsys.readouterr()


def _typed(content: str) -> None:
    """Runs each line as the shell would, without starting a process for it."""
    for line in content.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words:
            assert words[0] == "clockseg", f"{line!r}: only clockseg's own commands are run; leave the mark out"
            assert main(words[1:]) == 0, line


def test_the_tutorial_runs_all_that_takes_seconds() -> None:
    found = _RUNS.findall((DOCS / "start.md").read_text(encoding="utf-8"))
    assert [language for language, _ in found].count("bash") >= 3
    assert [language for language, _ in found].count("python") >= 2
