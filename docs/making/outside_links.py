"""Links from pages to files outside of docs: the site gets copies of these files, so that it is complete."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:)([^)#\s]+)(#[^)\s]*)?(?=\))")
_STANDS_FOR = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "docs": ""}


def home(path: str) -> str:
    """Return the path in the site of a file of the repository (POSIX paths, relative to the repository and to docs).

    >>> home("docs/plan.md"), home("README.md"), home("benchmarks/cost.py")
    ('plan.md', 'index.md', 'files/benchmarks/cost.py')
    """
    inside = path.removeprefix("docs/")
    return _STANDS_FOR.get(path, inside if inside != path else f"files/{path}")


def _target(link: str, page: str) -> str:
    """Return the path in the repository that a link of a page leads to."""
    return os.path.normpath(PurePosixPath(page).parent / link)


def outside(markdown: str, page: str) -> Iterator[str]:
    """Iterate over the files outside of docs that a page links to, as paths in the repository.

    >>> list(outside("[a](../benchmarks/cost.py) [b](plan.md) [c](https://example.org)", "docs/cost.md"))
    ['benchmarks/cost.py']
    """
    for found in _LINK.finditer(markdown):
        path = _target(found[1], page)
        if home(path).startswith("files/"):
            yield path


def moved(markdown: str, page: str) -> str:
    """Return a page of the repository with its links rewritten for the site.

    >>> moved("[a](../benchmarks/cost.py#L3) [b](plan.md)", "docs/cost.md")
    '[a](files/benchmarks/cost.py#L3) [b](plan.md)'
    >>> moved("[plan](docs/plan.md)", "CHANGELOG.md")
    '[plan](plan.md)'
    """
    start = PurePosixPath(home(page)).parent

    def link(found: re.Match[str]) -> str:
        return os.path.relpath(home(_target(found[1], page)) or "index.md", start) + (found[2] or "")

    return _LINK.sub(link, markdown)
