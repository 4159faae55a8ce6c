"""The frame input of a network to be cut: made [1, 3, height, width], with the preprocessing that it needs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from clockseg.errors import NetworkError, UsageError
from clockseg.graph.nodes import copied, inputs_of, rename, with_sides
from clockseg.graph.sidecar import Input
from clockseg.graph.static import Static, declared_shape, misfit
from clockseg.instances.recognising import IMAGENET, Triple
from clockseg.networks.source import Said, Told
from clockseg.types import Size

NEAR = "clockseg.input"
"""Name of the network's own input behind a transpose."""
LOOKED_AT = (512, 256)
"""The working size, WIDTH and HEIGHT, of a file that takes any and says none: shares of work hardly depend on it."""
MULTIPLES = (1, 2, 4, 8, 16, 32, 64)
_PROPORTIONS = (1, 2, 4 / 3, 16 / 9, 1 / 2)
"""Width over height of the sizes that are tried where constants fix the number of positions alone."""
_SMALLEST, _TRIES = 16, 60
"""The smallest side of a size that is tried, and the number of sizes."""
IMAGENET_OPTIONS = " ".join(
    f"--{name} {','.join(map(str, of))}" for name, of in zip(("mean", "std"), IMAGENET, strict=True)
)
"""The normalisation of most networks, as options of ``clockseg cut``."""


class FrameInput(NamedTuple):
    """A network that reads one frame [1, 3, height, width] by ``name``; ``size`` if it is fixed; the ``batch`` it had.

    ``multiple``: the multiple that its sides must have (``fitted``).
    """

    model: onnx.ModelProto
    name: str
    size: Size | None
    batch: int
    bytes: bool
    told: tuple[Told, ...]
    multiple: int = 1


def frame_input(model: onnx.ModelProto) -> FrameInput:
    """Make ``model`` read one frame, channels first; ``NetworkError`` if its input is no frame."""
    model = one_batch(model)
    inputs = inputs_of(model.graph)
    if len(inputs) != 1:
        raise NetworkError(
            f"the network has {len(inputs)} inputs ({', '.join(value.name for value in inputs)}); one, the frame, can be "
            "given. Export it with the others as constants."
        )
    [value] = inputs
    name, dims = value.name, [*declared_shape(value)]
    told = []
    if len(dims) == 4 and dims[3] == 3 and dims[1] not in (1, 3):
        model = read_channels_first(model, name)
        dims = [dims[0], dims[3], dims[1], dims[2]]
        told.append(Told("layout", "channels last", "a transpose is inserted, because frames come channels first"))
    if len(dims) != 4 or dims[1] not in (0, 3):
        said = ", ".join(dim.dim_param or str(dim.dim_value) for dim in value.type.tensor_type.shape.dim)
        raise NetworkError(
            f"the network's input {name!r} is [{said}]; it must be a frame, "
            "[1, 3, height, width] or [1, height, width, 3]. Export it with such an input: other preprocessing can be part of the graph."
        )
    if dims[0] > 1:
        model = one_frame(model, name)
        told.append(Told("batch", str(dims[0]), "fixed in the file; changed to 1, and compared with the original"))
    size = (dims[3], dims[2]) if dims[2] and dims[3] else None
    whole = value.type.tensor_type.elem_type in (TensorProto.UINT8, TensorProto.INT32, TensorProto.INT64)
    return FrameInput(model, name, size, max(dims[0], 1), whole, (*told, Told("input", name, "the only input")))


def describe(frame: FrameInput, said: Said, by: dict[str, str]) -> tuple[Input, tuple[Told, ...]]:
    """Derive the sidecar's input from the known settings; ``by``: the source of each that the user did not give.

    A missing setting gets a safe default, which is reported; where there is none, ``UsageError`` says what to give.
    """
    told: list[Told] = [Told(field, _shown(getattr(said, field)), who) for field, who in by.items()]
    width, height = _size(frame, said, told)
    mean, std = _normalisation(frame, said, told)
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
    ('1024x512', '0.5, 0.25, 1', '1/255')
    """
    if isinstance(value, tuple) and len(value) == 2:
        return f"{value[0]}x{value[1]}"
    if isinstance(value, tuple) and value and isinstance(value[0], float):
        return ", ".join(f"{number:.6g}" for number in value)
    if isinstance(value, tuple):
        return str(len(value))
    if isinstance(value, float):
        return "1/255" if math.isclose(value, 1 / 255, rel_tol=1e-6) else f"{value:.6g}"
    return str(value)


def _size(frame: FrameInput, said: Said, told: list[Told]) -> Size:
    if frame.size is None:
        if said.size is None:
            raise UsageError(
                "the file takes frames of any size: give --size WIDTHxHEIGHT, the working size, such as 1024x512. The "
                "training size is the most accurate; smaller is faster."
            )
        return said.size
    if said.size not in (None, frame.size):
        raise UsageError(
            f"--size {_shown(said.size)}: the file is fixed to {_shown(frame.size)}; leave --size out, or export it again "
            "with a free height and width."
        )
    if said.size is None and all(one.what != "size" for one in frame.told):
        told.append(Told("size", _shown(frame.size), "fixed in the file"))
    return frame.size


def _normalisation(frame: FrameInput, said: Said, told: list[Told]) -> tuple[Triple, Triple]:
    if said.mean is None and said.std is None and frame.bytes:
        told.append(Told("mean, std", "0, 1", "the input is whole numbers, so the network normalises by itself"))
        return (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    return normalisation(said)


def normalisation(said: Said) -> tuple[Triple, Triple]:
    """Return the mean and standard deviation; ``UsageError`` says what to give if one is missing.

    >>> normalisation(Said(mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0)))
    ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    """
    if said.mean is None or said.std is None:
        missing = " and ".join(f"--{name}" for name in ("mean", "std") if getattr(said, name) is None)
        raise UsageError(
            "the file does not say how pixels were normalised in training (a transformers checkpoint would, in "
            f"preprocessor_config.json): give {missing}. Most networks of torchvision, timm and transformers: {IMAGENET_OPTIONS} "
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
    """Return ``frame`` with the multiple that its sides must have, or fixed to the one size that the network fits.

    Some files declare a free height and width, and constants inside fit one size only. ``size``, ``multiple``: those that
    the user gave. ``UsageError`` if the size is another than the only one.
    """
    if frame.size is not None:
        return frame
    fitting = smallest_multiple(frame, size or LOOKED_AT, MULTIPLES if multiple is None else (multiple,))
    if fitting is not None:
        return frame._replace(multiple=fitting)
    only = _only_size(frame, size or LOOKED_AT)
    if only is None:
        return frame
    if size not in (None, only):
        raise UsageError(
            f"--size {_shown(size)}: the network fits {_shown(only)} only, by constants inside the file; leave --size out, or "
            "export it with a free height and width."
        )
    why = "the file fits this size only, by constants inside; frames are scaled to fit and padded"
    return frame._replace(
        model=with_sides(frame.model, frame.name, (None, None, *only[::-1])),
        size=only,
        told=(*frame.told, Told("size", _shown(only), why)),
    )


def smallest_multiple(frame: FrameInput, size: Size, tried: Iterable[int] = MULTIPLES) -> int | None:
    """Return the first of ``tried`` whose multiples near ``size`` the network fits as sides; None if it fits none."""
    for one in tried:
        # A network that halves five times and adds skips fits odd multiples of 32 and of nothing less.
        width, height = (one * (2 * max(1, side // (2 * one)) + 1) for side in size)
        if misfit_at(frame, (width, height)) is None:
            return one
    return None


def misfit_at(frame: FrameInput, size: Size) -> tuple[Static, onnx.NodeProto] | None:
    """Return ``static.misfit`` of the network at ``size``."""
    return misfit(frame.model, {frame.name: (1, 3, size[1], size[0])})


def _only_size(frame: FrameInput, size: Size) -> Size | None:
    """Return a size at which all nodes fit, found from the first one that doesn't at ``size``; None if there is none."""
    wrong = misfit_at(frame, size)
    if wrong is None:
        return size
    tries = itertools.islice(dict.fromkeys(_likely(*wrong, size)), _TRIES)
    return next((one for one in tries if misfit_at(frame, one) is None), None)


def _likely(found: Static, node: onnx.NodeProto, size: Size) -> Iterator[Size]:
    """Yield sizes at which ``node`` may fit its inputs: those that bring one of their shapes at ``size`` to another."""
    width, height = size
    shapes = [found.shape(name) for name in node.input if name in found.types]
    shapes += [tuple(map(int, found.folded[name])) for name in node.input if _is_list(found, name)]
    pairs = [pair for pair in itertools.permutations(shapes, 2) if all(side > 0 for shape in pair for side in shape)]
    sizes: list[tuple[float, float]] = []
    for wanted, given in pairs:
        for row in (2, 1) if len(wanted) == len(given) == 4 else ():
            sizes.append((width * wanted[row + 1] / given[row + 1], height * wanted[row] / given[row]))
    for wanted, given in pairs:
        # Tokens, of which one may be none of the picture; how many there are says nothing of the proportions.
        counts = [(math.prod(wanted), math.prod(given)), *zip(wanted, given, strict=False)]
        ratios = [(one - extra) / (other - extra) for one, other in counts for extra in (0, 1) if min(one, other) > 1]
        areas = [width * height * ratio for ratio in ratios if ratio != 1]
        sizes += [(math.sqrt(area * wide), math.sqrt(area / wide)) for area in areas for wide in _PROPORTIONS]
    for across, down in sizes:
        if math.isclose(across, round(across)) and math.isclose(down, round(down)) and min(across, down) >= _SMALLEST:
            yield round(across), round(down)


def _is_list(found: Static, name: str) -> bool:
    return name in found.folded and found.folded[name].ndim == 1 and found.folded[name].dtype == np.int64


def one_batch(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return ``model`` with an input [3, h, w] turned into one of [1, 3, h, w]."""
    inputs = inputs_of(model.graph)
    if len(inputs) != 1 or len(declared_shape(inputs[0])) != 3:
        return model
    name, inner = inputs[0].name, f"clockseg.{inputs[0].name}"
    model = copied(model)
    rename(model.graph.node, {name: inner})
    [value] = [value for value in model.graph.input if value.name == name]
    sides = declared_shape(value)
    free = ("height", "width", 3) if sides[2] == 3 and sides[0] != 3 else (3, "height", "width")
    sides_given = [side or default for side, default in zip(sides, free, strict=True)]
    given = helper.make_tensor_value_info(name, value.type.tensor_type.elem_type, [1, *sides_given])
    model.graph.input.remove(value)
    model.graph.input.insert(0, given)
    model.graph.initializer.append(helper.make_tensor(f"{inner}.axis", TensorProto.INT64, [1], [0]))
    model.graph.node.insert(0, helper.make_node("Squeeze", [name, f"{inner}.axis"], [inner], name=inner))
    return model


def read_channels_first(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """Change the input ``name`` of ``model`` from [n, h, w, 3] to [n, 3, h, w]."""
    model = copied(model)
    rename(model.graph.node, {name: NEAR})
    [value] = [value for value in model.graph.input if value.name == name]
    dims = value.type.tensor_type.shape.dim
    batch, height, width, channels = (copied(dim) for dim in dims)
    del dims[:]
    dims.extend([batch, channels, height, width])
    model.graph.node.insert(0, helper.make_node("Transpose", [name], [NEAR], name=NEAR, perm=[0, 2, 3, 1]))
    return model


def one_frame(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """Change a fixed batch of ``model`` to one; recorded shapes are dropped."""
    model = with_sides(model, name, (1, None, None, None))
    del model.graph.value_info[:]
    for output in model.graph.output:
        for dim in output.type.tensor_type.shape.dim[:1]:
            dim.Clear()
    return model


def batched(model: onnx.ModelProto, name: str, batch: int, output: str) -> onnx.ModelProto:
    """Change ``model``, of a fixed ``batch``, to read one frame, repeat it over the batch, and return the first output."""
    model = one_frame(model, name)
    tiled, last = f"{name}.tiled", f"{output}.batch"
    rename(model.graph.node, {name: tiled, output: last})
    constants = {
        f"{tiled}.repeats": np.array([batch, 1, 1, 1], np.int64),
        f"{output}.start": np.array([0], np.int64),
        f"{output}.end": np.array([1], np.int64),
        f"{output}.axis": np.array([0], np.int64),
    }
    model.graph.initializer.extend(numpy_helper.from_array(value, key) for key, value in constants.items())
    model.graph.node.insert(0, helper.make_node("Tile", [name, f"{tiled}.repeats"], [tiled], name=tiled))
    ends = [last, *(key for key in constants if key.startswith(f"{output}."))]
    model.graph.node.append(helper.make_node("Slice", ends, [output], name=f"{output}.first"))
    return model
