"""Settings of a network to be cut: its input, its output, its cuts, and the stages with scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import onnx

from clockseg.engines.profile import node_seconds
from clockseg.errors import ClocksegError, NetworkError, UsageError
from clockseg.graph import onnx_reader
from clockseg.graph.choice import Choice, Purpose, choose
from clockseg.graph.cost import node_work
from clockseg.graph.neutral import Graph
from clockseg.graph.onnx_split import applied
from clockseg.graph.places import grids
from clockseg.graph.rule import Division, divide
from clockseg.graph.sidecar import MOST_CLASSES, Input, Sidecar
from clockseg.graph.split import rewritten, splits
from clockseg.graph.static import Static, fix
from clockseg.networks.class_names import numbered
from clockseg.networks.cut_check import in_half_precision, whole_part
from clockseg.networks.cut_input import FrameInput, describe, fitted, frame_input
from clockseg.networks.cut_names import Cuts, parse_cuts, stage_scores, tensor_named
from clockseg.networks.cut_output import Outcome, outcome, output_named
from clockseg.networks.cut_schedule import scores_of_stages
from clockseg.networks.cut_source import Said, Source, Told
from clockseg.networks.framing import OwnSize

NO_SKIP = (
    "There is no skip: the first stages reach the output only through the last stage. While that holds, the output does not "
    "change, as if frames were skipped. A carry that warps the output helps, or a network with skips."
)


@dataclass(frozen=True, kw_only=True)
class Cutting:
    """Options of the cut. ``at``: "auto", which chooses ``stages`` stages for ``purpose``, or names for ``parse_cuts``.

    ``measured``: choose by the seconds that nodes take here, else by their multiply-adds. ``scores``: each stage's own
    score map as ``NAME,-,NAME`` (None: those that are found). ``schedule``: the one to recommend (None: one that fits).
    """

    at: str = "auto"
    stages: int = 3
    purpose: Purpose = "time"
    measured: bool = True
    scores: str | None = None
    schedule: str | None = None


class Settled(NamedTuple):
    """A graph that frames fit, its sidecar, which has no schedule yet, and what was found on the way.

    ``half``: whether it computes in 16 bits anywhere.
    """

    model: onnx.ModelProto
    frame: FrameInput
    sidecar: Sidecar
    choice: Choice | None
    told: tuple[Told, ...]
    notes: tuple[str, ...]
    half: bool = False


def settle(source: Source, given: Said, cutting: Cutting, name: str) -> Settled:
    """Settle everything that can be known without running the network; ``given``: what the user says of it."""
    said = given.over(source.said)
    frame = fitted(frame_input(source.model), said.size, multiple=said.pad_multiple)
    reads, read_told = describe(frame, said, _by(source, given))
    made, output_told = _outcome(frame, reads, said)
    names, classes_told = _classes(said, made)
    static = _at(made.model, reads)
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
    return Settled(made.model, frame, found, choice, told, _notes(division, choice), in_half_precision(static))


_TOLD = ("size", "mean", "std", "scale", "colour", "pad_multiple")


def _by(source: Source, given: Said) -> dict[str, str]:
    """Return the source of each setting of the frame that the user left to it."""
    unsaid = [one.name for one in fields(Said) if getattr(given, one.name) is None]
    return {name: source.by for name in unsaid if name in _TOLD and getattr(source.said, name) is not None}


def _at(model: onnx.ModelProto, reads: Input) -> Static:
    """Return ``model`` at its working size."""
    width, height = OwnSize(reads.pad_multiple).padded((reads.width, reads.height))
    return fix(model, {reads.name: (1, 3, height, width)})


def _outcome(frame: FrameInput, reads: Input, said: Said) -> tuple[Outcome, tuple[Told, ...]]:
    static = _at(frame.model, reads)
    output, told = output_named(frame.model, static, said.output)
    graph = onnx_reader.neutral(static, frame.name)
    output = tensor_named(output, graph)
    _, _, height, width = static.shape(frame.name)
    classes = None if said.classes is None else len(said.classes)
    grid = grids(graph, static.shapes).get(output)
    return outcome(frame.model, static, output, classes, frame=(width, height), grid=grid), told


def _classes(said: Said, made: Outcome) -> tuple[tuple[str, ...], tuple[Told, ...]]:
    if said.classes is not None or made.channels is None:
        return said.classes or (), ()
    if made.channels > MOST_CLASSES:
        raise NetworkError(
            f"{made.tensor!r} has {made.channels} channels, and label maps hold {MOST_CLASSES} classes at most: give another "
            "--output, or --classes none if it is no labelling."
        )
    if made.channels < 2:
        raise UsageError(f"{made.tensor!r} scores {made.channels} class; give --classes.")
    names = numbered(made.channels).names
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
        seconds=_seconds(static, made, reads) if cutting.measured else None,
        stages=cutting.stages,
        purpose=cutting.purpose,
    )
    return choice.cuts, choice


def _seconds(static: Static, made: Outcome, reads: Input) -> Mapping[str, float] | None:
    """Return each node's seconds in OpenVINO, or None if it can't run the network."""
    _, _, height, width = static.shape(reads.name)
    try:
        return node_seconds(whole_part(made.model, reads, made.tensor), (width, height))
    except (ClocksegError, RuntimeError):
        return None


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
