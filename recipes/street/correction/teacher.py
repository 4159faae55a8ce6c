"""The network whose propagated scores are corrected: its answers for a frame, and the motion between frames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx.helper import tensor_dtype_to_np_dtype

from clockseg.carry import Flow, Motion, Sight, Warp
from clockseg.clockwork.network import StagedNetwork
from clockseg.errors import NetworkError, UsageError
from clockseg.graph import sidecar
from clockseg.graph.part import FRAME_SIZE, LABELS, Pick, Tensors
from clockseg.graph.static import TypeShape, fix
from clockseg.networks.load import assemble, framing
from clockseg.types import Array, Image, Labels, Size


class Answer(NamedTuple):
    """The network's values for one frame.

    ``prepared``: its input; ``fused``: the value that is propagated; ``scores``: the map in it, [classes, h, w];
    ``labels``: uint8 [H, W], at the working size.
    """

    prepared: Tensors
    fused: Tensors
    scores: Array
    labels: Labels


@dataclass(frozen=True)
class Teacher:
    """A compiled network; ``of``: the tensor that is propagated.

    ``shape``, ``kind``: of that tensor, [classes, h, w], and its type in the file; ``output``: of the network's output.
    ``size``: the working size, padded. ``warp`` propagates it, with the same code as at run time.
    """

    net: StagedNetwork
    model: onnx.ModelProto
    said: sidecar.Sidecar
    of: str
    shape: tuple[int, int, int]
    kind: int
    output: TypeShape
    size: Size
    warp: Warp

    def __call__(self, image: Image) -> Answer:
        """Run every stage once."""
        prepared = self.net.prepare(image)
        trunk, values = prepared, {}
        for stage in self.net.stages:
            trunk = stage.body(trunk)
            values[stage.name] = stage.head(trunk)
        for group in self.net.groups:
            values[group.name] = group.function(*(values[name] for name in group.reads))
        last = values[self.net.last]
        fused = self.net.fused(last)
        return Answer(prepared, fused, fused[self.of][0], self.net.finish(last)[LABELS][0])

    def see(self, image: Image) -> Sight:
        """Return the part of a frame that motion is estimated from."""
        return self.warp.see(lambda: self.net.prepare(image), image, None)

    def moved(self, fused: Tensors, motion: Motion) -> tuple[Array, Array]:
        """Return the scores propagated along ``motion``, [classes, h, w], and the motion residual, [1, h, w]."""
        value = self.warp.move(fused, motion)
        return value[self.of][0], self.warp.unexplained({self.of: value[self.of]}, motion)["unexplained"][0]

    def labels(self, scores: Array, size: Size) -> Labels:
        """Return the labels that the network makes of a score map, uint8 [H, W]; ``size``: (W, H)."""
        given = np.ascontiguousarray(scores, tensor_dtype_to_np_dtype(self.kind))[None]
        finish = self.net.conclude or self.net.finish
        found: Labels = finish({self.of: given, FRAME_SIZE: np.array(size)})[LABELS][0]
        return found

    @property
    def stride(self) -> tuple[float, float]:
        """Pixels of the working size per cell of the map, down and across."""
        return self.size[1] / self.shape[1], self.size[0] / self.shape[2]


def teacher(model: onnx.ModelProto, said: sidecar.Sidecar, *, flow: Flow, size: Any = None, **options: Any) -> Teacher:
    """Return ``model``, a network alone, ready to teach.

    ``size`` and ``options``: as of ``load``. ``UsageError`` for a network without classes, ``NetworkError`` for one that has
    no score map to propagate.
    """
    if not said.classes:
        raise UsageError(f"network {said.name!r} has no classes in its sidecar, so there are no scores to correct.")
    working = framing(model, said, size=size).padded((said.input.width, said.input.height))
    static = fix(model, {said.input.name: (1, 3, working[1], working[0])})
    fused = assemble(model, said, engine=None, size=size).fused
    names = fused.names if isinstance(fused, Pick) else ()
    shapes = {name: list(static.shape(name)) for name in names if name in static.types}
    [shape] = shapes.values() if len(names) == len(shapes) == 1 else [[]]
    if len(shape) != 4 or shape[1] != len(said.classes):
        raise NetworkError(
            f"network {said.name!r} fuses {shapes or ', '.join(names) or 'nothing'} last; a correction is of one score map "
            f"[1, {len(said.classes)}, h, w]. Cut the network so that its last group makes it (clockseg cut)."
        )
    net, [of] = assemble(model, said, size=size, **options), names
    kind, output = static.types[of][0], static.types[said.output]
    return Teacher(net, model, said, of, (shape[1], shape[2], shape[3]), kind, output, working, Warp(flow, of="fused"))
