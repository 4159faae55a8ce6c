"""Cutting networks: a file into an ONNX file with a sidecar, checked before it gets its name; a torch module in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx

from clockseg import libraries
from clockseg.clocks.spec import parse_schedule
from clockseg.clockwork.network import StagedNetwork, same
from clockseg.clockwork.schedule import check, schedule_for
from clockseg.engines import engine as by_name
from clockseg.engines.auto import Engine, first_able
from clockseg.errors import NetworkError, UsageError
from clockseg.files import folder_beside
from clockseg.graph import sidecar
from clockseg.graph.choice import Choice
from clockseg.graph.part import tensors
from clockseg.graph.sidecar import MOST_CLASSES, Input
from clockseg.networks.checking import TOLERANCE, apart, noise, picture
from clockseg.networks.inspection import Inspection, inspect
from clockseg.networks.load import assemble, read_graph
from clockseg.networks.settling import Cutting, Settled, settle
from clockseg.networks.source import NOTHING_SAID, RECOMMENDED, Said, Source, Told

if TYPE_CHECKING:
    from clockseg.networks.cut_torch import Cuts

AUTO = Cutting()
TOLERANCES = {32: TOLERANCE, 16: 1e-2, 8: 3e-2}
"""``TOLERANCE`` by the bits in which a network computes: each map is rounded, and engines round in other places than in the whole."""
UNEQUAL_IDS = {32: 1e-3, 16: 1e-3, 8: 1e-2}
"""Share of pixels whose class ids may differ, where ids are all that a network gives, by the same."""


@dataclass(frozen=True)
class CutNetwork:
    """The written files, and the facts found on the way. ``choice``: None if the user gave the cuts.

    ``apart``: how far it is, in parts, from itself whole; ``told``: what was settled for the user; ``notes``: what to expect.
    """

    file: Path
    sidecar: sidecar.Sidecar
    choice: Choice | None
    apart: float
    inspection: Inspection
    told: tuple[Told, ...]
    notes: tuple[str, ...] = ()


def cut_network(
    source: Source | Path,
    out: Path,
    *,
    said: Said = NOTHING_SAID,
    cutting: Cutting = AUTO,
    engine: str = "auto",
    threads: int | None = None,
    repeat: int = 5,
) -> CutNetwork:
    """Write ``source``, an ONNX file or what an adapter made, as ``out`` (NAME.onnx) and its sidecar NAME.json beside it.

    ``said``: what the user says of the network, before what the source says of itself. ``engine``, ``threads``: of the
    check that its parts give what the whole gives, on a frame of noise and on a picture, and of the times that are told,
    medians of ``repeat`` runs. What is there under these names is replaced. ``NetworkError``, ``UsageError``: what is
    missing or doesn't fit; then nothing is written.
    """
    if out.suffix != ".onnx":
        raise UsageError(f"{out}: give a name that ends in .onnx.")
    source = Source(read_graph(source), source.stem) if isinstance(source, Path) else source
    found = settle(source, said, cutting, out.stem)
    difference, running = first_able(engine, lambda name: _compared(found, by_name(name, threads=threads)))
    schedule = cutting.schedule or RECOMMENDED
    check(running, schedule_for(parse_schedule(schedule), len(running)))
    written = replace(found.sidecar, schedule=schedule)
    with folder_beside(out, "Give another --out.") as folder:
        file = folder / out.name
        onnx.save(found.model, file)
        sidecar.write(written, file.with_suffix(".json"))
        inspection = inspect(file, engine=engine, threads=threads, repeat=repeat)
        for end in (".json", ".onnx"):
            file.with_suffix(end).replace(out.with_suffix(end))
    told = [*found.told]
    if found.bits < 32:
        why = f"of the largest value is allowed between parts and whole: the file computes in {found.bits} bits, which rounds every map"
        told.append(Told("tolerance", f"{TOLERANCES[found.bits]:g}", why))
    if cutting.schedule is None:
        why = "the default: the network on every sixth frame, the rest made from both sides"
        told.append(Told("schedule", schedule, why))
    return CutNetwork(out, written, found.choice, difference, inspection, tuple(told), found.notes)


def _compared(found: Settled, compile: Engine) -> tuple[float, StagedNetwork]:
    """Compile the network, and return how far it is ``apart``, in parts, from itself whole, on noise and on a picture.

    ``NetworkError`` beyond the tolerance, and for class ids beyond those that are named. Instances are not compared.
    """
    said = found.sidecar
    if said.instances is not None:
        running = assemble(found.model, said, engine=compile)
        for image in (noise((64, 48)), picture((640, 480))):
            running(image)
        return 0.0, running
    running = assemble(found.model, replace(said, classes=(), palette=(), ignore=None), engine=compile)
    bare, size, largest = replace(running, restore=same), (said.input.width, said.input.height), 0.0
    tolerance = TOLERANCES[found.bits]
    for image in (noise(size), picture(size)):
        [ours], [theirs] = (tensors(net(image)).values() for net in (bare, bare.uncut()))
        largest = max(largest, apart(ours, theirs))
        if theirs.dtype.kind in "iu":
            tolerance = UNEQUAL_IDS[found.bits]
            nameless = theirs[(theirs >= len(said.classes)) & (theirs != MOST_CLASSES)]
            if nameless.size:
                raise NetworkError(
                    f"the network gives the id {int(nameless.max())}, and {len(said.classes)} classes are named, 0 to "
                    f"{len(said.classes) - 1}: give a --classes FILE with a name for each id ({MOST_CLASSES} stands for no class)."
                )
    if not largest <= tolerance:
        raise NetworkError(
            f"the network in stages does not give the output of the whole: {largest:.1e} of the largest value, or of the class "
            "ids, is the difference. That is a fault of the cut rule or of the engine: try another --engine or other cuts, and "
            "report it. Nothing was written."
        )
    return largest, running


def cut(
    module: Any,
    example: Any,
    *,
    at: Cuts,
    names: Sequence[str] = (),
    scores: Sequence[str | None] = (),
    output: str | int | None = None,
    input: Input | None = None,
    classes: Sequence[str] = (),
    stages: int = 3,
) -> StagedNetwork:
    """Cut ``module`` into stages that compute with its own weights, on their device and also while they are trained.

    ``example``: a tensor like those it reads, [n, channels, h, w]; only its shape, type and device count. Other shapes may
    come; the module is exported again for each. ``at``: the last tensor of each stage in order, or several where branches
    cross; "auto": ``stages`` are chosen. A tensor has the path of the submodule that returns it as its name
    ("layer3", "encoder.0" for the first of several, "relu@1" for a second call), or as ``candidates`` names it. ``names``
    and ``scores``, per stage, as in a sidecar; ``output``: which of the module's outputs to use ("out", 0, "aux.0").

    Without ``input``, the network maps tensors to tensors as the module does, in torch's own grad mode, so it can be
    trained. With ``input``, it reads frames, uint8 RGB [h, w, 3], and returns its output at the frame's size: labels if
    there are ``classes``. ``NetworkError`` gives the reason if the module can't be exported or cut.

    >>> import torch
    >>> from torch import nn
    >>> module = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.ReLU(), nn.Conv2d(4, 2, 3, 2, 1))
    >>> net = cut(module, torch.zeros(1, 3, 32, 32), at=["1", "2"], names=("fine", "deep"))
    >>> image = torch.rand(1, 3, 32, 32)
    >>> [stage.name for stage in net.stages], torch.equal(net(image), module(image))
    (['fine', 'deep'], True)
    """
    libraries.torch("cutting a module")
    from clockseg.graph.torch_part import Source as TorchSource
    from clockseg.networks import cut_torch

    example = cut_torch.checked(module, example, input, classes)
    source = TorchSource(
        module,
        example,
        None if output is None else str(output),
        lambda program: cut_torch.cuts_at(at, stages, program.graph, program.output),
        names,
        scores,
    )
    if len(scores) > len(source.cuts):
        raise UsageError(f"{len(scores)} scores for {len(source.cuts)} cuts; give one tensor per cut, or None.")
    return cut_torch.staged(source, type(module).__name__, input, tuple(classes))
