"""The documentation site: generated pages are complete, it builds without warnings, and it loads nothing from the network."""

from __future__ import annotations

import doctest
import importlib
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import command_pages
import outside_links
import pytest
import python_pages

import clockseg
from browser import asked, chromium, complaints
from clockseg.cli.main import parser

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = command_pages.commands(parser())
MAKING = sorted(path.stem for path in (ROOT / "docs/making").glob("*.py"))
NEEDS = {"site_hooks": "mkdocs", "examples": "griffe"}


@pytest.mark.parametrize("name", MAKING)
def test_examples_of_the_generators(name) -> None:
    if find_spec(NEEDS.get(name, "re")) is None:
        pytest.skip(f"needs {NEEDS[name]} (pip install '.[docs]')")
    ran = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert ran.failed == 0


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_command_pages_list_every_option(name) -> None:
    page = command_pages.pages()[f"commands/{name}.md"]
    for command in command_pages.leaves(COMMANDS[name][0]):
        for action in command._actions:
            if command_pages.is_shown(action):
                assert f"\n`{command_pages.spelling(action)}`\n" in page
                assert command_pages.plain(command_pages.help_of(command, action)) in page


def test_command_index_lists_every_command() -> None:
    page = command_pages.pages()["commands/index.md"]
    assert re.findall(r"^\| \[`clockseg (\w+)`\]\(\1\.md\)", page, re.MULTILINE) == list(COMMANDS)


def test_python_pages_list_exactly_the_public_names() -> None:
    for family in ("", *clockseg._FAMILIES):
        page = python_pages.pages()[f"python/{family or 'index'}.md"]
        module = importlib.import_module(clockseg._FAMILIES[family] if family else "clockseg")
        told = re.findall(rf"^::: {re.escape(module.__name__)}\.(\w+)$", page, re.MULTILINE)
        names = python_pages.public(family) if family else [name for name in clockseg.__all__ if name != "__version__"]
        assert sorted(told) == sorted(names)
        assert all(hasattr(module, name) for name in told)


def test_links_out_of_docs_lead_to_files_of_the_site() -> None:
    assert outside_links.moved("[x](../README.md)", "docs/a/b.md") == "[x](../README.md)"
    assert outside_links.moved("[x](../../README.md)", "docs/a/b.md") == "[x](../index.md)"
    assert outside_links.moved("[x](../../benchmarks/x.py)", "docs/a/b.md") == "[x](../files/benchmarks/x.py)"
    assert outside_links.moved("[x](docs/a/b.md#c) [y](#z)", "CHANGELOG.md") == "[x](a/b.md#c) [y](#z)"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_spec("mkdocs") is None:
        pytest.skip("needs mkdocs (pip install '.[docs]')")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def test_loads_nothing_from_the_network(site) -> None:
    for page in site.rglob("*.html"):
        fetched = re.findall(
            r"<(?:script|img|iframe|source|video)[^>]*src=\"?(https?:[^\" >]+)", page.read_text(encoding="utf-8")
        )
        linked = re.findall(
            r"<link[^>]*rel=\"?(?:stylesheet|preconnect|icon)[^>]*href=\"?(https?:[^\" >]+)",
            page.read_text(encoding="utf-8"),
        )
        assert (fetched, linked) == ([], []), page
    for sheet in site.rglob("*.css"):
        assert not re.findall(r"url\(\"?https?:|@import", sheet.read_text(encoding="utf-8")), sheet


def test_navigation_pages_exist(site) -> None:
    for page in re.findall(r"([\w/-]+)\.md$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE):
        assert (site / f"{page}.html").is_file(), page
    for folder in ("commands", "python"):
        assert len(list((site / folder).glob("*.html"))) > 5


def test_docstring_examples_are_code_blocks(site) -> None:
    page = (site / "python/index.html").read_text(encoding="utf-8")
    assert "<blockquote>" not in page
    assert page.count('class="highlight"') > 30


def test_idea_figures_use_the_page_colours(site) -> None:
    page = (site / "the-idea.html").read_text(encoding="utf-8")
    assert page.count('<span class="idea"><svg aria-label="') == (ROOT / "docs/the-idea.md").read_text().count(
        "(figures/idea-"
    )
    assert "var(--md-typeset-color" in page


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_pages_fit_the_window_without_errors(site, width, dark) -> None:
    with chromium(width, 844, dark=dark) as page:
        for name in ("index", "the-idea", "frontier", "commands/segment", "python/index"):
            page.get((site / f"{name}.html").as_uri())
            assert page.execute_script("return document.body.dataset.mdColorScheme") == ("slate" if dark else "default")
            assert page.execute_script("return document.documentElement.scrollWidth") <= width, name
            assert page.execute_script("return [...document.images].every(one => one.complete && one.naturalWidth)"), (
                name
            )
        assert (complaints(page), asked(page)) == ([], [])


def test_search_works_from_disk(site) -> None:
    with chromium(1280, 844) as page:
        page.get((site / "index.html").as_uri() + "?q=budget")
        found = "return document.querySelectorAll('.md-search-result__item').length"
        page.set_script_timeout(20)
        count = page.execute_async_script(
            f"const done = arguments[0], look = () => {{ const n = (() => {{ {found} }})();"
            " n ? done(n) : setTimeout(look, 50); }; look();"
        )
        assert count > 1
        assert complaints(page) == []
