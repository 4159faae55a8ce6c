"""The session of a user's own loop: a network by name, the recommended schedule, and outputs that know their classes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import cv2
import numpy as np

from clockseg.carry import Interpolate, at_once
from clockseg.clocks.spec import parse_schedule
from clockseg.clockwork import session as clockwork
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import ScheduleLike, schedule_for
from clockseg.errors import NetworkError, UsageError
from clockseg.evaluation.tally import Tally
from clockseg.instances.drawing import drawn
from clockseg.instances.sets import Instances, instance_line
from clockseg.networks.framing import check_frame
from clockseg.networks.load import load
from clockseg.showing.kind import kind_of
from clockseg.showing.stream import Stream, stream
from clockseg.types import Array, Image
from clockseg.video import Heat, overlay, write_npy, write_png
from clockseg.video.overlay import colours_of


class _Map(np.ndarray[Any, np.dtype[Any]]):
    """An array with the classes of the network that made it; what is computed from it is a plain array."""

    classes: tuple[str, ...] = ()
    palette: tuple[tuple[int, ...], ...] = ()
    bgr: bool = False

    def __array_finalize__(self, source: Any) -> None:
        vars(self).update(getattr(source, "__dict__", {}))

    @classmethod
    def of(cls, array: Array, facts: Mapping[str, Any]) -> Self:
        """Return a view of ``array`` with ``facts``, its attributes by name."""
        found = np.asarray(array).view(cls)
        vars(found).update(facts)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).of, (np.asarray(self), vars(self))

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return np.asarray(array)[()]


class Labels(_Map):
    """A label map: the id of each pixel's class, uint8 [h, w], 255 for none; ``classes``: their names by id."""

    def draw(self, image: Array, *, opacity: float = 0.5) -> Image:
        """Return ``image``, uint8 [h, w, 3] in the session's order of colours, tinted by class."""
        return _drawn(image, self.bgr, lambda rgb: overlay(rgb, np.asarray(self), self.palette, opacity=opacity))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the ids as a grey PNG; ``UsageError`` for another ending."""
        _check_ending(path, ".png")
        write_png(np.asarray(self), path)


class Depth(_Map):
    """A map of numbers, such as depth in the network's own unit: float [h, w] or [channels, h, w]."""

    def draw(self, image: Array) -> Image:
        """Return ``image``, uint8 [h, w, 3] in the session's order of colours, tinted by the first channel's numbers."""
        return _drawn(image, self.bgr, lambda rgb: Heat()(rgb, np.asarray(self)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the numbers as NumPy's .npy file; ``UsageError`` for another ending."""
        _check_ending(path, ".npy")
        write_npy(np.asarray(self), path)


@dataclass(frozen=True, eq=False)
class NamedInstances(Instances):
    """The instances of a frame; ``names``: of their classes, by id."""

    names: tuple[str, ...] = ()
    bgr: bool = False

    def draw(self, image: Array) -> Image:
        """Return ``image``, uint8 [h, w, 3] in the session's order of colours, with masks, outlines, names and identities."""
        return _drawn(image, self.bgr, lambda rgb: drawn(rgb, self, self.names))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write them as JSON in COCO's run lengths, as a line of ``instances.jsonl``; ``UsageError`` for another ending."""
        _check_ending(path, ".json")
        Path(path).write_text(instance_line(0, self, self.names) + "\n")


def _drawn(image: Array, bgr: bool, draw: Callable[[Array], Image]) -> Image:
    """Draw on ``image``, BGR or RGB, by a function of RGB."""
    order = slice(None, None, -1) if bgr else slice(None)
    return np.ascontiguousarray(draw(np.ascontiguousarray(image[..., order]))[..., order])


def _check_ending(path: str | os.PathLike[str], ending: str) -> None:
    if Path(path).suffix.lower() != ending:
        raise UsageError(f"{os.fspath(path)}: give a name that ends in {ending}.")


def recommended(net: StagedNetwork) -> str:
    """Return the schedule that the network's sidecar recommends; the frame oracle if it recommends none."""
    return (net.sidecar.schedule if net.sidecar is not None else None) or "frame_oracle"


class Session(clockwork.Session):
    """A network running over one video, frame by frame: ``session(image)`` returns the output for ``image``, at once.

    ``net``: a network, or a name or file for ``load``. ``schedule``: a ``Schedule``, a function of the number of stages
    (``alternating``), a clock (``adaptive(0.25)``), or text as on the command line; None: the one that the network
    recommends. The carry ``interpolate`` needs later frames (``clockseg.run`` reads ahead): in the recommended schedule, it is
    replaced by ``warp``, and a ``schedule`` with it is refused.
    ``bgr``: images are BGR, as OpenCV reads them, instead of RGB.

    The output of a network with classes is ``Labels``, that of a network of numbers ``Depth``; both are arrays. A network
    of instances gives ``NamedInstances``, and one without a sidecar whatever its last part returns.
    ``reset()`` and a change of the frames' size start again. ``tally``: the sums so far. ``UsageError`` if the schedule does
    not fit the network.

    >>> session = Session("street")
    >>> labels = session(np.zeros((54, 96, 3), np.uint8))
    >>> type(labels).__name__, labels.shape, labels.classes[:2], str(session.schedule.carry)
    ('Labels', (54, 96), ('sky', 'building'), 'warp(flow)')
    """

    def __init__(
        self,
        net: StagedNetwork | str | os.PathLike[str],
        schedule: ScheduleLike | str | None = None,
        *,
        bgr: bool = False,
    ) -> None:
        opened = net if isinstance(net, StagedNetwork) else load(os.fspath(net))
        text = recommended(opened) if schedule is None else schedule
        try:
            found = schedule_for(parse_schedule(text) if isinstance(text, str) else text, len(opened))
        except UsageError as error:
            if schedule is not None:
                raise
            raise NetworkError(f"the schedule that the sidecar of {opened.name!r} recommends: {error}") from error
        if schedule is None:
            found = replace(found, carry=at_once(found.carry))
        elif isinstance(found.carry, Interpolate):
            found.carry.refuse()
        super().__init__(opened, found)
        self.tally = Tally(opened.names)
        self._bgr = bgr
        self._frames = stream(opened, found) if kind_of(opened) == "instances" else None
        self._palette = tuple(map(tuple, colours_of(getattr(opened.sidecar, "palette", ()))))
        self._kind: type[Labels] | type[Depth] | None
        self._kind = None if opened.sidecar is None else Depth if kind_of(opened) == "values" else Labels

    def __call__(self, image: Any, *, vectors: Any = None) -> Labels | Depth | NamedInstances:
        """Return the output for this frame, uint8 [h, w, 3]; ``vectors``: see ``step``.

        ``UsageError`` if ``image`` is anything else and the network has a sidecar.
        """
        if self._bgr or self.net.sidecar is not None:
            check_frame(image)
        rgb = cv2.cvtColor(image, cv2.COLOR_BGR2RGB) if self._bgr else image
        first = self.memory is None
        if self._frames is not None:
            output = self._followed(self._frames, rgb, vectors)
        else:
            output = super().__call__(rgb, vectors=vectors)
        self.tally = self.tally.add(self.record, first=first)
        if self._kind is None or not isinstance(output, np.ndarray):
            return output  # type: ignore[no-any-return]
        found = np.asarray(output).view(self._kind)
        found.classes, found.palette, found.bgr = self.net.classes, self._palette, self._bgr
        return found

    def _followed(self, frames: Stream, image: Any, vectors: Any) -> NamedInstances:
        """Return the instances of a frame, followed from the frames before."""
        [shown] = frames.push(image, vectors=vectors)
        memory = frames.session.memory
        self.memory = None if memory is None else memory._replace(record=shown.record)
        return NamedInstances(**vars(shown.output), names=self.net.classes, bgr=self._bgr)

    def reset(self) -> None:
        """Drop all cached values: the next frame is a fill and counts as the first of a clip."""
        super().reset()
        if self._frames is not None:
            self._frames.close()
