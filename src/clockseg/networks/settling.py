"""Settings of a network to be cut: its input, its output, its cuts, and the stages with scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import onnx
from onnx import helper

from clockseg.engines import openvino_file
from clockseg.engines.profile import graph_seconds
from clockseg.errors import NetworkError, UsageError
from clockseg.graph import onnx_reader
from clockseg.graph.choice import Choice, choose
from clockseg.graph.cost import node_work
from clockseg.graph.extraction import SCORES
from clockseg.graph.neutral import CROP, ENLARGE, Graph
from clockseg.graph.nodes import copied
from clockseg.graph.onnx_split import applied
from clockseg.graph.rule import Division, divide, nearest_tensors
from clockseg.graph.sidecar import MOST_CLASSES, Input, Sidecar
from clockseg.graph.split import rewritten, splits
from clockseg.graph.static import Static, declared_shape, fix
from clockseg.instances.network import STAGE
from clockseg.instances.recognising import KINDS, Recognised, recognise
from clockseg.networks.checking import in_half_precision
from clockseg.networks.cut_input import FrameInput, describe, fitted, frame_input
from clockseg.networks.cut_output import Outcome, outcome, output_named, stretched
from clockseg.networks.framing import Framing
from clockseg.networks.source import RECOMMENDED, Said, Source, Told, numbered

_FRAME = ("size", "mean", "std", "scale", "colour", "pad_multiple")
"""The settings of the frame, in the order of ``Said``."""
NO_SKIP = (
    "There is no skip: the first stages reach the output only through the last stage. While that holds, the output does not "
    "change, as if frames were skipped. A carry that warps the output helps, or a network with skips."
)


@dataclass(frozen=True, kw_only=True)
class Cutting:
    """Options of the cut. ``at``: "auto", which chooses ``stages`` stages, or names for ``parse_cuts``.

    ``measured``: choose by the seconds that nodes take here, else by their multiply-adds. ``scores``: each stage's own
    score map as ``NAME,-,NAME`` (None: those that are found). ``schedule``: the one to recommend (None: one that fits).
    """

    at: str = "auto"
    stages: int = 3
    measured: bool = True
    scores: str | None = None
    schedule: str | None = None


class Settled(NamedTuple):
    """A graph that frames fit, its sidecar, which has no schedule yet, and what was found on the way.

    ``half``: True if it computes in 16 bits anywhere.
    """

    model: onnx.ModelProto
    sidecar: Sidecar
    told: tuple[Told, ...] = ()
    choice: Choice | None = None
    notes: tuple[str, ...] = ()
    half: bool = False


def settle(source: Source, given: Said, cutting: Cutting, name: str) -> Settled:
    """Settle everything that can be known without running the network; ``given``: what the user says of it."""
    head = recognised(source.model, given)
    if head is not None:
        if cutting.at != "auto":
            raise UsageError("--at: an instance network runs as one stage; leave it out.")
        return settle_instances(head, source, given, name)
    said = given.over(source.said)
    frame = fitted(frame_input(source.model), said.size, multiple=said.pad_multiple)
    theirs = {
        name: source.by for name in _FRAME if getattr(given, name) is None and getattr(source.said, name) is not None
    }
    reads, read_told = describe(frame, said, theirs)
    try:
        static = _at(frame.model, reads)
    except NetworkError as error:
        if frame.size is not None:
            raise
        raise NetworkError(f"{error} If constants in the file fit one size only, give that as --size.") from error
    made, output_told = _outcome(frame, static, said)
    names, classes_told = _classes(said, made)
    static = static if made.model is frame.model else _at(made.model, reads)
    graph = onnx_reader.neutral(static, frame.name)
    cuts, choice = _cuts(graph, static, made, reads, cutting)
    bare = Sidecar(
        name, reads, made.tensor, cuts, classes=names, palette=said.palette or (), ignore=_ignore(said, names)
    )
    static, graph, division = _divided(static, graph, bare)
    scores = (
        scores_of_stages(static, graph, division, len(names))
        if cutting.scores is None
        else stage_scores(cutting.scores, graph, len(cuts))
    )
    told = (*source.told, *frame.told, *read_told, *output_told, *made.told, *classes_told)
    found = replace(bare, scores=scores if any(scores) else ())
    return Settled(made.model, found, told, choice, _notes(division, choice), in_half_precision(static))


def _at(model: onnx.ModelProto, reads: Input) -> Static:
    """Return ``model`` at its working size."""
    width, height = Framing(pad_multiple=reads.pad_multiple).padded((reads.width, reads.height))
    return fix(model, {reads.name: (1, 3, height, width)})


def settle_whole(source: Source, given: Said, name: str) -> Settled:
    """Settle everything of a network that runs uncut; the classes of scores are numbers where nobody names them.

    Shapes that are not known at the working size are those that the file declares.
    """
    head = recognised(source.model, given)
    if head is not None:
        return settle_instances(head, source, given, name)
    frame = frame_input(source.model)
    frame = frame if given.pad_multiple is not None else fitted(frame, given.size)
    reads, _ = describe(frame, given, {})
    try:
        static = _at(frame.model, reads)
    except NetworkError:  # operators of others, shapes that depend on what the frame shows
        ends = {value.name: value for value in (*frame.model.graph.input, *frame.model.graph.output)}
        static = Static(
            types={name: (one.type.tensor_type.elem_type, declared_shape(one)) for name, one in ends.items()}
        )
        kind, _ = static.types[frame.name]
        static.types[frame.name] = kind, (1, 3, reads.height, reads.width)
    made, _ = _outcome(frame, static, given, whole=True)
    kinds = {value.name: value.type.tensor_type.elem_type for value in made.model.graph.output}
    count = openvino_file.class_count(frame.model, made.tensor)
    if given.classes is None and count:
        given = replace(given, classes=numbered(count))
    is_numbers = made.channels == 1 or (made.channels is None and kinds[made.tensor] in SCORES)
    names = () if given.classes is None and is_numbers else _classes(given, made)[0]
    bare = replace(_of_one_stage(name, reads, (made.tensor,), given, names), ignore=_ignore(given, names))
    model = made.model
    if made.tensor in static.types:
        kind, shape = static.types[made.tensor]
        sides = shape if frame.size else (*shape[:-2], *(None for _ in shape[-2:]))
        model = copied(model)
        del model.graph.output[:]
        model.graph.output.append(helper.make_tensor_value_info(made.tensor, kind, [side or None for side in sides]))
    return Settled(model, bare)


def _outcome(frame: FrameInput, static: Static, said: Said, *, whole: bool = False) -> tuple[Outcome, tuple[Told, ...]]:
    """Return the output; if the network runs ``whole``, maps of one number per pixel are taken without being named such."""
    output, told = output_named(frame.model, static, said.output)
    graph = onnx_reader.neutral(static, frame.name)
    output = output if any(value.name == output for value in frame.model.graph.output) else tensor_named(output, graph)
    _, _, height, width = static.shape(frame.name)
    classes = None if said.classes is None else len(said.classes)
    kind, shape = static.types[output]
    is_map = len(shape) == 3 and kind in SCORES and stretched(shape[1:], (width, height)) <= 0.25
    if whole and classes is None and is_map:
        classes = 0
    return outcome(frame.model, static, output, classes, frame=(width, height)), told


def _classes(said: Said, made: Outcome) -> tuple[tuple[str, ...], tuple[Told, ...]]:
    if said.classes is not None:
        return said.classes, ()
    if made.channels is None:
        raise UsageError(
            f"the output {made.tensor!r} is a map of class ids: give --classes FILE with the classes' names."
        )
    if made.channels > MOST_CLASSES:
        raise NetworkError(
            f"{made.tensor!r} has {made.channels} channels, and label maps hold {MOST_CLASSES} classes at most: give another "
            f"--output, or --classes none if it does not score classes. {KINDS}"
        )
    if made.channels < 2:
        raise UsageError(
            f"{made.tensor!r} has one channel: give --classes FILE with two names, what is below 0 and what is above, or "
            "--classes none if it does not score classes (depth, edges, a matte)."
        )
    names = numbered(made.channels)
    return names, (Told("classes", str(len(names)), "without names; give them by --classes FILE"),)


def _ignore(said: Said, names: tuple[str, ...]) -> int | None:
    return said.ignore if said.ignore is not None or not names else MOST_CLASSES


def _cuts(graph: Graph, static: Static, made: Outcome, reads: Input, cutting: Cutting) -> tuple[Cuts, Choice | None]:
    if cutting.at != "auto":
        return parse_cuts(cutting.at, graph), None
    choice = choose(
        graph,
        static.shapes,
        node_work(static),
        output=made.tensor,
        seconds=graph_seconds(static, reads.name, made.tensor) if cutting.measured else None,
        stages=cutting.stages,
    )
    return choice.cuts, choice


def _divided(static: Static, graph: Graph, said: Sidecar) -> tuple[Static, Graph, Division]:
    """Divide the network as it will be loaded: with its concatenations split."""
    plan = splits(graph, said.cuts, output=said.output, shapes=static.shapes)
    graph = rewritten(graph, plan)
    return applied(static, plan), graph, divide(graph, said.cuts, output=said.output)


def _notes(division: Division, choice: Choice | None) -> tuple[str, ...]:
    found = choice.note.split(". ") if choice is not None and choice.note else []
    if len(division.stages) > 1 and not division.groups:
        found = [NO_SKIP, *(sentence for sentence in found if "no skip" not in sentence)]
    return tuple(f"{sentence.removesuffix('.')}." for sentence in found)


Cuts = tuple[tuple[str, ...], ...]


def parse_cuts(text: str, graph: Graph) -> Cuts:
    """Parse ``NAME,NAME+NAME`` into one set of tensors per cut; each NAME as ``tensor_named`` takes it.

    >>> from clockseg.graph.neutral import Node
    >>> graph = Graph((Node("a", ("x",), ("y",)), Node("b", ("y",), ("z", "w"))), ("x",))
    >>> parse_cuts("y,z+w", graph)
    (('y',), ('z', 'w'))
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise NetworkError(f"cuts {text!r}: a name is missing; give NAME,NAME, or NAME+NAME where several cross.")
    return tuple(tuple(tensor_named(name, graph) for name in _several(part, graph)) for part in parts)


def _several(part: str, graph: Graph) -> list[str]:
    return [part] if part in graph.dynamic else [name.strip() for name in part.split("+")]


def tensor_named(name: str, graph: Graph) -> str:
    """Return the tensor called ``name``, else the first that the node of this name makes, else the last that is made in a module.

    A module's path is what exporters put before its tensors: ``encoder.layer3`` names the last of ``/encoder/layer3/..``.
    ``NetworkError`` tells the nearest names.

    >>> from clockseg.graph.neutral import Node
    >>> graph = Graph((Node("conv", ("x",), ("/net/low/Conv_output_0",)),
    ...                Node("relu", ("/net/low/Conv_output_0",), ("/net/low/Relu_output_0",))), ("x",))
    >>> tensor_named("conv", graph), tensor_named("net.low", graph)
    ('/net/low/Conv_output_0', '/net/low/Relu_output_0')
    """
    if name in graph.dynamic or not name:
        return name
    made = [node.outputs[0] for node in graph.nodes if node.name == name]
    inside = [
        tensor for tensor in graph.position if tensor in graph.dynamic and _path(tensor).startswith(_path(name) + ".")
    ]
    found = made or inside[-1:]
    if not found:
        known = [*graph.dynamic, *(node.name for node in graph.nodes)]
        raise NetworkError(f"{name!r} is not a tensor, node or module of this network. {nearest_tensors(name, known)}")
    return found[0]


def _path(name: str) -> str:
    return name.strip("/").replace("/", ".").replace("::", ".")


def stage_scores(text: str, graph: Graph, stages: int) -> tuple[str | None, ...]:
    """Parse ``NAME,-,NAME``: each stage's own score map, or ``-`` for none; those left out at the end have none.

    >>> stage_scores("-", Graph((), ("x",)), 3)
    (None, None, None)
    """
    parts: Sequence[str] = [part.strip() for part in text.split(",")]
    if len(parts) > stages or not all(parts):
        raise NetworkError(
            f"scores {text!r}: give one name per stage, {stages} at most, or - for a stage without scores."
        )
    found = [None if part == "-" else tensor_named(part, graph) for part in parts]
    return (*found, *[None] * (stages - len(found)))


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


def recognised(model: onnx.ModelProto, given: Said) -> Recognised | None:
    """Return the head of an instance network; None if it is none, or the user says that it gives numbers."""
    return None if given.classes == () else recognise(model)


def _implied(found: Recognised, frame: FrameInput) -> Said:
    """Return what an instance network tells of its frames."""
    pixels = None if frame.bytes else found.pixels
    plain = Said() if pixels is None else Said(mean=pixels[0], std=pixels[1], scale=1 / 255)
    return plain if frame.size else replace(plain, size=found.size, pad_multiple=found.stride)


def settle_instances(found: Recognised, source: Source, given: Said, name: str) -> Settled:
    """Settle everything of an instance network, whose head was ``found``."""
    frame = frame_input(source.model)
    said = given.over(source.said).over(_implied(found, frame))
    reads, told = describe(frame, said, {})
    reads = replace(reads, pad_value=found.pad_value or reads.pad_value)
    names, names_told = _instance_classes(found, said)
    head = found.head
    unsaid = not frame.bytes and found.pixels == (said.mean, said.std)
    about = (
        *([Told("mean", ", ".join(f"{one:g}" for one in reads.mean), "as this kind of export")] if unsaid else []),
        Told("output", ", ".join(head.outputs), found.why),
        Told(
            "instances",
            head.layout,
            f"with a score of at least {head.score:g}; boxes overlap by at most {head.overlap:g}",
        ),
    )
    sidecar = replace(_of_one_stage(name, reads, head.outputs, said, names), instances=head.facts())
    return Settled(frame.model, sidecar, (*source.told, *frame.told, *told, *about, *names_told))


def _of_one_stage(name: str, reads: Input, outputs: tuple[str, ...], said: Said, names: tuple[str, ...]) -> Sidecar:
    cuts, palette = (outputs,), said.palette or ()
    return Sidecar(name, reads, outputs[0], cuts, (STAGE,), classes=names, palette=palette, schedule=RECOMMENDED)


def _instance_classes(found: Recognised, said: Said) -> tuple[tuple[str, ...], tuple[Told, ...]]:
    count = found.classes
    if said.classes:
        if count is not None and len(said.classes) != count:
            raise UsageError(
                f"{len(said.classes)} classes are named, and the network scores {count}; give as many names."
            )
        return said.classes, ()
    named = found.class_names == found.names
    why = "named in the file's metadata" if named else "without names; give them by --classes FILE"
    return found.class_names, (Told("classes", str(len(found.class_names)), why),)
