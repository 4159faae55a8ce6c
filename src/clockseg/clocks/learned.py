"""A clock whose signal a small ONNX graph computes: a trained one, or any with inputs that fit (docs/train.md)."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from clockseg.clocks.threshold import FULL, Thresholded, residual
from clockseg.clockwork.clock import PICTURE, Tick, Watch
from clockseg.errors import ClocksegError, UsageError, first_line
from clockseg.files import FileIdentity, changed, file_identity
from clockseg.libraries import opencv, openvino, openvino_core
from clockseg.types import Array

Inputs: TypeAlias = dict[str, tuple[int, ...]]
"""The names and shapes of a graph's inputs; a side that isn't fixed is 0."""
AGE = 32
"""The number of frames since the last firing that counts as 1."""
PICTURES = ("now", "fired")
MOST_BYTES, MOST_NODES = 100_000_000, 100_000
"""Of the file and of any tensor; of the graph. Larger ones are refused."""
ALLOWED = f"""A clock is a plain graph in one file, exported traced at a fixed size, with at most {MOST_NODES:,} nodes and {MOST_BYTES:,} \
bytes of the file and of any tensor. Its one output must be one number, 0..1, and sizes must be fixed. Allowed inputs are:
now, fired: float32 [1, 1, h, w], the picture in grey, 0..1, at this frame and at the last firing;
residual: float32 [1, 1, h, w], 0..1, the motion residual since the last firing;
since: float32 [1, 1], frames since the last firing over 32."""


@dataclass(frozen=True)
class Learned(Thresholded):
    """Fires when the share of labels that a firing would change, as predicted by the graph in ``file``, is at least ``threshold``.

    ``file``: NAME.onnx, whose inputs are known by their names (docs/train.md) and whose one output is a number 0..1, the
    signal. It runs in OpenVINO, on one thread. ``InputChanged`` is raised if the file changes after the clock was made.
    """

    file: str
    threshold: float = 0.1
    identity: FileIdentity | None = field(default=None, repr=False, compare=False)
    gates_after: ClassVar[int] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        load(self.file)
        if self.identity is None:  # a copy with another threshold keeps that of its original
            object.__setattr__(self, "identity", file_identity(self.file))

    @property
    def files(self) -> tuple[Path, ...]:
        """The file that decides what it does."""
        return (Path(self.file),)

    @property
    def graph(self) -> Graph:
        """The loaded graph; ``InputChanged`` if the file was replaced."""
        if file_identity(self.file) != self.identity:
            raise changed(self.file)
        return load(self.file)

    def signal(self, tick: Tick, state: Any) -> tuple[float, Any]:
        graph = self.graph
        found = graph.run(values(graph.inputs, tick))
        if found.size != 1 or not -1e-6 <= found.item() <= 1 + 1e-6:
            raise UsageError(
                f"learned clock {self.file} gave {found.reshape(-1)[:3].tolist()} of shape {list(found.shape)}; "
                "its output must be one number, 0..1: end it with a sigmoid."
            )
        return min(1.0, max(0.0, found.item())), state

    def watches(self, stage: int) -> frozenset[Watch]:
        return watched(self.graph.inputs)

    @property
    def needs_motion(self) -> bool:
        """True if it reads the motion residual, which only a carry with motion provides."""
        return "residual" in self.graph.inputs


def watched(inputs: Collection[str]) -> frozenset[Watch]:
    """Return the maps that these inputs are made of: the picture, or none."""
    return frozenset({PICTURE} if {*PICTURES} & {*inputs} else ())


def values(inputs: Inputs, tick: Tick) -> dict[str, Array]:
    """Return the values of inputs, which are those ``ALLOWED``, at ``tick``."""
    return {name: _value(name, shape, tick) for name, shape in inputs.items()}


def _value(name: str, shape: tuple[int, ...], tick: Tick) -> Array:
    if name == "since":
        return np.full(shape, tick.since / AGE, np.float32)
    if name == "residual":
        plane, full = residual(tick), FULL
    else:
        view = tick.views[PICTURE]
        plane, full = np.asarray(view.now if name == "now" else view.reference), 255
    small = opencv().resize(plane, shape[:1:-1], interpolation=opencv().INTER_AREA)
    grey = opencv().cvtColor(small, opencv().COLOR_RGB2GRAY) if small.ndim == 3 else small
    return np.asarray(grey, np.float32)[None, None] / np.float32(full)


class Graph(NamedTuple):
    """A loaded graph."""

    inputs: Inputs
    run: Callable[[Mapping[str, Array]], Array]


def load(file: str) -> Graph:
    """Return the graph in ``file``, NAME.onnx, read again if it changed; ``UsageError`` if it is no clock, with what is allowed."""
    if not isinstance(file, str) or not file.endswith(".onnx") or not Path(file).is_file():
        raise UsageError(f"learned({file!r}): give the path of a clock, NAME.onnx, as clockseg train clock writes it.")
    try:
        return _read(file, file_identity(file), os.getpid())
    except ClocksegError:
        raise
    except Exception as error:  # protobuf, onnx and OpenVINO raise many types
        raise UsageError(f"learned clock {file} is not a valid ONNX file: {first_line(error)}\n{ALLOWED}") from error


@lru_cache(maxsize=8)
def _read(file: str, identity: FileIdentity, process: int) -> Graph:
    """Read, check and compile the graph: in each process, since the engine's threads do not exist in a forked child."""
    # The onnx package takes a while to import, and most schedules need no learned clock.
    import onnx

    large = Path(file).stat().st_size > MOST_BYTES
    found = onnx.ModelProto() if large else onnx.load_model(file, format="protobuf", load_external_data=False)
    if large or len(found.graph.node) > MOST_NODES:
        raise UsageError(f"learned clock {file} is too large.\n{ALLOWED}")
    # OpenVINO gets no weights of other files (this fails for them, as none lie below a file) and only ONNX's own operators.
    onnx.external_data_helper.load_external_data_for_model(found, file)
    onnx.checker.check_model(found, full_check=True, check_custom_domain=True)
    core = openvino_core()
    model = core.read_model(found.SerializeToString())
    # Without the inputs that the output does not depend on.
    names = [{one.name for one in found.graph.input} & port.names for port in model.inputs]
    inputs = {name: tuple(port.partial_shape.get_min_shape()) for [name], port in zip(names, model.inputs, strict=True)}
    if why := next(_problems(model, inputs), ""):
        raise UsageError(f"learned clock {file}: {why}.\n{ALLOWED}")
    # So small a graph gains nothing from more threads.
    compiled = core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"})
    return Graph(inputs, lambda values: compiled(values)[0])


def _problems(model: Any, inputs: Inputs) -> Iterator[str]:
    """Yield the parts of an OpenVINO model that a clock can't have."""
    for (name, shape), port in zip(inputs.items(), model.inputs, strict=True):
        known = name in (*PICTURES, "residual") and len(shape) == 4 and shape[:2] == (1, 1) and min(shape) > 0
        if not (shape == (1, 1) if name == "since" else known) or port.element_type != openvino().Type.f32:
            yield f"its input {name!r} {list(shape)} is not one that a clock can read"
    for one in model.get_ops():
        kind, ports = one.get_type_name(), one.outputs()
        fixed = all(port.partial_shape.is_static for port in ports)
        if kind in ("If", "Loop", "TensorIterator"):
            yield f"it has control flow, {kind}"
        elif not fixed or any(port.element_type.size * math.prod(port.shape) > MOST_BYTES for port in ports):
            yield f"its operation {one.friendly_name} ({kind}) has an output whose size is not fixed or too large"
        # OpenVINO writes past its memory where a constant is resized along the batch axis.
        elif kind == "Interpolate" and one.get_input_partial_shape(0)[0] != one.get_output_partial_shape(0)[0]:
            yield f"its operation {one.friendly_name} ({kind}) resizes along the batch axis"
    outputs = [list(port.partial_shape.get_min_shape()) for port in model.outputs]
    if not inputs or [math.prod(shape) for shape in outputs] != [1]:
        yield f"its outputs have the shapes {outputs} and depend on {len(inputs)} inputs"
