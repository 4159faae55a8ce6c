"""A griffe extension that fences ``>>>`` examples in docstrings, which Markdown would show as quotations."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"(?:^|\n\n?)(>>> .*?)(?=\n\n|\Z)", re.DOTALL)


def fenced(text: str) -> str:
    """Return a docstring with its examples fenced.

    >>> fenced("One.\\n\\n>>> 1 + 1\\n2").splitlines()[2]
    '```pycon'
    """
    return _EXAMPLE.sub(lambda found: f"\n\n```pycon\n{found[1].rstrip()}\n```", text).strip()


class Examples(griffe.Extension):
    """Extension that fences the examples in every docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Fence the examples of one object's docstring."""
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)
