"""The page: one HTML file made from the parts in ``page/`` and the facts of a report."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from importlib.resources import files
from typing import Any

SCRIPTS = (
    "packed",
    "masks",
    "player",
    "data",
    "words",
    "theme",
    "view",
    "painting",
    "lanes",
    "panels",
    "timeline",
    "moment",
    "controls",
    "compared",
    "frontier",
    "tables",
    "keys",
    "main",
)
"""The modules of ``page/``, each after those that it imports."""
_IMPORT = re.compile(r"^import (\{.*?\}) from '\./(\w+)\.js';$", re.MULTILINE | re.DOTALL)
_EXPORT = re.compile(r"^export ((?:async )?(?:function|class|const) (\w+))", re.MULTILINE)


def page(title: str, facts: dict[str, Any], video: str) -> str:
    """Return the HTML file: ``facts`` as plain values, ``video`` an MP4 in base64 or empty.

    The page loads nothing: its content security policy only allows its own script and style, by their hashes, and a
    video. Facts are embedded as JSON that cannot close the element around it.

    >>> "<script>alert" in page("<script>alert(1)</script>", {"x": "</script><script>alert(1)"}, "")
    False
    """
    script, style = _script(), _read("page.css")
    return _filled(
        _read("page.html"),
        {
            "title": html.escape(title),
            "policy": _policy(script, style),
            "style": style,
            "facts": as_json(facts),
            "video": video,
            "script": script,
        },
    )


def as_json(facts: dict[str, Any]) -> str:
    r"""Return JSON that is safe inside a script element: ``<``, ``>`` and ``&`` are escaped.

    >>> as_json({"name": "</script>"})
    '{"name":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(facts, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _script() -> str:
    """Return the modules as one script with a scope for each, because a page from disk may not load modules."""
    return "\n'use strict';\n" + "\n".join(_scoped(name, _read(f"{name}.js")) for name in SCRIPTS)


def _scoped(name: str, module: str) -> str:
    """Wrap a module in a function that returns its exports.

    >>> print(_scoped("b", "import { one } from './a.js';\\nexport const two = one;\\n"))
    const module_b = (() => {
    const { one } = module_a;
    const two = one;
    return { two };
    })();
    """
    exported = ", ".join(found[1] for found in _EXPORT.findall(module))
    inside = _EXPORT.sub(r"\1", _IMPORT.sub(r"const \1 = module_\2;", module))
    return f"const module_{name} = (() => {{\n{inside}return {{ {exported} }};\n}})();\n"


def _read(name: str) -> str:
    return (files("clockseg.report") / "page" / name).read_text(encoding="utf-8")


def _policy(script: str, style: str) -> str:
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "img-src data:; media-src 'self' file: blob:; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _filled(template: str, parts: dict[str, str]) -> str:
    """Replace each ``{{name}}`` in the template; replacements are not searched again."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)
