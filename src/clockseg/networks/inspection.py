"""The parts of a staged network, and what each costs on this machine; and the places where a network can be cut."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import onnx

from clockseg import libraries
from clockseg.clockwork.network import Part
from clockseg.engines import engine as by_name
from clockseg.engines.profile import graph_seconds
from clockseg.errors import NetworkError, UsageError
from clockseg.evaluation.cost import EVERY, WHOLE, part_seconds
from clockseg.execution.machine import threads_or_all
from clockseg.graph import choice as in_graph
from clockseg.graph import onnx_reader, sidecar
from clockseg.graph.choice import Candidate, Choice, choose
from clockseg.graph.cost import Cost, price
from clockseg.graph.part import GraphPart, Tensors, tensors
from clockseg.graph.sidecar import Input, Sidecar
from clockseg.graph.static import fix
from clockseg.networks.checking import noise
from clockseg.networks.ends import LOOKED_AT, fitted, frame_input
from clockseg.networks.load import WorkingSize, framing, load, path_of, read_graph
from clockseg.types import Size

WORTH = 0.5
"""Of the uncut network's time: what a frame on which only stage 1 fires may take for clocks on stages to be worth trying."""


@dataclass(frozen=True)
class Inspected:
    """One part: what it reads and gives (tensor -> shape), its cost, and its time here.

    ``cut`` is what it passes along the trunk and ``held`` what the session keeps of it, ``held_bytes`` in memory;
    ``share`` is its part of the seconds of all parts (None for the whole, which isn't one of them).
    """

    name: str
    kind: str
    reads: tuple[str, ...]
    cut: dict[str, tuple[int, ...]]
    held: dict[str, tuple[int, ...]]
    held_bytes: int
    parameters: int
    multiply_adds: int
    seconds: float
    share: float | None


@dataclass(frozen=True)
class Inspection:
    """A network, its parts in the order they run, and the uncut network beside them.

    ``staged_seconds`` / ``whole.seconds`` is what it costs to run in parts when every stage fires.
    """

    network: str
    size: Size
    engine: str
    precision: str
    threads: int
    classes: tuple[str, ...]
    schedule: str | None
    parts: tuple[Inspected, ...]
    whole: Inspected
    staged_seconds: float

    @property
    def held_share(self) -> float | None:
        """The time of a frame on which only stage 1 fires, over the uncut network's; None for a network of one stage."""
        return sum(part.seconds for part in self.held) / self.whole.seconds if self.held else None

    @property
    def held(self) -> list[Inspected]:
        """Return the parts that run on a frame on which only stage 1 fires; none of a network of one stage."""
        if sum(part.kind == "stage" for part in self.parts) < 2:
            return []
        fresh = {self.parts[0].name}
        for part in self.parts:
            if part.kind == "finish" or (part.kind == "group" and not fresh.isdisjoint(part.reads)):
                fresh.add(part.name)
        return [part for part in self.parts if part.name in fresh]

    @property
    def warning(self) -> str | None:
        """A sentence where clocks on stages save little, because most of the time goes into frames on which they hold."""
        share = self.held_share
        if share is None or share <= WORTH:
            return None
        return (
            f"A clock on stages saves little in this network: a frame on which only stage 1 fires still takes {share:.0%} of "
            "the uncut network's time. Schedules that run the whole network or nothing save more."
        )


def inspect(
    network: str | Path,
    *,
    engine: str = "auto",
    precision: str = "f32",
    threads: int | None = None,
    size: WorkingSize | None = None,
    repeat: int = 30,
) -> Inspection:
    """Load ``network``, run it ``repeat`` times in parts and whole by turns, and report the results.

    Seconds are medians over the runs, of a frame of noise at the network's working size.
    """
    graph = load(network, engine=None, size=size)
    said = graph.sidecar
    image = noise((said.input.width, said.input.height))
    running = by_name(engine, precision=precision, threads=threads)(graph)
    frame = running.prepare(image)
    height, width = frame["image"].shape[1:3]
    [seconds] = part_seconds([running], [frame], repeat)
    values: dict[str, Tensors] = {}
    running.map(lambda name, part: lambda *given: values.setdefault(name, part(*given)))(image)

    def row(name: str, kind: str, part: Part, reads: Sequence[str], cut: Sequence[str] = ()) -> Inspected:
        cost = Cost()
        with suppress(NetworkError):  # shapes may depend on the frame, as behind suppression of boxes
            cost = price(part, (width, height)) if isinstance(part, GraphPart) else cost
        held = tensors(values.get(f"{name}.head", values.get(name, {})))
        trunk = values.get(f"{name}.body", {})
        return Inspected(
            name,
            kind,
            tuple(reads),
            {key: trunk[key].shape for key in cut if key in trunk},
            {key: array.shape for key, array in held.items()},
            sum(array.nbytes for array in held.values()),
            cost.parameters,
            cost.multiply_adds,
            seconds.get(name, 0.0),
            None,
        )

    before = ("frame", *graph.names)
    stages = zip(graph.stages, before, said.cuts, strict=False)
    parts = [row(stage.name, "stage", stage.body, [reads], cut) for stage, reads, cut in stages]
    parts += [row(group.name, "group", group.function, group.reads) for group in graph.groups]
    parts.append(row("finish", "finish", graph.finish, [graph.last]))
    total = sum(part.seconds for part in parts)
    return Inspection(
        graph.name,
        (width, height),
        running.engine.removesuffix(f" {precision}"),
        precision,
        threads_or_all(threads),
        said.classes,
        said.schedule,
        tuple(replace(part, share=part.seconds / total) for part in parts),
        row(WHOLE, WHOLE, cast(Part, graph.whole), []),
        seconds[EVERY],
    )


@dataclass(frozen=True)
class CutCandidates:
    """The candidates in the order of the trunk, and the choice among them (``graph.choose``).

    ``inputs`` and ``outputs``: tensor -> shape. ``cuts``: those of its sidecar, if it has one. ``multiply_adds`` and
    ``seconds``: of the whole; seconds are None where they weren't measured.
    """

    network: str
    size: Size
    inputs: dict[str, tuple[int, ...]]
    outputs: dict[str, tuple[int, ...]]
    output: str
    cuts: tuple[tuple[str, ...], ...]
    multiply_adds: int
    seconds: float | None
    candidates: tuple[Candidate, ...]
    choice: Choice


def candidates(
    network: Any, example: Any = None, *, output: str | int | None = None, size: WorkingSize | None = None
) -> tuple[Candidate, ...]:
    """List the cuts that ``network`` allows: a bundled one, an ONNX file with or without a sidecar, or a torch module.

    They are in order from the frame to the output; shares are of multiply-adds. ``output``: the tensor that the cuts must
    lead to; by default the sidecar's, or the first one. ``size``, of a file: the working size, as for ``load``; by default
    the sidecar's or the file's own, else 512x256. ``example``, for a module: a tensor like those it reads, as for ``cut``.
    ``NetworkError`` if the file can't be read, ``UsageError`` if an argument does not fit the network.

    >>> found = candidates("street")
    >>> [(one.tensors, one.stride) for one in found if one.tensors in (("stride8",), ("stride16",))]
    [(('stride8',), 8), (('stride16',), 16)]
    """
    if isinstance(network, str | Path):
        if example is not None:
            raise UsageError(f"an example for {network}; only torch modules need one, a file takes size=.")
        named = None if output is None else str(output)
        return inspect_cuts(network, output=named, size=size, repeat=0).candidates
    if size is not None:
        raise UsageError("size= for a torch module; its size is the example's.")
    libraries.torch("cutting a module")
    from clockseg.graph.torch_reader import read
    from clockseg.networks.cut_torch import checked

    program = read(network, checked(network, example), None if output is None else str(output))
    return in_graph.candidates(program.graph, output=program.output)


def inspect_cuts(
    network: str | Path,
    *,
    output: str | None = None,
    size: WorkingSize | None = None,
    stages: int = 3,
    precision: str = "f32",
    threads: int | None = None,
    repeat: int = 10,
) -> CutCandidates:
    """List ``candidates`` with measured shares beside those of multiply-adds, and choose ``stages``.

    Seconds are OpenVINO's, of ``repeat`` runs; with 0, or where OpenVINO isn't installed or can't run the network, nothing
    is measured, and the choice goes by multiply-adds.
    """
    model, said = _opened(network, size)
    frame, output = said.input.name, output or said.output
    width, height = said.input.width, said.input.height
    try:
        static = fix(model, {frame: (1, 3, height, width)}, floats=[output])
    except NetworkError as error:
        raise NetworkError(f"{said.name} at {width}x{height}: {error} Another size may do: give --size.") from error
    graph = onnx_reader.neutral(static, frame)
    seconds = None
    if repeat:
        seconds = graph_seconds(static, frame, output, precision=precision, threads=threads, repeat=repeat)
    outputs = (value.name for value in model.graph.output)
    return CutCandidates(
        said.name,
        (width, height),
        {frame: static.shapes[frame]},
        {name: static.shapes[name] for name in outputs if name in static.shapes},
        output,
        said.cuts,
        int(sum(graph.work.values())),
        None if seconds is None else sum(seconds.values()),
        in_graph.candidates(graph, output=output, seconds=seconds),
        choose(graph, output=output, seconds=seconds, stages=stages),
    )


def _opened(network: str | Path, size: WorkingSize | None) -> tuple[onnx.ModelProto, Sidecar]:
    """Return the graph, and its sidecar at the working size; one without cuts if the file has none."""
    path = path_of(network)
    model = read_graph(path)
    if path.with_suffix(".json").is_file():
        said = sidecar.read(path.with_suffix(".json"))
        fit = framing(model, said, size=None if size == "own" else size)
        width, height = fit.padded((said.input.width, said.input.height))
        return model, replace(said, input=replace(said.input, width=width, height=height))
    reads = frame_input(model)
    if reads.size is not None and size not in (None, reads.size):
        raise UsageError(f"size {size}: this network's file is fixed to {reads.size[0]}x{reads.size[1]}.")
    if not (size is None or isinstance(size, tuple)):
        raise UsageError(f"size {size}: {path.name} has no sidecar; give WIDTHxHEIGHT, such as 1024x512.")
    reads = fitted(reads, size)
    width, height = reads.size or size or LOOKED_AT
    return reads.model, Sidecar(path.stem, Input(reads.name, width, height), model.graph.output[0].name, ())
