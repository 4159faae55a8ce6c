"""FCN-32s, FCN-16s, FCN-8s and the truncated nets as lists of layers, with the paper's names, and the offsets of their crops.

The module, the ONNX file, the importer of Caffe's weights, the sizes and the costs are all made from this list.
(Long, Shelhamer, Darrell: Fully Convolutional Networks, 2015; cut at its score paths by Shelhamer et al., 2016, section 4.)

Maps that are added must agree on the position of the picture's origin, so the larger one is cropped. The offsets of the crops
follow from the layers (docs/fcn8s.md derives them): the origin is at 5.71875 in pool4 and at 0.71875 in upscore2, for example.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from clockseg.errors import UsageError
from clockseg.types import Array

Variant: TypeAlias = Literal["fcn32s", "fcn16s", "fcn8s", "pool3", "pool4"]
VARIANTS: tuple[Variant, ...] = ("fcn32s", "fcn16s", "fcn8s", "pool3", "pool4")
CONVS = (2, 2, 3, 3, 3)
"""Convolutions of VGG-16's five blocks; each block ends in a pooling."""
PAD = 100
"""Padding of conv1_1: so that the smallest picture, 1x1, still has a map after fc6."""
CROPS: Mapping[Variant, Mapping[str, int]] = {
    "fcn32s": {"score": 19},
    "fcn16s": {"fuse_pool4": 5, "score": 27},
    "fcn8s": {"fuse_pool4": 5, "fuse_pool3": 9, "score": 31},
    "pool3": {"score": 103},
    "pool4": {"score": 107},
}
"""The offset of each crop, by the name of the layer that crops."""


@dataclass(frozen=True)
class FCNShape:
    """The architecture of an FCN; the default is the paper's FCN-8s.

    ``variant``: pool3 and pool4 are the truncated nets of the stage baselines. ``widths``: channels of the five blocks;
    ``fc``: of fc6 and fc7.

    >>> FCNShape(classes=11).narrowed(0.25).widths
    (16, 32, 64, 128, 128)
    """

    variant: Variant = "fcn8s"
    classes: int = 21
    widths: tuple[int, int, int, int, int] = (64, 128, 256, 512, 512)
    fc: int = 4096

    def __post_init__(self) -> None:
        if self.variant not in VARIANTS:
            raise UsageError(f"variant {self.variant!r}; allowed are {', '.join(VARIANTS)}.")
        if self.classes < 2 or len(self.widths) != 5 or min(*self.widths, self.fc) < 1:
            raise UsageError(
                f"{self.classes} classes, widths {self.widths}, fc {self.fc}; give at least 2 classes, "
                "five widths and an fc of at least 1."
            )

    @property
    def blocks(self) -> int:
        """The number of VGG's five blocks in the net."""
        return {"pool3": 3, "pool4": 4}.get(self.variant, 5)

    @property
    def cuts(self) -> tuple[str, ...]:
        """The maps at which it is cut, one per stage, at which score paths leave the trunk; they name the stages.

        >>> FCNShape().cuts, FCNShape("pool3").cuts
        (('pool3', 'pool4', 'fc7'), ('pool3',))
        """
        if self.variant in ("pool3", "pool4"):
            return (self.variant,)
        return {"fcn8s": ("pool3", "pool4", "fc7"), "fcn16s": ("pool4", "fc7")}.get(self.variant, ("fc7",))

    @property
    def last(self) -> str:
        """The name of the enlargement to the picture's size."""
        return {"fcn8s": "upscore8", "fcn16s": "upscore16"}.get(self.variant, "upscore")

    def narrowed(self, factor: float) -> FCNShape:
        """Return the same net with ``factor`` of the channels, at least one each."""
        if not (factor > 0 and math.isfinite(factor)):
            raise UsageError(f"a width factor of {factor}; give a number above 0, such as 0.25.")
        one, two, three, four, five = (max(1, round(width * factor)) for width in self.widths)
        return replace(self, widths=(one, two, three, four, five), fc=max(1, round(self.fc * factor)))


FCN8S = FCNShape()
"""The paper's network."""


class Layer(NamedTuple):
    """One layer; its map has its name, after the ReLU where there is one (``rectified``).

    ``kind``: conv; pool (the maximum, rounding up); deconv (a fixed bilinear enlargement, one class at a time, no bias);
    crop, of ``reads[0]`` to the size of ``reads[1]``; fuse, which adds ``reads[1]`` and the crop of ``reads[0]`` to it.
    """

    name: str
    kind: Literal["conv", "pool", "deconv", "crop", "fuse"]
    reads: tuple[str, ...]
    inputs: int
    outputs: int
    kernel: int = 1
    stride: int = 1
    pad: int = 0
    rectified: bool = False

    @property
    def weights(self) -> dict[str, tuple[int, ...]]:
        """The shapes of its weights, by name.

        >>> Layer("score_fr", "conv", ("fc7",), 4096, 21).weights
        {'score_fr.weight': (21, 4096, 1, 1), 'score_fr.bias': (21,)}
        """
        if self.kind == "conv":
            kernel = (self.outputs, self.inputs, self.kernel, self.kernel)
            return {f"{self.name}.weight": kernel, f"{self.name}.bias": (self.outputs,)}
        return {f"{self.name}.weight": (self.outputs, 1, self.kernel, self.kernel)} if self.kind == "deconv" else {}


def layers(shape: FCNShape) -> tuple[Layer, ...]:
    """Return the net's layers in the order they run: stage after stage, each up to its head, then those that fuse.

    >>> [layer.name for layer in layers(FCNShape())][-6:]
    ['upscore2', 'fuse_pool4', 'upscore_pool4', 'fuse_pool3', 'upscore8', 'score']
    """
    heads = {head.reads[0]: head for head in _heads(shape)}
    found: list[Layer] = []
    for layer in _trunk(shape):
        found += [layer, heads[layer.name]] if layer.name in heads else [layer]
    return (*found, *_fusion(shape))


def weight_shapes(shape: FCNShape) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all weights, by name: ``LAYER.weight`` and ``LAYER.bias``.

    >>> weight_shapes(FCNShape())["upscore8.weight"]
    (21, 1, 16, 16)
    """
    return {name: size for layer in layers(shape) for name, size in layer.weights.items()}


def bilinear(kernel: int) -> Array:
    """Return the bilinear kernel of an enlargement by kernel / 2, float32 [kernel, kernel]: the fixed weights of a deconv.

    >>> bilinear(4)[0].tolist()
    [0.0625, 0.1875, 0.1875, 0.0625]
    """
    factor = -(-kernel // 2)
    centre = factor - 0.5 if kernel % 2 == 0 else factor - 1.0
    row = 1 - np.abs(np.arange(kernel) - centre) / factor
    found: Array = np.outer(row, row).astype(np.float32)
    return found


def _trunk(shape: FCNShape) -> Iterator[Layer]:
    before, inputs = "data", 3
    for block, width in enumerate(shape.widths[: shape.blocks], 1):
        for index in range(1, CONVS[block - 1] + 1):
            name, pad = f"conv{block}_{index}", PAD if (block, index) == (1, 1) else 1
            yield Layer(name, "conv", (before,), inputs, width, 3, pad=pad, rectified=True)
            before, inputs = name, width
        yield Layer(f"pool{block}", "pool", (before,), width, width, 2, 2)
        before = f"pool{block}"
    if shape.blocks == len(CONVS):
        yield Layer("fc6", "conv", (before,), inputs, shape.fc, 7, rectified=True)
        yield Layer("fc7", "conv", ("fc6",), shape.fc, shape.fc, rectified=True)


def _heads(shape: FCNShape) -> Iterator[Layer]:
    """Yield the 1x1 convolutions that compute scores; the deepest is always called score_fr."""
    for cut in shape.cuts:
        channels = shape.fc if cut == "fc7" else shape.widths[int(cut[-1]) - 1]
        name = "score_fr" if cut == shape.cuts[-1] else f"score_{cut}"
        yield Layer(name, "conv", (cut,), channels, shape.classes)


def _fusion(shape: FCNShape) -> Iterator[Layer]:
    classes, before, stride = shape.classes, "score_fr", 2**shape.blocks
    for cut in reversed(shape.cuts[:-1]):
        up = "upscore2" if before == "score_fr" else f"upscore_{before.removeprefix('fuse_')}"
        yield Layer(up, "deconv", (before,), classes, classes, 4, 2)
        yield Layer(f"fuse_{cut}", "fuse", (f"score_{cut}", up), classes, classes)
        before, stride = f"fuse_{cut}", stride // 2
    yield Layer(shape.last, "deconv", (before,), classes, classes, 2 * stride, stride)
    yield Layer("score", "crop", (shape.last, "data"), classes, classes)
