"""The small fusion that corrects propagated scores, in torch and as ONNX nodes behind its network."""

from __future__ import annotations

from dataclasses import dataclass, replace

import onnx
import torch
from onnx import TensorProto, helper
from torch import Tensor, nn
from torch.nn import functional

from clockseg.errors import NetworkError
from clockseg.graph import sidecar
from clockseg.graph.correction import with_addition
from clockseg.graph.nodes import captured, renamed, upstream
from clockseg.graph.nodes import reads as reads_of
from clockseg.networks.onnx_export import traced
from recipes.street.correction.teacher import Teacher

WIDTH, DEEP = 48, 64
"""Channels at the grid it works on, and at half of it."""
STEM = 24
STEM_STRIDE = 8
"""Pixels per cell after the convolutions on the picture."""
PREFIX = "stale."
"""Before the names of what is added to a file."""
MOVED, UNEXPLAINED, CORRECTED = "moved_scores", "unexplained", "corrected"
"""Names of its inputs and its output in the file."""


@dataclass(frozen=True)
class Shape:
    """The properties of a network that determine its fusion.

    ``classes`` of the score map; ``fold``: cells of the score map, in each direction, that it treats as one (1 or 2).
    ``fits``: True if the picture, once convolved, has the grid it works on; else that is resized. ``units``: standard
    deviations of the scores and of the picture.
    """

    classes: int
    fold: int
    fits: bool
    units: tuple[float, float]


class Fusion(nn.Module):
    """From propagated scores [n, classes, h, w], motion residual [n, 1, h, w] and picture to what is added.

    Two convolutions at the grid it works on, and two more at half of it for a wider view. It starts by adding nothing.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.seen = nn.ModuleList([nn.Conv2d(3, STEM, 5, 4, 2), _conv(STEM, WIDTH, 2)])
        self.scores = nn.Conv2d(shape.classes + 1, WIDTH, shape.fold, shape.fold)
        self.near = _conv(WIDTH, WIDTH)
        self.wide = nn.ModuleList([_conv(WIDTH, DEEP, 2), _conv(DEEP, DEEP), nn.Conv2d(DEEP, WIDTH, 1)])
        self.last = _conv(WIDTH, WIDTH)
        self.head = nn.Conv2d(WIDTH, shape.classes * shape.fold * shape.fold, 1)
        for parameter in self.head.parameters():
            nn.init.zeros_(parameter)

    def forward(self, seen: Tensor, moved: Tensor, unexplained: Tensor) -> Tensor:
        """Return the difference to the propagated scores."""
        (unit, unit_seen), fold = self.shape.units, self.shape.fold
        before = torch.cat([moved / unit, unexplained * 4], 1)
        # Zeros beyond the end fill the last cells where the map is no multiple of the fold.
        scores = self.scores(functional.pad(before, (0, fold - 1, 0, fold - 1)) if fold > 1 else before)
        for place, conv in enumerate(self.seen):
            seen = conv(seen / unit_seen if place == 0 else functional.relu(seen))
        if not self.shape.fits:
            seen = _resized(seen, scores)
        fused = functional.relu(self.near(functional.relu(seen + scores)))
        down, across, up = self.wide
        wide = up(functional.relu(across(functional.relu(down(fused)))))
        fused = functional.relu(fused + _resized(wide, fused))
        found = self.head(functional.relu(self.last(fused))) * unit
        if fold == 1:
            return found
        return functional.pixel_shuffle(found, fold)[:, :, : moved.shape[2], : moved.shape[3]]


def _conv(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, stride, 1)


def _resized(value: Tensor, like: Tensor) -> Tensor:
    return functional.interpolate(value, size=like.shape[2:], mode="bilinear", align_corners=False)


class _Corrected(nn.Module):
    """The corrected scores, in the network's own type."""

    def __init__(self, fusion: Fusion, kind: torch.dtype) -> None:
        super().__init__()
        self.fusion, self.kind = fusion, kind

    def forward(self, seen: Tensor, moved: Tensor, unexplained: Tensor) -> Tensor:
        scores = moved.float()
        return (scores + self.fusion(seen.float(), scores, unexplained)).to(self.kind)


def corrected(teacher: Teacher, fusion: Fusion, *, name: str) -> tuple[onnx.ModelProto, sidecar.Sidecar]:
    """Return the teacher's network with ``fusion`` in its file, and its sidecar; the network itself is unchanged."""
    said = replace(teacher.said, name=name)
    graph = _traced(teacher, fusion).graph
    names = {"seen": said.input.name, "moved": MOVED, "unexplained": UNEXPLAINED, "": ""}
    for node in graph.node:
        node.name = PREFIX + node.name
        node.input[:] = [names.get(one, PREFIX + one) for one in node.input]
        node.output[:] = [PREFIX + one for one in node.output]
    for weight in graph.initializer:
        weight.name = PREFIX + weight.name
    mended = PREFIX + graph.output[0].name
    if teacher.of != said.output:
        tail = repeated(teacher.model.graph, teacher.of, said.output, reads=mended, prefix=PREFIX)
        tail[-1].output[list(tail[-1].output).index(PREFIX + said.output)] = CORRECTED
    else:
        tail = (helper.make_node("Identity", [mended], [CORRECTED], name=f"{PREFIX}output"),)
    inputs = tuple(
        helper.make_tensor_value_info(name, kind, [1, channels, f"{name}_height", f"{name}_width"])
        for name, kind, channels in ((MOVED, teacher.kind, fusion.shape.classes), (UNEXPLAINED, TensorProto.FLOAT, 1))
    )
    kind, shape = teacher.output
    free = [f"{CORRECTED}_{axis}" if axis >= len(shape) - 2 else size for axis, size in enumerate(shape)]
    output = helper.make_tensor_value_info(CORRECTED, kind, free)
    added = onnx.GraphProto(node=(*graph.node, *tail), initializer=graph.initializer, input=inputs, output=[output])
    model = with_addition(teacher.model, added)
    onnx.checker.check_model(model)
    return model, replace(said, correction=sidecar.Correction(CORRECTED, teacher.of, MOVED, UNEXPLAINED))


def _traced(teacher: Teacher, fusion: Fusion) -> onnx.ModelProto:
    """Return the fusion as a graph from ``seen``, ``moved`` and ``unexplained`` to ``mended``, of any size."""
    classes, height, width = teacher.shape
    kind = torch.float32 if teacher.kind == TensorProto.FLOAT else torch.float16
    given = {
        "seen": torch.zeros(1, 3, *teacher.size[::-1], dtype=kind),
        "moved": torch.zeros(1, classes, height, width, dtype=kind),
        "unexplained": torch.zeros(1, 1, height, width),
    }
    axes = {name: {2: f"{name}_height", 3: f"{name}_width"} for name in (*given, "mended")}
    return traced(_Corrected(fusion, kind).eval(), given, ["mended"], axes=axes)


def repeated(graph: onnx.GraphProto, start: str, end: str, *, reads: str, prefix: str) -> tuple[onnx.NodeProto, ...]:
    """Copy the nodes from ``start`` to ``end``, reading ``reads`` for ``start``; none if the two are the same.

    What they make is called as before, behind ``prefix``. Constants on the way are repeated as well; what else they read is
    the graph's own.
    """
    needed = upstream(graph.node, [end], [start])
    fixed, made = {weight.name for weight in graph.initializer}, {start}
    constants: list[onnx.NodeProto] = []
    chain: list[onnx.NodeProto] = []
    for node in (node for node in graph.node if node.name in needed):
        if fixed.issuperset(reads_of(node)):
            fixed.update(node.output)
            constants.append(node)
        elif not made.isdisjoint(reads_of(node)):
            if not made.isdisjoint(captured(node)):
                raise NetworkError(
                    f"node {node.name!r} ({node.op_type}) reads the score map from inside a branch or loop; a correction "
                    "can't repeat that. Export the network traced, at a fixed size."
                )
            made.update(filter(None, node.output))
            chain.append(node)
    if end not in made:
        raise NetworkError(f"{end!r} isn't computed from {start!r}.")
    own = upstream(constants, {name for node in chain for name in reads_of(node)})
    nodes = [*(node for node in constants if node.name in own), *chain]
    names = {name: f"{prefix}{name}" for node in nodes for name in node.output if name} | {start: reads}
    return renamed(nodes, names, prefix=prefix)
