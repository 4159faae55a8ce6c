"""Instance networks as staged networks: one stage, whose output is decoded into ``Instances``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from clockseg.clockwork.network import Stage, StagedNetwork
from clockseg.clockwork.schedule import Schedule
from clockseg.clockwork.session import Session
from clockseg.errors import UsageError
from clockseg.graph.part import IMAGE
from clockseg.graph.sidecar import Input, Sidecar
from clockseg.instances.heads import Head
from clockseg.instances.sets import Instances
from clockseg.types import Image, Size

STAGE = "network"
"""The name of the only stage."""


@dataclass(frozen=True)
class Decoding:
    """The ``restore`` of an instance network: from the raw outputs of a frame to its ``Instances``.

    ``head``: None for a function that returns ``Instances`` itself. ``scaled``: the size of a frame's picture within the working
    size.
    """

    head: Head | None
    scaled: Callable[[Size], Size]
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
