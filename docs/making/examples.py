"""For griffe, which reads docstrings: ``>>>`` examples become blocks of code, since in Markdown they would be quotations."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"(?:^|\n\n?)(>>> .*?)(?=\n\n|\Z)", re.DOTALL)


def fenced(text: str) -> str:
    """A docstring with its examples fenced.

    >>> fenced("One.\\n\\n>>> 1 + 1\\n2").splitlines()[2]
    '```pycon'
    """
    return _EXAMPLE.sub(lambda found: f"\n\n```pycon\n{found[1].rstrip()}\n```", text).strip()


class Examples(griffe.Extension):
    """Fences the examples in every docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """As griffe calls it."""
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)
