"""Instance networks as staged networks: one stage, whose output is decoded into ``Instances``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from clockseg.clockwork.network import Stage, StagedNetwork
from clockseg.clockwork.schedule import Schedule
from clockseg.clockwork.session import Session
from clockseg.errors import NetworkError, UsageError
from clockseg.graph.part import IMAGE, Built, GraphPart, Pick
from clockseg.graph.sidecar import Input, Sidecar
from clockseg.instances.handover import Handover
from clockseg.instances.heads import Head
from clockseg.instances.sets import Instances
from clockseg.types import Image, Size

if TYPE_CHECKING:
    import onnx

STAGE = "network"
"""The name of the only stage."""


@dataclass(frozen=True)
class Decoding:
    """The ``restore`` of an instance network: from the raw outputs of a frame to its ``Instances``.

    ``head``: None for a function that returns ``Instances`` itself. ``scaled``: the size of a frame's picture within the working
    size. ``before``: the state at the end of the piece of the video before; None at its beginning.
    """

    head: Head | None
    scaled: Callable[[Size], Size]
    before: Handover | None = None
    kind: ClassVar[str] = "instances"

    def __call__(self, value: Any, image: Image) -> Instances:
        """Return the instances of the frame ``image``, uint8 RGB [h, w, 3]."""
        frame = image.shape[1], image.shape[0]
        found = value if self.head is None else self.head.decode(value, self.scaled(frame), frame)
        if not isinstance(found, Instances):
            raise UsageError(
                f"an instance network returned {type(found).__name__}; it returns clockseg.instances.Instances."
            )
        return found

    def stream(
        self, net: StagedNetwork, schedule: Schedule, session: Callable[..., Session], lookahead: int | None
    ) -> Any:
        """Return the stream that follows instances from frame to frame."""
        from clockseg.instances.tracking import tracking

        return tracking(net, schedule, self, session, lookahead)


def continued(net: StagedNetwork, before: Path) -> StagedNetwork:
    """Return an instance network whose identities go on from a file that a ``Handover`` wrote."""
    decoding = net.restore
    if not isinstance(decoding, Decoding):
        raise TypeError(f"network {net.name!r} gives no instances.")
    return replace(net, restore=replace(decoding, before=Handover.read(before)))


def instance_network(
    function: Callable[[Image], Instances], classes: Sequence[str], *, name: str = "instances"
) -> StagedNetwork:
    """Return an instance network that calls a function with a frame, uint8 RGB [h, w, 3], to get its ``Instances``.

    ``classes``: the names of the classes, by id.

    >>> instance_network(lambda image: None, ["person"]).classes
    ('person',)
    """
    said = Sidecar(name, Input(IMAGE, 1, 1), STAGE, ((STAGE,),), (STAGE,), classes=tuple(classes))
    stages = (Stage(STAGE, function, scores=None),)
    return StagedNetwork(name, stages, restore=Decoding(None, lambda size: size), sidecar=said)


def staged_instances(model: onnx.ModelProto, said: Sidecar) -> StagedNetwork:
    """Make an uncompiled staged network of a graph whose sidecar has ``instances``; ``restore`` is set by the caller."""
    head = Head.read(said.instances or {})
    there = {value.name for value in model.graph.output}
    missing = [name for name in head.outputs if name not in there]
    if missing:
        raise NetworkError(
            f"the sidecar's instances read {', '.join(missing)}; the network gives {', '.join(sorted(there))}."
        )

    def build(size: Size) -> Built:
        from clockseg.graph.extraction import built

        return built(_with_frame(model, said.input, head.outputs, size))

    whole = GraphPart("whole", (IMAGE,), head.outputs, build)
    stages = (Stage(said.stage_names[0], whole, scores=None),)
    picked = Pick(head.outputs)
    return StagedNetwork(said.name, stages, finish=picked, whole=whole, sidecar=said, fused=picked)


def _with_frame(model: onnx.ModelProto, reads: Input, outputs: Sequence[str], size: Size) -> onnx.ModelProto:
    """Return ``model`` at one working size, reading uint8 frames, with the outputs in this order.

    Shapes inside are left to the engine: suppression gives as many boxes as it finds.
    """
    from clockseg.graph.extraction import with_frame
    from clockseg.graph.nodes import copied

    model = copied(model)
    graph = model.graph
    [value] = [value for value in graph.input if value.name == reads.name]
    dims = value.type.tensor_type.shape.dim
    for dim, side in zip(dims, (1, 3, size[1], size[0]), strict=True):
        dim.dim_value = side
    by_name = {value.name: value for value in graph.output}
    del graph.output[:], graph.value_info[:]
    graph.output.extend(by_name[name] for name in outputs)
    return with_frame(model, reads.name, reads)
