"""Reading and writing ONNX files. Files from any source are read: oversized, invalid or escaping ones are refused."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped,unused-ignore]
from onnx import external_data_helper, inliner

from clockseg.errors import DataError, NetworkError, first_line
from clockseg.files import whole
from clockseg.graph import sidecar
from clockseg.graph.cost import node_work
from clockseg.graph.limits import check_bytes, check_nodes
from clockseg.graph.neutral import CONCAT, CROP, ENLARGE, OTHER, POINT, PRODUCT, REARRANGE, Graph, Kind, Node, conv_kind
from clockseg.graph.nodes import attribute, in_order, reads, upgraded
from clockseg.graph.sidecar import Sidecar
from clockseg.graph.static import Static, passed_as

_KIND = {
    "Slice": CROP,
    **dict.fromkeys(("ArgMax", "Cast", "Identity", "LogSoftmax", "Sigmoid", "Softmax", "Squeeze", "Unsqueeze"), POINT),
    **dict.fromkeys(("Flatten", "Reshape", "Transpose"), REARRANGE),
}
"""Operator -> its kind, for those of one kind whatever they read."""
_ARITHMETIC = ("Add", "Div", "Mul", "Sub")


def kind(static: Static, node: onnx.NodeProto) -> Kind:
    """Return the kind and axis of ``node``; shapes are those of ``static``."""
    operator: str = node.op_type
    if _remaps(static, node):
        return POINT, None
    if operator in _KIND:
        return _KIND[operator], None
    if operator in ("Resize", "Upsample", "ConvTranspose"):
        return _enlarging(static, node)
    if operator == "Concat":
        return CONCAT, int(attribute(node, "axis", 0)) % len(static.shape(node.output[0]))
    return _linear(static, node) if operator in ("Conv", "MatMul", "Gemm") else OTHER


def _remaps(static: Static, node: onnx.NodeProto) -> bool:
    """Return True for a table that is looked up at each position, and for arithmetic of whole numbers with one number."""
    constants = [name for name in node.input if static.constant(name) is not None]
    if node.op_type == "Gather":
        return constants == [node.input[0]] and len(static.shape(node.input[0])) == 1
    whole = static.types.get(node.output[0], (0, ()))[0] in (*_WHOLE, *_BYTES)
    return node.op_type in _ARITHMETIC and whole and len(constants) == 1 and math.prod(static.shape(constants[0])) == 1


def _enlarging(static: Static, node: onnx.NodeProto) -> Kind:
    before, after = static.shape(node.input[0]), static.shape(node.output[0])
    if node.op_type == "ConvTranspose":
        larger = math.prod(after) > math.prod(before)
        return (ENLARGE, None) if larger and static.channelwise(node) else OTHER
    if any(then < now for now, then in zip(before, after, strict=True)):
        return OTHER
    whole = len(node.input) < 4 or not node.input[3] or node.input[3] in static.folded
    alike = attribute(node, "coordinate_transformation_mode", b"half_pixel") != b"tf_crop_and_resize"
    apart = before[:2] == after[:2] and len(before) == 4
    return ENLARGE, 1 if whole and alike and apart else None


def _linear(static: Static, node: onnx.NodeProto) -> Kind:
    weights = node.input[1]
    if not _is_stored(static, weights):
        return OTHER
    if node.op_type == "Conv":
        shapes = static.shape(node.input[0]), static.shape(weights)
        options = (attribute(node, name, default) for name, default in (("group", 1), ("strides", []), ("pads", [])))
        return conv_kind(*shapes, *options)
    if node.op_type == "Gemm":
        return OTHER if attribute(node, "transA", 0) else (PRODUCT, 1)
    rank = len(static.shape(node.input[0]))
    return (PRODUCT, rank - 1) if len(static.shape(weights)) == 2 and rank > 1 else OTHER


def _is_stored(static: Static, tensor: str) -> bool:
    """Return True for a constant, also one that is stored in 16 bits and cast, but not if it is quantized."""
    while static.constant(tensor) is None:
        node = next((node for node in static.nodes if tensor in node.output), None)
        if node is None or node.op_type not in ("Cast", "Identity"):
            return False
        tensor = node.input[0]
    return True


OLDEST_OPSET = 11
"""Older files are converted: what is added to a network (Resize, TopK) is written for this one."""
_WHOLE = (onnx.TensorProto.INT64, onnx.TensorProto.INT32, onnx.TensorProto.UINT64, onnx.TensorProto.UINT32)

_BYTES = (onnx.TensorProto.INT8, onnx.TensorProto.UINT8, onnx.TensorProto.INT16, onnx.TensorProto.UINT16)
_EXPECTED = "Give a complete ONNX file, NAME.onnx, as torch.onnx.export and other exporters write it."


def read(path: Path) -> onnx.ModelProto:
    """Read and check the model at ``path``, load its external data, inline its local functions and name every node."""
    try:
        check_bytes(path, path.stat().st_size)
        model = onnx.load_model(path, format="protobuf", load_external_data=False)
        check_nodes(model.graph)
        _load_external(model, path)
        in_order(model.graph)
        onnx.checker.check_model(model)
    except OSError as error:
        raise NetworkError(f"{path} can't be read: {error.strerror or error}. {_EXPECTED}") from error
    except (DecodeError, onnx.checker.ValidationError, ValueError) as error:
        if isinstance(error, NetworkError):
            raise
        raise NetworkError(f"{path} is not a valid ONNX file: {first_line(error)}. {_EXPECTED}") from error
    model = _tidy(model)
    check_nodes(model.graph)
    return model


def _tidy(model: onnx.ModelProto) -> onnx.ModelProto:
    model = upgraded(model, OLDEST_OPSET)
    if model.functions:
        model = inliner.inline_local_functions(model)
    taken: set[str] = set()
    for index, node in enumerate(model.graph.node):
        if not node.name or node.name in taken:
            node.name = f"{node.op_type}_{index}"
        taken.add(node.name)
    return model


def _load_external(model: onnx.ModelProto, path: Path) -> None:
    """Load tensors kept in other files if all is within the limits; ``onnx`` refuses files outside the model's own folder."""
    folder = path.resolve().parent
    tensors = list(_kept_outside(model))
    sizes = {
        name: (folder / name).stat().st_size for name in {one.location for one in tensors} if (folder / name).is_file()
    }
    # Each tensor is loaded by itself: many may name the same bytes.
    loaded = sum(sizes.get(one.location, 0) if one.length is None else one.length for one in tensors)
    check_bytes(path, path.stat().st_size + max(loaded, sum(sizes.values())))
    try:
        external_data_helper.load_external_data_for_model(model, str(folder))
    except onnx.checker.ValidationError as error:
        raise NetworkError(
            f"{path} keeps weights in another file that can't be read: {first_line(error).rstrip('.')}. Put both files in one "
            "folder; only files inside it are read."
        ) from error


def weight_files(path: Path) -> tuple[Path, ...]:
    """Return the files in a network's folder that its weights are kept in; ``DecodeError`` if it cannot be parsed."""
    model = onnx.load_model(path, load_external_data=False)
    folder = path.resolve().parent
    files = {(folder / external.location).resolve() for external in _kept_outside(model)}
    return tuple(sorted(file for file in files if file.is_relative_to(folder)))


def _kept_outside(model: onnx.ModelProto) -> Iterator[external_data_helper.ExternalDataInfo]:
    for tensor in external_data_helper._get_all_tensors(model):
        if external_data_helper.uses_external_data(tensor):
            yield external_data_helper.ExternalDataInfo(tensor)


def neutral(static: Static, frame: str) -> Graph:
    """Convert a static graph to the cut rule's, with the input ``frame``; quantizing is part of making or reading a map."""
    passed, nodes = passed_as(static), list[Node]()
    for node in static.nodes:
        inputs, outputs = (tuple(passed.get(one, one) for one in ends if one) for ends in (reads(node), node.output))
        if inputs[:1] != outputs[:1]:
            nodes.append(Node(node.name, inputs, outputs, *kind(static, node)))
    integers = frozenset(name for name, (stored, _) in static.types.items() if stored in _WHOLE)
    return Graph(tuple(nodes), (frame,), integers, static.shapes, node_work(static))


def write_network(model: onnx.ModelProto, said: Sidecar, out: Path) -> None:
    """Write ``model`` as ``out`` (NAME.onnx) and ``said`` as NAME.json: both or neither, in place of what was there.

    ``DataError`` where they can't be written.
    """
    try:
        with whole(out.with_suffix(".json")) as text, whole(out) as graph:
            sidecar.write(said, text)
            onnx.save(model, graph)
    except (OSError, ValueError) as error:  # a ValueError is protobuf's, of more than 2 GB
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise DataError(f"{out} can't be written: {reason}. Give a folder that can be.") from error
