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
from clockseg.graph.nodes import OPSET, attribute, folded, is_diagonal, keep_nodes, readers_of, rename, upgraded
from clockseg.graph.quantized import TO_BYTES, TO_FLOATS
from clockseg.libraries import onnxruntime_quantization
from clockseg.types import Array

Sample: TypeAlias = Mapping[str, Array]
"""The network's input by its name: float32 [1, 3, h, w]."""
PRODUCTS = ("Conv", "ConvTranspose", "MatMul", "Gemm")
BETWEEN = ("Add", "Mul", "Relu", "Clip", "MaxPool", "AveragePool", "GlobalAveragePool", "Concat", "Resize")
"""Operators that keep 8 bits between products, in networks of convolutions."""
_DONE = (TO_BYTES, TO_FLOATS, "QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger", "DynamicQuantizeLinear")
_CHECKED = ("onnx.quant.pre_process", "onnxruntime.quant")
"""Tells the quantizer not to warn that the model could be optimised first: that would take the names of tensors."""


def quantized(
    model: onnx.ModelProto, samples: Iterable[Sample], *, left: Iterable[str] = (), kept: Iterable[str] = ()
) -> onnx.ModelProto:
    """Return ``model`` in 8 bits; ``left``: names of nodes that stay in float. ``model`` as ``onnx_reader.read`` gives it.

    ``kept``: tensors that must stay, such as cuts: else one before a Relu is gone where bounds of bytes do its work.

    ``UsageError`` if it is quantized already, ``NetworkError`` if there is nothing to quantize, ``MissingDependency``
    without ONNX Runtime.
    """
    model = ready(model)
    operators: Sequence[str] = (*PRODUCTS, *BETWEEN)
    floating = {*left, *interpolations(model)}
    if _has_tokens(model):
        operators = PRODUCTS
        floating |= {
            node.name for node in _products(model) if node.op_type == "Conv" and attribute(node, "group", 1) > 1
        }
    floating |= _free_activations(model, _integer(model, operators, floating), {*kept})
    integer = _integer(model, operators, floating)
    made = _quantize(onnxruntime_quantization(), model, samples, operators, floating)
    bounded = _bounded(model, made)
    _free_outputs(made.graph, bounded)
    _drop_needless(made.graph, integer, bounded)
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


def _integer(model: onnx.ModelProto, operators: Sequence[str], floating: set[str]) -> set[str]:
    """Return the names of the nodes that are to compute in 8 bits."""
    weighted = {node.name for node in _products(model)}
    chosen = [node for node in model.graph.node if node.op_type in operators and node.name not in floating]
    return {node.name for node in chosen if node.op_type not in PRODUCTS or node.name in weighted}


def _free_activations(model: onnx.ModelProto, integer: set[str], kept: set[str]) -> set[str]:
    """Find Relu and Clip that only float nodes read, or that read a kept map; the bounds of bytes replace the others."""
    outputs = {value.name for value in model.graph.output}
    readers = readers_of(model.graph.node)
    found = set()
    for node in model.graph.node:
        if node.op_type in ("Relu", "Clip"):
            read = {reader.name for reader in readers.get(node.output[0], [])}
            if node.output[0] in outputs or node.input[0] in kept or not read & integer:
                found.add(node.name)
    return found


def _bounded(model: onnx.ModelProto, made: onnx.ModelProto) -> set[str]:
    """Find the maps whose Relu or Clip the bounds of their bytes replace: these bytes can't be left out."""
    there = {node.name for node in made.graph.node}
    return {node.output[0] for node in model.graph.node if node.op_type in ("Relu", "Clip") and node.name not in there}


def _quantize(
    library: types.ModuleType,
    model: onnx.ModelProto,
    samples: Iterable[Sample],
    operators: Sequence[str],
    floating: set[str],
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
            op_types_to_quantize=list(operators),
            nodes_to_exclude=sorted(floating),
            extra_options={"MatMulConstBOnly": True},
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


def _free_outputs(graph: onnx.GraphProto, bounded: set[str]) -> None:
    """Make outputs that have become dequantized maps float ones again."""
    outputs = {value.name for value in graph.output} - bounded
    makers = {tensor: node for node in graph.node for tensor in node.output}
    new: dict[str, str] = {}
    for name in outputs:
        maker = makers.get(name)
        if maker is not None and maker.op_type == TO_FLOATS:
            stored = makers[maker.input[0]]
            new |= {stored.input[0]: name, name: f"{name}_read"}
    rename(graph.node, new)


def _drop_needless(graph: onnx.GraphProto, integer: set[str], bounded: set[str]) -> None:
    """Leave maps in float of which no 8-bit operation reads; one between products is one only if its own map stays."""
    while stored := _needless(graph, integer, bounded):
        stands_for = {}
        for node in graph.node:
            if node.op_type == TO_FLOATS and node.input[0] in stored:
                stands_for[node.output[0]] = stored[node.input[0]]
        nodes = [node for node in graph.node if not {*node.output} & (stored.keys() | stands_for.keys())]
        rename(nodes, stands_for)
        keep_nodes(graph, nodes)


def _needless(graph: onnx.GraphProto, integer: set[str], bounded: set[str]) -> dict[str, str]:
    """Return the bytes that nothing needs, each with the float map they are of."""
    readers = readers_of(graph.node)

    def needs(node: onnx.NodeProto) -> bool:
        if node.name not in integer or node.op_type in PRODUCTS:
            return node.name in integer
        return any(reader.op_type == TO_BYTES for reader in readers.get(node.output[0], []))

    found = {}
    for node in graph.node:
        if node.op_type == TO_BYTES and node.input[0] not in bounded:
            floats = [one.output[0] for one in readers.get(node.output[0], [])]
            if not any(needs(reader) for name in floats for reader in readers.get(name, [])):
                found[node.output[0]] = node.input[0]
    return found
