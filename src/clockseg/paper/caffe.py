"""Import of the paper's weights from Caffe's files, without Caffe, with checks of names, shapes and classes.

The messages of Caffe's protobuf schema that hold weights (everything else in a .caffemodel is skipped):

    NetParameter   100: layer (LayerParameter), or in older files 2: layers (V1LayerParameter)
    layer          1: name, 7: blobs; in the older kind 4: name, 6: blobs, 1: layer (of Caffe's first generation)
    BlobProto      7: shape (1: dim), or in older files 1 to 4: num, channels, height, width; 5: data, 8: double_data

Layer names of 2014 become those of 2016; deconvolutions stored with kernels between classes become one kernel per class; the fixed
factors on pool4 and pool3 of nets trained at once are folded into the following weights; the meaningless 20th channel of older
Cityscapes nets is dropped.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped,unused-ignore]
from google.protobuf.message import DecodeError  # type: ignore[import-untyped,unused-ignore]

from clockseg.datasets import Classes, read_classes
from clockseg.datasets.official import CITYSCAPES, NYUD, PASCAL
from clockseg.errors import NetworkError, UsageError
from clockseg.paper.fcn import MEAN, FCNDescription, FCNShape, Layer, Variant, bilinear, check_state, layers
from clockseg.types import Array, Size
from clockseg.video.overlay import palette

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


AT_ONCE = {"scale_pool4": 0.01, "scale_pool3": 0.0001}
"""Factors on the features before score_pool4 and score_pool3 in nets that were trained at once."""
_OLD = {"score2": "upscore2", "score4": "upscore_pool4", "upsample_fused_16": "upscore_pool4"}
_OLD_LAST = ("upscore", "upsample", "bigscore")


@dataclass(frozen=True)
class Imported:
    """Weights by name, their description, and ``notes`` for the user, one sentence each."""

    state: dict[str, Array]
    description: FCNDescription
    notes: tuple[str, ...]


def import_caffe(
    source: Path,
    *,
    labels: str | None = None,
    mean: tuple[float, float, float] | None = None,
    at_once: bool = False,
) -> Imported:
    """Import the FCN in the .caffemodel ``source``; ``NetworkError`` names whatever is missing or does not fit.

    ``labels``: the meaning of its classes, "voc", "nyud", "cityscapes" or a classes.json (None: detected from their number).
    ``mean``: blue, green, red (None: that of the data set). ``at_once``: the net was trained at once and its factors are not
    in the file.
    """
    found = _named(source)
    shape = _shape(found, _variant(found, source), source)
    last = next((name for name in _OLD_LAST if name in found), shape.last)
    found.setdefault(shape.last, found.pop(last, []))
    scales = {name: found.pop(name) for name in AT_ONCE if name in found}
    state, notes = _state(found, shape, source)
    meaning = trained_on(labels, shape.classes)
    # Of all layers that compute or upsample scores: the net may have a class more.
    count, scoring = len(meaning.classes.names), ("score_", "upscore")
    state = {name: value[:count] if name.startswith(scoring) else value for name, value in state.items()}
    shape = replace(shape, classes=count)
    check_state(state, shape, source=str(source))
    if broken := [name for name, value in state.items() if not np.isfinite(value).all()]:
        raise NetworkError(f"{source}: {', '.join(broken)} have values that are not finite.")
    notes += _fold(state, scales, source, at_once=at_once)
    description = FCNDescription(shape, meaning.classes, mean or meaning.mean, "bgr", meaning.working)
    return Imported(state, description, (*notes, *meaning.notes))


def _named(source: Path) -> dict[str, list[Array]]:
    """Return the blobs of each layer, under its current name."""
    found: dict[str, list[Array]] = {}
    for layer in read_caffemodel(source):
        name = layer.name.replace("-", "_")
        name = _OLD.get(name, name)
        if name in found:
            raise NetworkError(f"{source} has two layers {name!r}, which is ambiguous.")
        found[name] = list(layer.blobs)
    return found


def _variant(found: dict[str, list[Array]], source: Path) -> Variant:
    marks: tuple[tuple[str, Variant], ...] = (
        ("score_pool3", "fcn8s"),
        ("score_pool4", "fcn16s"),
        ("fc7", "fcn32s"),
        ("conv4_1", "pool4"),
        ("conv3_1", "pool3"),
    )
    variant = next((variant for mark, variant in marks if mark in found), None)
    if variant is None or "score_fr" not in found:
        raise NetworkError(
            f"{source} is not an FCN: it has {_some(found)}, but no {'score_fr' if variant else 'conv3_1'}. "
            "ImageNet's VGG-16 cannot be imported; training starts from it (`python -m recipes.fcn fcn8s`)."
        )
    return variant


def _shape(found: dict[str, list[Array]], variant: Variant, source: Path) -> FCNShape:
    """Read channels and classes from the sizes of biases; layers that the variant lacks keep the paper's sizes."""
    plain = FCNShape(variant)

    def outputs(name: str, default: int) -> int:
        blobs = found.get(name, [])
        return blobs[1].size if len(blobs) == 2 else default

    classes = outputs("score_fr", 0)
    if not 2 <= classes <= 255:
        raise NetworkError(f"{source}: score_fr scores {classes} classes; 2 to 255 are possible.")
    widths = tuple(outputs(f"conv{block}_1", width) for block, width in enumerate(plain.widths, 1))
    return FCNShape(variant, classes, widths, outputs("fc6", plain.fc))


def _state(found: dict[str, list[Array]], shape: FCNShape, source: Path) -> tuple[dict[str, Array], list[str]]:
    """Return the weights of the layers, and notes on missing and unused ones."""
    state: dict[str, Array] = {}
    notes, missing, full = [], [], []
    for layer in (layer for layer in layers(shape) if layer.weights):
        blobs = found.pop(layer.name, [])
        if blobs:
            state |= _converted(layer, blobs, source)
            full += [layer.name] if layer.kind == "deconv" and blobs[0].shape[1:2] != (1,) else []
        elif layer.kind == "deconv":
            state |= {name: np.broadcast_to(bilinear(layer.kernel), size) for name, size in layer.weights.items()}
            notes.append(f"{layer.name} is not in the file; it is set to the bilinear kernel.")
        else:
            missing.append(layer.name)
    if missing:
        left = f"; its layers {_some(found)} are not used" if found else ""
        raise NetworkError(f"{source} lacks {', '.join(missing)} of an {shape.variant}{left}.")
    if full:
        notes.append(
            f"{', '.join(full)} were stored with kernels between classes, all zero; only the kernel of each class is kept."
        )
    if found:
        notes.append(f"not used, since an {shape.variant} has no such layers: {_some(found)}.")
    return state, notes


def _converted(layer: Layer, blobs: list[Array], source: Path) -> dict[str, Array]:
    """Return the weights of a layer in the shapes used here, float32."""
    if layer.kind == "deconv":
        blobs = [_a_kernel_a_class(layer, blobs, source)]
    if len(blobs) != len(layer.weights):
        raise NetworkError(f"{source}: {layer.name} has {len(blobs)} blobs instead of {len(layer.weights)}.")
    made = zip(layer.weights.items(), blobs, strict=True)
    with np.errstate(over="ignore"):  # values beyond float32 are refused as not finite
        return {name: _reshaped(blob, size).astype(np.float32, copy=False) for (name, size), blob in made}


def _a_kernel_a_class(layer: Layer, blobs: list[Array], source: Path) -> Array:
    """Return [C, 1, k, k] kernels; files have those, or [C, C, k, k] with zeros off the diagonal."""
    kernels, *bias = blobs
    if any(values.any() for values in bias):
        raise NetworkError(f"{source}: {layer.name} has a bias, unlike the deconvolutions of an FCN.")
    if kernels.ndim != 4 or kernels.shape[1] == 1 or kernels.shape[0] != kernels.shape[1]:
        return kernels
    own = np.eye(len(kernels), dtype=bool)
    if kernels[~own].any():
        raise NetworkError(
            f"{source}: {layer.name} has weights between classes, but an FCN upsamples each class by itself."
        )
    return kernels[own][:, None]


def _reshaped(blob: Array, size: tuple[int, ...]) -> Array:
    """Reshape a blob that was stored with four axes, or by a layer that flattens its input."""
    bare = blob.shape
    while len(bare) > 1 and bare[0] == 1:
        bare = bare[1:]
    flat = (size[0], int(np.prod(size[1:])))
    return blob.reshape(size) if bare in (size, flat) else blob


def _fold(state: dict[str, Array], scales: dict[str, list[Array]], source: Path, *, at_once: bool) -> list[str]:
    """Fold the factors on features into the weights that read them; biases stay as they are."""
    notes = []
    for name, usual in AT_ONCE.items():
        weight = f"{name.replace('scale', 'score')}.weight"
        if weight not in state or not (at_once or name in scales):
            continue
        scale, *shift = scales.get(name, [np.array(usual)])
        if scale.size not in (1, state[weight].shape[1]) or any(values.any() for values in shift):
            raise NetworkError(
                f"{source}: {name} has {scale.size} factors{' and a shift' if shift else ''}; "
                f"one factor or {state[weight].shape[1]} and no shift are supported."
            )
        state[weight] = state[weight] * scale.reshape(1, -1, 1, 1).astype(np.float32)
        notes.append(f"the factor {scale.mean():g} on {name.removeprefix('scale_')} is now part of {weight}.")
    return notes


def _some(names: Iterable[str]) -> str:
    shown = [repr(name) for name in names]
    return ", ".join(shown[:8]) + (f" and {len(shown) - 8} more" if len(shown) > 8 else "")


@dataclass(frozen=True)
class TrainedOn:
    """A data set as a network uses it. ``mean``: blue, green, red, 0..255. ``working``: the size pictures are fitted into.

    ``notes``: sentences for the user.
    """

    classes: Classes
    mean: tuple[float, float, float] = MEAN
    working: Size = (500, 500)
    notes: tuple[str, ...] = ()


PUBLISHED: Mapping[str, TrainedOn] = {
    "voc": TrainedOn(PASCAL),
    "nyud": TrainedOn(NYUD, (116.2, 97.2, 92.3), (560, 425)),
    "cityscapes": TrainedOn(CITYSCAPES, (72.78044, 83.21195, 73.45286), (2048, 1024)),
}
_BY_COUNT = {21: "voc", 40: "nyud", 19: "cityscapes", 20: "cityscapes"}


def trained_on(labels: str | None, count: int) -> TrainedOn:
    """Return the data set that a net of ``count`` classes was trained on.

    ``labels``: "voc", "nyud", "cityscapes" or a classes.json; None: the data set of published nets with this number. Until
    November 2016 nets for Cityscapes had 20 classes, the last of them meaningless and not among those returned.
    """
    name = labels or _BY_COUNT.get(count)
    if name is None:
        names = tuple(f"class {index}" for index in range(count))
        note = f"no published net has {count} classes; they are named {names[0]!r} and so on. Name them with --labels."
        return TrainedOn(Classes(names, palette(count)), notes=(note,))
    if name not in PUBLISHED and not name.endswith(".json"):
        raise UsageError(f"labels {name!r}; give {', '.join(PUBLISHED)}, or a classes.json.")
    found = PUBLISHED[name] if name in PUBLISHED else TrainedOn(read_classes(Path(name)))
    if name == "cityscapes" and count == 20:
        note = "the 20th channel is meaningless (a net for Cityscapes from before November 2016) and was dropped."
        return replace(found, notes=(note,))
    if len(found.classes.names) != count:
        raise NetworkError(f"the net scores {count} classes; {name} has {len(found.classes.names)}.")
    return found
