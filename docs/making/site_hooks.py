"""MkDocs hooks: adds the pages generated from the code, and the files outside of docs that pages link to."""

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
    """Return the Markdown of the generated pages, by path."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    return {**command_pages.pages(), **python_pages.pages(), "changelog.md": changelog}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Expand ``FOLDER/*`` in the navigation to that folder's pages, its index first."""
    config.nav = _expanded(config.nav, _listed(Path(config.docs_dir)))
    return config


def _listed(docs: Path) -> list[str]:
    lying = [path.relative_to(docs).as_posix() for path in sorted(docs.rglob("*.md"))]
    pages = [*lying, *_made()]
    return sorted(pages, key=lambda page: (not page.endswith(("index.md", "README.md")), page))


def _expanded(nav: Any, pages: list[str]) -> Any:
    """Return a navigation with each ``FOLDER/*`` replaced by that folder's pages.

    >>> _expanded([{"Data": "data/*"}], ["data/index.md", "data/one.md"])
    [{'Data': ['data/index.md', 'data/one.md']}]
    """
    if isinstance(nav, list):
        return [_expanded(one, pages) for one in nav]
    if isinstance(nav, dict):
        return {title: _expanded(below, pages) for title, below in nav.items()}
    return [page for page in pages if page.startswith(nav[:-1])] if nav.endswith("/*") else nav


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages, and all files outside of docs that pages link to, directly or indirectly."""
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
    """Return the path in the repository that a page of the site comes from.

    >>> _repository_path("plan.md"), _repository_path("files/benchmarks/cost.py"), _repository_path("changelog.md")
    ('docs/plan.md', 'benchmarks/cost.py', 'CHANGELOG.md')
    """
    if uri == "changelog.md":
        return "CHANGELOG.md"
    return uri.removeprefix("files/") if uri.startswith("files/") else f"docs/{uri}"


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Rewrite links for the site."""
    return outside_links.moved(markdown, _repository_path(page.file.src_uri))


def on_page_content(html: str, page: Page, **_: Any) -> str:
    """Inline the figures of the idea, so that they take the colours of the page."""
    return idea_inline.inlined(html, ROOT / "docs")
