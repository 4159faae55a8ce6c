"""A network with fewer multiply-adds: every layer that gains by it becomes two thinner ones, from frames it has seen."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import onnx

from clockseg.datasets.clips import ignore_problem
from clockseg.errors import MissingDependency, UsageError
from clockseg.graph.folding import folded, keep_nodes
from clockseg.graph.low_rank import Responses, Thinned, can_thin, thinned
from clockseg.libraries import imported
from clockseg.types import Array

Sample: TypeAlias = Mapping[str, Array]
"""What the network reads, by the name of its input: float32 [1, 3, h, w]."""
PLACES = 4096
"""Places of a map looked at, a sample."""


def low_rank(
    model: onnx.ModelProto,
    samples: Sequence[Sample],
    *,
    keep: float = 0.99,
    gain: float = 0.8,
    say: Callable[[str], None] = ignore_problem,
) -> onnx.ModelProto:
    """A copy of ``model`` of thinner layers, each with the share ``keep`` of the variance that the whole one's responses have.

    Layers whose multiply-adds would not fall below ``gain`` of what they were stay, as do grouped convolutions. Tensors
    keep their names, and so do the cuts. ``samples``: a handful of frames (``calibration.normalised``); nothing is trained.
    ``model``: as ``onnx_reader.read`` gives it. ``say`` is told each layer.

    >>> low_rank(onnx.ModelProto(), [], keep=0.9)
    Traceback (most recent call last):
        ...
    clockseg.errors.UsageError: there are no samples to see what layers give; give a few frames.
    """
    if not (0 < keep <= 1 and 0 < gain <= 1):
        raise UsageError(f"keep={keep}, gain={gain}; both are shares, above 0 and at most 1.")
    if not samples:
        raise UsageError("there are no samples to see what layers give; give a few frames.")
    library = _library()
    whole = folded(model)
    made = folded(model)
    for node in whole.graph.node:
        weights = {weight.name: weight for weight in whole.graph.initializer}
        if can_thin(node, weights):
            seen = _responses(library, whole, made, node.output[0], samples)
            found = thinned(node, weights, seen, keep=keep)
            if found.work < gain:
                say(f"{node.name}: rank {found.rank} of {seen.channels}")
                _replace(made, node.name, found)
    onnx.checker.check_model(made)
    return made


def _replace(model: onnx.ModelProto, name: str, found: Thinned) -> None:
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        nodes += found.nodes if node.name == name else (node,)
    weights = {weight.name: weight for weight in model.graph.initializer} | found.weights
    keep_nodes(model.graph, nodes, weights)


def _responses(
    library: types.ModuleType, whole: onnx.ModelProto, made: onnx.ModelProto, tensor: str, samples: Sequence[Sample]
) -> Responses:
    """What ``tensor`` is in the whole network and in the one made of it so far, at the same places."""
    sessions = [_upto(library, model, tensor) for model in (whole, made)]
    pairs = [[_places(session.run([tensor], dict(sample))[0]) for session in sessions] for sample in samples]
    found = Responses(pairs[0][0].shape[1])
    for wanted, given in pairs:
        found.add(wanted, given)
    return found


def _places(response: Array) -> Array:
    """[places, channels] of a map [1, channels, h, w] or of rows [n, channels]; some of them if there are many."""
    rows = response.reshape(response.shape[1], -1).T if response.ndim == 4 else response
    return rows[:: -(-len(rows) // PLACES)]


def _upto(library: types.ModuleType, model: onnx.ModelProto, tensor: str) -> Any:
    """A session of only what makes ``tensor``."""
    part = onnx.ModelProto()
    part.CopyFrom(model)
    needed, nodes = {tensor}, []
    for node in reversed(model.graph.node):
        if needed.intersection(node.output):
            needed.update(node.input)
            nodes.append(node)
    del part.graph.output[:]
    part.graph.output.append(onnx.ValueInfoProto(name=tensor))
    keep_nodes(part.graph, nodes[::-1])
    options = library.SessionOptions()
    options.log_severity_level = 3
    return library.InferenceSession(part.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _library() -> types.ModuleType:
    try:
        return imported("onnxruntime")
    except ImportError as error:
        raise MissingDependency("low rank needs ONNX Runtime: pip install 'clockseg[onnxruntime]'") from error
