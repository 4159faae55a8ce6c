"""VGG-16's ImageNet weights as the start of an FCN's trunk, from Caffe's file or from torchvision's.

Caffe's read blue, green, red, 0..255 minus a mean, as the FCNs do. torchvision's read red, green, blue, scaled to 0..1,
minus a mean and divided by a deviation: their first convolution is rewritten, so that it gives the same for what an FCN
reads. Its fully connected layers become the convolutions fc6 (7x7) and fc7 (1x1).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor

from clockseg.errors import NetworkError
from clockseg.paper.caffe import read_caffemodel
from clockseg.paper.fcn import FCN8S, MEAN, FCNShape, layers

Mean: TypeAlias = tuple[float, float, float]
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Mean of torchvision's weights: red, green, blue, of pixels 0..1."""
_FULLY_CONNECTED = {"classifier.0": "fc6", "classifier.3": "fc7", "pre_logits.fc1": "fc6", "pre_logits.fc2": "fc7"}


def vgg16_state(path: Path, shape: FCNShape = FCN8S, *, mean: Mean = MEAN) -> dict[str, Tensor]:
    """The weights conv1_1.weight .. conv5_3.bias, fc6 and fc7 of the VGG-16 at ``path``, as far as ``shape`` has them.

    ``path``: Caffe's .caffemodel, or torchvision's weights as .pth or .safetensors. ``mean`` (blue, green, red): what is
    subtracted from the pixels the FCN reads. float32; load them with ``net.load_state_dict(found, strict=False)``.
    NetworkError if the file has not all of them, or of other widths; what else it has is passed over.

    >>> vgg16_state(Path("nowhere.pth"))
    Traceback (most recent call last):
        ...
    clockseg.errors.NetworkError: nowhere.pth can't be read: No such file or directory
    """
    if path.suffix == ".caffemodel":
        found = _from_caffe(path)
    else:
        found = _from_torchvision(_read(path))
        if "conv1_1.weight" in found and "conv1_1.bias" in found:
            found |= _for_pixels(found["conv1_1.weight"], found["conv1_1.bias"], mean)
    return _checked(found, shape, path)


def _from_caffe(path: Path) -> dict[str, Tensor]:
    named = ((layer.name, layer.blobs) for layer in read_caffemodel(path) if len(layer.blobs) == 2)
    return {
        f"{name}.{part}": torch.tensor(blob)
        for name, blobs in named
        for part, blob in zip(("weight", "bias"), blobs, strict=True)
    }


def _read(path: Path) -> Mapping[str, Tensor]:
    """A state dict; tensors only, never pickled code."""
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            found: Mapping[str, Tensor] = load_file(path)
        else:
            found = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise NetworkError(f"{path} can't be read: {error.strerror or error}") from error
    except Exception as error:  # torch and safetensors raise what they like
        raise NetworkError(f"{path} is neither a .caffemodel nor torchvision's weights: {error}") from error
    if not isinstance(found, Mapping) or not all(isinstance(value, Tensor) for value in found.values()):
        raise NetworkError(f"{path} holds no state dict (weights by name); save model.state_dict().")
    return found


def _from_torchvision(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Under the paper's names: torchvision numbers every layer of the trunk, ReLUs and poolings among them."""
    names, number = dict(_FULLY_CONNECTED), 0
    for layer in layers(FCNShape("fcn32s")):
        if layer.name.startswith(("conv", "pool")):
            names[f"features.{number}"] = layer.name
            number += 2 if layer.kind == "conv" else 1
    split = ((*name.rpartition("."), value) for name, value in state.items())
    return {f"{names[module]}.{part}": value for module, _, part, value in split if module in names}


def _for_pixels(weight: Tensor, bias: Tensor, mean: Mean) -> dict[str, Tensor]:
    """conv1_1 for blue, green, red, 0..255 minus ``mean`` instead of red, green, blue, normalised.

    w ((p / 255 - m) / s) = w / (255 s) (p - mean) + w / s (mean / 255 - m); the second term is constant, so the bias's.
    Zero padding now stands for the mean of the FCN, not for torchvision's, which is within one grey value of it.
    """
    std = torch.tensor(_STD, dtype=torch.float64).view(1, 3, 1, 1)
    shift = torch.tensor(mean[::-1], dtype=torch.float64) / 255 - torch.tensor(_MEAN, dtype=torch.float64)
    scaled = weight.double() / std
    moved = bias.double() + (scaled * shift.view(1, 3, 1, 1)).sum((1, 2, 3))
    return {"conv1_1.weight": (scaled / 255).flip(1).float(), "conv1_1.bias": moved.float()}


def _checked(found: Mapping[str, Tensor], shape: FCNShape, path: Path) -> dict[str, Tensor]:
    wanted = {name: size for layer in layers(shape) if layer.rectified for name, size in layer.weights.items()}
    if missing := [name for name in wanted if name not in found]:
        raise NetworkError(
            f"{path} is no VGG-16: it lacks {', '.join(missing[:5])}{' ..' if len(missing) > 5 else ''}."
        )
    for name, size in wanted.items():
        if found[name].numel() != torch.Size(size).numel():
            raise NetworkError(
                f"{path}: {name} is {tuple(found[name].shape)}; this {shape.variant} has {size} there. "
                "A net of other widths can't start from it."
            )
    return {name: found[name].reshape(size).float().contiguous() for name, size in wanted.items()}
