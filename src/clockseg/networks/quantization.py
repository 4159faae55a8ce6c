"""Networks in 8 bits, made from video without labels, and the comparison with the network in float: agreement, speed, size.

ONNX Runtime's static quantization gives every convolution, linear layer and whatever lies between them a pair QuantizeLinear,
DequantizeLinear on what it reads, scales measured on frames, weights one scale a channel. What no 8-bit operation reads stays
in float, such as outputs and score maps. Tensors keep their names, and cuts their places.
"""

from __future__ import annotations

import tempfile
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from clockseg.clocks.maps import relative_difference
from clockseg.clockwork.network import StagedNetwork
from clockseg.datasets.clips import Clip
from clockseg.errors import DataError, NetworkError, UsageError
from clockseg.evaluation.cost import part_seconds
from clockseg.evaluation.metrics import Confusion, confusion, finite
from clockseg.execution.machine import machine, versions
from clockseg.graph.extraction import split_model
from clockseg.graph.nodes import OPSET, attribute, folded, is_diagonal, upgraded
from clockseg.graph.onnx_reader import write_network
from clockseg.graph.part import IMAGE, Tensors
from clockseg.graph.static import EIGHT_BITS, TO_FLOATS
from clockseg.libraries import onnxruntime, silent_logs
from clockseg.networks.framing import Framing
from clockseg.networks.load import WorkingSize, assemble, framing, read
from clockseg.types import PICTURE_SIZE, Array, Image, Size

PRODUCTS = ("Conv", "ConvTranspose", "MatMul", "Gemm")
BETWEEN = ("Add", "Mul", "MaxPool", "AveragePool", "GlobalAveragePool", "Concat", "Resize")
"""Operators that keep 8 bits between products, in networks of convolutions."""
_FUSED = ("Relu", "Clip")
"""Operators that engines compute within the product before them."""


@dataclass(frozen=True)
class Agreement:
    """Of labels: mIoU (classes with at least 0.1 % of the pixels) and pixel accuracy, 0..1.

    Of other outputs: their relative difference, sum |a - b| / half of sum (|a| + |b|). What doesn't apply is None.
    """

    mean_iu: float | None = None
    pixel_acc: float | None = None
    difference: float | None = None


@dataclass(frozen=True)
class Quantization:
    """The result of ``quantize``: ``file`` (and its sidecar), and the comparison with the network in float.

    ``calibration_frames``, ``held_out_frames``: how many it was calibrated on, and judged on. ``layers``: those in 8 bits
    ("int8"), and "all" that have weights. ``parts``: "f32_seconds", "int8_seconds" and "speed_up" of each part, of all of them
    ("every stage") and of the uncut network ("whole"). ``bytes``: of the files, "f32" and "int8".
    """

    network: str
    file: Path
    engine: str
    size: Size
    calibration_frames: int
    held_out_frames: int
    layers: dict[str, int]
    agreement: Agreement
    parts: dict[str, dict[str, float]]
    bytes: dict[str, int]

    def facts(self) -> dict[str, Any]:
        """Return plain values for ``json.dumps``."""
        return asdict(self) | {"file": str(self.file), "machine": machine(), "versions": versions()}


def quantize(
    network: str | Path,
    clips: Sequence[Clip],
    out: Path,
    *,
    frames: int = 60,
    engine: str = "auto",
    threads: int | None = None,
    size: WorkingSize | None = None,
    repeat: int = 20,
    say: Callable[[str], None] = lambda text: None,
    problem: Callable[[str], None] = lambda text: None,
) -> Quantization:
    """Write ``network`` in 8 bits as ``out`` (NAME.onnx) and its sidecar; ``clips`` need no labels.

    ``frames``: to calibrate on, spread over the clips; a quarter as many, others, judge. ``engine``, ``threads``: what both
    are compared in. ``size``: the working size, as of ``load``; it is stated in the new sidecar. ``say`` is told
    what is being done, ``problem`` what can't be decoded. Nothing is left half-written.
    """
    if frames < 1 or repeat < 1:
        raise UsageError(f"frames={frames}, repeat={repeat}; both are at least 1.")
    model, said = read(network)
    fit = framing(model, said, size=size)
    ready(model)  # whatever is wrong with the network is told before any video is decoded
    split = split_model(model, said, fit.padded((said.input.width, said.input.height)))
    say("decoding")
    calibration, held_out = gather(clips, fit, frames=frames, problem=problem)
    say("calibrating")
    made = quantized(split, ({said.input.name: said.input.normalised(frame[IMAGE])} for frame in calibration))
    say("comparing")
    nets = [assemble(one, said, engine=engine, threads=threads, size=size) for one in (model, made)]
    judged = agreement(nets[0], nets[1], held_out)
    before, now = part_seconds(nets, held_out or calibration, repeat)
    height, width = calibration[0][IMAGE].shape[1:3]
    reads = replace(said.input, width=fit.width, height=fit.height) if fit.width else said.input
    write_network(made, replace(said, name=out.stem, input=reads), out)
    return Quantization(
        said.name,
        out,
        nets[1].engine,
        (width, height),
        len(calibration),
        len(held_out),
        dict(zip(("int8", "all"), layers(made), strict=True)),
        judged,
        {name: _seconds(before.get(name, 0.0), spent) for name, spent in now.items()},
        {"f32": model.ByteSize(), "int8": out.stat().st_size},
    )


def _seconds(before: float, now: float) -> dict[str, float]:
    return {"f32_seconds": before, "int8_seconds": now, "speed_up": before / now if now else 1.0}


def gather(
    clips: Sequence[Clip], framing: Framing, *, frames: int = 60, problem: Callable[[str], None] = lambda text: None
) -> tuple[list[Tensors], list[Tensors]]:
    """Choose at most ``frames`` to calibrate on, and every fifth of the chosen to judge by, spread evenly over all ``clips``.

    Labels are not read. ``DataError`` if the clips have no frame; ``VideoError`` for one that can't be read.
    """
    kept = spread(map(framing.prepare, _images(clips, problem)), frames + frames // 4)
    if not kept:
        raise DataError("the clips have no frame; give videos, clips or pictures.")
    return [one for index, one in enumerate(kept) if index % 5 != 2], kept[2::5]


def spread(items: Iterable[Any], count: int) -> list[Any]:
    """Choose ``count`` of ``items``, evenly spread, in order, or all if they are fewer; keeps four times as many at most.

    How many come isn't known before the last: every second one is dropped whenever there are too many.
    """
    kept: list[Any] = []
    step = 1
    for index, item in enumerate(items):
        if index % step == 0:
            kept.append(item)
        if len(kept) == 4 * count:
            kept, step = kept[::2], 2 * step
    count = min(count, len(kept))
    return [kept[(2 * index + 1) * len(kept) // (2 * count)] for index in range(count)]


def _images(clips: Sequence[Clip], problem: Callable[[str], None]) -> Iterator[Image]:
    for clip in clips:
        unlabelled = replace(clip, labels=(None,) * len(clip.images))
        for frame in unlabelled.frames(problem=problem):
            # A decoder may use the frame's memory again.
            yield frame.image.copy()


def agreement(before: StagedNetwork, now: StagedNetwork, frames: Sequence[Tensors]) -> Agreement:
    """Compare the output of ``now`` with that of ``before``, both uncut, over ``frames``; padding is left out."""
    whole = before.uncut(), now.uncut()
    pictures = (frame[IMAGE][0, :height, :width] for frame in frames for width, height in [frame[PICTURE_SIZE]])
    pairs = [[np.array(net(image)) for net in whole] for image in pictures]
    if not pairs:
        return Agreement()
    if pairs[0][0].dtype.kind == "f":
        wanted, given = (np.concatenate([pair[side].ravel() for pair in pairs]) for side in (0, 1))
        return Agreement(difference=relative_difference(wanted, given))
    count = len(before.sidecar.classes)
    total = sum((confusion(wanted, given, count) for wanted, given in pairs), Confusion.none(count))
    return Agreement(finite(total.mean_iu_of()), finite(total.pixel_acc))


def quantized(model: onnx.ModelProto, samples: Iterable[Mapping[str, Array]]) -> onnx.ModelProto:
    """Return ``model``, as ``onnx_reader.read`` gives it, in 8 bits; ``samples``: its input by name, float32 [1, 3, h, w].

    ``UsageError`` if it is quantized already, ``NetworkError`` if there is nothing to quantize, ``MissingDependency``
    without ONNX Runtime.
    """
    library = onnxruntime("onnxruntime.quantization")
    model = ready(model)
    outputs = [*model.graph.output]
    read = {tensor for node in model.graph.node for tensor in node.input}
    # An output that is read inside as well would be rounded itself.
    del model.graph.output[:]
    model.graph.output.extend([value for value in outputs if value.name not in read] or outputs)
    with tempfile.TemporaryDirectory(prefix="clockseg-") as folder, silent_logs():
        path = Path(folder) / "quantized.onnx"
        library.quantize_static(
            model,
            str(path),
            types.SimpleNamespace(get_next=partial(next, iter(samples), None)),
            quant_format=library.QuantFormat.QDQ,
            activation_type=library.QuantType.QUInt8,
            weight_type=library.QuantType.QInt8,
            per_channel=True,
            # 7-bit weights: without VNNI instructions, sums of two products of 8-bit values saturate at 16 bits.
            reduce_range=True,
            op_types_to_quantize=[*PRODUCTS, *BETWEEN],
            nodes_to_quantize=_integer(model),
            extra_options={
                "MatMulConstBOnly": True,
                # Only what these nodes read is in 8 bits. What no node reads so, such as an output, stays in float.
                "OpTypesToExcludeOutputQuantization": [*PRODUCTS, *BETWEEN],
                "ForceQuantizeNoInputCheck": True,
            },
        )
        made = onnx.load_model(path)
    kept = [entry for entry in made.metadata_props if not entry.key.startswith("onnx.infer")]
    del made.metadata_props[:], made.graph.value_info[:], made.graph.output[:]
    made.metadata_props.extend(kept)
    made.graph.output.extend(outputs)
    onnx.checker.check_model(made)
    return made


def ready(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy that can be quantized: weights plain, opset at least 13 (one scale a channel); the errors of ``quantized``."""
    onnxruntime()
    if any(node.op_type in EIGHT_BITS for node in model.graph.node):
        raise UsageError("the network is quantized already; give the original network.")
    model = folded(upgraded(model, OPSET))
    if not _products(model):
        raise NetworkError("there is nothing to quantize: the network has no convolution or product with weights.")
    return model


def layers(model: onnx.ModelProto) -> tuple[int, int]:
    """Count the layers with weights that compute in 8 bits, and all layers with weights."""
    bytes = {node.output[0] for node in model.graph.node if node.op_type == TO_FLOATS}
    weights = {weight.name for weight in model.graph.initializer}
    found = [node for node in model.graph.node if node.op_type in PRODUCTS and {*node.input[1:2]} & (bytes | weights)]
    return sum(set(node.input[:2]) <= bytes for node in found), len(found)


def interpolations(model: onnx.ModelProto) -> set[str]:
    """Find transposed convolutions that make each channel from one: engines compute these in float, or slowly."""
    weights = {weight.name: weight for weight in model.graph.initializer}
    layers = [node for node in _products(model) if node.op_type == "ConvTranspose"]
    return {node.name for node in layers if attribute(node, "group", 1) > 1 or is_diagonal(weights[node.input[1]])}


def _products(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    weights = {weight.name for weight in model.graph.initializer}
    return [node for node in model.graph.node if node.op_type in PRODUCTS and node.input[1] in weights]


def _integer(model: onnx.ModelProto) -> list[str]:
    """Return the names of the nodes that are to compute in 8 bits.

    They are the products with weights, and the operators between them whose results a product reads in 8 bits. Transformers compute
    norms, softmax and transposes in float anyway, and a map that is 8 bits for one operation costs more than it saves: SegFormer-B0
    in OpenVINO is 1.2 times as fast with all of it in 8 bits, 1.4 with products only, 1.5 without depthwise convolutions.
    """
    layers = _products(model)
    products = {node.name for node in layers} - interpolations(model)
    between: tuple[str, ...] = BETWEEN
    if any(node.op_type in ("MatMul", "LayerNormalization", "Softmax") for node in model.graph.node):
        between = ()
        products -= {node.name for node in layers if node.op_type == "Conv" and attribute(node, "group", 1) > 1}
    found: list[str] = []
    read: set[str] = set()
    for node in reversed(model.graph.node):
        is_read = node.op_type in (*between, *_FUSED) and not read.isdisjoint(node.output)
        if node.name in products or is_read:
            read.update(node.input)
            found += [] if node.op_type in _FUSED else [node.name]
    return found
