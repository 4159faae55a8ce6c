"""Caffe's binary weights for the tests, written field by field."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence

import numpy as np


def varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first."""
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def field(number: int, value: bytes | int | float) -> bytes:
    """A field of bytes, of a whole number, or of a single float."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def blob(array: np.ndarray, *, legacy: bool = False, packed: bool = True, double: bool = False) -> bytes:
    """A BlobProto; ``legacy``: with four axes instead of a shape."""
    if legacy:
        sides = (1,) * (4 - array.ndim) + array.shape
        shape = b"".join(field(number, side) for number, side in enumerate(sides, 1))
    elif packed:
        shape = field(7, field(1, b"".join(map(varint, array.shape))))
    else:
        shape = field(7, b"".join(field(1, side) for side in array.shape))
    if double:
        return shape + field(8, array.astype("<f8").tobytes())
    numbers = array.astype("<f4")
    return shape + (field(5, numbers.tobytes()) if packed else b"".join(field(5, float(n)) for n in numbers.flat))


def layer(name: str, blobs: Iterable[bytes], *, old: bool = False) -> bytes:
    """A layer of a NetParameter; ``old``: a V1LayerParameter. What a reader must pass over stands between."""
    number, title, weights = (2, 4, 6) if old else (100, 1, 7)
    kind = field(5, 4) if old else field(2, b"Convolution")
    return field(number, field(title, name.encode()) + kind + b"".join(field(weights, each) for each in blobs))


def caffemodel(named: Mapping[str, Sequence[np.ndarray]], *, old: bool = False, **options: bool) -> bytes:
    """A NetParameter: layer -> its weights, and a layer that has none."""
    made = (layer(name, [blob(array, **options) for array in arrays], old=old) for name, arrays in named.items())
    return field(1, b"net") + layer("data", [], old=old) + b"".join(made)


def as_layers(state: Mapping[str, np.ndarray]) -> dict[str, list[np.ndarray]]:
    """A state as a caffemodel's layers."""
    found: dict[str, list[np.ndarray]] = {}
    for name, value in state.items():
        found.setdefault(name.rpartition(".")[0], []).append(value)
    return found


def full(kernels: np.ndarray) -> np.ndarray:
    """Kernels [C, 1, k, k] as older files store them: [C, C, k, k], zero off the diagonal."""
    classes = len(kernels)
    found = np.zeros((classes, classes, *kernels.shape[2:]), kernels.dtype)
    found[range(classes), range(classes)] = kernels[:, 0]
    return found
