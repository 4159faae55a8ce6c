"""An FCN as a staged network that runs in torch, on the CPU or a GPU, at any size without compiling anything."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from clockseg.clockwork.network import Group, Stage, StagedNetwork
from clockseg.execution.machine import threads_or_all
from clockseg.graph.part import IMAGE, LABELS
from clockseg.graph.torch_part import Function, Shown, TorchPart, device_called
from clockseg.networks.framing import Framing
from clockseg.paper.export_fcn import describe, scores
from clockseg.paper.fcn import FCN
from clockseg.paper.fcn_checkpoint import FCNDescription, load_fcn


def staged(net: FCN, description: FCNDescription, *, device: str = "cpu") -> StagedNetwork:
    """Return ``net``, moved to ``device``, in the stages of the paper, with labels as output.

    Stages cache their uncropped score maps: score_pool3, score_pool4 and upscore2. Groups crop, add and enlarge.
    """
    parts = _Parts(net.eval().to(device_called(device)), description, torch.device(device))
    framing = Framing(*description.working)
    return StagedNetwork(
        net.shape.variant,
        parts.stages(),
        parts.groups(),
        parts.part(parts.finish),
        prepare=framing.prepare,
        restore=framing.restore,
        whole=parts.part(parts.whole),
        sidecar=describe(description, net.shape.variant),
        engine="torch" if device == "cpu" else f"torch {device}",
    )


def load_staged(file: Path, *, device: str = "cpu", threads: int | None = None) -> StagedNetwork:
    """Return the FCN in a checkpoint, as ``staged`` does, with the name of its file; ``threads``: of torch in this process."""
    if threads is not None:
        torch.set_num_threads(threads_or_all(threads))
    return replace(staged(*load_fcn(file), device=device), name=file.stem)


@dataclass(frozen=True)
class _Parts:
    """The functions of one net's parts."""

    net: FCN
    description: FCNDescription
    device: torch.device

    def part(self, function: Function) -> TorchPart:
        """Return a part that runs ``function``; maps stay on a GPU, and on the CPU they are arrays."""
        return TorchPart(function, self.device, arrays=self.device.type == "cpu")

    def stages(self) -> tuple[Stage, ...]:
        cuts = self.net.shape.cuts
        before = (IMAGE, *cuts)
        return tuple(
            Stage(
                cut,
                self.part(partial(self.body, before[index], cut)),
                self.part(partial(self.head, cut, score)),
                Shown(score),
                Shown(cut),
            )
            for index, (cut, score) in enumerate(zip(cuts, scores(self.net.shape), strict=True))
        )

    def groups(self) -> tuple[Group, ...]:
        """Return one group for each score path that joins, named, as by the cut rule, after the stages that it is made from."""
        groups: list[Group] = []
        cuts = self.net.shape.cuts
        for index in range(len(cuts) - 2, -1, -1):
            reads = (cuts[index], groups[-1].name if groups else cuts[-1])
            groups.append(Group("+".join(cuts[index:]), reads, self.part(partial(self.fuse, cuts[index], index == 0))))
        return tuple(groups)

    def body(self, before: str, cut: str, maps: dict[str, Tensor], size: tuple[int, ...]) -> dict[str, Tensor]:
        x = self.data(maps[IMAGE]) if before == IMAGE else maps[before]
        steps = {"pool3": self.net.stage1, "pool4": self.net.stage2, "fc7": self.net.stage3}
        names = list(steps)
        for name in names[names.index(before) + 1 if before in names else 0 : names.index(cut) + 1]:
            x = steps[name](x)
        return {cut: x}

    def data(self, image: Tensor) -> Tensor:
        """Return frames, uint8 RGB [1, h, w, 3], as the net reads them."""
        channels = image.flip(3) if self.description.order == "bgr" else image
        mean = torch.tensor(self.description.mean, device=self.device)
        return channels.permute(0, 3, 1, 2).float().contiguous() - mean.view(1, 3, 1, 1)

    def head(self, cut: str, score: str, maps: dict[str, Tensor], size: tuple[int, ...]) -> dict[str, Tensor]:
        if cut != self.net.shape.cuts[-1]:
            return {score: self.net.get_submodule(score)(maps[cut])}
        score_fr = self.net.score_fr(maps[cut])
        return {score: self.net.upscore2(score_fr) if score == "upscore2" else score_fr}

    def fuse(self, cut: str, last: bool, maps: dict[str, Tensor], size: tuple[int, ...]) -> dict[str, Tensor]:
        """Return the sum of a stage's scores and the fused scores of deeper stages, enlarged if another fusion follows."""
        if cut == "pool3":
            return {"fused": self.net.fuse_pool3(maps["score_pool3"], maps["upscore_pool4"])}
        fused = self.net.fuse_pool4(maps["score_pool4"], maps["upscore2"])
        return {"fused": fused} if last else {"upscore_pool4": self.net.upscore_pool4(fused)}

    def finish(self, maps: dict[str, Tensor], size: tuple[int, ...]) -> dict[str, Tensor]:
        """Return labels at the frame's size; the lowest class wins ties."""
        [fused] = maps.values()
        return {LABELS: self.net.enlarged(fused, size[::-1]).argmax(1).to(torch.uint8)}

    def whole(self, maps: dict[str, Tensor], size: tuple[int, ...]) -> dict[str, Tensor]:
        return {LABELS: self.net(self.data(maps[IMAGE])).score.argmax(1).to(torch.uint8)}
