"""The graph of a learned clock, compiled once in whichever light engine is installed."""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx

from clockseg.clocks.learned_inputs import MAPS, Input, check_input
from clockseg.errors import MissingDependency, UsageError
from clockseg.libraries import imported
from clockseg.types import Array

MOST_BYTES, MOST_NUMBERS = 100_000_000, 100_000_000
"""Of a clock's file, and of any map in it: a clock is there to save work."""
Run = Callable[[Mapping[str, Array]], Array]


class Graph(NamedTuple):
    """``inputs``: what it takes; ``watch``: the stage whose features or scores these are, if any; ``run``: the graph."""

    inputs: tuple[Input, ...]
    watch: int | None
    run: Run


def load(file: str) -> Graph:
    """The clock in ``file`` (NAME.onnx; its sidecar NAME.json may name the stage to watch); read again if it was changed.

    ``UsageError`` where it isn't a clock, with what is allowed.
    """
    path = Path(file)
    if path.suffix != ".onnx" or not path.is_file():
        raise UsageError(f"learned({file!r}): give the path of a clock, NAME.onnx, as clockseg train clock writes it.")
    sidecar = path.with_suffix(".json")
    times = tuple(each.stat().st_mtime_ns if each.is_file() else 0 for each in (path, sidecar))
    return _load(file, times)


@lru_cache(maxsize=8)
def _load(file: str, times: tuple[int, ...]) -> Graph:
    path = Path(file)
    try:
        _check_bytes(path)
        model = onnx.load(path, load_external_data=False)
        onnx.checker.check_model(model)
        _check_graph(model, file)
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"learned({file!r}): this is no ONNX file that can be read ({error}).") from error
    weights = {one.name for one in model.graph.initializer}
    inputs = tuple(_input(one) for one in model.graph.input if one.name not in weights)
    for one in inputs:
        check_input(one, file)
    if not inputs or len(model.graph.output) != 1:
        raise UsageError(
            f"learned clock {file} has {len(inputs)} inputs and {len(model.graph.output)} outputs; a clock has at least "
            "one input and one output, a number 0..1."
        )
    watch = _watch(path.with_suffix(".json"))
    if watch is None and any(one.name in MAPS for one in inputs):
        raise UsageError(
            f"learned clock {file} reads features or scores, and nothing says of which stage; "
            f'write {{"watch": 1}} into {path.with_suffix(".json")}.'
        )
    try:
        return Graph(inputs, watch, _compiled(path))
    except MissingDependency:
        raise
    except Exception as error:
        raise UsageError(f"learned({file!r}): the engine can't run this graph ({error}); export it anew.") from error


def _check_bytes(path: Path) -> None:
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise UsageError(f"learned clock {path} has {size:,} bytes; a clock has at most {MOST_BYTES:,}.")


def _check_graph(model: onnx.ModelProto, file: str) -> None:
    """Nothing outside of the file, nothing that may go on and on, and no tensor that is large."""
    if any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in model.graph.initializer):
        raise UsageError(f"learned clock {file} keeps weights outside of it; save it as one file.")
    turning = sorted({node.op_type for node in model.graph.node} & {"If", "Loop", "Scan"})
    if turning or model.functions:
        raise UsageError(
            f"learned clock {file} has {turning or 'functions'} in it; a clock is a plain graph: export it traced."
        )
    sizes = _sizes(model)
    large = next((name for name, count in sizes.items() if count is not None and count > MOST_NUMBERS), None)
    if large is not None:
        raise UsageError(
            f"learned clock {file} makes {large!r} of {sizes[large]:,} numbers; a clock's maps have at most {MOST_NUMBERS:,}."
        )
    sides = [side.dim_value for one in model.graph.input for side in one.type.tensor_type.shape.dim]
    if None in sizes.values() and all(sides):
        unknown = next(name for name, count in sizes.items() if count is None)
        raise UsageError(
            f"learned clock {file}: nothing tells how large {unknown!r} is; export it so that the sizes of its inputs do."
        )


def _sizes(model: onnx.ModelProto) -> dict[str, int | None]:
    """How many numbers each tensor that is made holds; None where its inputs' sizes don't tell."""
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    for value in bare.graph.output:  # what a file says of its outputs may be wrong
        value.type.tensor_type.ClearField("shape")
    known = onnx.shape_inference.infer_shapes(bare, data_prop=True).graph
    shapes = {value.name: value.type.tensor_type for value in (*known.value_info, *known.output)}
    return {name: _count(shapes.get(name)) for node in model.graph.node for name in node.output if name}


def _count(made: onnx.TypeProto.Tensor | None) -> int | None:
    if made is None or not made.HasField("shape") or not all(side.HasField("dim_value") for side in made.shape.dim):
        return None
    return math.prod(int(side.dim_value) for side in made.shape.dim)


def _input(one: onnx.ValueInfoProto) -> Input:
    sides = one.type.tensor_type.shape.dim
    if one.type.tensor_type.elem_type != onnx.TensorProto.FLOAT:
        raise UsageError(
            f"the input {one.name!r} of a learned clock isn't float32; export the graph with float32 inputs."
        )
    return Input(one.name, tuple(side.dim_value if side.dim_value > 0 else None for side in sides))


def _watch(sidecar: Path) -> int | None:
    try:
        said: Any = json.loads(sidecar.read_text(encoding="utf-8")) if sidecar.is_file() else {}
    except ValueError as error:
        raise UsageError(f"{sidecar} isn't JSON ({error}); repair it, or take it away.") from error
    watch = said.get("watch") if isinstance(said, dict) else said
    if watch is None or (type(watch) is int and watch >= 1):
        return watch
    raise UsageError(f'{sidecar} says "watch": {watch!r}; give the number of a stage, 1 is the first.')


def _compiled(path: Path) -> Run:
    """On one thread: so small a graph gains nothing by more."""
    for library, engine in (("onnxruntime", _onnxruntime), ("openvino", _openvino)):
        if importlib.util.find_spec(library) is not None:
            return engine(path)
    raise MissingDependency("a learned clock runs in onnxruntime or openvino: pip install onnxruntime")


def _onnxruntime(path: Path) -> Run:
    library = imported("onnxruntime")
    options = library.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = library.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda values: np.asarray(session.run(None, dict(values))[0])


def _openvino(path: Path) -> Run:
    library = imported("openvino")
    compiled = library.Core().compile_model(str(path), "CPU", {"INFERENCE_NUM_THREADS": 1})
    return lambda values: np.asarray(compiled(dict(values))[0])
