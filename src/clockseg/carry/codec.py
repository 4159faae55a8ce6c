"""Motion from the vectors that the video's codec has already computed, in all streams or where they are better than optical flow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np

from clockseg.carry.flow import Flow, grey, optical_flow, shrunk
from clockseg.carry.motion import Motion, Sight, grid, sampled
from clockseg.carry.track import BACK, Reference, Track, TrackedMotion, TrackedSight
from clockseg.carry.vectors import Vectors
from clockseg.clocks.expressions import Written
from clockseg.errors import UsageError
from clockseg.libraries import opencv
from clockseg.types import Array, Size

LEAST_KNOWN = 0.2
"""Share of the picture in blocks with vectors, below which optical flow is used instead."""
DOUBT = 1
"""Grey levels by which another candidate must be better than the one that is best for the whole picture."""
NEAR = 5
"""Side in pixels of the window over which candidates are compared."""


@dataclass(frozen=True)
class Codec(Written):
    """Motion from the codec's vectors, on the picture at ``scale`` of the working size (above 0, at most 1).

    FFmpeg does not export to which earlier frame a block refers. So each pixel takes the candidate frame that matches best
    around it; pixels without a vector take their neighbours', and the motion of the previous frame, continued, is a candidate
    too. A frame with few vectors or none (an intra frame, or one after a gap) uses optical flow, and so do all frames of a
    stream with B-frames. ``UsageError`` for pictures, and for streams whose decoder exports no vectors.

    >>> str(Codec(0.25)), str(Codec())
    ('codec(scale=0.25)', 'codec')
    """

    scale: float = 0.5
    reads_vectors: ClassVar[bool] = True

    def __post_init__(self) -> None:
        Flow(self.scale)

    def see(self, picture: Any, share: tuple[float, float], vectors: Any, *, size: Size | None = None) -> TrackedSight:
        """Return the picture in grey, scaled down, with its ``Vectors``; see ``Estimator.see``."""
        return TrackedSight(grey(picture, self.scale, size), share, vectors)

    def observe(self, before: Sight, now: Sight) -> Motion:
        """Return the motion from ``now`` back to ``before`` and to the earlier frames that it refers to."""
        if not isinstance(now.vectors, Vectors):
            raise UsageError(
                "warp(codec): a frame without motion vectors. Videos in H.264, MPEG-4 or MPEG-2 have them: open them "
                "with open_clip(.., vectors=True), and call session(image, vectors=frame.vectors). "
                "Pictures, subsampled frames (every=, --every), HEVC, VP9 and AV1 have none: use warp(auto) or warp(flow)."
            )
        earlier, later = cast(TrackedSight, before), cast(TrackedSight, now)
        references = self._references(earlier, later, now.vectors)
        track = Track(before=tuple(flow for _, flow in earlier.last)).then(references)
        later.last[:] = [(earlier.grey, track.newest)]
        return TrackedMotion(track.newest, before, now, references=tuple(references), track=track)

    def _references(self, before: TrackedSight, now: TrackedSight, vectors: Vectors) -> list[Reference]:
        """Return the reference frame and the vector of each pixel of the frame."""
        follows = isinstance(before.vectors, Vectors) and vectors.index == before.vectors.index + 1
        if not follows or vectors.reordered or vectors.known < LEAST_KNOWN:
            return [Reference(1, optical_flow(now.grey, before.grey, finest=1))]
        return _most_alike(now.grey, _explanations(before, now, vectors))


@dataclass(frozen=True)
class Auto(Written):
    """``Codec`` in streams with vectors whose frames refer to earlier ones only, and ``Flow`` in all others.

    The rule follows from measured times of decoding and motion together, and not from a measurement in each run, so that the
    same video always gives the same bytes. Without B-frames, vectors keep more of the accuracy, at 0.85 of flow's processor time
    at 960x540 and 1.2 of it at 512x288. With B-frames they kept less, at twice the time (docs/motion.md).

    >>> print(Auto().choice(None), Auto(scale=0.25))
    flow auto(scale=0.25)
    """

    scale: float = 0.5
    reads_vectors: ClassVar[bool] = True

    def __post_init__(self) -> None:
        Flow(self.scale)

    def choice(self, vectors: Any) -> Codec | Flow:
        """Choose the motion estimator for a frame with these vectors."""
        return Codec(self.scale) if isinstance(vectors, Vectors) and not vectors.reordered else Flow(self.scale)

    def see(self, picture: Any, share: tuple[float, float], vectors: Any, *, size: Size | None = None) -> Sight:
        """Return what the estimator that is chosen for the frame needs."""
        return self.choice(vectors).see(picture, share, vectors, size=size)

    def observe(self, before: Sight, now: Sight) -> Motion:
        """Return the motion from ``now`` back to ``before``."""
        if isinstance(before, TrackedSight) == isinstance(now, TrackedSight):
            return self.choice(now.vectors).observe(before, now)
        # Only one of the two frames has vectors.
        size = now.grey.shape[1], now.grey.shape[0]
        return Flow(self.scale).observe(replace(before, grey=shrunk(before.grey, size)), now)


def _explanations(before: TrackedSight, now: TrackedSight, vectors: Vectors) -> list[tuple[Array, Reference]]:
    """Return the candidates: earlier frames in grey, with the motion from each."""
    height, width = now.grey.shape
    greys = [before.grey, *(grey for grey, _ in before.last)]
    flow = vectors.flow(width, height)
    found = [(grey, Reference(back, flow)) for back, grey in enumerate(greys, start=1)]
    # Frames from before a fill are not kept.
    unseen = range(len(found) + 1, min(BACK, vectors.index) + 1)
    found += [(before.grey, Reference(1, flow / back)) for back in unseen]
    # The motion of the previous frame: the best guess where an object is uncovered, or a block was cheapest elsewhere.
    return found + [(before.grey, Reference(1, flow)) for _, flow in before.last]


def _most_alike(grey: Array, explanations: list[tuple[Array, Reference]]) -> list[Reference]:
    """Choose for each pixel the candidate with the smallest difference around it; the first that is returned applies everywhere.

    There is one reference per earlier frame, so that each is warped once.
    """
    cv2 = opencv()
    unlike = [_unlike(grey, earlier, reference.flow) for earlier, reference in explanations]
    lead = min(range(len(unlike)), key=lambda index: cv2.mean(unlike[index])[0])
    chosen, least = np.full(grey.shape, lead, np.uint8), unlike[lead]
    for index, apart in enumerate(unlike):
        if index != lead:
            better = cv2.compare(cv2.add(apart, DOUBT), least, cv2.CMP_LT)
            least = cv2.min(least, cv2.add(apart, DOUBT))
            chosen[better > 0] = index
    first = explanations[lead][1]
    found = {first.back: first._replace(flow=first.flow.copy())}
    for index, (_, one) in enumerate(explanations):
        where = cv2.compare(chosen, index, cv2.CMP_EQ)
        if index == lead or not where.any():
            continue
        known = found.get(one.back)
        if known is None:
            found[one.back] = one._replace(flow=one.flow.copy(), where=where)
            continue
        cv2.copyTo(one.flow, where, known.flow)
        if known.where is not None:
            cv2.bitwise_or(known.where, where, known.where)
    return list(found.values())


def _unlike(grey: Array, earlier: Array, flow: Array) -> Array:
    cv2 = opencv()
    return np.asarray(cv2.blur(cv2.absdiff(sampled(earlier, grid(flow) + flow), grey), (NEAR, NEAR)))
