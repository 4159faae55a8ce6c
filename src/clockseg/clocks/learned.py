"""A clock whose signal a small ONNX graph computes: a trained one, or any with inputs that fit (docs/train.md)."""

from __future__ import annotations

import importlib.util
import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from clockseg.clocks.motion_residual import FULL
from clockseg.clockwork.clock import PICTURE, Decision, Tick, Watch
from clockseg.errors import MissingDependency, UsageError, number
from clockseg.files import FileIdentity, changed, file_identity
from clockseg.libraries import onnxruntime, opencv, openvino_core
from clockseg.types import Array

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto


@dataclass(frozen=True)
class Learned:
    """Fires where the graph in ``file`` gives at least ``threshold``, 0..1: the share of labels that a firing would change.

    ``file``: NAME.onnx, whose inputs are known by their names (docs/train.md) and whose one output is a number
    0..1, the signal. It runs in onnxruntime or openvino, on one thread. Its state is the history, where it reads one.
    The file and its sidecar must stay as they were when the clock was made, else ``InputChanged`` is raised; make another
    clock to use another version.

    >>> Learned("no.onnx")
    Traceback (most recent call last):
        ...
    clockseg.errors.UsageError: learned('no.onnx'): give the path of a clock, NAME.onnx, as clockseg train clock writes it.
    """

    file: str
    threshold: float = 0.1
    identities: tuple[FileIdentity, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        number(self.threshold, "the threshold")
        if not isinstance(self.file, str):
            raise UsageError(
                f'learned({self.file!r}); give the path of a clock in quotes, such as learned("clock.onnx").'
            )
        if not self.identities:  # a copy with another threshold keeps those of its original
            object.__setattr__(self, "identities", tuple(map(file_identity, files_of(self.file))))
        load(self.file)

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that decide what it does: the graph and its sidecar."""
        return files_of(self.file)

    @property
    def graph(self) -> Graph:
        """The loaded graph; ``InputChanged`` if the file or its sidecar was replaced since this clock was made."""
        for file, identity in zip(self.files, self.identities, strict=True):
            if file_identity(file) != identity:
                raise changed(file)
        return _load(self.file, self.identities, os.getpid())

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """Decide by the graph's output."""
        graph = self.graph
        history = next((one for one in graph.inputs if one.name == "history"), None)
        rows: tuple[tuple[float, ...], ...] = ()
        if history is not None:
            rows = (*(state or ()), signals(tick))[-(history.shape[2] or 1) :]
        found = graph.run({one.name: value(one, tick, rows, graph.watch) for one in graph.inputs})
        if found.size != 1 or not -1e-6 <= float(found.reshape(())) <= 1 + 1e-6:
            raise UsageError(
                f"learned clock {self.file} gave {found.reshape(-1)[:3].tolist()} of shape {list(found.shape)}; "
                "its output is to be one number, 0..1: end it with a sigmoid."
            )
        signal = min(1.0, max(0.0, float(found.reshape(()))))
        return Decision(signal >= self.threshold, signal), rows or None

    def watches(self, stage: int) -> frozenset[Watch]:
        """Return the maps that its graph has inputs for."""
        return watched(self.graph.inputs, self.graph.watch)

    @property
    def gates_after(self) -> int:
        """The stage whose features or scores it reads; without any it gates the whole network."""
        return self.graph.watch or 0

    @property
    def needs_motion(self) -> bool:
        """True if it has an input that only a carry with motion provides."""
        return any(one.name in MOTIONS for one in self.graph.inputs)

    def __str__(self) -> str:
        return f"learned({self.file!r})"


learned = Learned

PICTURES = ("now", "fired")
MOTIONS = ("residual", "history")
MAPS = {f"{of}_{when}": of for of in ("features", "scores") for when in PICTURES}
NAMES = (*PICTURES, *MOTIONS, *MAPS, "since")
SIGNALS = 5
"""Numbers per frame in ``history``."""
AGE = 32
"""The number of frames since the last firing that counts as 1."""

ALLOWED = """now, fired: float32 [1, 1, h, w], the picture in grey, 0..1, at this frame and at the last firing;
residual: float32 [1, 1, h, w], 0..1, the motion residual since the last firing;
history: float32 [1, 5, n], five numbers for each of the last n frames;
since: float32 [1, 1], frames since the last firing over 32;
features_now, features_fired, scores_now, scores_fired: float32 [1, c, h, w], of the stage that the sidecar names as "watch"."""


class Input(NamedTuple):
    """One input of the graph: its name and shape; a side that isn't fixed is None."""

    name: str
    shape: tuple[int | None, ...]


def check_input(one: Input, file: str) -> None:
    """Raise ``UsageError`` for an input that is unknown or has another shape, with what is allowed.

    >>> check_input(Input("since", (1, 1)), "clock.onnx")
    """
    shapes = {"since": (1, 1), "history": (1, SIGNALS, 0)}
    wanted = shapes.get(one.name, (1, 0, 0, 0) if one.name in MAPS else (1, 1, 0, 0))
    fits = len(one.shape) == len(wanted) and all(
        not want or have == want for have, want in zip(one.shape, wanted, strict=True)
    )
    sized = one.name in MAPS or None not in one.shape
    if one.name not in NAMES or not fits or not sized:
        raise UsageError(
            f"learned clock {file}: its input {one.name!r} {list(one.shape)} is none that a clock is given. "
            f"Sides are fixed (but those of features and scores). Allowed are:\n{ALLOWED}"
        )


def watched(inputs: tuple[Input, ...], watch: int | None) -> frozenset[Watch]:
    """Return the maps that these inputs are made of."""
    found = {Watch(MAPS[one.name], watch or 0) for one in inputs if one.name in MAPS}
    return frozenset(found | ({PICTURE} if any(one.name in PICTURES for one in inputs) else set()))


def value(one: Input, tick: Tick, rows: tuple[tuple[float, ...], ...], watch: int | None) -> Array:
    """Return the value of an input at ``tick``; ``rows``: the columns of the history so far, the last for this frame."""
    if one.name == "since":
        return np.full((1, 1), tick.since / AGE, np.float32)
    if one.name == "history":
        found = np.zeros((1, SIGNALS, one.shape[2] or 0), np.float32)
        last = rows[-found.shape[2] :]
        found[0, :, found.shape[2] - len(last) :] = np.transpose(last)
        return found
    if one.name == "residual":
        return _resized(np.minimum(tick.travel.residual, FULL), one)[None, None] / np.float32(FULL)
    if one.name in PICTURES:
        view = tick.views[PICTURE]
        small = _resized(np.asarray(view.now if one.name == "now" else view.reference), one)
        return np.asarray(opencv().cvtColor(small, opencv().COLOR_RGB2GRAY), np.float32)[None, None] / np.float32(255)
    view = tick.views[Watch(MAPS[one.name], watch or 0)]
    return np.ascontiguousarray(view.now if one.name.endswith("now") else view.reference, np.float32)


def signals(tick: Tick) -> tuple[float, ...]:
    """Return this frame's column of ``history``.

    The motion-compensated residual since the last firing and since the previous frame, 0..1; the mean motion since the last
    firing and since the previous frame, over the picture's width; frames since the last firing over ``AGE``.
    """
    residuals = [float(np.minimum(motion.residual, FULL).mean() / FULL) for motion in (tick.travel, tick.motion)]
    moved = [float(np.abs(motion.flow).mean() / motion.flow.shape[1]) for motion in (tick.travel, tick.motion)]
    return (*residuals, *moved, tick.since / AGE)


def _resized(plane: Array, one: Input) -> Array:
    height, width = one.shape[2:]
    return np.asarray(opencv().resize(plane, (width, height), interpolation=opencv().INTER_AREA))


MOST_BYTES, MOST_NUMBERS = 100_000_000, 100_000_000
"""Limits of a clock's file, and of any map in it."""
Run = Callable[[Mapping[str, Array]], Array]


class Graph(NamedTuple):
    """A loaded graph; ``watch``: the stage whose features or scores it reads, if any."""

    inputs: tuple[Input, ...]
    watch: int | None
    run: Run


def files_of(file: str) -> tuple[Path, Path]:
    """Return the files of a clock: the graph, and the sidecar beside it, which need not exist."""
    return Path(file), Path(file).with_suffix(".json")


def load(file: str) -> Graph:
    """Return the graph in ``file`` (NAME.onnx; its sidecar NAME.json may name the stage to watch), read again if it changed.

    ``UsageError`` if it is no clock, with what is allowed.
    """
    path = Path(file)
    if path.suffix != ".onnx" or not path.is_file():
        raise UsageError(f"learned({file!r}): give the path of a clock, NAME.onnx, as clockseg train clock writes it.")
    return _load(file, tuple(map(file_identity, files_of(file))), os.getpid())


@lru_cache(maxsize=8)
def _load(file: str, identities: tuple[FileIdentity, ...], process: int) -> Graph:
    # Each process compiles its own, since an engine's threads do not exist in a forked child.
    # The onnx package takes a while to import, and most schedules need no learned clock.
    import onnx

    path = Path(file)
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise UsageError(f"learned clock {path} has {size:,} bytes; a clock has at most {MOST_BYTES:,}.")
    try:
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
            f"learned clock {file} reads features or scores, and it is unknown of which stage; "
            f'write {{"watch": 1}} into {path.with_suffix(".json")}.'
        )
    try:
        return Graph(inputs, watch, _compiled(path))
    except MissingDependency:
        raise
    except Exception as error:
        raise UsageError(f"learned({file!r}): the engine can't run this graph ({error}); export it anew.") from error


def _check_graph(model: ModelProto, file: str) -> None:
    """Raise ``UsageError`` for weights outside of the file, control flow, and tensors that are large or of unknown size."""
    if any(tensor.data_location == tensor.EXTERNAL for tensor in model.graph.initializer):
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
            f"learned clock {file}: the size of {unknown!r} is unknown; export it so that the sizes of its inputs determine it."
        )


def _sizes(model: ModelProto) -> dict[str, int | None]:
    """Return the number of elements of each computed tensor; None if the sizes of the inputs do not determine it."""
    import onnx

    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    for output in bare.graph.output:  # the sizes that a file declares for its outputs may be wrong
        output.type.tensor_type.ClearField("shape")
    known = onnx.shape_inference.infer_shapes(bare, data_prop=True).graph
    types = {one.name: one.type.tensor_type for one in (*known.value_info, *known.output)}
    sides = {name: list(one.shape.dim) for name, one in types.items() if one.HasField("shape")}
    counts = {
        name: math.prod(int(side.dim_value) for side in found)
        for name, found in sides.items()
        if all(side.HasField("dim_value") for side in found)
    }
    return {name: counts.get(name) for node in model.graph.node for name in node.output if name}


def _input(one: ValueInfoProto) -> Input:
    sides = one.type.tensor_type.shape.dim
    if one.type.tensor_type.elem_type != 1:  # float32
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
    """Compile the graph for one thread: so small a graph gains nothing from more."""
    if importlib.util.find_spec("onnxruntime") is not None:
        library = onnxruntime()
        options = library.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        session = library.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return lambda values: np.asarray(session.run(None, dict(values))[0])
    if importlib.util.find_spec("openvino") is not None:
        compiled = openvino_core().compile_model(str(path), "CPU", {"INFERENCE_NUM_THREADS": 1})
        return lambda values: np.asarray(compiled(dict(values))[0])
    raise MissingDependency("a learned clock runs in onnxruntime or openvino: pip install onnxruntime")
