"""Reading Caffe's binary format: both generations of it, and what is no such file."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caffe_making import blob, caffemodel, field, layer, varint
from clockseg.errors import NetworkError
from clockseg.paper.caffe import parse_caffemodel, read_caffemodel


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize(("packed", "double"), [(True, False), (False, False), (True, True)])
def test_both_generations_and_all_ways_to_store_numbers(old: bool, legacy: bool, packed: bool, double: bool) -> None:
    arrays = [np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2), np.array([0.5, -1], np.float32)]
    [found] = parse_caffemodel(caffemodel({"conv": arrays}, old=old, legacy=legacy, packed=packed, double=double))
    assert found.name == "conv"
    assert [each.shape for each in found.blobs] == [(2, 3, 2, 2), (1, 1, 1, 2) if legacy else (2,)]
    assert all((a == b.reshape(a.shape)).all() for a, b in zip(arrays, found.blobs, strict=True))


def test_what_a_layer_also_has_is_passed_over() -> None:
    more = field(3, b"data") + field(103, 1.5) + field(9, 300) + varint(10 << 3 | 1) + bytes(8)
    other = field(8, b"input") + field(2000, 7)
    data = other + field(100, more + field(1, b"x") + field(7, field(6, bytes(8)) + blob(np.ones(3)))) + other
    [found] = parse_caffemodel(data)
    assert (found.name, found.blobs[0].tolist()) == ("x", [1, 1, 1])


def test_a_blob_without_shape_is_a_row() -> None:
    assert parse_caffemodel(layer("x", [field(5, bytes(12))]))[0].blobs[0].shape == (3,)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no layer with weights"),
        (layer("x", []), "no layer with weights"),
        (field(100, 7), "no layer with weights"),
        (layer("x", [blob(np.ones((2, 3)))])[:-1], "cut short"),
        (layer("x", [field(5, bytes(7))]), "cut short"),
        (b"\xff" * 20, "cut short"),
        (varint(3 << 3 | 6), "another format"),
        (b"\x00\x00", "another format"),
        (layer("x", [field(7, field(1, varint(5))) + field(5, bytes(8))]), "shape 5 and holds 2"),
        (layer("x", [field(7, field(1, varint(2**63) + varint(0)))]), "holds 0 numbers"),
        (layer("x", [field(7, field(1, varint(2**64 - 1) * 2)) + field(5, bytes(4))]), "shape -1x-1 and holds 1"),
        (layer("x", [field(7, field(1, varint(1) * 33)) + field(5, bytes(4))]), "33 dimensions"),
        (field(100, field(1, b"\xff\xfe") + field(7, blob(np.ones(1)))), "not text"),
        (field(2, field(1, b"old") + field(6, blob(np.ones(1)))), "first generation"),
    ],
)
def test_what_is_no_caffemodel_is_told(data: bytes, message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        parse_caffemodel(data)


@pytest.mark.parametrize(
    ("start", "hint"),
    [
        (b"\x89HDF\r\n", "HDF5"),
        (b"\x1f\x8b\x08", "unpack"),
        (b"PK\x03\x04", "unpack"),
        (b"name: 'fcn'\nlayer {", "text"),
    ],
)
def test_what_it_may_be_instead(tmp_path: Path, start: bytes, hint: str) -> None:
    (tmp_path / "x.caffemodel").write_bytes(start + b" " * 50)
    with pytest.raises(NetworkError, match=f"x.caffemodel is not a complete .caffemodel.*{hint}"):
        read_caffemodel(tmp_path / "x.caffemodel")


WHOLE = caffemodel({"conv": [np.ones((2, 1, 3, 3), np.float32), np.zeros(2, np.float32)]})


@given(st.binary(max_size=200))
def test_any_bytes_give_layers_or_a_network_error(data: bytes) -> None:
    _parse_or_refuse(data)


@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255), st.integers(0, len(WHOLE)))
def test_damaged_bytes_give_layers_or_a_network_error(at: int, byte: int, end: int) -> None:
    _parse_or_refuse((WHOLE[:at] + bytes([byte]) + WHOLE[at + 1 :])[:end])


def _parse_or_refuse(data: bytes) -> None:
    with contextlib.suppress(NetworkError):
        found = parse_caffemodel(data)
        assert all(each.size == np.prod(each.shape) for layer in found for each in layer.blobs)
