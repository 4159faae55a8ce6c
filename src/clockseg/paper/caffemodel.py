"""Caffe's binary weights (.caffemodel) without Caffe: as much of protobuf as a NetParameter needs.

    NetParameter   100: layer (LayerParameter), or in older files 2: layers (V1LayerParameter)
    layer          1: name, 7: blobs; of the older kind 4: name, 6: blobs
    BlobProto      7: shape (1: dim), or in older files 1 to 4: num, channels, height, width; 5: floats, 8: doubles

Everything else in such a file is passed over. Repeated numbers may be packed or not; both are read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from clockseg.errors import NetworkError
from clockseg.types import Array

MOST_BYTES = 2**31 - 1
"""The largest message that protobuf can hold."""
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_Value: TypeAlias = "int | memoryview"


class CaffeLayer(NamedTuple):
    """A layer that has weights: its name and its blobs (weights, then bias), float32 or float64, read-only."""

    name: str
    blobs: tuple[Array, ...]


def read_caffemodel(path: Path) -> tuple[CaffeLayer, ...]:
    """The layers with weights in a .caffemodel, in its order; NetworkError if it isn't one.

    >>> read_caffemodel(Path("nowhere.caffemodel"))
    Traceback (most recent call last):
        ...
    clockseg.errors.NetworkError: nowhere.caffemodel can't be read: No such file or directory
    """
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise NetworkError(f"{path} has {size:,} bytes; a .caffemodel has at most {MOST_BYTES:,}.")
        data = path.read_bytes()
    except OSError as error:
        raise NetworkError(f"{path} can't be read: {error.strerror or error}") from error
    try:
        return parse_caffemodel(data)
    except NetworkError as error:
        raise NetworkError(f"{path} is no whole .caffemodel, Caffe's binary weights: {error}{_hint(data)}") from None


def parse_caffemodel(data: bytes) -> tuple[CaffeLayer, ...]:
    """As ``read_caffemodel``, of the file's bytes.

    >>> parse_caffemodel(b"")
    Traceback (most recent call last):
        ...
    clockseg.errors.NetworkError: it holds no layer with weights.
    """
    found = []
    for number, value in _fields(memoryview(data)):
        if number in (100, 2):
            layer = _layer(_message(value, "a layer"), name=1 if number == 100 else 4, blobs=7 if number == 100 else 6)
            found += [layer] if layer.blobs else []
    if not found:
        raise NetworkError("it holds no layer with weights.")
    return tuple(found)


def _layer(data: memoryview, *, name: int, blobs: int) -> CaffeLayer:
    title, made = "", []
    for number, value in _fields(data):
        if number == name:
            title = _text(_message(value, "a layer's name"))
        elif number == blobs:
            made.append(_blob(_message(value, "a blob"), title))
        elif number == 1:  # of V1LayerParameter: a layer of the generation before that
            raise NetworkError("it is of Caffe's first generation; bring it up to date with upgrade_net_proto_binary.")
    return CaffeLayer(title, tuple(made))


def _blob(data: memoryview, layer: str) -> Array:
    shape: tuple[int, ...] | None = None
    legacy: dict[int, int] = {}
    pieces: dict[int, list[Array]] = {5: [], 8: []}
    for number, value in _fields(data):
        if number == 7:
            shape = _shape(_message(value, "a blob's shape"))
        elif number in (1, 2, 3, 4):
            legacy[number] = _whole(value)
        elif number in pieces:
            pieces[number].append(_numbers(value, "<f4" if number == 5 else "<f8"))
    if legacy:
        shape = tuple(legacy.get(number, 0) for number in (1, 2, 3, 4))
    parts = pieces[8] or pieces[5] or [np.zeros(0, np.float32)]
    numbers = parts[0] if len(parts) == 1 else np.concatenate(parts)
    shape = (numbers.size,) if shape is None else shape
    if math.prod(shape) != numbers.size or not numbers.size:
        size = "x".join(map(str, shape))
        raise NetworkError(f"a blob of layer {layer!r} is said to be {size} and holds {numbers.size} numbers.")
    return numbers.reshape(shape)


def _shape(data: memoryview) -> tuple[int, ...]:
    dims: list[int] = []
    for number, value in _fields(data):
        if number == 1 and isinstance(value, memoryview):
            at = 0
            while at < len(value):
                dim, at = _varint(value, at)
                dims.append(dim)
        elif number == 1:
            dims.append(_whole(value))
    if len(dims) > 32:
        raise NetworkError(f"a blob has {len(dims)} dimensions; Caffe allows 32.")
    return tuple(dims)


def _numbers(value: _Value, kind: str) -> Array:
    """Packed or single numbers as an array over the file's own memory."""
    data = _message(value, "a blob's data")
    if len(data) % np.dtype(kind).itemsize:
        raise NetworkError(f"a blob's data have {len(data)} bytes, no whole number of values.")
    return np.frombuffer(data, kind)


def _fields(data: memoryview) -> Iterator[tuple[int, _Value]]:
    """The number and value of each field of a message: an int for a varint, else bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if not number:
            raise NetworkError("it has a field without a number.")
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire == _BYTES:
            size, at = _varint(data, at)
        elif wire in (_EIGHT, _FOUR):
            size = 8 if wire == _EIGHT else 4
        else:
            raise NetworkError(f"field {number} has the unknown wire type {wire}.")
        if size > len(data) - at:
            raise NetworkError(
                f"field {number} needs {size:,} bytes where {len(data) - at:,} are left; it is cut short."
            )
        yield number, data[at : at + size]
        at += size


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first, and the place behind it."""
    value = 0
    for index, byte in enumerate(data[at : at + 10]):
        value |= (byte & 127) << 7 * index
        if byte < 128:
            return value, at + index + 1
    raise NetworkError("a number in it doesn't end; it is cut short or damaged.")


def _message(value: _Value, what: str) -> memoryview:
    if isinstance(value, memoryview):
        return value
    raise NetworkError(f"{what} is a plain number there.")


def _whole(value: _Value) -> int:
    if isinstance(value, int):
        return value
    raise NetworkError("a blob's dimension is no whole number.")


def _text(data: memoryview) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise NetworkError("a layer's name is no text.") from error


def _hint(data: bytes) -> str:
    """Name the likely kind of a file that is no caffemodel."""
    if data.startswith(b"\x89HDF"):
        return " This is an HDF5 file; save the net as binary protobuf instead."
    if data.startswith((b"\x1f\x8b", b"PK")):
        return " This is an archive; unpack it first."
    if not data[:1000].strip(bytes(range(32, 127)) + b"\t\r\n"):
        return " This is text, such as a prototxt, which has no weights."
    return ""
