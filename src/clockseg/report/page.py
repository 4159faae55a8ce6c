"""The page: one HTML file made from the parts in ``page/`` and the facts of a report, and how arrays are stored in it."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import zlib
from importlib.resources import files
from typing import Any

import numpy as np

from clockseg.types import Array

SCRIPTS = (
    "packed", "masks", "player", "data", "words", "theme", "view", "painting", "lanes", "panels", "timeline", "moment",
    "controls", "compared", "tables", "keys", "main",
)  # fmt: skip
"""The modules of ``page/``, each after those that it imports. Their top-level names differ."""
_TYPES = {"u1": "Uint8Array", "u4": "Uint32Array", "f4": "Float32Array", "f8": "Float64Array"}


def packed(values: Array) -> dict[str, str]:
    """Pack an array of uint8, uint32, float32 or float64, flat and little-endian, with its JavaScript type, for ``packed.js``."""
    kind = np.dtype(values.dtype).str[1:]
    flat = np.ascontiguousarray(values, np.dtype(f"<{kind}"))
    return {"type": _TYPES[kind], "data": deflated(flat.tobytes())}


def deflated(data: bytes) -> str:
    """Compress bytes with zlib and encode them in base64."""
    return base64.b64encode(zlib.compress(data, 6)).decode()


def page(title: str, facts: dict[str, Any], video: str) -> str:
    """Return the HTML file: ``facts`` as plain values, ``video`` an MP4 in base64 or empty.

    The page loads nothing: its content security policy only allows its own script and style, by their hashes, and a
    video. Facts are embedded as JSON that cannot close the element around it.
    """
    # A page that is opened from disk may not load modules, so they are concatenated in one scope.
    modules = (re.sub(r"^import [^;]*;\n|^export ", "", _read(f"{name}.js"), flags=re.MULTILINE) for name in SCRIPTS)
    script, style = f"'use strict';\n(() => {{\n{''.join(modules)}}})();\n", _read("page.css")
    text = json.dumps(facts, allow_nan=False, separators=(",", ":"))
    parts = {
        "title": html.escape(title),
        "policy": f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        "media-src 'self' file: blob:; base-uri 'none'; form-action 'none'",
        "style": style,
        "facts": text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"),
        "video": video,
        "script": script,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _read("page.html"))


def _read(name: str) -> str:
    return (files("clockseg.report") / "page" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
