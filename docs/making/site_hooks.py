"""What MkDocs calls while it builds the site: pages made of the code, and links that leave docs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import command_pages
import idea_inline
import outside_links
import python_pages
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = outside_links.ROOT


def _made() -> dict[str, str]:
    """Markdown of the pages that no file under docs holds."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    return {**command_pages.pages(), **python_pages.pages(), "changelog.md": changelog}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """``FOLDER/*`` in the navigation becomes that folder's pages, its index first."""
    config.nav = _expanded(config.nav, _listed(Path(config.docs_dir)))
    return config


def _listed(docs: Path) -> list[str]:
    lying = [path.relative_to(docs).as_posix() for path in sorted(docs.rglob("*.md"))]
    pages = [*lying, *_made()]
    return sorted(pages, key=lambda page: (not page.endswith(("index.md", "README.md")), page))


def _expanded(nav: Any, pages: list[str]) -> Any:
    """A navigation with each ``FOLDER/*`` replaced by that folder's pages.

    >>> _expanded([{"Data": "data/*"}], ["data/index.md", "data/one.md"])
    [{'Data': ['data/index.md', 'data/one.md']}]
    """
    if isinstance(nav, list):
        return [_expanded(one, pages) for one in nav]
    if isinstance(nav, dict):
        return {title: _expanded(below, pages) for title, below in nav.items()}
    return [page for page in pages if page.startswith(nav[:-1])] if nav.endswith("/*") else nav


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the generated pages, and the files outside docs that pages link to, and those that these link to."""
    for path, content in _made().items():
        files.append(File.generated(config, path, content=content))
    pages = [(_repository_path(page.src_uri), page.content_string) for page in files.documentation_pages()]
    for page, markdown in pages:
        for path in outside_links.outside(markdown, page):
            name, lying = outside_links.home(path), ROOT / path
            if lying.is_file() and name not in files.src_uris:
                apart = InclusionLevel.NOT_IN_NAV
                files.append(File.generated(config, name, abs_src_path=str(lying), inclusion=apart))
                if path.endswith(".md"):
                    pages.append((path, lying.read_text(encoding="utf-8")))
    return files


def _repository_path(uri: str) -> str:
    """Where in the repository a page of the site is from.

    >>> _repository_path("plan.md"), _repository_path("files/benchmarks/cost.py"), _repository_path("changelog.md")
    ('docs/plan.md', 'benchmarks/cost.py', 'CHANGELOG.md')
    """
    if uri == "changelog.md":
        return "CHANGELOG.md"
    return uri.removeprefix("files/") if uri.startswith("files/") else f"docs/{uri}"


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Links as they have to be in the site."""
    return outside_links.moved(markdown, _repository_path(page.file.src_uri))


def on_page_content(html: str, page: Page, **_: Any) -> str:
    """The idea's pictures as part of the page, so that they take its colours."""
    return idea_inline.inlined(html, ROOT / "docs")
