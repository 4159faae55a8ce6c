"""Sums over the records of frames: rates of firing and mean seconds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from clockseg.clockwork.trace import Record


@dataclass(frozen=True)
class Tally:
    """Running sums over the records of clips, which can be added. They take constant memory.

    The first frame of a clip is counted in ``frames`` only; rates and ``seconds`` are over the frames after it. ``fires``: of
    each of the ``stages``.
    """

    stages: tuple[str, ...]
    clips: int = 0
    frames: int = 0
    fires: tuple[int, ...] = ()
    network: int = 0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if not self.fires:
            object.__setattr__(self, "fires", (0,) * len(self.stages))

    def add(self, record: Record, *, first: bool) -> Tally:
        """Return this tally with one more frame; ``first`` if it is the first of its clip."""
        if first:
            return replace(self, clips=self.clips + 1, frames=self.frames + 1)
        fires = tuple([count + fired for count, fired in zip(self.fires, record.fired, strict=True)])
        network, seconds = self.network + any(record.fired), self.seconds + record.seconds.network
        return replace(self, frames=self.frames + 1, fires=fires, network=network, seconds=seconds)

    def __add__(self, other: Tally) -> Tally:
        """Return the sums over the clips of both."""
        return Tally(
            self.stages,
            self.clips + other.clips,
            self.frames + other.frames,
            tuple([a + b for a, b in zip(self.fires, other.fires, strict=True)]),
            self.network + other.network,
            self.seconds + other.seconds,
        )

    @property
    def later(self) -> int:
        """Number of frames after the first of their clip."""
        return self.frames - self.clips

    @property
    def fire_rate(self) -> dict[str, float | None]:
        """Per stage: firings after the first frame / (frames - 1); None for a clip of one frame."""
        fires = zip(self.stages, self.fires, strict=True)
        return {name: n / self.later if self.later else None for name, n in fires}

    @property
    def network_rate(self) -> float | None:
        """Share of frames after the first on which any stage fired; None for a clip of one frame."""
        return self.network / self.later if self.later else None

    @property
    def seconds_per_frame(self) -> float | None:
        """Mean seconds of the network over the frames after the first; None for a clip of one frame."""
        return self.seconds / self.later if self.later else None


class Progress(NamedTuple):
    """Progress of a clip: frames ``done`` of about ``expected`` (None: unknown), and the sums so far."""

    clip: str
    done: int
    expected: int | None
    tally: Tally
