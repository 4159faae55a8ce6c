"""Candidates for the cuts of a network on disk, and the automatic choice among them, with or without a sidecar."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import onnx

from clockseg.engines.profile import graph_seconds
from clockseg.errors import NetworkError, UsageError
from clockseg.graph import candidates as in_graph
from clockseg.graph import onnx_reader, sidecar
from clockseg.graph.candidates import Candidate
from clockseg.graph.choice import Choice, choose
from clockseg.graph.correction import network_alone
from clockseg.graph.cost import node_work
from clockseg.graph.sidecar import Input, Sidecar
from clockseg.graph.static import fix
from clockseg.networks.cut_input import LOOKED_AT, fitted, frame_input
from clockseg.networks.load import WorkingSize, framing, path_of, read_graph
from clockseg.types import Size


@dataclass(frozen=True)
class CutCandidates:
    """The candidates in the order of the trunk, and the choice among them (``graph.choose``).

    ``inputs`` and ``outputs``: tensor -> shape, of the network at ``size`` (WIDTH, HEIGHT). ``cuts``: those of its
    sidecar, if it has one. ``multiply_adds`` and ``seconds`` of the whole; seconds are None where they weren't measured.
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

    def to_json(self) -> dict[str, Any]:
        """Return plain values for ``json.dumps``."""
        return asdict(self)


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
    from clockseg.networks import cut_torch  # not at the top: it needs torch

    if size is not None:
        raise UsageError("size= for a torch module; its size is the example's.")
    return cut_torch.candidates(network, example, output=output)


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

    >>> found = inspect_cuts("street", repeat=0)
    >>> found.output, found.size, len(found.choice.cuts)
    ('scores', (480, 384), 3)
    """
    model, said = _opened(network, size)
    frame, output = said.input.name, output or said.output
    width, height = said.input.width, said.input.height
    try:
        static = fix(model, {frame: (1, 3, height, width)}, floats=[output])
    except NetworkError as error:
        raise NetworkError(f"{said.name} at {width}x{height}: {error} Another size may do: give --size.") from error
    graph, work = onnx_reader.neutral(static, frame), node_work(static)
    places = in_graph.candidates(graph, static.shapes, work, output=output)
    seconds = None
    if repeat:
        seconds = graph_seconds(static, frame, output, precision=precision, threads=threads, repeat=repeat)
    if seconds is not None:
        places = in_graph.candidates(graph, static.shapes, work, output=output, seconds=seconds)
    outputs = (value.name for value in model.graph.output)
    return CutCandidates(
        said.name,
        (width, height),
        {frame: static.shapes[frame]},
        {name: static.shapes[name] for name in outputs if name in static.shapes},
        output,
        said.cuts,
        int(sum(work.values())),
        None if seconds is None else sum(seconds.values()),
        places,
        choose(graph, static.shapes, work, output=output, seconds=seconds, stages=stages),
    )


def _opened(network: str | Path, size: WorkingSize | None) -> tuple[onnx.ModelProto, Sidecar]:
    """Return the graph, without a correction, and its sidecar at the working size; one without cuts if the file has none."""
    path = path_of(network)
    model = read_graph(path)
    if path.with_suffix(".json").is_file():
        said = sidecar.read(path.with_suffix(".json"))
        fit = framing(model, said, size=None if size == "own" else size)
        width, height = fit.padded((said.input.width, said.input.height))
        model, _ = network_alone(model, said)
        return model, replace(said, input=replace(said.input, width=width, height=height))
    reads = frame_input(model)
    if reads.size is not None and size not in (None, reads.size):
        raise UsageError(f"size {size}: this network's file is fixed to {reads.size[0]}x{reads.size[1]}.")
    if not (size is None or isinstance(size, tuple)):
        raise UsageError(f"size {size}: {path.name} has no sidecar; give WIDTHxHEIGHT, such as 1024x512.")
    reads = fitted(reads, size)
    width, height = reads.size or size or LOOKED_AT
    return reads.model, Sidecar(path.stem, Input(reads.name, width, height), model.graph.output[0].name, ())
