"""Cutting a torch module into stages that share its weights and still train."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import torch
from torch import Tensor, nn

from clockseg.clockwork.network import Group, Part, Stage, StagedNetwork
from clockseg.errors import NetworkError, UsageError
from clockseg.graph.choice import choose
from clockseg.graph.neutral import Graph
from clockseg.graph.part import FRAME_SIZE, IMAGE, LABELS, Pick
from clockseg.graph.rule import StageCut
from clockseg.graph.sidecar import MOST_CLASSES, Input, Sidecar
from clockseg.graph.torch_part import FINISH, WHOLE, Shown, Source, TorchPart
from clockseg.networks.framing import Framing

Cuts: TypeAlias = Sequence[str | Sequence[str]] | Literal["auto"]
"""One tensor a stage, or several; or chosen."""


def checked(module: Any, example: Any, input: Input | None = None, classes: Sequence[str] = ()) -> Tensor:
    """Return ``example``; ``UsageError`` unless it, ``module``, ``input`` and ``classes`` of ``clockseg.cut`` go together."""
    if not isinstance(module, nn.Module):
        raise UsageError(f"the module is a {type(module).__name__}; give a torch.nn.Module.")
    if not isinstance(example, Tensor):
        raise UsageError(f"the example is a {type(example).__name__}; give a tensor such as the module reads.")
    if input is None and classes:
        raise UsageError(
            "classes needs input=, because labels are computed from frames; describe the frames with input=."
        )
    if input is not None and tuple(example.shape[:2]) != (1, 3):
        raise UsageError(f"an example of shape {list(example.shape)} with input=: frames are read as [1, 3, h, w].")
    if len(classes) > MOST_CLASSES:
        raise UsageError(f"{len(classes)} classes; label maps are bytes, so at most {MOST_CLASSES}.")
    return example


def cuts_at(at: Cuts, stages: int, graph: Graph, output: str) -> Sequence[Sequence[str]]:
    """Return the names of the last tensors of each stage: those given ``at``, or chosen."""
    if at == "auto":
        return choose(graph, output=output, stages=stages).cuts
    given = at if isinstance(at, Sequence) and not isinstance(at, str) else [None]
    cuts = [[names] if isinstance(names, str) else names for names in given]
    if not all(isinstance(names, Sequence) and all(isinstance(name, str) for name in names) for names in cuts):
        raise UsageError(f'at={at!r}: give a list, one tensor per stage, such as at=["layer2", "layer4"], or "auto".')
    return cast(list[Sequence[str]], cuts)


def staged(source: Source, name: str, said: Input | None, classes: tuple[str, ...]) -> StagedNetwork:
    """Return the network that reads frames as ``said``, or, without it, what its module reads.

    Values stay tensors up to the finish, which gives arrays if the network reads frames.
    """
    program = source.first.program
    shape = program.graph.shapes[program.output]
    if classes and program.output not in program.graph.integers and (len(shape) != 4 or shape[1] != len(classes)):
        raise NetworkError(
            f"{len(classes)} classes, but the module's output has shape {list(shape)}: "
            f"it must be [1, {len(classes)}, h, w]. Give as many classes, or another output=."
        )
    before = None
    if said is not None:
        factor, offset = (tuple(numbers.tolist()) for numbers in said.affine())
        before = partial(_read, bgr=said.colour == "bgr", factor=factor, offset=offset)

    def part(name: str) -> TorchPart:
        ends = name in (FINISH, WHOLE) and said is not None
        after, last = (_labels, LABELS) if ends and classes else (None, None)
        return TorchPart(source, name, before, after, last, arrays=ends, trains=said is None)

    def stage(cut: StageCut) -> Stage:
        scores = Shown(cut.scores) if cut.scores else None
        return Stage(cut.name, part(cut.name), Pick(cut.held), scores, Shown(cut.trunk[0]))

    division = source.first.division
    net = StagedNetwork(
        name,
        tuple(map(stage, division.stages)),
        tuple(Group(group.name, group.reads, part(group.name)) for group in division.groups),
        part(FINISH) if division.finish or said else cast(Part, Pick((division.output,))),
        _given,
        lambda value, frame: cast(Tensor, value[division.output]),
        part(WHOLE),
        engine="torch",
    )
    if said is None:
        return net
    framing = Framing(said.width, said.height, said.pad_multiple, said.pad_value)
    cuts, names, scores = zip(*((cut.trunk, cut.name, cut.scores) for cut in division.stages), strict=True)
    sidecar = Sidecar(name, said, division.output, cuts, names, scores, classes)
    return replace(net, prepare=framing.prepare, restore=framing.restore, sidecar=sidecar)


def _given(frame: Any) -> dict[str, Any]:
    if not isinstance(frame, Tensor):
        raise UsageError(
            f"this network reads tensors, as its module does, not {type(frame).__name__}; for frames cut it with input=."
        )
    return {IMAGE: frame, FRAME_SIZE: np.array(frame.shape[::-1])}


def _read(image: Tensor, dtype: torch.dtype, bgr: bool, factor: tuple[float, ...], offset: tuple[float, ...]) -> Tensor:
    """Convert frames, uint8 RGB [1, h, w, 3], to the module's input [1, 3, h, w]: pixel * factor + offset."""
    channels = (image.flip(3) if bgr else image).permute(0, 3, 1, 2).float().contiguous()
    scale, shift = (torch.tensor(each, device=image.device).view(1, 3, 1, 1) for each in (factor, offset))
    return (channels * scale + shift).to(dtype)


def _labels(scores: Tensor, size: tuple[int, ...]) -> Tensor:
    """Return class ids, uint8 [1, height, width] at ``size`` (width, height), from scores or ids; the lowest wins ties."""
    sides = (size[1], size[0])
    if not scores.is_floating_point():
        ids = scores.reshape(1, 1, *scores.shape[-2:]).float()
        return nn.functional.interpolate(ids, sides, mode="nearest-exact")[:, 0].to(torch.uint8)
    if scores.shape[2:] != sides:
        scores = nn.functional.interpolate(scores.float(), sides, mode="bilinear", align_corners=False)
    return scores.argmax(1).to(torch.uint8)
