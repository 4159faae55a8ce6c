"""A network on disk as a staged network of graph-backed parts that an engine compiles: cut by its sidecar, or whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import cast

import onnx
from onnx import helper

from clockseg.clockwork.network import Group, Part, Stage, StagedNetwork
from clockseg.errors import NetworkError, nearest
from clockseg.graph import onnx_reader
from clockseg.graph.extraction import SCORES, applied, built, extract, with_frame, with_labels
from clockseg.graph.nodes import with_sides
from clockseg.graph.part import IMAGE, LABELS, AsFloats, Built, GraphFusion, GraphPart, Pick
from clockseg.graph.rule import Division, StageCut, divide
from clockseg.graph.sidecar import Sidecar
from clockseg.graph.split import rewritten, splits
from clockseg.graph.static import Static, declared_shape, fix, floats_of, passed_as
from clockseg.types import Size

_SIZES = 2
"""Working sizes whose shapes are kept, beside what engines compile."""


def staged(model: onnx.ModelProto, sidecar: Sidecar, *, size: Size, frames: bool = True) -> StagedNetwork:
    """Cut ``model`` at the cuts of ``sidecar``; it is divided at the working size ``size`` and can be built at others.

    Products of concatenations become sums of one product per source (``graph.split``), which is what makes most decoders
    rest; ``whole`` stays as in the file. ``frames``: the input is uint8 frames; else that of the file, under ``IMAGE``. An
    engine has to compile the result. ``prepare`` and ``restore`` keep their defaults.
    """
    original = _Source(sidecar, _at(model, sidecar), frames)
    static = original.at(size)
    _check(sidecar, static)
    passed = passed_as(static)
    sidecar = replace(sidecar, cuts=tuple(tuple(passed.get(one, one) for one in cut) for cut in sidecar.cuts))
    graph = onnx_reader.neutral(static, sidecar.input.name)
    plan = splits(graph, sidecar.cuts, output=sidecar.output)
    split = lru_cache(_SIZES)(lambda size: applied(original.at(size), plan))
    source = replace(original, at=split) if plan else original
    division = divide(
        rewritten(graph, plan),
        sidecar.cuts,
        output=sidecar.output,
        names=sidecar.stages,
        scores=sidecar.scores,
    )
    stages = tuple(source.stage(stage, source.at(size)) for stage in division.stages)
    finish, fused, conclude = source.ending(division)
    whole = original.part("whole", (sidecar.input.name,), (), (sidecar.output,))
    return StagedNetwork(
        sidecar.name,
        stages,
        source.groups(division),
        finish,
        whole=whole,
        sidecar=sidecar,
        executor=GraphFusion(sidecar.input.name, division.output, source.build, None if plan else whole),
        fused=fused,
        conclude=conclude,
    )


def input_size(model: onnx.ModelProto, name: str) -> Size | None:
    """Return the working size (WIDTH, HEIGHT) that the input ``name`` is fixed to, or None where it takes any."""
    inputs = {value.name: value for value in model.graph.input}
    if name not in inputs:
        raise NetworkError(f"the sidecar's input {name!r} is not an input of its network. {nearest(name, inputs)}")
    dims = inputs[name].type.tensor_type.shape.dim
    if len(dims) != 4 or dims[1].dim_value not in (0, 3):
        raise NetworkError(
            f"the network's input {name!r} must be [1, 3, height, width]; "
            f"it is {[dim.dim_value or dim.dim_param or '?' for dim in dims]}."
        )
    height, width = dims[2].dim_value, dims[3].dim_value
    return (width, height) if width and height else None


def _at(model: onnx.ModelProto, sidecar: Sidecar) -> Callable[[Size], Static]:
    @lru_cache(maxsize=_SIZES)
    def at(size: Size) -> Static:
        width, height = size
        floats = [sidecar.output, *filter(None, sidecar.scores)]
        try:
            return fix(model, {sidecar.input.name: (1, 3, height, width)}, floats=floats)
        except NetworkError as error:
            own = f"{sidecar.input.width}x{sidecar.input.height}"
            if own == f"{width}x{height}":
                raise
            raise NetworkError(
                f"network {sidecar.name!r} does not fit {width}x{height}: {error} If it fits {own} only, cut it again with "
                "`clockseg cut`, which then pads all frames to that size."
            ) from error

    return at


def _check(sidecar: Sidecar, static: Static) -> None:
    if sidecar.output not in static.types:
        raise NetworkError(
            f"the sidecar's output {sidecar.output!r} is not a tensor of its network. "
            f"{nearest(sidecar.output, static.types)}"
        )
    kind, shape = static.types[sidecar.output]
    if sidecar.classes and kind in SCORES and (len(shape) != 4 or shape[1] != len(sidecar.classes)):
        raise NetworkError(
            f"the sidecar names {len(sidecar.classes)} classes, but the network's output "
            f"{sidecar.output!r} has shape {list(shape)}: it must be [1, {len(sidecar.classes)}, h, w]."
        )


@dataclass(frozen=True)
class _Source:
    """Makes parts of one network from tensors' names."""

    sidecar: Sidecar
    at: Callable[[Size], Static]
    frames: bool

    def stage(self, cut: StageCut, static: Static) -> Stage:
        body = self.part(f"{cut.name}.body", cut.inputs, cut.outputs)
        scores = AsFloats(cut.scores) if cut.scores else None
        return Stage(cut.name, body, Pick(cut.held), scores, floats_of(static, cut.trunk[0]))

    def groups(self, division: Division) -> tuple[Group, ...]:
        """Return the groups; the last one includes the work of ``finish``, which always follows it.

        In a model of its own, the last enlargement gets a memory layout in which it and the argmax take twice as long.
        """
        finished = (division.output,) if self.sidecar.classes or division.finish else ()
        last = len(division.groups) - 1
        return tuple(
            Group(cut.name, cut.reads, self.part(cut.name, cut.inputs, cut.outputs, finished if index == last else ()))
            for index, cut in enumerate(division.groups)
        )

    def ending(self, division: Division) -> tuple[Part, Pick, Part | None]:
        """Return the finish, the selection of the score maps that are worth warping, and the part from these to the output.

        The finish is the part from the last stage's maps to the output, and that part None; but if there are groups, the
        last one finishes as well, so that the finish only selects.
        """
        last = (division.output,)
        if division.groups:
            maps = division.groups[-1].outputs
            is_output = maps == last and not self.sidecar.classes
            conclude = None if is_output else self.part("conclude", maps, (), last)
            return Pick((LABELS,) if self.sidecar.classes else last), Pick(maps), conclude
        if division.finish or self.sidecar.classes:
            return self.part("finish", (division.scores,), (), last), Pick((division.scores,)), None
        return Pick(last), Pick(last), None

    def part(self, name: str, inputs: Sequence[str], outputs: Sequence[str], finished: Sequence[str] = ()) -> GraphPart:
        """Return the part from ``inputs`` to ``outputs`` and, if given, to the network's output ``finished``.

        The frame stands for the input, and labels for the output of a network with classes.
        """
        labels = bool(self.sidecar.classes and finished)
        given = tuple(IMAGE if tensor == self.sidecar.input.name else tensor for tensor in inputs)
        gives = (*outputs, *((LABELS,) if labels else finished))
        return GraphPart(name, given, gives, self.build(name, inputs, outputs, finished))

    def build(
        self, name: str, inputs: Sequence[str], outputs: Sequence[str], finished: Sequence[str]
    ) -> Callable[[Size], Built]:
        """Return the function that builds a part, as for ``part``, at a working size."""
        looked_at = {self.sidecar.input.name, self.sidecar.output, *self.sidecar.scores}
        inner = tuple(tensor for tensor in dict.fromkeys([*inputs, *outputs]) if tensor not in looked_at)

        def build(size: Size) -> Built:
            made = [tensor for tensor in outputs if tensor not in inputs]
            model = extract(self.at(size), inputs, list(dict.fromkeys([*made, *finished])), name=name)
            if self.frames and any(value.name == self.sidecar.input.name for value in model.graph.input):
                model = with_frame(model, self.sidecar.input.name, self.sidecar.input)
            if self.sidecar.classes and finished:
                model = with_labels(model, finished[0], size, keep=self.sidecar.output in made)
            return replace(built(model), inner=inner)

        return partial(_built, build)


@lru_cache(maxsize=1)
def _built(build: Callable[[Size], Built], size: Size) -> Built:
    """Build a part, unless it was the last one built: an engine asks for its key, for its size and to compile it."""
    return build(size)


def staged_whole(model: onnx.ModelProto, sidecar: Sidecar, outputs: tuple[str, ...]) -> StagedNetwork:
    """Make a network of one stage, from uint8 frames to ``outputs``, or to labels if the one output has classes.

    Shapes inside are left to the engine, which has to compile the result: suppression gives as many boxes as it finds, and
    operators may be unknown here. Class scores pass to ``finish``, which makes labels of them. ``outputs`` are the graph's,
    with their types. ``prepare`` and ``restore`` keep their defaults.
    """
    there = {value.name: value for value in model.graph.output}
    if missing := [name for name in outputs if name not in there]:
        raise NetworkError(f"the sidecar reads {', '.join(missing)}; the network gives {', '.join(sorted(there))}.")
    labels = bool(sidecar.classes) and sidecar.instances is None
    given, build = (LABELS,) if labels else outputs, partial(_uncut, model, sidecar, outputs)
    whole = GraphPart("whole", (IMAGE,), given, partial(build, labels=labels))
    body, finish, fused = whole, cast(Part, Pick(given)), Pick(given)
    if labels and there[outputs[0]].type.tensor_type.elem_type in SCORES:
        body = GraphPart("body", (IMAGE,), outputs, partial(build, labels=False))
        finish = GraphPart("finish", outputs, given, partial(_labelling, model, sidecar, there[outputs[0]]))
        fused = Pick(outputs)
    stages = (Stage(sidecar.stages[0] if sidecar.stages else "stage1", body, scores=None),)
    return StagedNetwork(sidecar.name, stages, finish=finish, whole=whole, sidecar=sidecar, fused=fused)


def _uncut(model: onnx.ModelProto, sidecar: Sidecar, outputs: tuple[str, ...], size: Size, *, labels: bool) -> Built:
    """Build the graph at one working size, with its ``outputs`` in this order."""
    name = sidecar.input.name
    model = with_sides(model, name, (1, 3, *size[::-1]))
    values = {value.name: deepcopy(value) for value in model.graph.output}
    del model.graph.output[:], model.graph.value_info[:]
    model.graph.output.extend(values[output] for output in outputs)
    model = with_frame(model, name, sidecar.input)
    return built(with_labels(model, outputs[0], size) if labels else model)


def _labelling(model: onnx.ModelProto, sidecar: Sidecar, scores: onnx.ValueInfoProto, size: Size) -> Built:
    """Build the part from the scores to labels; sides of the scores that only the engine knows stay free."""
    shape: Sequence[int | None] = [side or None for side in declared_shape(scores)]
    if None in shape:
        with suppress(NetworkError):
            shape = fix(model, {sidecar.input.name: (1, 3, *size[::-1])}).shape(scores.name)
    info = helper.make_tensor_value_info(scores.name, scores.type.tensor_type.elem_type, shape)
    graph = helper.make_graph([], "finish", [info], [info])
    finish = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return built(with_labels(finish, scores.name, size))
