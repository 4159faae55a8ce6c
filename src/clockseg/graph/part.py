"""Parts of a network that an engine compiles, and the values that pass between them.

A value is a plain dict of named tensors, each a numpy array. Beside tensors it carries the working size of its frame
under ``FRAME_SIZE``, since what a part computes (the size it enlarges to) may depend on it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from clockseg.errors import UsageError
from clockseg.types import FRAME_SIZE as FRAME_SIZE
from clockseg.types import IMAGE as IMAGE
from clockseg.types import Array, Size

Tensors: TypeAlias = Mapping[str, Array]
"""The values that pass between parts: tensors by name."""
LABELS = "labels"
"""The output of a network that labels: uint8 class ids, [1, h, w]."""


def tensors(value: Tensors) -> dict[str, Array]:
    """Return the tensors of a value, without the size of its frame."""
    return {name: array for name, array in value.items() if name != FRAME_SIZE}


@dataclass(frozen=True)
class Built:
    """A part at one working size: an ordinary ONNX ``model`` with static shapes, serialized.

    ``inputs`` and ``outputs`` are the model's own names, in the order of the part's; inputs that nothing in it reads are
    left out. ``inner``: the maps among them that only other parts read, and clocks as features: an engine that computes in
    bf16 may hand these on in it.
    """

    model: bytes = field(repr=False)
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    inner: tuple[str, ...] = ()

    @cached_property
    def digest(self) -> str:
        """The SHA-256 digest of the model, in hexadecimal."""
        return hashlib.sha256(self.model).hexdigest()


@dataclass(frozen=True)
class GraphPart:
    """A part of a network as a graph: reads ``inputs`` by name from the values it is given, makes ``outputs``.

    ``build`` gives its model at a working size (WIDTH, HEIGHT). It computes nothing until an engine compiles it.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    build: Callable[[Size], Built] = field(repr=False, compare=False)

    def __call__(self, *values: Tensors) -> Any:
        raise UsageError(
            f"part {self.name!r} is a graph and not compiled yet; "
            "compile the network with an engine first, such as clockseg.engines.openvino(network)."
        )

    def frame_size(self, values: Sequence[Tensors]) -> Size:
        """Return the working size of the frame that ``values`` belong to."""
        if FRAME_SIZE in values[0]:
            width, height = values[0][FRAME_SIZE]
            return int(width), int(height)
        _, height, width, _ = next(value[IMAGE] for value in values if IMAGE in value).shape
        return width, height

    def gather(self, values: Sequence[Tensors]) -> list[Array]:
        """Return this part's inputs, in order; if several values hold a tensor, the first one's."""
        given = {name: tensor for value in values[::-1] for name, tensor in value.items()}
        for name in self.inputs:
            if name not in given:
                raise UsageError(
                    f"part {self.name!r} reads tensor {name!r}, which it wasn't given; it was given "
                    f"{', '.join(sorted(given)) or 'nothing'}."
                )
        return [given[name] for name in self.inputs]

    def bundle(self, given: Sequence[Array], made: Sequence[Array], size: Size) -> dict[str, Array]:
        """Return this part's value: the arrays it ``made``, and those of its inputs, ``given``, that it passes on."""
        passed = {name: array for name, array in zip(self.inputs, given, strict=True) if name in self.outputs}
        return {**passed, **dict(zip(self.made, made, strict=True)), FRAME_SIZE: np.array(size)}

    def read_by(self, built: Built) -> tuple[str, ...]:
        """Return the inputs of this part that its model reads, in the model's order; the others it passes on or ignores.

        The frame is the only input that has another name in the model.
        """
        frame = (IMAGE,) if set(built.inputs).difference(self.inputs) else ()
        return tuple(name for name in self.inputs if name in (*built.inputs, *frame))

    @cached_property
    def made(self) -> tuple[str, ...]:
        """The outputs that it computes; the others are inputs that it passes on."""
        return tuple(name for name in self.outputs if name not in self.inputs)


MakeBuild: TypeAlias = Callable[[str, Sequence[str], Sequence[str], Sequence[str]], Callable[[Size], Built]]
"""The ``build`` of a part from its name, the tensors it reads, those it gives, and the network's output if it gives that (else none)."""


@dataclass(frozen=True)
class GraphFusion:
    """Makes one graph of several graph-backed parts of a network: what runs together runs as one model.

    In one model nothing is handed from part to part, an addition is fused into the convolution before it again, and an
    engine is called once. Tensors that nobody reads again need not be given.

    ``frame``: the name of the network's input, ``output``: of its output. ``whole``: the uncut network, if it computes
    the very same graph. Nothing is built before an engine asks for it.
    """

    frame: str
    output: str
    make: MakeBuild = field(repr=False)
    whole: GraphPart | None = None

    def __call__(self, net: Any, schedule: Any) -> Any:
        raise UsageError("these parts are graphs and not compiled; compile the network with an engine first.")

    def fuse(self, parts: Sequence[GraphPart], keep: Collection[str]) -> GraphPart:
        """Return ``parts``, each of which comes after those it reads, as one that gives the tensors ``keep``."""
        made = {tensor for part in parts for tensor in part.made}
        inputs = tuple(dict.fromkeys(name for part in parts for name in part.inputs if name not in made))
        outputs = dict.fromkeys(tensor for part in parts for tensor in part.outputs)
        given = [tensor for tensor in outputs if tensor in keep]
        if self.whole is not None and given == list(self.whole.outputs) and inputs == (IMAGE,):
            return self.whole
        names = " & ".join(part.name.removesuffix(".body") for part in parts if part.name != "finish")
        reads = [self.frame if tensor == IMAGE else tensor for tensor in inputs]
        maps = tuple(tensor for tensor in given if tensor != LABELS)
        labels = (LABELS,) if LABELS in given else ()
        build = self.make(names, reads, maps, (self.output,) if labels else ())
        return GraphPart(names, inputs, (*maps, *labels), build)


@dataclass(frozen=True)
class Pick:
    """A part that computes nothing: from a value, the tensors of these names."""

    names: tuple[str, ...]

    def __call__(self, value: Tensors) -> dict[str, Array]:
        return {name: value[name] for name in (*self.names, FRAME_SIZE) if name in value}


@dataclass(frozen=True)
class AsFloats:
    """From a value, the tensor of this name, to be computed with.

    Bytes become (byte - ``zero``) * ``scale``; bf16, which numpy doesn't know, becomes float32.

    >>> AsFloats("a", np.float32(0.5), np.uint8(128))({"a": np.array([128, 130], np.uint8)})
    array([0., 1.], dtype=float32)
    """

    name: str
    scale: Array | None = field(default=None, compare=False)
    zero: Array | None = field(default=None, compare=False)

    def __call__(self, value: Tensors) -> Array:
        array = value[self.name]
        if self.scale is not None:
            array = (array.astype(np.float32) - np.float32(0 if self.zero is None else self.zero)) * self.scale
        return array.astype(np.float32) if array.dtype.kind == "V" else array
