"""Arrays as text in a page: compressed and base64-encoded; ``packed.js`` decodes them."""

from __future__ import annotations

import base64
import zlib
from typing import TypedDict

import numpy as np

from clockseg.types import Array

_TYPES = {"u1": "Uint8Array", "u4": "Uint32Array", "f4": "Float32Array", "f8": "Float64Array"}


class Packed(TypedDict):
    """An array: the name of its JavaScript type, and its data."""

    type: str
    data: str


def packed(values: Array) -> Packed:
    """Pack an array of uint8, uint32, float32 or float64, flat and little-endian.

    >>> packed(np.arange(3, dtype=np.uint8))["type"]
    'Uint8Array'
    """
    kind = np.dtype(values.dtype).str[1:]
    flat = np.ascontiguousarray(values, np.dtype(f"<{kind}"))
    return {"type": _TYPES[kind], "data": deflated(flat.tobytes())}


def deflated(data: bytes) -> str:
    """Compress bytes and encode them in base64.

    >>> zlib.decompress(base64.b64decode(deflated(b"aaaa")))
    b'aaaa'
    """
    return base64.b64encode(zlib.compress(data, 6)).decode()
