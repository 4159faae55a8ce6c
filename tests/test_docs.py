"""Documentation pages: their links lead somewhere, and the commands, options, names and figures in them exist."""

from __future__ import annotations

import ast
import doctest
import importlib
import importlib.util
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import command_pages
import pytest

import clockseg
from clockseg.cli.main import parser
from clockseg.clocks.spec import parse_schedule
from clockseg.graph.sidecar import parse

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
GENERATED = {
    *command_pages.pages(),
    "python/index.md",
    *(f"python/{family}.md" for family in clockseg._FAMILIES),
    "changelog.md",
}
"""Pages of the site that are generated when it is built (see test_site.py)."""
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """Iterate over the fenced blocks of a page: language, content."""
    yield from re.findall(r"^```(\w*)[^\n]*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def source(content: str) -> str:
    """Return a block of Python without prompts and their output."""
    return doctest.script_from_examples(content) if ">>> " in content else content


def prose(text: str) -> str:
    """Return a page without its blocks of code."""
    return re.sub(r"^```.*?^```|^    .*?$", "", text, flags=re.DOTALL | re.MULTILINE)


def commands(text: str) -> list[str]:
    """Return the commands of a page: lines of fenced or indented blocks that begin with ``clockseg``."""
    fenced = "\n".join(content for _, content in blocks(text)).replace("\\\n", " ")
    indented = "\n".join(re.findall(r"^(?: {4}| {6})((?:\$ )?clockseg .*)$", text, re.MULTILINE))
    return re.findall(r"^(?:\$ )?(clockseg .*)$", f"{fenced}\n{indented}", re.MULTILINE)


def anchors(text: str) -> list[str]:
    """Return the anchors of a page's headings, as GitHub and the site generate them."""
    titles = re.findall(
        r"^#{1,6} (.+?)\s*$", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE
    )
    return [re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "", title).lower()).replace(" ", "-") for title in titles]


@each_page
def test_links_lead_to_files_and_headings(page) -> None:
    for target, anchor in re.findall(
        r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)", prose(page.read_text(encoding="utf-8"))
    ):
        there = page.parent / target if target else page
        if _generated(there):
            continue
        assert there.exists(), target
        if anchor:
            assert anchor in anchors(there.read_text(encoding="utf-8")), f"{target}#{anchor}"


def _generated(path: Path) -> bool:
    return path.resolve().is_relative_to(DOCS) and path.resolve().relative_to(DOCS).as_posix() in GENERATED


@each_page
def test_external_links_are_addresses(page) -> None:
    for address in re.findall(r"https?://[^\s)>`\"]+", page.read_text(encoding="utf-8")):
        found = urlsplit(address)
        assert found.scheme == "https" or found.hostname in ("localhost", "127.0.0.1"), address
        assert re.fullmatch(r"localhost|[\d.]+|[\w-]+(\.[\w-]+)+", found.hostname or ""), address


@each_page
def test_headings_are_unique(page) -> None:
    text = page.read_text(encoding="utf-8")
    found = anchors(text)
    assert text.startswith("# ")
    assert len(re.findall(r"^# ", prose(text), re.MULTILINE)) == 1
    assert len(found) == len(set(found)), [one for one in found if found.count(one) > 1]


@each_page
def test_commands_parse(page) -> None:
    for command in commands(page.read_text(encoding="utf-8")):
        given = shlex.split(command.split(" | ")[0], comments=True)[1:]
        if not {"...", "--help", "--version"} & set(given):
            parser().parse_args([one.removesuffix("...") for one in given])


@each_page
def test_schedules_parse(page) -> None:
    text = page.read_text(encoding="utf-8")
    typed = [shlex.split(command.split(" | ")[0], comments=True) for command in commands(text)]
    given = [words[i + 1] for words in typed for i, word in enumerate(words) if word == "--schedule"]
    names = "carried|either|both|budget|paced|adaptive|difference|motion_residual|skip_frame|fixed_rate|pipelined"
    told = re.findall(rf"`((?:{names})\([^`]*\))`", prose(text))
    for spec in (*given, *told):
        if not re.search(r"\.\.|\b[a-z]\d?\b|\.toml$|\.onnx|package\.|\bschedule\b|\w:\w", spec):
            parse_schedule(spec)


@each_page
def test_options_exist(page) -> None:
    known = {
        option for one in command_pages.leaves(parser()) for action in one._actions for option in action.option_strings
    }
    scripts = {
        option
        for path in (*(ROOT / "benchmarks").rglob("*.py"), *(ROOT / "recipes").rglob("*.py"))
        for option in re.findall(r'"(--[a-z-]+)"', path.read_text())
    }
    told = set(re.findall(r"`(--[a-z][a-z0-9-]+)", prose(page.read_text(encoding="utf-8"))))
    assert told <= known | scripts


@each_page
def test_python_compiles_and_its_names_exist(page) -> None:
    for language, content in blocks(page.read_text(encoding="utf-8")):
        if language == "python":
            for module, name in _named(ast.parse(source(content))):
                found = importlib.import_module(module)
                assert hasattr(found, name) or importlib.util.find_spec(f"{module}.{name}"), f"{module}.{name}"


def test_example_sidecar_parses() -> None:
    [text] = [
        text for language, text in blocks((DOCS / "cut-your-network.md").read_text("utf-8")) if language == "json"
    ]
    assert parse(json.dumps(json.loads(text)), source="cut-your-network.md").cuts == (("pool3",), ("pool4",), ("fc7",))


def _named(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Iterate over each (module, name) of clockseg that a piece of code uses."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "clockseg":
            yield from ((str(node.module), alias.name) for alias in node.names)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "clockseg":
            yield "clockseg", node.attr


RESULTS = ROOT / "benchmarks/results"
REFERENCES = ("clocks", "results", "datasets", "glossary", "write-a-clock")


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.stem)
def test_percentages_stand_in_a_measured_table(page) -> None:
    cards = (ROOT / "src/clockseg/networks/weights").glob("*.md")
    measured = " ".join(table.read_text(encoding="utf-8") for table in (*RESULTS.rglob("*.md"), *cards))
    told = re.findall(
        r"(?<![\w.])\d+\.\d+ %", re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    )
    assert [one for one in told if not re.search(rf"(?<![\w.]){re.escape(one[:-2])} ?%", measured)] == []


def test_pages_named_in_code_exist() -> None:
    for path in [*(ROOT / "src").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py"), ROOT / "CONTRIBUTING.md"]:
        for named in re.findall(r"\bdocs/[\w/-]+\.md\b", path.read_text(encoding="utf-8")):
            assert (ROOT / named).is_file(), f"{path.name}: {named}"


@each_page
def test_tables_are_small_except_on_reference_pages(page) -> None:
    for table in re.findall(r"(?:^\|.*\n)+", page.read_text(encoding="utf-8"), re.MULTILINE):
        head, _, *rows = table.splitlines()
        assert page.stem in REFERENCES or len(rows) <= 6, head
        assert len(re.sub(r"`[^`]*`|\\\\\|", "", head).strip("|").split("|")) <= 7, head


def test_extras_are_installed_from_the_clone() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    for path in [*PAGES, ROOT / "README.md", *(ROOT / "src").rglob("*.py"), *(ROOT / "examples").glob("*.py")]:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"clockseg\[\w", text), f"{path.name}: the package is on no index"
        named = re.findall(r"pip install '\.\[([\w-]+)\]'", text) + re.findall(r"\binstall\(['\"](\w+)['\"]\)", text)
        assert set(named) <= set(extras), path.name


def test_documentation_stays_short() -> None:
    readme, pages = (ROOT / "README.md", PAGES)
    assert len(readme.read_text(encoding="utf-8").split()) <= 1_500
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in pages) <= 30_000


def test_glossary_defines_the_terms_of_the_contributing_guide() -> None:
    [line] = re.findall(
        r"One word per thing: (.*?)\.", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.DOTALL
    )
    words = re.findall(r"^\*\*(.+)\*\*$", (DOCS / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(line.replace("\n ", "").split(", ")) <= set(words)
    assert len(words) == len(set(words))


def test_navigation_lists_every_page() -> None:
    named = set(
        re.findall(r"([\w/*-]+\.md|[\w-]+/\*)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    )
    lying = {page.relative_to(DOCS).as_posix() for page in PAGES}
    whole = tuple(one[:-1] for one in named if one.endswith("/*"))
    assert {page for page in lying if not page.startswith(whole)} <= named
    assert {one for one in named if not one.endswith("/*")} <= lying | GENERATED
