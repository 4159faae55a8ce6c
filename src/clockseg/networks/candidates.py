"""Candidates for the cuts of a network on disk, and the automatic choice among them, with or without a sidecar."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
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
from clockseg.graph.neutral import Graph
from clockseg.graph.static import Static, fix
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
        return _Network.read(network, None if output is None else str(output), size).candidates()
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
    found = _Network.read(network, output, size)
    found.candidates()  # says what is wrong with the output before anything is timed
    options: dict[str, Any] = {"precision": precision, "threads": threads, "repeat": repeat}
    seconds = graph_seconds(found.static, found.frame, found.output, **options) if repeat else None
    choice = choose(found.graph, found.shapes, found.work, output=found.output, seconds=seconds, stages=stages)
    named = [value.name for value in found.model.graph.output]
    return CutCandidates(
        found.name,
        found.size,
        {found.frame: found.shapes[found.frame]},
        {name: found.shapes[name] for name in named if name in found.shapes},
        found.output,
        found.cuts,
        int(sum(found.work.values())),
        None if seconds is None else sum(seconds.values()),
        found.candidates(seconds),
        choice,
    )


@dataclass(frozen=True)
class _Network:
    """A graph at its working size."""

    name: str
    model: onnx.ModelProto
    size: Size
    frame: str
    output: str
    cuts: tuple[tuple[str, ...], ...]

    @classmethod
    def read(cls, network: str | Path, output: str | None, size: WorkingSize | None) -> _Network:
        path = path_of(network)
        model = read_graph(path)
        if not path.with_suffix(".json").is_file():
            return cls._bare(path, model, output, size)
        said = sidecar.read(path.with_suffix(".json"))
        own = None if size == "own" else size
        padded = framing(model, said, size=own).padded((said.input.width, said.input.height))
        model, _ = network_alone(model, said)
        return cls(said.name, model, padded, said.input.name, output or said.output, said.cuts)

    @classmethod
    def _bare(cls, path: Path, model: onnx.ModelProto, output: str | None, size: WorkingSize | None) -> _Network:
        reads = frame_input(model)
        if reads.size is not None and size not in (None, reads.size):
            raise UsageError(f"size {size}: this network's file is fixed to {reads.size[0]}x{reads.size[1]}.")
        if not (size is None or isinstance(size, tuple)):
            raise UsageError(f"size {size}: {path.name} has no sidecar; give WIDTHxHEIGHT, such as 1024x512.")
        reads = fitted(reads, size)
        output = output or reads.model.graph.output[0].name
        return cls(path.stem, reads.model, reads.size or size or LOOKED_AT, reads.name, output, ())

    @cached_property
    def static(self) -> Static:
        width, height = self.size
        try:
            return fix(self.model, {self.frame: (1, 3, height, width)}, floats=[self.output])
        except NetworkError as error:
            raise NetworkError(f"{self.name} at {width}x{height}: {error} Another size may do: give --size.") from error

    @cached_property
    def graph(self) -> Graph:
        return onnx_reader.neutral(self.static, self.frame)

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return self.static.shapes

    @cached_property
    def work(self) -> dict[str, float]:
        """Node -> multiply-adds."""
        return node_work(self.static)

    def candidates(self, seconds: dict[str, float] | None = None) -> tuple[Candidate, ...]:
        return in_graph.candidates(self.graph, self.shapes, self.work, output=self.output, seconds=seconds)
