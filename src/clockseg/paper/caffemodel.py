"""Caffe's binary weights (.caffemodel) without Caffe: the messages of its protobuf schema that hold weights.

    NetParameter   100: layer (LayerParameter), or in older files 2: layers (V1LayerParameter)
    layer          1: name, 7: blobs; in the older kind 4: name, 6: blobs, 1: layer (of Caffe's first generation)
    BlobProto      7: shape (1: dim), or in older files 1 to 4: num, channels, height, width; 5: data, 8: double_data

Everything else in such a file is skipped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped,unused-ignore]
from google.protobuf.message import DecodeError  # type: ignore[import-untyped,unused-ignore]

from clockseg.errors import NetworkError
from clockseg.types import Array

MOST_BYTES = 2**31 - 1
"""The largest message that protobuf can hold."""
MOST_DIMENSIONS = 32
"""The largest number of dimensions of a blob in Caffe."""
_INTEGER, _FLOAT, _DOUBLE, _BYTES, _MESSAGE = 3, 2, 1, 12, 11
_SCHEMA: Mapping[str, Mapping[str, tuple[int, int | str, bool]]] = {
    "Shape": {"dim": (1, _INTEGER, True)},
    "Blob": {
        **{name: (number, _INTEGER, False) for number, name in enumerate(("num", "channels", "height", "width"), 1)},
        "data": (5, _FLOAT, True),
        "shape": (7, "Shape", False),
        "double_data": (8, _DOUBLE, True),
    },
    "Layer": {"name": (1, _BYTES, False), "blobs": (7, "Blob", True)},
    "V1Layer": {"layer": (1, _BYTES, False), "name": (4, _BYTES, False), "blobs": (6, "Blob", True)},
    "Net": {"layers": (2, "V1Layer", True), "layer": (100, "Layer", True)},
}
"""Message -> field -> its number, its type (a name: a message), and True if it is repeated."""


class CaffeLayer(NamedTuple):
    """A layer that has weights: its name and its blobs (weights, then bias), float32 or float64."""

    name: str
    blobs: tuple[Array, ...]


def read_caffemodel(path: Path) -> tuple[CaffeLayer, ...]:
    """Return the layers with weights in a .caffemodel, in its order; ``NetworkError`` for any other file."""
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
        raise NetworkError(
            f"{path} is not a complete .caffemodel, Caffe's binary weights: {error}{_hint(data)}"
        ) from None


def parse_caffemodel(data: bytes) -> tuple[CaffeLayer, ...]:
    """Return the layers with weights in the bytes of a .caffemodel; ``NetworkError`` for any other bytes."""
    try:
        net = _net().FromString(data)
    except DecodeError:
        raise NetworkError("it is cut short, damaged, or of another format.") from None
    if any(layer.layer for layer in net.layers):
        raise NetworkError("it is of Caffe's first generation; convert it with Caffe's upgrade_net_proto_binary.")
    found = tuple(_layer(layer) for layer in (*net.layers, *net.layer) if layer.blobs)
    if not found:
        raise NetworkError("it has no layer with weights.")
    return found


def _net() -> Any:
    """Return the class of NetParameter messages."""
    file = descriptor_pb2.FileDescriptorProto(name="caffe.proto", package="caffe")
    for name, fields in _SCHEMA.items():
        message = file.message_type.add(name=name)
        for field, (number, kind, repeated) in fields.items():
            made = message.field.add(name=field, number=number, label=3 if repeated else 1)
            if isinstance(kind, str):
                made.type, made.type_name = _MESSAGE, f".caffe.{kind}"
            else:
                made.type = kind
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("caffe.Net"))


def _layer(layer: Any) -> CaffeLayer:
    try:
        name = layer.name.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NetworkError("the name of a layer is not text.") from error
    return CaffeLayer(name, tuple(_blob(blob, name) for blob in layer.blobs))


def _blob(blob: Any, layer: str) -> Array:
    stored, kind = (blob.double_data, np.float64) if blob.double_data else (blob.data, np.float32)
    numbers = np.fromiter(stored, kind, len(stored))
    axes = ("num", "channels", "height", "width")
    if any(map(blob.HasField, axes)):
        shape = tuple(getattr(blob, axis) for axis in axes)
    else:
        shape = tuple(blob.shape.dim) if blob.HasField("shape") else numbers.shape
    if len(shape) > MOST_DIMENSIONS:
        raise NetworkError(f"a blob has {len(shape)} dimensions; Caffe allows {MOST_DIMENSIONS}.")
    if not numbers.size or min(shape, default=1) < 0 or math.prod(shape) != numbers.size:
        size = "x".join(map(str, shape))
        raise NetworkError(f"a blob of layer {layer!r} has the shape {size} and holds {numbers.size} numbers.")
    return numbers.reshape(shape)


def _hint(data: bytes) -> str:
    """Name the likely kind of a file that is no caffemodel."""
    if data.startswith(b"\x89HDF"):
        return " This is an HDF5 file; save the net as binary protobuf instead."
    if data.startswith((b"\x1f\x8b", b"PK")):
        return " This is an archive; unpack it first."
    if not data[:1000].strip(bytes(range(32, 127)) + b"\t\r\n"):
        return " This is text, such as a prototxt, which has no weights."
    return ""
