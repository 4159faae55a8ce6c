"""Limits on the size of a network: larger ones are refused before memory is allocated for them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from pathlib import Path

import onnx
from onnx import helper

from clockseg.errors import NetworkError, UsageError
from clockseg.graph.nodes import subgraphs

BYTES, NODES, TENSOR_BYTES = "CLOCKSEG_MAX_NETWORK_BYTES", "CLOCKSEG_MAX_NODES", "CLOCKSEG_MAX_TENSOR_BYTES"
"""Environment variables that allow more, or less: of a file and its external data, and of any tensor at the working size."""
_DEFAULTS = {BYTES: 2_000_000_000, NODES: 100_000, TENSOR_BYTES: 4_000_000_000}
"""ONNX itself holds at most 2 GiB in one file."""
MOST_DEPTH = 20
"""Graphs inside of graphs, as branches of an If or bodies of a Loop; no reader takes many more."""


def limit(variable: str) -> int:
    """Return the limit that the environment sets, else the default; ``UsageError`` for anything but a whole number."""
    text = os.environ.get(variable) or str(_DEFAULTS[variable])
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text)):
        raise UsageError(f"{variable} is {text!r}; give a whole number of at least 1, or unset it.")
    return int(text)


def check_bytes(path: Path, size: int) -> None:
    """Raise ``NetworkError`` if a network's file and its external data, ``size`` bytes, are larger than allowed."""
    if size > limit(BYTES):
        raise NetworkError(
            f"{path} has {size:,} bytes with its external data; at most {limit(BYTES):,} are read. {_allow(BYTES)}"
        )


def check_nodes(graph: onnx.GraphProto) -> None:
    """Raise ``NetworkError`` if there are too many nodes, those of inner graphs counted, or if graphs are nested too deep."""
    left, level = limit(NODES), [graph]
    for _ in range(MOST_DEPTH):
        left -= sum(len(one.node) for one in level)
        if left < 0:
            raise NetworkError(f"the network has more than {limit(NODES):,} nodes. {_allow(NODES)}")
        level = [inner for one in level for node in one.node for inner in subgraphs(node)]
        if not level:
            return
    raise NetworkError(f"the network has graphs nested {MOST_DEPTH} deep or deeper; export it traced.")


def check_tensor(name: str, kind: int, shape: Iterable[int]) -> None:
    """Raise ``NetworkError`` if a tensor of that type and shape takes too many bytes, or if there is no such shape."""
    sides = tuple(shape)
    by = "x".join(map(str, sides))
    if min(sides, default=0) < 0:
        raise NetworkError(
            f"tensor {name!r} would have the shape {by}, and a size can't be negative. Export the network again."
        )
    size = math.prod(sides) * _item_bytes(kind)
    if size > limit(TENSOR_BYTES):
        raise NetworkError(
            f"tensor {name!r} would be {by} and take {size:,} bytes; at most {limit(TENSOR_BYTES):,} are taken. "
            f"A smaller --size helps. {_allow(TENSOR_BYTES)}"
        )


def _allow(variable: str) -> str:
    return f"If you trust the network and have the memory, set {variable} higher."


def _item_bytes(kind: int) -> int:
    """Return the bytes of an element; texts, whose size is unknown, count as numbers."""
    try:
        return int(helper.tensor_dtype_to_np_dtype(kind).itemsize)
    except KeyError:
        return 8
