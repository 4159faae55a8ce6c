"""VGG-16 as the start of a trunk: Caffe's file and torchvision's give the same maps of the same frame."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs torch")

from pathlib import Path
from typing import Any

import numpy as np
import torch

from caffe_making import as_layers, caffemodel
from clockseg.errors import NetworkError
from clockseg.paper.fcn import MEAN, FCNShape
from narrow_fcn import NARROW, random_state
from recipes.fcn.net import FCN
from recipes.fcn.vgg16 import vgg16_state

SHAPE = FCNShape(classes=21).narrowed(NARROW)


def torchvision_state(state: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    """An FCN's trunk under torchvision's names."""
    numbers = (0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28)
    convs = [f"conv{block}_{index}" for block, count in enumerate((2, 2, 3, 3, 3), 1) for index in range(1, count + 1)]
    names = dict(zip(convs, (f"features.{number}" for number in numbers), strict=True))
    names |= {"fc6": "classifier.0", "fc7": "classifier.3"}
    found = {"classifier.6.weight": torch.zeros(10, 10)}
    for name, value in state.items():
        layer, _, part = name.rpartition(".")
        if layer in names:
            flat = value.reshape(len(value), -1) if layer.startswith("fc") and part == "weight" else value
            found[f"{names[layer]}.{part}"] = torch.from_numpy(flat)
    return found


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_trap_15_torchvision_weights_see_what_they_were_trained_on(tmp_path: Path, suffix: str) -> None:
    """RGB / 255 - mean / std there, BGR - mean here: the same maps from the same frame, but for the padding."""
    from safetensors.torch import save_file

    state = random_state(SHAPE)
    path = tmp_path / f"vgg16{suffix}"
    (save_file if suffix == ".safetensors" else torch.save)(torchvision_state(state), path)
    found = vgg16_state(path, SHAPE)
    frame = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (1, 3, 20, 30))).double()  # RGB
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    theirs = torch.conv2d(((frame / 255 - mean) / std).float(), *conv(state))
    data = (frame - torch.tensor(MEAN[::-1]).view(1, 3, 1, 1)).flip(1).float()
    torch.testing.assert_close(torch.conv2d(data, *conv(found)), theirs, rtol=1e-4, atol=1e-4)
    for name in ("conv1_2.weight", "conv5_3.bias", "fc6.weight", "fc7.weight"):
        np.testing.assert_array_equal(found[name], state[name])
    assert not any(name.startswith("score") for name in found)


def conv(state: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.as_tensor(state["conv1_1.weight"]), torch.as_tensor(state["conv1_1.bias"])


def test_caffes_vgg_is_taken_as_it_is(tmp_path: Path) -> None:
    state = random_state(SHAPE)
    named = as_layers(state)
    named["fc6"][0] = named["fc6"][0].reshape(1, 1, 256, -1)
    named["fc8"] = [np.ones((10, 256), np.float32), np.ones(10, np.float32)]
    path = tmp_path / "vgg16.caffemodel"
    path.write_bytes(caffemodel(named, old=True, legacy=True))
    found = vgg16_state(path, SHAPE)
    for name in ("conv1_1.weight", "conv4_3.bias", "fc6.weight"):
        np.testing.assert_array_equal(found[name], state[name])
    net = FCN(SHAPE)
    missing = net.load_state_dict(found, strict=False)
    assert not missing.unexpected_keys
    assert all(name.startswith(("score", "upscore")) for name in missing.missing_keys)


def test_what_is_no_vgg(tmp_path: Path) -> None:
    path = tmp_path / "x.pth"
    path.write_bytes(b"nothing")
    with pytest.raises(NetworkError, match=r"neither a \.caffemodel nor torchvision's"):
        vgg16_state(path)
    torch.save([1, 2], path)
    with pytest.raises(NetworkError, match="no state dict"):
        vgg16_state(path)
    torch.save({"features.0.weight": torch.zeros(64, 3, 3, 3)}, path)
    with pytest.raises(NetworkError, match=r"no VGG-16: it lacks conv1_1.bias, .* \.\."):
        vgg16_state(path)
    torch.save(torchvision_state(random_state(SHAPE)), path)
    with pytest.raises(NetworkError, match=r"conv1_1.weight is \(4, 3, 3, 3\); this fcn8s has \(64, 3, 3, 3\)"):
        vgg16_state(path)
