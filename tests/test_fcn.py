"""The paper's nets: sizes, places and costs against known values; the module against the list of layers; checkpoints."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs torch")

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch

from clockseg.datasets import Classes
from clockseg.errors import DataError, NetworkError, UsageError
from clockseg.paper.caffe import import_caffe
from clockseg.paper.fcn import (
    CROPS,
    VARIANTS,
    FCNDescription,
    FCNShape,
    bilinear,
    check_state,
    layers,
    weight_shapes,
    write_fcn,
)
from fcn_costs import sides, stage_costs
from narrow_fcn import CLASSES, NARROW, description, golden, narrow, random_state, with_state
from recipes.fcn.checkpoint import load_fcn, save_fcn, write_state
from recipes.fcn.net import FCN, crop

ODD = [(333, 281), (1, 1), (25, 26), (26, 25), (64, 48)]
"""Sizes WIDTH, HEIGHT that poolings must round up at."""


# Known values


@pytest.mark.parametrize(
    ("classes", "stages", "kernels"),
    [
        (21, (1_740_885, 5_910_549, 126_711_317), 6_048),
        (40, (1_745_768, 5_920_296, 126_789_160), 11_520),
        (19, (1_740_371, 5_909_523, 126_703_123), 5_472),
        (20, (134_357_884,), 5_760),
    ],
)
def test_expected_1_parameters(classes: int, stages: tuple[int, ...], kernels: int) -> None:
    found = stage_costs(FCNShape(classes=classes), (1, 1))
    learned = [found[cut].parameters for cut in ("pool3", "pool4", "fc7")]
    assert (learned if len(stages) == 3 else [sum(learned)]) == list(stages)
    assert sum(found[name].parameters for name in ("upscore2", "upscore_pool4", "upscore8")) == kernels
    weights = sum(int(np.prod(size)) for size in weight_shapes(FCNShape(classes=classes)).values())
    assert weights == sum(stages) + kernels


def test_expected_1_bilinear_kernels() -> None:
    assert bilinear(4)[1].tolist() == (0.75 * np.array([0.25, 0.75, 0.75, 0.25])).tolist()
    row = np.array([0.0625, 0.1875, 0.3125, 0.4375, 0.5625, 0.6875, 0.8125, 0.9375])
    assert np.array_equal(bilinear(16), np.outer([*row, *row[::-1]], [*row, *row[::-1]]))
    assert [bilinear(kernel).sum() for kernel in (4, 16, 32, 64)] == [4, 64, 256, 1024]
    assert FCN(FCNShape(classes=3).narrowed(NARROW)).upscore8.weight[2, 0].numpy().tolist() == bilinear(16).tolist()


@pytest.mark.parametrize(
    ("classes", "size", "stages", "enlargements"),
    [
        (21, (500, 500), (90_942_640_896, 45_696_786_432, 44_326_453_248), (86_016, 388_416, 26_342_400)),
        (19, (2048, 1024), (511_478_281_728, 253_688_649_216, 333_419_851_776), None),
    ],
)
def test_expected_2_multiply_adds(classes: int, size: Any, stages: Any, enlargements: Any) -> None:
    found = stage_costs(FCNShape(classes=classes), size)
    assert tuple(found[cut].multiply_adds for cut in ("pool3", "pool4", "fc7")) == stages
    if enlargements:
        names = ("upscore2", "upscore_pool4", "upscore8")
        assert tuple(found[name].multiply_adds for name in names) == enlargements
        assert [round(100 * part / sum(stages), 2) for part in stages] == [50.25, 25.25, 24.49]


def test_expected_3_depths() -> None:
    net = layers(FCNShape())
    trunk = [layer.name for layer in net if layer.rectified or layer.kind == "pool"]
    assert [trunk.index(name) for name in ("pool3", "pool4", "fc7")] == [9, 13, 19]


SIDES = """
 340  538  269 135  68  34 17 11  24  50  408
 375  573  287 144  72  36 18 12  26  54  440
 420  618  309 155  78  39 20 14  30  62  504
 425  623  312 156  78  39 20 14  30  62  504
 500  698  349 175  88  44 22 16  34  70  568
 560  758  379 190  95  48 24 18  38  78  632
1024 1222  611 306 153  77 39 33  68 138 1112
2048 2246 1123 562 281 141 71 65 132 266 2136
"""
COLUMNS = ("data", "conv1_1", *(f"pool{n}" for n in range(1, 6)), "fc6", "upscore2", "upscore_pool4", "upscore8")


@pytest.mark.parametrize("row", SIDES.split("\n")[1:-1])
def test_sides(row: str) -> None:
    wanted = [int(side) for side in row.split()]
    found = sides(layers(FCNShape()), wanted[0])
    assert [found[name] for name in COLUMNS] == wanted
    assert (found["fc7"], found["fuse_pool4"], found["score"]) == (wanted[7], wanted[8], wanted[0])


def origins(variant: Any) -> dict[str, tuple[Fraction, Fraction]]:
    """The scale of each map, and where the picture's origin lies on it, by its layer's name."""
    found = {"data": (Fraction(1), Fraction(0))}
    for layer in layers(FCNShape(variant)):
        scale, origin = found[layer.reads[0]]
        middle, stride = Fraction(layer.kernel - 1, 2), layer.stride
        if layer.kind in ("crop", "fuse"):
            found[layer.name] = found[layer.reads[1]]
        elif layer.kind == "deconv":
            found[layer.name] = scale * stride, origin * stride + middle - layer.pad
        else:
            found[layer.name] = scale / stride, (origin + layer.pad - middle) / stride
    return found


@pytest.mark.parametrize("variant", VARIANTS)
def test_trap_10_crops_follow_from_the_layers_and_are_not_centred(variant) -> None:
    found = origins(variant)
    crops = {one.name: one.reads for one in layers(FCNShape(variant)) if one.kind in ("crop", "fuse")}
    assert CROPS[variant] == {name: found[map][1] - found[reference][1] for name, (map, reference) in crops.items()}
    assert all(found[map][0] == found[reference][0] for map, reference in crops.values())


def test_expected_crops_of_fcn_8s() -> None:
    assert CROPS["fcn8s"] == {"fuse_pool4": 5, "fuse_pool3": 9, "score": 31}
    assert (sides(layers(FCNShape()), 500)["upscore8"] - 500) // 2 == 34  # where a centred crop would begin
    assert crop(torch.arange(49).view(1, 1, 7, 7), 2, (1, 3)).tolist() == [[[[16, 17, 18]]]]


def test_trap_10_crops_fit_at_every_side() -> None:
    net = layers(FCNShape())
    begin = CROPS["fcn8s"]
    crops = {layer.name: layer.reads for layer in net if layer.name in begin}
    left: dict[str, set[int]] = {name: set() for name in crops}
    for side in range(1, 3001):
        found = sides(net, side)
        for name, (map, reference) in crops.items():
            left[name].add(found[map] - found[reference] - begin[name])
    assert [(min(rest), max(rest)) for rest in left.values()] == [(4, 5), (6, 9), (31, 62)]


def test_trap_10_rounding_down_would_give_other_sizes() -> None:
    """But for sides of 26 mod 32; and no map at all for sides up to 25."""
    net = layers(FCNShape())
    for side in range(1, 200):
        down = [side + 198]
        for _ in range(5):
            down.append(down[-1] // 2)
        found = sides(net, side)
        assert (down[1:] == [found[f"pool{block}"] for block in range(1, 6)]) == (side % 32 == 26)
        assert (down[5] < 7) == (side < 26)
        assert found["fc6"] >= 1


# The module


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("size", ODD)
def test_trap_10_the_module_has_the_sizes_of_the_list(variant: Any, size: tuple[int, int]) -> None:
    net = narrow(variant)
    with torch.inference_mode():
        found = net(torch.zeros(1, 3, size[1], size[0]))
    across, down = (sides(layers(net.shape), side) for side in size)
    assert found.score.shape == (1, 5, size[1], size[0])
    for name, map in found._asdict().items():
        assert map is None or map.shape == (1, 5, down[name], across[name])
    assert {name for name, map in found._asdict().items() if map is not None} - {"score"} == {
        "fcn8s": {"score_pool3", "score_pool4", "upscore2"},
        "fcn16s": {"score_pool4", "upscore2"},
    }.get(variant, set())


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_module_has_the_weights_of_the_list(variant: Any) -> None:
    net = FCN(FCNShape(variant, 5).narrowed(NARROW))
    assert {name: tuple(value.shape) for name, value in net.state_dict().items()} == weight_shapes(net.shape)
    assert all(value.requires_grad != name.startswith("upscore") for name, value in net.named_parameters())


def test_dropout_in_training_only() -> None:
    net, data = narrow(), torch.randn(1, 3, 40, 40)
    assert torch.equal(net(data).score, net(data).score)
    assert not torch.equal(net.train()(data).score, net(data).score)


@pytest.mark.parametrize("size", ["25x33", "64x48", "120x90"])
def test_golden(size: str) -> None:
    if not golden().is_dir():
        pytest.skip("no shared data folder; set CLOCKSEG_DATA")
    found = import_caffe(golden() / "fcn8s-tiny.caffemodel")
    net = with_state(found.description.shape, found.state)
    wanted = np.load(golden() / "outputs.npz")
    with torch.inference_mode():
        made = net(torch.from_numpy(wanted[f"{size}/data"]))
    for name in ("score", "score_pool4", "score_pool3", "upscore2"):
        there = wanted[f"{size}/{name}"]
        assert np.abs(getattr(made, name).numpy() - there).max() <= 1e-4 * np.abs(there).max()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"variant": "fcn4s"}, "variant 'fcn4s'; allowed are fcn32s"),
        ({"classes": 1}, "1 classes.*at least 2"),
        ({"widths": (1, 2, 3, 4)}, "five widths"),
        ({"fc": 0}, "fc 0"),
    ],
)
def test_a_shape_that_is_none(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        FCNShape(**wrong)


def test_a_narrow_shape_has_a_share_of_the_channels() -> None:
    narrow = FCNShape(classes=11).narrowed(0.25)
    assert (narrow.classes, narrow.widths, narrow.fc) == (11, (16, 32, 64, 128, 128), 1024)


@pytest.mark.parametrize("factor", [0, -1, float("nan"), float("inf")])
def test_a_width_factor_that_is_none(factor: float) -> None:
    with pytest.raises(UsageError, match="give a number above 0"):
        FCNShape().narrowed(factor)


# On disk


def test_checkpoint_round_trip(tmp_path: Path) -> None:
    net, file = narrow(), tmp_path / "net.safetensors"
    said = FCNDescription(net.shape, Classes(CLASSES.names, ((0, 0, 0),) * 5, 200), (1, 2.5, 3), "rgb", (640, 360))
    save_fcn(net, said, file)
    again, found = load_fcn(file)
    assert found == said
    assert not again.training
    assert all(torch.equal(again.state_dict()[name], value) for name, value in net.state_dict().items())
    assert not again.upscore8.weight.requires_grad
    assert again.conv1_1.weight.requires_grad
    assert [path.name for path in tmp_path.iterdir()] == ["net.safetensors"]


def test_weights_too_large_for_16_bits(tmp_path: Path) -> None:
    shape = FCNShape(classes=5).narrowed(NARROW)
    state = random_state(shape)
    state["fc7.bias"][0] = 1e5
    with pytest.raises(NetworkError, match=r"fc7.bias have weights too large for 16 bits"):
        write_fcn(state, FCNDescription(shape, CLASSES), tmp_path / "x.onnx", half=True)
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_that_is_none(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    file = tmp_path / "x.safetensors"
    with pytest.raises(DataError, match=r"not a checkpoint of `python -m recipes\.fcn`"):
        load_fcn(file)
    file.write_bytes(b"nothing of the kind")
    with pytest.raises(DataError, match=r"not a checkpoint of `python -m recipes\.fcn`"):
        load_fcn(file)
    save_file({"a": np.zeros(1)}, file, {"format": "clockseg-street-1"})
    with pytest.raises(DataError, match="has the format 'clockseg-street-1'; 'clockseg-fcn-1' is what"):
        load_fcn(file)
    for text in ("", "{}", '{"shape": 3}'):
        save_file({"a": np.zeros(1)}, file, {"format": "clockseg-fcn-1", "network": text})
        with pytest.raises(DataError, match="its description is damaged"):
            load_fcn(file)


def test_a_checkpoint_of_another_net_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    net = narrow()
    state = {name: value.numpy() for name, value in net.state_dict().items()}
    other = FCNDescription(FCNShape("fcn16s", 5).narrowed(NARROW), CLASSES)
    with pytest.raises(NetworkError, match=r"an fcn16s of 5 classes has no weights 'score_pool3.weight'"):
        write_state(state, other, tmp_path / "x.safetensors")
    state.pop("fc7.bias")
    with pytest.raises(NetworkError, match=r"lacks fc7.bias of an fcn8s"):
        check_state(state, net.shape, source="x")
    with pytest.raises(DataError, match="can't be written"):
        save_fcn(net, description(net), tmp_path / "nowhere" / "x.safetensors")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "wrong", [{"order": "rbg"}, {"working": (0, 5)}, {"mean": (1, 2, float("nan"))}, {"classes": Classes(("a", "b"))}]
)
def test_a_description_that_is_none(wrong: dict[str, Any]) -> None:
    with pytest.raises(NetworkError):
        FCNDescription(**{"shape": FCNShape(classes=5), "classes": CLASSES, **wrong})
