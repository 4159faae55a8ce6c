"""Reading an ONNX file that anybody may have made: what is too large, outside its folder, or invalid is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped,unused-ignore]
from onnx import external_data_helper, inliner, version_converter

from clockseg.errors import NetworkError
from clockseg.graph.limits import Limits
from clockseg.graph.neutral import Graph, Node
from clockseg.graph.onnx_kinds import kind
from clockseg.graph.order import in_order
from clockseg.graph.quantized import reading
from clockseg.graph.static import Static

OLDEST_OPSET = 11
"""Older files are converted: what is added to a network (Resize, TopK) is written for this one."""
_WHOLE = (onnx.TensorProto.INT64, onnx.TensorProto.INT32, onnx.TensorProto.UINT64, onnx.TensorProto.UINT32)


def read(path: Path, *, limits: Limits | None = None) -> onnx.ModelProto:
    """The checked model at ``path``, its external data loaded, its local functions inlined, every node named.

    ``limits``: how large it may be (None: ``Limits.here()``).
    """
    limits = limits or Limits.here()
    try:
        size = path.stat().st_size
        limits.check_bytes(path, size)
        model = onnx.load_model(path, format="protobuf", load_external_data=False)
        limits.check_nodes(model.graph)
        _load_external(model, path, limits)
        in_order(model.graph)
        onnx.checker.check_model(model)
    except OSError as error:
        raise NetworkError(f"{path} can't be read: {error.strerror or error}") from error
    except (DecodeError, onnx.checker.ValidationError, ValueError) as error:
        if isinstance(error, NetworkError):
            raise
        raise NetworkError(f"{path} is no valid ONNX file: {_first_line(error)}") from error
    model = _tidy(model)
    limits.check_nodes(model.graph)
    return model


def _tidy(model: onnx.ModelProto) -> onnx.ModelProto:
    version = next((opset.version for opset in model.opset_import if opset.domain in ("", "ai.onnx")), 0)
    if version < OLDEST_OPSET:
        model = _upgraded(model, version)
    if model.functions:
        model = inliner.inline_local_functions(model)
    taken: set[str] = set()
    for index, node in enumerate(model.graph.node):
        if not node.name or node.name in taken:
            node.name = f"{node.op_type}_{index}"
        taken.add(node.name)
    return model


def _upgraded(model: onnx.ModelProto, version: int) -> onnx.ModelProto:
    try:
        return version_converter.convert_version(model, 13)
    except RuntimeError as error:
        raise NetworkError(
            f"the network is written in ONNX opset {version} and can't be brought to 13 "
            f"({_first_line(error)}); export it with opset {OLDEST_OPSET} or later."
        ) from error


def _load_external(model: onnx.ModelProto, path: Path, limits: Limits) -> None:
    """Load tensors kept in other files, only from the model's own folder and only if all is within the limits."""
    folder = path.resolve().parent
    tensors = list(_kept_outside(model))
    files = {external.location for external in tensors}
    for name in files:
        inside = not PurePosixPath(name).is_absolute() and not PureWindowsPath(name).is_absolute()
        if not name or not inside or not (folder / name).resolve().is_relative_to(folder):
            raise NetworkError(
                f"{path} keeps weights in {name!r}, outside its own folder; only files inside it are read."
            )
    for name in sorted(files):
        if not (folder / name).is_file():
            raise NetworkError(f"{path} keeps weights in {name!r}, which isn't beside it; put the two in one folder.")
    sizes = {name: (folder / name).stat().st_size for name in files}
    # Each tensor is loaded by itself: many may name the same bytes.
    loaded = sum(sizes[one.location] if one.length is None else one.length for one in tensors)
    limits.check_bytes(path, path.stat().st_size + max(loaded, sum(sizes.values())))
    if files:
        external_data_helper.load_external_data_for_model(model, str(folder))


def weight_files(path: Path) -> tuple[Path, ...]:
    """Return the files in a network's folder that its weights are kept in; none if it cannot be parsed.

    >>> weight_files(Path("no-such-file.onnx"))
    ()
    """
    try:
        model = onnx.load_model(path, load_external_data=False)
    except (OSError, DecodeError):
        return ()
    folder = path.resolve().parent
    files = {(folder / external.location).resolve() for external in _kept_outside(model)}
    return tuple(sorted(file for file in files if file.is_relative_to(folder)))


def _kept_outside(model: onnx.ModelProto) -> Iterator[external_data_helper.ExternalDataInfo]:
    for tensor in external_data_helper._get_all_tensors(model):
        if external_data_helper.uses_external_data(tensor):
            yield external_data_helper.ExternalDataInfo(tensor)


def neutral(static: Static, frame: str) -> Graph:
    """A static graph as the cut rule sees it, ``frame`` being its input; quantizing is part of making or reading a map."""
    seen = reading(static)
    nodes = tuple(
        Node(node.name, seen.all(static.reads(node)), seen.all(node.output), *kind(static, node))
        for node in static.nodes
        if node.name not in seen.left_out
    )
    integers = frozenset(name for name, (stored, _) in static.types.items() if stored in _WHOLE)
    return Graph(nodes, (frame,), integers)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
