"""8-bit weights and maps for an ONNX network, from frames it has seen: ONNX Runtime's static quantization, made to fit.

Every convolution, linear layer and whatever lies between them gets a pair QuantizeLinear, DequantizeLinear on what it
reads, scales measured on samples, weights one scale a channel. What no 8-bit operation reads stays in float: the outputs,
score maps, what feeds an interpolation at the end. Tensors keep their names.
"""

from __future__ import annotations

import logging
import tempfile
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeAlias

import onnx

from clockseg.errors import NetworkError, UsageError
from clockseg.graph.nodes import OPSET, attribute, folded, is_diagonal, upgraded
from clockseg.graph.quantized import TO_BYTES, TO_FLOATS
from clockseg.libraries import onnxruntime_quantization
from clockseg.types import Array

Sample: TypeAlias = Mapping[str, Array]
"""The network's input by its name: float32 [1, 3, h, w]."""
PRODUCTS = ("Conv", "ConvTranspose", "MatMul", "Gemm")
BETWEEN = ("Add", "Mul", "MaxPool", "AveragePool", "GlobalAveragePool", "Concat", "Resize")
"""Operators that keep 8 bits between products, in networks of convolutions."""
_FUSED = ("Relu", "Clip")
"""Operators that engines compute within the product before them."""
_DONE = (TO_BYTES, TO_FLOATS, "QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger", "DynamicQuantizeLinear")
_CHECKED = ("onnx.quant.pre_process", "onnxruntime.quant")
"""Tells the quantizer not to warn that the model could be optimised first: that would take the names of tensors."""


def quantized(model: onnx.ModelProto, samples: Iterable[Sample], *, left: Iterable[str] = ()) -> onnx.ModelProto:
    """Return ``model`` in 8 bits; ``left``: names of nodes that stay in float. ``model`` as ``onnx_reader.read`` gives it.

    ``UsageError`` if it is quantized already, ``NetworkError`` if there is nothing to quantize, ``MissingDependency``
    without ONNX Runtime.
    """
    model = ready(model)
    outputs = [*model.graph.output]
    read = {tensor for node in model.graph.node for tensor in node.input}
    # An output that is read inside as well would be rounded itself.
    del model.graph.output[:]
    model.graph.output.extend([value for value in outputs if value.name not in read] or outputs)
    made = _quantize(onnxruntime_quantization(), model, samples, _integer(model, {*left}))
    del made.graph.output[:]
    made.graph.output.extend(outputs)
    onnx.checker.check_model(made)
    return made


def ready(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy that can be quantized: weights plain, opset at least 13 (one scale a channel); the errors of ``quantized``."""
    onnxruntime_quantization()
    if any(node.op_type in _DONE for node in model.graph.node):
        raise UsageError("the network is quantized already; give the original network.")
    model = folded(upgraded(model, OPSET))
    if not _products(model):
        raise NetworkError("there is nothing to quantize: the network has no convolution or product with weights.")
    return model


def ends(model: onnx.ModelProto, outputs: Sequence[str]) -> tuple[str, ...]:
    """Return the first and the last layers with weights: nodes of ``ready(model)`` next to the input, and next to ``outputs``.

    >>> from clockseg.networks.load import read
    >>> ends(ready(read("street")[0]), ["scores"])
    ('/stem/stem.0/Conv', '/score/Conv')
    """
    layers = {node.name for node in _products(model)} - interpolations(model)
    started = {value.name for value in model.graph.input}
    found = set()
    for node in model.graph.node:
        if started.intersection(node.input):
            found.update({node.name} & layers)
            started.update(node.output if node.name not in layers else ())
    wanted = set(outputs)
    for node in reversed(model.graph.node):
        if wanted.intersection(node.output):
            found.update({node.name} & layers)
            wanted.update(node.input if node.name not in layers else ())
    return tuple(node.name for node in model.graph.node if node.name in found)


def layers(model: onnx.ModelProto) -> tuple[int, int]:
    """Count the layers with weights that compute in 8 bits, and all layers with weights.

    >>> from clockseg.networks.load import read
    >>> layers(read("street-int8")[0])
    (68, 69)
    """
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


def _has_tokens(model: onnx.ModelProto) -> bool:
    """Return True for a transformer: norms, softmax and transposes between its products compute in float anyway.

    There a map that is 8 bits for one operation costs more than it saves; measured on SegFormer-B0 in OpenVINO: 1.2
    times as fast as in float with all of it in 8 bits, 1.4 with products only, 1.5 without depthwise convolutions.
    """
    return any(node.op_type in ("MatMul", "LayerNormalization", "Softmax") for node in model.graph.node)


def _integer(model: onnx.ModelProto, floating: set[str]) -> list[str]:
    """Return the names of the nodes that are to compute in 8 bits, without those that are ``floating``.

    They are the products with weights, and the operators between them whose results a product reads in 8 bits.
    """
    products = {node.name for node in _products(model)} - interpolations(model) - floating
    between: tuple[str, ...] = BETWEEN
    if _has_tokens(model):
        between = ()
        products -= {
            node.name for node in _products(model) if node.op_type == "Conv" and attribute(node, "group", 1) > 1
        }
    found: list[str] = []
    read: set[str] = set()
    for node in reversed(model.graph.node):
        is_read = node.op_type in (*between, *_FUSED) and not read.isdisjoint(node.output)
        if node.name in products or (is_read and node.name not in floating):
            read.update(node.input)
            found += [] if node.op_type in _FUSED else [node.name]
    return found


def _quantize(
    library: types.ModuleType,
    model: onnx.ModelProto,
    samples: Iterable[Sample],
    integer: list[str],
) -> onnx.ModelProto:
    there = model.metadata_props.add()
    there.key, there.value = _CHECKED
    with tempfile.TemporaryDirectory(prefix="clockseg-") as folder, _quiet():
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
            nodes_to_quantize=integer,
            extra_options={
                "MatMulConstBOnly": True,
                # Only what these nodes read is in 8 bits. What no node reads so, such as an output, stays in float.
                "OpTypesToExcludeOutputQuantization": [*PRODUCTS, *BETWEEN],
                "ForceQuantizeNoInputCheck": True,
            },
        )
        made = onnx.load_model(path)
    kept = [
        entry for entry in made.metadata_props if entry.key != _CHECKED[0] and not entry.key.startswith("onnx.infer")
    ]
    del made.metadata_props[:]
    made.metadata_props.extend(kept)
    del made.graph.value_info[:]
    return made


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the library's log, which holds nothing that the user can act on."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
