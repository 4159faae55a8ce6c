"""Motion from the vectors that the video's codec has already computed, in all streams or where they are better than optical flow.

A codec's blocks may refer to frames further back than the previous one, so motion is composed along these references.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from clockseg.carry.motion import Flow, Motion, Sight, grey, grid, in_rows, optical_flow, sampled, shrunk
from clockseg.clocks.expressions import Written
from clockseg.errors import UsageError
from clockseg.libraries import opencv
from clockseg.types import Array, Size

CELL = 8
"""Side in pixels of the smallest block that FFmpeg exports."""
BLOCK = np.dtype(
    [(name, np.int32) for name in ("source", "w", "h", "dst_x", "dst_y", "motion_x", "motion_y", "motion_scale")]
)
"""The fields of FFmpeg's ``AVMotionVector`` that are kept."""
STRAIGHT = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
BACK = 2
"""Earlier frames that a block may refer to."""
ROUNDS = 2
"""Fixed point iterations that invert a field; the motion of blocks is almost constant, so a third changes little."""
LEAST_KNOWN = 0.2
"""Share of the picture in blocks with vectors, below which optical flow is used instead."""
DOUBT = 1
"""Grey levels by which another candidate must be better than the one that is best for the whole picture."""
NEAR = 5
"""Side in pixels of the window over which candidates are compared."""


@dataclass(frozen=True, eq=False)
class Vectors:
    """The motion vectors of one frame, as the decoder exports them.

    ``index``: the frame's number in its clip. ``blocks``: ``BLOCK`` [blocks], the centre of each, its sides and its
    vector times a scale; empty for an intra frame. ``size``: (w, h) of the coded picture. ``upright``: (a, b, c, d, e, f), with
    which the pixel (x, y) of the upright picture is (ax + by + c, dx + ey + f) in the coded one. ``reordered``: True if
    frames of this stream may refer to later ones (B-frames), whose vectors are not used.

    >>> Vectors(3, np.zeros(0, BLOCK), (64, 48)).known
    0.0
    """

    index: int
    blocks: Array
    size: tuple[int, int]
    upright: tuple[float, ...] = STRAIGHT
    reordered: bool = False

    @property
    def known(self) -> float:
        """The share of the picture in blocks that refer to earlier frames, 0..1."""
        return float(self.cells[1].mean())

    @cached_property
    def cells(self) -> tuple[Array, Array]:
        """The vectors into earlier frames, float32 [h, w, 2] in pixels, on cells of 8 pixels; bool [h, w], True for cells with one."""
        rows, columns = -(-self.size[1] // CELL), -(-self.size[0] // CELL)
        flow, known = np.zeros((rows, columns, 2), np.float32), np.zeros((rows, columns), bool)
        blocks = self.blocks[self.blocks["source"] < 0]
        wide, high = blocks["w"] > CELL, blocks["h"] > CELL
        left, top = (blocks["dst_x"] - blocks["w"] // 2) // CELL, (blocks["dst_y"] - blocks["h"] // 2) // CELL
        scale = blocks["motion_scale"].astype(np.float32)
        vectors = np.stack([blocks["motion_x"] / scale, blocks["motion_y"] / scale], 1)
        for right, below, there in ((0, 0, True), (1, 0, wide), (0, 1, high), (1, 1, wide & high)):
            x, y = left + right, top + below
            # A coded picture may have a margin that isn't shown.
            inside = there & (x >= 0) & (y >= 0) & (x < columns) & (y < rows)
            flow[y[inside], x[inside]] = vectors[inside]
            known[y[inside], x[inside]] = True
        return flow, known

    def flow(self, width: int, height: int) -> Array:
        """Return ``cells`` without holes over the upright picture at this size: float32 [height, width, 2], in its pixels."""
        a, b, c, d, e, f = self.upright
        turned = (self.size[1], self.size[0]) if a == 0 else self.size
        x, y = turned[0] / width, turned[1] / height
        # The centre of pixel (i, j) is at ((i + 0.5) x, (j + 0.5) y) of the upright picture, and that of cell 0 at half a cell.
        matrix = np.array([[a * x, b * y, (a * x + b * y) / 2 + c], [d * x, e * y, (d * x + e * y) / 2 + f]]) / CELL
        matrix[:, 2] -= 0.5
        # Places go from the upright picture to the coded one, vectors back: by the transpose.
        cells, turn = filled(*self.cells), np.array([[a / x, b / y], [d / x, e / y]], np.float32)
        cells = cells @ turn
        cv2 = opencv()
        how = {"flags": cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP, "borderMode": cv2.BORDER_REPLICATE}
        return np.asarray(cv2.warpAffine(cells, matrix, (width, height), **how))


def filled(flow: Array, known: Array) -> Array:
    """Fill the cells of ``flow`` [h, w, 2] that aren't ``known`` [h, w] with the mean over growing neighbourhoods."""
    cv2 = opencv()
    flow, weight, side = np.where(known[..., None], flow, np.float32(0)), known.astype(np.float32), 3
    if not known.any():
        return flow
    while not weight.all():
        near = cv2.blur(weight, (side, side), borderType=cv2.BORDER_CONSTANT)
        total = cv2.blur(flow, (side, side), borderType=cv2.BORDER_CONSTANT)
        holes = (weight == 0) & (near > 1e-6)
        flow[holes] = total[holes] / near[holes, None]
        weight[holes] = 1
        side = 2 * side - 1
    return flow


class Reference(NamedTuple):
    """Flow of a frame into the one ``back`` frames earlier: float32 [h, w, 2].

    ``where``: uint8 [h, w], nonzero where it applies; None: everywhere.
    """

    back: int
    flow: Array
    where: Array | None = None


@dataclass(frozen=True, eq=False)
class Track:
    """The flow of each of the last ``BACK`` frames into one earlier frame, the origin.

    ``fields``: float32 [h, w, 2] each, from the newest frame back to the origin itself, whose is None.
    ``before``: the origin's own fields into the frames before it, the nearest first.
    """

    fields: tuple[Array | None, ...] = (None,)
    before: tuple[Array, ...] = ()

    @property
    def newest(self) -> Array:
        """The flow from the newest frame, which follows the origin, to the origin."""
        return cast(Array, self.fields[0])

    def on(self, back: int, places: Array) -> Array:
        """Return the flow into the origin at places [h, w, 2] of the frame ``back`` frames before the next one."""
        if back > len(self.fields):
            return inverse(self.before[back - len(self.fields) - 1], places)
        field = self.fields[back - 1]
        return np.zeros_like(places) if field is None else sampled(field, places)

    def then(self, references: Sequence[Reference]) -> Track:
        """Return the track with one more frame. The first of its ``references`` applies everywhere, the others somewhere."""
        (back, flow, _), *others = references
        origin = back <= len(self.fields) and self.fields[back - 1] is None
        found = flow.copy() if origin else flow + self.on(back, grid(flow) + flow)
        for back, flow, where in others:
            chosen = np.flatnonzero(where)  # type: ignore[arg-type]  # only the first has none
            places = in_rows((grid(flow) + flow).reshape(-1, 2)[chosen])
            far = self.on(back, places).reshape(-1, 2)[: chosen.size]
            found.reshape(-1, 2)[chosen] = flow.reshape(-1, 2)[chosen] + far
        return Track((found, *self.fields)[:BACK], self.before)


@dataclass(frozen=True, eq=False)
class TrackedMotion(Motion):
    """Motion that is composed along references instead of frame by frame, so that errors don't add up.

    ``references``: of the last frame; ``track``: of the last frames to the first.
    """

    references: tuple[Reference, ...] = ()
    track: Track = Track()

    def after(self, first: Motion) -> Motion:
        """Return the composition of ``first`` and this motion, along references if both have them."""
        if not isinstance(first, TrackedMotion):
            return super().after(first)
        track = first.track.then(self.references)
        return TrackedMotion(track.newest, first.then, self.now, references=self.references, track=track)

    def coarse(self) -> Motion:
        """Return the motion alone, at half of the resolution: fields of many frames would fill the memory."""
        cv2, (height, width) = opencv(), self.flow.shape[:2]
        size = max(1, width // 2), max(1, height // 2)
        flow, then, now = (
            cv2.resize(one, size, interpolation=cv2.INTER_AREA) for one in (self.flow, self.then.grey, self.now.grey)
        )
        scale, share = np.array([size[0] / width, size[1] / height], np.float32), self.now.share
        return Motion(flow * scale, Sight(then, share), Sight(now, share))


@dataclass(frozen=True, eq=False)
class TrackedSight(Sight):
    """A sight whose ``last`` is the frame before it in grey and the flow into it, set when its motion is estimated; empty before."""

    last: list[tuple[Array, Array]] = field(default_factory=list)


def inverse(flow: Array, places: Array) -> Array:
    """Invert a flow field [h, w, 2] at ``places`` [h', w', 2] by fixed point iteration."""
    found = -sampled(flow, places)
    for _ in range(ROUNDS):
        found = -sampled(flow, places + found)
    return found


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
