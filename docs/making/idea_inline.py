"""Inlines the figures of the idea into their page, so that they take the colours of its theme."""

from __future__ import annotations

import re
from pathlib import Path

_IMAGE = re.compile(r'<img alt="([^"]*)" src="(?:\.\./)*(figures/idea-[a-z]+\.svg)" ?/?>')


def inlined(html: str, docs: Path) -> str:
    """Return the HTML of a page with the SVG files in place of their image tags.

    >>> inlined('<p><img alt="" src="other.svg" /></p>', Path())
    '<p><img alt="" src="other.svg" /></p>'
    """

    def picture(found: re.Match[str]) -> str:
        drawn = (docs / found[2]).read_text(encoding="utf-8")
        return f'<span class="idea">{drawn.replace("<svg ", f"""<svg aria-label="{found[1]}" """, 1)}</span>'

    return _IMAGE.sub(picture, html)
