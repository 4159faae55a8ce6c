"""Settings of a network to be cut, or to run uncut: its input, its output and classes, its cuts, and the stages with scores."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import onnx
from onnx import TensorProto, helper

from clockseg.engines.openvino_file import class_count, graph_of
from clockseg.engines.profile import graph_seconds
from clockseg.errors import NetworkError, UsageError
from clockseg.graph import onnx_reader, sidecar
from clockseg.graph.choice import Choice, choose
from clockseg.graph.extraction import applied
from clockseg.graph.neutral import CROP, ENLARGE, Graph
from clockseg.graph.rule import Division, divide
from clockseg.graph.sidecar import MOST_CLASSES, Input, Sidecar
from clockseg.graph.split import rewritten, splits
from clockseg.graph.static import EIGHT_BITS, Static, declared_shape, fix
from clockseg.instances.network import STAGE
from clockseg.instances.recognising import IMAGENET, KINDS, Recognised, recognise
from clockseg.networks.ends import LOOKED_AT, Outcome, describe, fitted, frame_input, outcome, tensor_named
from clockseg.networks.framing import Framing
from clockseg.networks.source import RECOMMENDED, Said, Source, Told
from clockseg.types import Size

_HALVES = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
_FRAME = ("size", "mean", "std", "scale", "colour", "pad_multiple")
"""The settings of the frame, in the order of ``Said``."""
NO_SKIP = (
    "There is no skip: the first stages reach the output only through the last stage. While that holds, the output does not "
    "change, as if frames were skipped. A carry that warps the output helps, or a network with skips."
)


@dataclass(frozen=True, kw_only=True)
class Cutting:
    """Options of the cut.

    ``at``: "auto", which chooses ``stages`` stages, or the last tensors of each, NAME,NAME+NAME (``ends.tensor_named``).
    ``measured``: choose by the seconds that nodes take here, else by their multiply-adds. ``schedule``: the one to recommend
    (None: ``RECOMMENDED``).
    """

    at: str = "auto"
    stages: int = 3
    measured: bool = True
    schedule: str | None = None


class Settled(NamedTuple):
    """A graph that frames fit, its sidecar, and what was found on the way; ``bits``: the fewest in which it computes anywhere."""

    model: onnx.ModelProto
    sidecar: Sidecar
    told: tuple[Told, ...] = ()
    choice: Choice | None = None
    notes: tuple[str, ...] = ()
    bits: int = 32


def settle(source: Source, given: Said, cutting: Cutting | None, name: str) -> Settled:
    """Settle everything that can be known without running the network; ``given``: what the user says of it.

    ``cutting``: None for a network that runs uncut, as one stage, which may have shapes that only the file declares.
    """
    head = None if given.classes == () else recognise(source.model)
    if head is not None:
        if cutting is not None and cutting.at != "auto":
            raise UsageError("--at: an instance network runs as one stage; leave it out.")
        return _instances(head, source, given, name)
    said = given.over(source.said)
    frame = fitted(frame_input(source.model), said.size, multiple=said.pad_multiple)
    theirs = {one: source.by for one in _FRAME if getattr(given, one) is None and getattr(source.said, one) is not None}
    reads, read_told = describe(frame, said, theirs)
    try:
        static = _at(frame.model, reads)
    except NetworkError as error:
        if cutting is None:
            static = _declared(frame.model, reads)
        elif frame.size is not None:
            raise
        else:
            raise NetworkError(f"{error} If constants in the file fit one size only, give that as --size.") from error
    made = outcome(frame.model, static, reads.name, said)
    names, classes_told = _classes(said, made)
    told = (*source.told, *frame.told, *read_told, *made.told, *classes_told)
    ignore = MOST_CLASSES if said.ignore is None and names else said.ignore
    bare = Sidecar(name, reads, made.tensor, (), classes=names, palette=said.palette or (), ignore=ignore)
    if cutting is None:
        one = replace(bare, cuts=((made.tensor,),), stages=(STAGE,), schedule=RECOMMENDED)
        return Settled(_giving(made, static, fixed=frame.size is not None), one, told)
    return _cut(made.model, static if made.model is frame.model else _at(made.model, reads), bare, cutting, told)


def _at(model: onnx.ModelProto, reads: Input) -> Static:
    """Return ``model`` at its working size."""
    width, height = Framing(pad_multiple=reads.pad_multiple).padded((reads.width, reads.height))
    return fix(model, {reads.name: (1, 3, height, width)})


def _declared(model: onnx.ModelProto, reads: Input) -> Static:
    """Return the types and shapes of the ends alone: operators inside are unknown, or shapes depend on what frames show."""
    ends = {value.name: value for value in (*model.graph.input, *model.graph.output)}
    types = {name: (value.type.tensor_type.elem_type, declared_shape(value)) for name, value in ends.items()}
    return Static(types=types | {reads.name: (types[reads.name][0], (1, 3, reads.height, reads.width))})


def _giving(made: Outcome, static: Static, *, fixed: bool) -> onnx.ModelProto:
    """Return the network with its outcome as the only output, whose height and width are known if they are ``fixed``."""
    if made.tensor not in static.types:
        return made.model
    kind, shape = static.types[made.tensor]
    sides = shape if fixed else (*shape[:-2], *(None for _ in shape[-2:]))
    model = deepcopy(made.model)
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info(made.tensor, kind, [side or None for side in sides]))
    return model


def _cut(model: onnx.ModelProto, static: Static, said: Sidecar, cutting: Cutting, told: tuple[Told, ...]) -> Settled:
    """Settle the cuts of a network, and the stages that have scores of their own."""
    graph = onnx_reader.neutral(static, said.input.name)
    if cutting.at == "auto":
        seconds = graph_seconds(static, said.input.name, said.output) if cutting.measured else None
        choice = choose(graph, output=said.output, seconds=seconds, stages=cutting.stages)
        cuts, note = choice.cuts, choice.note and f"{choice.note.removesuffix('.')}."
    else:
        cuts, choice, note = _parsed(cutting.at, graph), None, ""
    # As it will be loaded: with its concatenations split.
    plan = splits(graph, cuts, output=said.output)
    static, graph = applied(static, plan), rewritten(graph, plan)
    division = divide(graph, cuts, output=said.output)
    scores = scores_of_stages(static, graph, division, len(said.classes))
    if choice is None and len(division.stages) > 1 and not division.groups:
        note = NO_SKIP
    found = replace(said, cuts=cuts, scores=scores if any(scores) else ())
    made = {name for node in static.nodes for name in node.output}
    half = any(static.types[name][0] in _HALVES for name in made & static.types.keys())
    bits = 8 if any(node.op_type in EIGHT_BITS for node in static.nodes) else 16 if half else 32
    return Settled(model, found, told, choice, (note,) if note else (), bits)


def _parsed(text: str, graph: Graph) -> tuple[tuple[str, ...], ...]:
    """Parse NAME,NAME+NAME into the tensors of each cut."""
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise NetworkError(f"cuts {text!r}: a name is missing; give NAME,NAME, or NAME+NAME where several cross.")
    several = ([part] if part in graph.dynamic else [name.strip() for name in part.split("+")] for part in parts)
    return tuple(tuple(tensor_named(name, graph) for name in names) for names in several)


def _classes(said: Said, made: Outcome) -> tuple[tuple[str, ...], tuple[Told, ...]]:
    """Return the names of the classes; none of a map of numbers, which a single channel is taken for."""
    if said.classes is not None:
        return said.classes, ()
    if made.channels in (0, 1):
        why = "one number per pixel; give --classes FILE with two names, what is below 0 and what is above, if it scores a class"
        return (), (Told("classes", "none", why),)
    count = class_count(made.model, made.tensor) if made.channels is None else made.channels
    if not count:
        raise UsageError(
            f"the output {made.tensor!r} is a map of class ids: give --classes FILE with the classes' names."
        )
    if count > MOST_CLASSES:
        raise NetworkError(
            f"{made.tensor!r} has {count} channels, and label maps hold {MOST_CLASSES} classes at most: give another "
            f"--output, or --classes none if it does not score classes. {KINDS}"
        )
    return tuple(f"class {id}" for id in range(count)), (
        Told("classes", str(count), "without names; give them by --classes FILE"),
    )


def scores_of_stages(static: Static, graph: Graph, division: Division, classes: int) -> tuple[str | None, ...]:
    """Return for each stage its tensor of class scores, which is only summed, scaled and enlarged to the output, or None.

    A map of features that happens to have as many channels isn't one.
    """
    summed = _summed(static, graph, division.scores) if classes > 1 else set()
    shapes = {name: static.shape(name) for name in summed & static.types.keys()}
    found = {name for name, shape in shapes.items() if len(shape) == 4 and shape[1] == classes}
    return tuple(next((name for name in stage.held if name in found), None) for stage in division.stages)


def _summed(static: Static, graph: Graph, tensor: str) -> set[str]:
    """Return ``tensor`` and the tensors that are only added, scaled, cropped or enlarged on the way to it."""
    operators = {node.name: node.op_type for node in static.nodes}
    met: set[str] = set()
    todo = [tensor]
    while todo:
        name = todo.pop()
        met.add(name)
        node = graph.maker.get(name)
        linear = node is not None and (
            node.kind in (ENLARGE, CROP)
            or operators.get(node.name) in ("Add", "Sum")
            or (operators.get(node.name) in ("Mul", "Div") and sum(name in graph.dynamic for name in node.inputs) == 1)
        )
        if node is not None and linear:
            todo += [read for read in graph.reads(node) if read not in met]
    return met


def _instances(found: Recognised, source: Source, given: Said, name: str) -> Settled:
    """Settle everything of an instance network, whose head was ``found``."""
    frame, said, by = frame_input(source.model), given.over(source.said), {}
    if found.pixels is not None and not frame.bytes:
        mean, std = found.pixels
        by = {"mean": "as this kind of export"} if said.mean is None else {}
        said = said.over(Said(mean=mean, std=std, scale=1 / 255))
    if frame.size is None:
        said = said.over(Said(size=found.size, pad_multiple=found.stride))
    reads, read_told = describe(frame, said, by)
    reads = replace(reads, pad_value=found.pad_value or reads.pad_value)
    names, head = said.classes or found.class_names, found.head
    if said.classes and found.classes not in (None, len(names)):
        raise UsageError(f"{len(names)} classes are named, and the network scores {found.classes}; give as many names.")
    limits = f"with a score of at least {head.score:g}; boxes overlap by at most {head.overlap:g}"
    told = [*source.told, *frame.told, *read_told, Told("output", ", ".join(head.outputs), found.why)]
    told.append(Told("instances", head.layout, limits))
    if not said.classes:
        named = names == found.names
        why = "named in the file's metadata" if named else "without names; give them by --classes FILE"
        told.append(Told("classes", str(len(names)), why))
    bare = Sidecar(name, reads, head.outputs[0], (head.outputs,), (STAGE,), classes=names, palette=said.palette or ())
    made = replace(bare, schedule=RECOMMENDED, instances=head.facts())
    return Settled(frame.model, made, tuple(told))


def read_uncut(path: Path, size: Size | None) -> tuple[onnx.ModelProto, Sidecar]:
    """Read a file that runs uncut as a graph that frames fit, with its sidecar.

    It is one of OpenVINO or TensorFlow Lite, or an ONNX file that was not cut. NAME.json beside the file may say what the
    file doesn't: a sidecar without "cuts", none of whose fields is required. ``size``: the working size (WIDTH, HEIGHT) that the
    user gave, for a file of free sizes. ``UsageError`` says which fields are missing, ``NetworkError`` what else is wrong.
    """
    beside = path.with_suffix(".json")
    data = sidecar.beside(path)
    if data is None:
        sidecar.read(beside)  # which raises the error
    data = data or {}
    said, given = _said(data, beside), data.get("input", {})
    model = onnx_reader.read(path) if path.suffix == ".onnx" else graph_of(path, size or said.size or LOOKED_AT)
    frame = frame_input(model)
    if size is not None:
        said = replace(said, size=None if frame.size else size)
    try:
        found = settle(Source(model, path.stem), said, None, path.stem)
    except (NetworkError, UsageError) as error:
        known = frame.bytes or said.mean is not None
        unknown: dict[str, Any] = {} if known else {"scale": 1 / 255, "mean": IMAGENET[0], "std": IMAGENET[1]}
        if frame.size is None and said.size is None:
            unknown |= {"width": LOOKED_AT[0], "height": LOOKED_AT[1]}
        example = {"format": sidecar.FORMAT} | data | {"input": unknown | given}
        raise type(error)(
            f"{path.name} runs uncut: {error} Write what these options of clockseg cut would say into {beside} (such as "
            f'"output": "NAME", "classes": ["NAME", "NAME"]), with your own values: {json.dumps(example)}'
        ) from error
    told = json.loads(sidecar.dump(found.sidecar))
    full = told | data | {"input": told["input"] | given, "output": found.sidecar.output}
    if found.sidecar.instances is not None:
        full["instances"] = told["instances"] | data.get("instances", {})
    return found.model, sidecar.parse(json.dumps(full), source=str(beside))


def _said(data: Mapping[str, Any], beside: Path) -> Said:
    """Return what NAME.json says, as the options of ``clockseg cut`` would; none of its fields is required."""
    full = {"format": sidecar.FORMAT, "output": "", "cuts": [[""]], **data}
    given = full.get("input", {})
    full["input"] = {"name": "", "width": 1, "height": 1} | given if isinstance(given, dict) else given
    told = sidecar.parse(json.dumps(full), source=str(beside))
    values = vars(told) | vars(told.input) | {"size": (told.input.width, told.input.height)}
    there = {*data, *data.get("input", {})}
    there |= {"size"} if {"width", "height"} <= there else set()
    # Pixels are normalised if any of it is said.
    there |= {"mean", "std"} if there & {"mean", "std", "scale"} else set()
    return Said(**{field.name: values[field.name] for field in fields(Said) if field.name in there})
