"""The state of each source as pages show it. A slow page misses frames; the run never waits for one."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import cv2
import numpy as np

from clockseg.clockwork.network import StagedNetwork
from clockseg.instances.drawing import drawn
from clockseg.live.channel import Channel, Shown
from clockseg.showing.kind import kind_of
from clockseg.types import Array, Size
from clockseg.video import Heat
from clockseg.video.overlay import colours_of

HISTORY = 900
"""The most past frames of a source whose records a page shows when it is opened."""
WIDEST = 960
"""The largest width in pixels of a picture in a page: a JPEG of it takes a few milliseconds."""
MOST_FPS = 15
WAIT_SECONDS = 5.0
"""A page gets the state of its source after so long even without a new frame."""


class Moment(NamedTuple):
    """One frame's record, as sent to pages.

    ``number``: of the frame, from 1; ``fired``: bit s for stage s; ``latency_ms``: None of a frame that had to wait until the
    network was compiled; ``dropped``: frames given up before it.
    """

    number: int
    fired: int
    fill: bool
    latency_ms: float | None
    dropped: int


class _Encoded(NamedTuple):
    """The pictures of a frame, of ``size`` (w, h): a JPEG, and a grey PNG of the class ids, empty if the output is no labels."""

    number: int
    at: float
    size: Size
    pictures: tuple[bytes, bytes]


@dataclass
class _View:
    """The newest frame of a source, its history, and its pictures, which are encoded once for all pages."""

    channel: Channel | None = None
    newest: Shown | None = None
    moments: deque[Moment] = field(default_factory=lambda: deque(maxlen=HISTORY))
    encoded: _Encoded | None = None
    encoding: threading.Lock = field(default_factory=threading.Lock)
    heat: Heat = field(default_factory=Heat)

    @property
    def number(self) -> int:
        """Number of the newest frame; 0 before the first."""
        return self.moments[-1].number if self.moments else 0


class Board:
    """``show`` each frame (cheap: nothing is drawn or encoded for it); ``message`` returns what is new to a page.

    ``names``: of the sources; ``schedule``: the one they run on.
    """

    def __init__(self, net: StagedNetwork, names: Sequence[str], schedule: str) -> None:
        self._net, self._names, self._schedule = net, tuple(names), schedule
        self._kind = kind_of(net)
        self._changed = threading.Condition()
        self._views = [_View() for _ in names]

    def __len__(self) -> int:
        """The number of sources."""
        return len(self._names)

    def about(self) -> dict[str, Any]:
        """Return what does not change: sources, stages, classes and their colours."""
        classes = list(self._net.classes)
        colours = colours_of(getattr(self._net.sidecar, "palette", ()), len(classes))
        return {
            "sources": list(self._names),
            "stages": [stage.name for stage in self._net.stages],
            "classes": classes,
            "palette": [list(colour) for colour in colours],
            "network": self._net.name,
            "engine": self._net.engine,
            "schedule": self._schedule,
            "history": HISTORY,
        }

    def show(self, source: int, channel: Channel, shown: Shown) -> None:
        """Add a frame of a source."""
        record, view = shown.record, self._views[source]
        with self._changed:
            moment = Moment(
                view.number + 1,
                sum(bool(fires) << stage for stage, fires in enumerate(record.fired)),
                record.fill,
                None if shown.latency_seconds is None else round(1000 * shown.latency_seconds, 2),
                shown.dropped,
            )
            view.channel, view.newest = channel, shown
            view.moments.append(moment)
            self._changed.notify_all()

    def message(self, source: int, after: int) -> bytes:
        """Return what is new of a source since frame number ``after``; wait for it at most ``WAIT_SECONDS``.

        The length of a JSON text (4 bytes, big endian), the text, a JPEG, and a PNG whose grey is the class id (empty without
        labels). The text has the bytes of both pictures, which are empty if there is nothing new, the ``number`` of the frame,
        the ``moments`` since ``after``, and the ``state``.
        """
        view = self._views[source]
        with self._changed:
            new = self._changed.wait_for(lambda: view.number > after, WAIT_SECONDS)
        found = self._encoded(view, after) if new else None
        pictures = (b"", b"") if found is None else found.pictures
        text = {"state": _state(view.channel), "picture": len(pictures[0]), "masks": len(pictures[1])}
        if found is not None:
            with self._changed:
                moments = [moment for moment in view.moments if after < moment.number <= found.number]
            text |= {"number": found.number, "size": found.size, "moments": moments}
        head = json.dumps(text, allow_nan=False).encode()
        return b"".join((len(head).to_bytes(4, "big"), head, *pictures))

    def _encoded(self, view: _View, after: int) -> _Encoded | None:
        """Return the pictures of a frame newer than ``after``, encoded at most ``MOST_FPS`` times a second; None before the first."""
        with view.encoding:
            last = view.encoded
            if last is not None and last.number > after:
                return last
            if last is not None:
                time.sleep(max(0.0, last.at + 1 / MOST_FPS - time.monotonic()))
            with self._changed:
                number, newest = view.number, view.newest
            if newest is not None:
                view.encoded = _Encoded(number, time.monotonic(), *self._drawn(view.heat, newest))
            return view.encoded

    def _drawn(self, heat: Heat, shown: Shown) -> tuple[Size, tuple[bytes, bytes]]:
        image = shown.frame.image
        if self._kind == "values":
            image = heat(image, shown.output)
        elif self._kind == "instances":
            image = drawn(image, shown.output, self._net.classes)
        height, width = image.shape[:2]
        scale = min(1.0, WIDEST / width)
        size = max(1, round(width * scale)), max(1, round(height * scale))
        small = cv2.resize(image, size, interpolation=cv2.INTER_AREA) if scale < 1 else image
        picture = _bytes(".jpg", cv2.cvtColor(small, cv2.COLOR_RGB2BGR), cv2.IMWRITE_JPEG_QUALITY, 82)
        if self._kind != "labels":
            return size, (picture, b"")
        labels = cv2.resize(np.asarray(shown.output), size, interpolation=cv2.INTER_NEAREST)
        return size, (picture, _bytes(".png", labels, cv2.IMWRITE_PNG_COMPRESSION, 1))


def _state(channel: Channel | None) -> dict[str, Any]:
    """Return the state of a source."""
    if channel is None:
        return {"state": "connecting"}
    tally = channel.figures.tally
    return {
        "state": channel.feed.state,
        "trouble": channel.feed.trouble if channel.feed.state in ("connecting", "failed") else "",
        "frames": tally.frames,
        "dropped": channel.dropped,
        "reconnects": channel.feed.reconnects,
        "source_fps": round(channel.fps, 2),
        "network_rate": tally.network_rate,
        "latency_ms": channel.latencies.facts(),
    }


def _bytes(kind: str, image: Array, *options: int) -> bytes:
    _, encoded = cv2.imencode(kind, image, options)
    return encoded.tobytes()
