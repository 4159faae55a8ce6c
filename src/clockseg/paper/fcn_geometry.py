"""Positions of an FCN's maps over the picture, from which its crop offsets of 5, 9 and 31 follow.

Each layer maps a coordinate of its input to one of its output: x -> scale * x + shift. A convolution or pooling of kernel
k, stride s and padding p has scale 1 / s and shift (p - (k - 1) / 2) / s; a transposed convolution scale s and shift
(k - 1) / 2 - p. Two maps that are to be added must agree on where the picture's origin is: the larger one is cropped by
the difference of their shifts. A crop starts at that offset and takes the smaller map's size; it is not centred.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from clockseg.errors import NetworkError
from clockseg.paper.fcn_layers import Layer


@dataclass(frozen=True)
class Place:
    """The position of a map: coordinate x of the picture is ``scale * x + shift`` on it.

    ``field``: the receptive field, pixels of the picture, a side, that one of its values depends on.

    >>> Place().conv(3, pad=100).conv(2, stride=2)
    Place(scale=Fraction(1, 2), shift=Fraction(197, 4), field=4)
    """

    scale: Fraction = Fraction(1)
    shift: Fraction = Fraction(0)
    field: int = 1

    def conv(self, kernel: int, *, stride: int = 1, pad: int = 0) -> Place:
        """After a convolution or a pooling."""
        shift = self.shift + pad - Fraction(kernel - 1, 2)
        return Place(self.scale / stride, shift / stride, self.field + int((kernel - 1) / self.scale))

    def deconv(self, kernel: int, *, stride: int, pad: int = 0) -> Place:
        """After a transposed convolution, whose values depend on up to kernel / stride of its input's, a side."""
        shift = self.shift * stride + Fraction(kernel - 1, 2) - pad
        more = int((-(-kernel // stride) - 1) / self.scale)
        return Place(self.scale * stride, shift, self.field + more)


def crop_offset(map: Place, reference: Place) -> int:
    """Return the offset of the map ``reference`` in ``map``; ``NetworkError`` if they are not on one grid.

    >>> crop_offset(Place(shift=Fraction(31)), Place())
    31
    """
    offset = map.shift - reference.shift
    if map.scale != reference.scale or offset.denominator != 1 or offset < 0:
        raise NetworkError(
            f"a map at scale {map.scale}, shift {map.shift} can't be cropped to one at {reference.scale}, "
            f"{reference.shift}: scales must be equal, and the offset a whole number of at least 0."
        )
    return int(offset)


def places(net: Iterable[Layer]) -> dict[str, Place]:
    """Return the position of each map, by its layer's name.

    >>> from clockseg.paper.fcn_layers import FCNShape, layers
    >>> [places(layers(FCNShape()))[name].field for name in ("pool3", "pool4", "pool5", "fc6")]
    [44, 100, 212, 404]
    """
    found = {"data": Place()}
    for layer in net:
        before = found[layer.reads[0]]
        if layer.kind in ("crop", "fuse"):
            found[layer.name] = found[layer.reads[1]]
        elif layer.kind == "deconv":
            found[layer.name] = before.deconv(layer.kernel, stride=layer.stride, pad=layer.pad)
        else:
            found[layer.name] = before.conv(layer.kernel, stride=layer.stride, pad=layer.pad)
    return found


def offsets(net: Iterable[Layer]) -> dict[str, int]:
    """Return the offset of each crop, by the name of the layer that crops.

    >>> from clockseg.paper.fcn_layers import FCNShape, layers
    >>> offsets(layers(FCNShape()))
    {'fuse_pool4': 5, 'fuse_pool3': 9, 'score': 31}
    """
    net = tuple(net)
    where = places(net)
    crops = (layer for layer in net if layer.kind in ("crop", "fuse"))
    return {layer.name: crop_offset(*(where[name] for name in layer.reads)) for layer in crops}
