"""Multiply-adds and parameters from shapes, against exact values."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import pytest

import networks
from clockseg.cli import inspect
from clockseg.graph.cost import Cost, multiply_adds, node_work, price
from clockseg.graph.static import Static, fix
from clockseg.networks.load import load


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What engines keep on disk goes to the tests' own folder."""
    monkeypatch.setenv("CLOCKSEG_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.mark.parametrize(
    ("operator", "inputs", "output", "wanted"),
    [
        ("Conv", [(1, 64, 10, 20), (32, 1, 3, 3)], (1, 32, 10, 20), 32 * 200 * 9),
        ("ConvTranspose", [(1, 21, 34, 34), (21, 1, 4, 4)], (1, 21, 70, 70), 388_416),
        ("ConvTranspose", [(1, 21, 70, 70), (21, 1, 16, 16)], (1, 21, 568, 568), 26_342_400),
        ("MatMul", [(2, 8, 16), (16, 4)], (2, 8, 4), 2 * 8 * 4 * 16),
        ("Gemm", [(8, 16), (16, 4), (4,)], (8, 4), 8 * 4 * 16),
        ("Gemm", [(16, 8), (16, 4)], (8, 4), 8 * 4 * 16),
        ("QLinearConv", [(1, 3, 8, 8), (), (), (16, 3, 3, 3), (), (), (), ()], (1, 16, 8, 8), 16 * 64 * 27),
        ("ConvInteger", [(1, 3, 8, 8), (16, 3, 3, 3)], (1, 16, 8, 8), 16 * 64 * 27),
        ("DeformConv", [(1, 3, 8, 8), (16, 3, 3, 3), (1, 18, 8, 8)], (1, 16, 8, 8), 16 * 64 * 27),
        ("MatMulInteger", [(2, 8, 16), (16, 4)], (2, 8, 4), 2 * 8 * 4 * 16),
        ("QLinearMatMul", [(2, 8, 16), (), (), (16, 4)], (2, 8, 4), 2 * 8 * 4 * 16),
        ("MatMul", [(16,), (16,)], (), 16),
        ("Attention", [(1, 2, 9, 8), (1, 2, 5, 8), (1, 2, 5, 6)], (1, 2, 9, 6), 2 * 9 * 5 * (8 + 6)),
        ("Attention", [(1, 9, 16), (1, 5, 16), (1, 5, 12)], (1, 9, 12), 9 * 5 * (16 + 12)),
        ("Attention", [(1, 9, 16), (1, 5, 16), (1, 5, 12), (), (1, 2, 3, 8)], (1, 9, 12), 9 * (5 + 3) * (16 + 12)),
        ("GRU", [(7, 2, 8), (1, 12, 8), (1, 12, 4)], (7, 1, 2, 4), 7 * 2 * 12 * (8 + 4)),
        ("Relu", [(1, 8, 8, 8)], (1, 8, 8, 8), 0),
        ("Resize", [(1, 8, 8, 8)], (1, 8, 16, 16), 0),
    ],
)
def test_multiply_adds(operator: str, inputs: list[tuple[int, ...]], output: tuple[int, ...], wanted: int) -> None:
    assert multiply_adds(operator, inputs, output) == wanted


@pytest.mark.parametrize(
    ("equation", "inputs", "wanted"),
    [
        ("bij,bjk->bik", [(2, 8, 16), (2, 16, 4)], 2 * 8 * 16 * 4),
        ("...ij, jk -> ...ik", [(3, 2, 8, 16), (16, 4)], 3 * 2 * 8 * 16 * 4),
        ("a...b,...b->a...", [(5, 1, 7), (6, 7)], 5 * 6 * 7),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)], 2 * 3 * 4 * 5 * 2),
        ("ij->ji", [(8, 16)], 0),
    ],
)
def test_multiply_adds_of_einsum(equation: str, inputs: list[tuple[int, ...]], wanted: int) -> None:
    assert multiply_adds("Einsum", inputs, (), equation=equation) == wanted


def fixed(build: networks.Builder, output: str, size: tuple[int, int] = (8, 8)) -> Static:
    """What was built, at a size; ``output`` has 4 channels."""
    return fix(build.model({output: 4}, opset=21), {"input": (1, 3, *size)})


def test_a_convolution_between_bytes_costs_what_one_of_floats_does() -> None:
    build = networks.Builder()
    scale, zero = build.constant(np.float32(0.1)), build.constant(np.uint8(0))

    def through_bytes(x: str, to: str = "") -> str:
        return build.node("DequantizeLinear", build.node("QuantizeLinear", x, scale, zero), scale, zero, to=to)

    weights = build.constant(np.ones((4, 3, 3, 3), np.int8))
    kernel = build.node("DequantizeLinear", weights, build.constant(np.float32(0.02)), build.constant(np.int8(0)))
    through_bytes(build.node("Conv", through_bytes("input"), kernel, pads=[1] * 4), to="out")
    static = fixed(build, "out")
    assert sum(node_work(static).values()) == 64 * 4 * 27


def test_8_bits_cost_as_many_multiply_adds_and_parameters_as_floats() -> None:
    build = networks.Builder()
    scale, zero = build.constant(np.float32(0.1)), build.constant(np.uint8(0))
    stored = build.node("QuantizeLinear", "input", scale, zero)
    weights = build.constant(np.ones((4, 3, 3, 3), np.int8))
    weights_zero = build.constant(np.int8(0))
    found = build.node("QLinearConv", stored, scale, zero, weights, scale, weights_zero, scale, zero, pads=[1] * 4)
    build.node("DequantizeLinear", found, scale, zero, to="out")
    static = fixed(build, "out")
    assert sum(node_work(static).values()) == 64 * 4 * 27


def test_parts_of_a_network(tmp_path: Path) -> None:
    net = load(networks.write_tiny(tmp_path), engine=None)
    first = price(net.stages[0].body, (48, 32))
    pixels = 24 * 16
    assert first.multiply_adds == pixels * (8 * 27 + 8 * 72 + 4 * 8)
    assert first.parameters == 8 * 28 + 8 * 73 + 4 * 9
    parts = [*(stage.body for stage in net.stages), *(group.function for group in net.groups)]
    total = sum((price(part, (48, 32)) for part in parts), Cost())
    whole = price(net.whole, (48, 32))
    assert (total.multiply_adds, total.parameters) == (whole.multiply_adds, whole.parameters)


def test_cost_grows_with_the_size(tmp_path: Path) -> None:
    whole = load(networks.write_tiny(tmp_path), engine=None).whole
    assert price(whole, (96, 64)).multiply_adds == 4 * price(whole, (48, 32)).multiply_adds


def main(argv: list[str]) -> int:
    """The command line with ``inspect`` alone."""
    parser = argparse.ArgumentParser()
    inspect.add_arguments(parser)
    return inspect.run(parser.parse_args(argv[1:]))


def test_inspect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = networks.write_tiny(tmp_path)
    assert main(["inspect", str(path), "--repeat", "2", "--threads", "1"]) == 0
    text = capsys.readouterr().out
    for words in ("tiny: 3 stages, 4 classes; 48x32", "low+mid+deep", "mid cut at mid 1x12x8x12", "alternating"):
        assert words in text
    assert main(["inspect", str(path), "--repeat", "2", "--json", "--size", "96x64", "--engine", "onnxruntime"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["size"] == [96, 64]
    assert [part["name"] for part in found["parts"]] == ["low", "mid", "deep", "mid+deep", "low+mid+deep", "finish"]
    assert np.isclose(sum(part["share"] for part in found["parts"]), 1)
    assert found["parts"][3]["reads"] == ["mid", "deep"]
    assert main(["inspect", str(path), "--repeat", "1", "--clear-cache"]) == 0
    assert "cleared the cache" in capsys.readouterr().out
