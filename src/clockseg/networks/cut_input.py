"""The frame input of a network to be cut: made [1, 3, height, width], with the preprocessing that it needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import NamedTuple

import onnx
from onnx import TensorProto, helper

from clockseg.errors import NetworkError, UsageError
from clockseg.graph.nodes import inputs_of, rename, with_sides
from clockseg.graph.sidecar import Input
from clockseg.graph.static import declared_shape, fix
from clockseg.instances.recognising import Triple
from clockseg.networks.source import Said, Told
from clockseg.types import Size

LOOKED_AT = (512, 256)
"""The working size, WIDTH and HEIGHT, of a file that takes any and says none: shares of work hardly depend on it."""
MULTIPLES = (1, 2, 4, 8, 16, 32, 64)


class FrameInput(NamedTuple):
    """A network that reads one frame [1, 3, height, width] by ``name``; ``size`` if it is fixed; ``bytes``: pixels as they are.

    ``multiple``: the multiple that its sides must have (``fitted``).
    """

    model: onnx.ModelProto
    name: str
    size: Size | None
    bytes: bool
    told: tuple[Told, ...]
    multiple: int = 1


def frame_input(model: onnx.ModelProto) -> FrameInput:
    """Make ``model`` read one frame, channels first; ``NetworkError`` if its input is no frame."""
    inputs = inputs_of(model.graph)
    if len(inputs) != 1:
        raise NetworkError(
            f"the network has {len(inputs)} inputs ({', '.join(value.name for value in inputs)}); one, the frame, can be "
            "given. Export it with the others as constants."
        )
    [value] = inputs
    name, dims, told = value.name, [*declared_shape(value)], []
    if len(dims) == 3:
        dims = [1, *dims]
        model = _reading(model, name, dims, "Squeeze")
    if len(dims) == 4 and dims[3] == 3 and dims[1] not in (1, 3):
        dims = [dims[0], dims[3], dims[1], dims[2]]
        model = _reading(model, name, dims, "Transpose", perm=[0, 2, 3, 1])
        told.append(Told("layout", "channels last", "a transpose is inserted, because frames come channels first"))
    if len(dims) != 4 or dims[0] > 1 or dims[1] not in (0, 3):
        said = ", ".join(dim.dim_param or str(dim.dim_value) for dim in value.type.tensor_type.shape.dim)
        raise NetworkError(
            f"the network's input {name!r} is [{said}]; it must be one frame, "
            "[1, 3, height, width] or [1, height, width, 3]. Export it with such an input: other preprocessing can be part of the graph."
        )
    size = (dims[3], dims[2]) if dims[2] and dims[3] else None
    whole = value.type.tensor_type.elem_type in (TensorProto.UINT8, TensorProto.INT32, TensorProto.INT64)
    return FrameInput(model, name, size, whole, (*told, Told("input", name, "the only input")))


def _reading(
    model: onnx.ModelProto, name: str, dims: Sequence[int], operator: str, **attributes: object
) -> onnx.ModelProto:
    """Return ``model`` with ``dims`` (0: free) for its input, which ``operator`` brings to what is read now."""
    model, inner = deepcopy(model), f"clockseg.{operator}"
    rename(model.graph.node, {name: inner})
    [value] = [value for value in model.graph.input if value.name == name]
    kind = value.type.tensor_type.elem_type
    value.CopyFrom(helper.make_tensor_value_info(name, kind, [side or None for side in dims]))
    model.graph.node.insert(0, helper.make_node(operator, [name], [inner], name=inner, **attributes))
    return model


def describe(frame: FrameInput, said: Said, by: dict[str, str]) -> tuple[Input, tuple[Told, ...]]:
    """Derive the sidecar's input from the known settings; ``by``: the source of each that the user did not give.

    A missing setting gets a safe default, which is reported; where there is none, ``UsageError`` says what to give.
    """
    told: list[Told] = [Told(field, _shown(getattr(said, field)), who) for field, who in by.items()]
    width, height = _size(frame, said)
    if said.size is None:
        told.append(Told("size", _shown((width, height)), "fixed in the file"))
    if said.mean is None and said.std is None and frame.bytes:
        told.append(Told("mean, std", "0, 1", "the input is whole numbers, so the network normalises by itself"))
        said = replace(said, mean=(0.0,) * 3, std=(1.0,) * 3)
    mean, std = normalisation(said)
    scale = said.scale
    if scale is None:
        scale = 1.0 if frame.bytes or max(map(abs, mean)) > 2 else 1 / 255
        why = "as mean is above 2, it is of pixels 0..255" if scale == 1 else "pixels become 0..1"
        told.append(Told("scale", _shown(scale), "the input is whole numbers" if frame.bytes else why))
    if said.colour is None:
        told.append(
            Told("colour", "rgb", "as nearly all networks; give --colour bgr if it was trained on OpenCV's order")
        )
    multiple = said.pad_multiple or frame.multiple
    if said.pad_multiple is None and multiple > 1:
        told.append(Told("pad multiple", str(multiple), "the smallest at which its maps fit each other"))
    # Padding is what the network takes for the mean colour: it has the least to say there.
    grey = [min(255, max(0, round(value / scale))) for value in mean]
    red, green, blue = grey if said.colour != "bgr" else grey[::-1]
    given = Input(frame.name, width, height, said.colour or "rgb", scale, mean, std, multiple, (red, green, blue))
    return given, tuple(told)


def _shown(value: object) -> str:
    """Format a value for the report.

    >>> _shown((1024, 512)), _shown((0.5, 0.25, 1.0)), _shown(1 / 255)
    ('1024x512', '0.5, 0.25, 1', '0.00392157')
    """
    if isinstance(value, tuple):
        return ("x" if len(value) == 2 else ", ").join(f"{one:g}" for one in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _size(frame: FrameInput, said: Said) -> Size:
    size = frame.size or said.size
    if size is None:
        raise UsageError(
            "the file takes frames of any size: give --size WIDTHxHEIGHT, the working size, such as 1024x512. The "
            "training size is the most accurate; smaller is faster."
        )
    if said.size not in (None, size):
        raise UsageError(
            f"--size {_shown(said.size)}: the file is fixed to {_shown(size)}; leave --size out, or export it again "
            "with a free height and width."
        )
    return size


def normalisation(said: Said) -> tuple[Triple, Triple]:
    """Return the mean and standard deviation; ``UsageError`` says what to give if one is missing.

    >>> normalisation(Said(mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0)))
    ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    """
    if said.mean is None or said.std is None:
        missing = " and ".join(f"--{name}" for name in ("mean", "std") if getattr(said, name) is None)
        raise UsageError(
            "the file does not say how pixels were normalised in training (a transformers checkpoint would, in "
            f"preprocessor_config.json): give {missing}. Most networks of torchvision, timm and transformers: "
            "--mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 "
            "(x = (pixel * scale - mean) / std, --scale 1/255); "
            "pixels of 0..1 as they are: --mean 0 --std 1."
        )
    if not all(math.isfinite(one) for one in said.mean) or not all(0 < one < math.inf for one in said.std):
        shown = [",".join(f"{one:g}" for one in numbers) for numbers in (said.mean, said.std)]
        raise UsageError(
            f"--mean {shown[0]} --std {shown[1]}: pixels are divided by std, so give numbers above 0; mean may be any."
        )
    return said.mean, said.std


def fitted(frame: FrameInput, size: Size | None, *, multiple: int | None = None) -> FrameInput:
    """Return ``frame`` with the smallest multiple that its sides must have, or fixed to ``size`` if the network fits no other.

    Some files declare a free height and width, and constants inside fit one size only. ``size``, ``multiple``: those that
    the user gave.
    """
    if frame.size is not None:
        return frame
    for one in MULTIPLES if multiple is None else (multiple,):
        # A network that halves five times and adds skips fits odd multiples of 32 and of nothing less. Two of them, since one may
        # fit by chance: 483 is halved to 241 and 120, as 480 is.
        odd = [[one * (2 * max(1, side // (2 * one)) + more) for side in size or LOOKED_AT] for more in (1, 11)]
        if all(_fits(frame, (width, height)) for width, height in odd):
            return frame._replace(multiple=one)
    if size is None or not _fits(frame, size):
        return frame
    why = "the file fits this size only, by constants inside; frames are scaled to fit and padded"
    return frame._replace(
        model=with_sides(frame.model, frame.name, (None, None, *size[::-1])),
        size=size,
        told=(*frame.told, Told("size", _shown(size), why)),
    )


def _fits(frame: FrameInput, size: Size) -> bool:
    try:
        fix(frame.model, {frame.name: (1, 3, size[1], size[0])})
    except NetworkError:
        return False
    return True
