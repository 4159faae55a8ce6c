"""Motion: the position of each pixel in an earlier picture, found by optical flow, and the motion-compensated residual."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np

from clockseg.clocks.expressions import Written
from clockseg.errors import UsageError
from clockseg.libraries import opencv
from clockseg.types import Array, Size

SMALLEST = 16
"""Shorter side in pixels below which DIS has no pyramid; smaller pictures are enlarged."""
GRID = 0.5
"""The resolution of the flow by that of the pictures: matching the pixels themselves gains nothing (docs/motion.md)."""
ROW = 256
CHANNELS = 64
"""Channels of a map that are warped or averaged in one call of OpenCV, which takes at most 128."""


@dataclass(frozen=True, eq=False)
class Sight:
    """A frame's data for motion estimation.

    ``grey``: the picture in grey, uint8 [h, w], scaled down. ``share``: the shares of the width and the height of the network's
    maps that the picture covers; the rest is padding. ``vectors``: the codec's motion vectors, if there are any.
    """

    grey: Array
    share: tuple[float, float] = (1.0, 1.0)
    vectors: Any = None


@dataclass(frozen=True, eq=False)
class Motion:
    """Motion from picture ``now`` back to picture ``then``.

    ``flow``: float32 [h, w, 2], x and y in pixels of its own grid: the content at (x, y) was at (x, y) + flow[y, x].

    >>> blank = Sight(np.zeros((4, 6), np.uint8))
    >>> shifted = Motion(np.ones((4, 6, 2), np.float32), blank, blank)
    >>> shifted.after(shifted).flow[0, 0].tolist()
    [2.0, 2.0]
    """

    flow: Array
    then: Sight
    now: Sight
    _places: dict[tuple[int, int], Array] = field(default_factory=dict, repr=False)

    def after(self, first: Motion) -> Motion:
        """Return the composition of ``first`` and this motion: one field, from the picture where ``first`` began."""
        return Motion(self.flow + sampled(first.flow, grid(self.flow) + self.flow), first.then, self.now)

    def coarse(self) -> Motion:
        """Return the motion as it is kept for many frames."""
        return self

    def places(self, height: int, width: int) -> Array:
        """Return the position of each cell of a map [height, width] in the earlier map, in cells: float32 [height, width, 2]."""
        if (height, width) not in self._places:
            rows, columns = self.flow.shape[:2]
            share_x, share_y = self.now.share
            scale = np.array([width * share_x / columns, height * share_y / rows], np.float32)
            # The padding moves with the picture's edge.
            flow = laid(self.flow * scale, self.now.share, height, width)
            self._places[height, width] = np.add(flow, _places(height, width), out=flow)
        return self._places[height, width]

    @cached_property
    def residual(self) -> Array:
        """Motion-compensated residual: the absolute difference in grey levels after warping, uint8 [h, w]; 255 from outside."""
        cv2 = opencv()
        rows, columns = self.flow.shape[:2]
        places = grid(self.flow) + self.flow
        apart = cv2.absdiff(sampled(self.then.grey, places), self.now.grey)
        # Up to half a pixel beyond the edge belongs to the edge pixel.
        inside = cv2.inRange(places, (-0.5, -0.5), (columns - 0.5, rows - 0.5))
        return np.asarray(cv2.bitwise_or(apart, cv2.bitwise_not(inside)))

    def unexplained(self) -> float:
        """Return the share of the picture whose residual is more than 12 grey levels, 0..1."""
        return float(np.count_nonzero(self.residual > 12) / self.residual.size)

    def unexplained_map(self, height: int, width: int) -> Array:
        """Return the residual over 255 at the size of a network map: float32 [1, 1, height, width], 0..1; 0 in the padding."""
        residual = self.residual.astype(np.float32)
        return laid(residual, self.now.share, height, width, area=True, edge=False)[None, None] / 255


@dataclass(frozen=True)
class Flow(Written):
    """Motion between pictures at ``scale`` of the working size (above 0, at most 1), by DIS on a grid of half of that.

    DIS is OpenCV's optical flow (Kroeger et al., Fast Optical Flow using Dense Inverse Search, ECCV 2016).
    On one core, a picture of 480x360 at the default scale takes 1.4 ms. ``sparse``: patches further apart, in half of the time.

    >>> print(Flow(0.25))
    flow(scale=0.25)
    """

    scale: float = 0.5
    sparse: bool = False
    reads_vectors: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if isinstance(self.scale, bool) or not isinstance(self.scale, (int, float)) or not 0 < self.scale <= 1:
            raise UsageError(f"flow at the scale {self.scale!r}; give a number above 0 and at most 1, such as 0.5.")

    def see(self, picture: Any, share: tuple[float, float], vectors: Any, *, size: Size | None = None) -> Sight:
        """Return the picture in grey on the flow's grid; see ``Estimator.see``."""
        return Sight(grey(picture, GRID * self.scale, size), share)

    def observe(self, before: Sight, now: Sight) -> Motion:
        """Return the motion from ``now`` back to ``before``."""
        return Motion(optical_flow(now.grey, before.grey, sparse=self.sparse), before, now)


def grey(picture: Any, scale: float, size: Size | None = None) -> Array:
    """Return a picture in grey, uint8 [h, w], at ``scale`` of ``size`` (w, h), by default of its own; see ``Estimator.see``."""
    width, height = size or (picture.shape[1], picture.shape[0])
    scale = max(scale, min(1.0, SMALLEST / min(height, width)))
    size = max(SMALLEST, round(width * scale)), max(SMALLEST, round(height * scale))
    if not isinstance(picture, np.ndarray):
        return np.asarray(picture.grey(size))
    cv2 = opencv()
    small = shrunk(picture, size)
    return np.asarray(small if small.ndim == 2 else cv2.cvtColor(small, cv2.COLOR_RGB2GRAY))


def shrunk(picture: Array, size: Size) -> Array:
    """Resize a picture [h, w, ..], first by halves: many times as fast as averaging over other areas, and as good for motion."""
    cv2 = opencv()
    while picture.shape[1] >= 2 * size[0] and picture.shape[0] >= 2 * size[1]:
        half = picture.shape[1] // 2, picture.shape[0] // 2
        even = picture[: 2 * half[1], : 2 * half[0]]
        picture = cv2.resize(even, half, interpolation=cv2.INTER_AREA)
    if (picture.shape[1], picture.shape[0]) == size:
        return picture
    return np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_LINEAR))


def optical_flow(now: Array, before: Array, *, sparse: bool = False, finest: int = 0) -> Array:
    """Return the flow from ``now`` to ``before``, both grey, uint8 [h, w]: float32 [h, w, 2] in pixels.

    ``finest``: how often the pictures are halved before they are matched; the flow is enlarged again.
    """
    return np.asarray(_dis(threading.get_ident(), sparse, finest, now.shape).calc(now, before, None))


@lru_cache(maxsize=16)
def _dis(thread: int, sparse: bool, finest: int, shape: tuple[int, ...]) -> Any:
    """Return one instance per thread, since it has buffers, and per size, since a tiny picture changes its settings for good."""
    cv2 = opencv()
    made = cv2.DISOpticalFlow_create(cv2.DISOPTICAL_FLOW_PRESET_ULTRAFAST)
    made.setFinestScale(finest)
    # Refining costs more than it gains.
    made.setVariationalRefinementIterations(0)
    if not finest:
        # Patches matched with their brightness propagate labels better than without their means, as the preset matches them.
        made.setUseMeanNormalization(False)
        made.setGradientDescentIterations(16)
    if sparse:
        made.setPatchStride(6)  # instead of 4
    return made


def grid(field: Array) -> Array:
    """Return the coordinates of the cells of a field [h, w, ..]: float32 [h, w, 2], x and y; read-only."""
    return _places(*field.shape[:2])


@lru_cache(maxsize=8)
def _places(height: int, width: int) -> Array:
    found = np.empty((height, width, 2), np.float32)
    found[..., 0] = np.arange(width, dtype=np.float32)
    found[..., 1] = np.arange(height, dtype=np.float32)[:, None]
    found.flags.writeable = False
    return found


def sampled(field: Array, places: Array, *, nearest: bool = False) -> Array:
    """Sample ``field`` [h, w] or [h, w, channels] at ``places`` [h', w', 2]; beyond its edge, the value at the edge.

    >>> sampled(np.float32([[0, 1, 2]]), np.float32([[[0.5, 0], [9, 0]]])).tolist()
    [[0.5, 2.0]]
    """
    cv2 = opencv()
    how = cv2.INTER_NEAREST if nearest else cv2.INTER_LINEAR
    return np.asarray(cv2.remap(field, places, None, how, borderMode=cv2.BORDER_REPLICATE))


def laid(
    field: Array, share: tuple[float, float], height: int, width: int, *, area: bool = False, edge: bool = True
) -> Array:
    """Resize a field of the picture to the ``share`` of a network map [height, width] that it covers.

    ``area``: average over areas. ``edge``: the padding repeats the field's edge; else it is 0.
    """
    cv2 = opencv()
    inside = max(1, round(width * share[0])), max(1, round(height * share[1]))
    if (field.shape[1], field.shape[0]) != inside:
        field = cv2.resize(field, inside, interpolation=cv2.INTER_AREA if area else cv2.INTER_LINEAR)
    edges = (0, height - inside[1], 0, width - inside[0])
    if any(edges):
        field = cv2.copyMakeBorder(field, *edges, cv2.BORDER_REPLICATE if edge else cv2.BORDER_CONSTANT)
    return np.asarray(field)


def as_plane(value: Any, name: str, *, bytes_are_labels: bool) -> Array:
    """Return a map, an array or a tensor, as a plane that ``resampled`` takes: its channels come last.

    Numbers are floats [1, channels, h, w], [1, h, w] or [h, w]. Labels are of any other type, [1, 1, h, w], [1, h, w] or [h, w];
    bytes [1, channels, h, w] are numbers unless ``bytes_are_labels``. ``UsageError`` for anything else.
    """
    if type(value).__module__ == "torch":
        value = value.detach().cpu()
        value = (value.float() if value.is_floating_point() else value).numpy()
    array = np.asarray(value)
    # numpy knows bfloat16, which engines may compute in, only as an extension type, whose kind is "V".
    numbers = array.dtype.kind == "f" or array.dtype.name == "bfloat16"
    numbers = numbers or (array.dtype == np.uint8 and array.ndim == 4 and not bytes_are_labels)
    flat = array.ndim > 1 and set(array.shape[:-2]) <= {1}
    if numbers and (flat or (array.ndim == 4 and array.shape[0] == 1)):
        return np.ascontiguousarray(array.reshape(-1, *array.shape[-2:]).transpose(1, 2, 0), np.float32)
    if flat and array.dtype.kind in "biu":
        return np.asarray(array.reshape(array.shape[-2:]), np.uint8 if array.dtype.kind == "b" else None)
    kind = f"{array.dtype} {list(array.shape)}" if array.ndim else type(value).__name__
    raise UsageError(
        f"{name} is {kind}, no map: floats [1, channels, h, w], or labels [1, h, w] or [h, w]; channels of integers can't be "
        "interpolated. Use the carry identity, or warp the output alone: warp(flow)."
    )


def from_plane(plane: Array, like: Any) -> Any:
    """Return a plane in the shape and type of the array or tensor that it was made from."""
    channels_first = np.ascontiguousarray(plane.transpose(2, 0, 1) if plane.ndim == 3 else plane).reshape(like.shape)
    if plane.ndim == 3 and str(like.dtype).endswith("uint8"):
        channels_first = np.rint(channels_first)
    if type(like).__module__ == "torch":
        import torch

        return torch.as_tensor(channels_first).to(like)
    return channels_first.astype(like.dtype, copy=False)


def resampled(plane: Array, places: Array) -> Array:
    """Sample a plane of a map at ``places``: labels, which are integers [h, w], by nearest neighbour, with their type.

    Numbers [h, w, channels] are sampled bilinearly, as float32.
    """
    if plane.ndim == 2:
        wide = plane if plane.dtype in (np.uint8, np.uint16) else plane.astype(np.float64)
        return sampled(wide, places, nearest=True).astype(plane.dtype, copy=False)
    return by_channels(sampled, (plane.astype(np.float32, copy=False),), places)


def by_channels(function: Callable[..., Array], planes: Sequence[Array], *given: Array) -> Array:
    """Return ``function(*planes, *given)``, called for as many channels at a time as OpenCV takes."""
    shape = *given[0].shape[:2], planes[0].shape[2]
    if shape[2] <= CHANNELS:
        return np.asarray(function(*planes, *given)).reshape(shape)
    found = np.empty(shape, np.float32)
    for start in range(0, shape[2], CHANNELS):
        some = [np.ascontiguousarray(plane[..., start : start + CHANNELS]) for plane in planes]
        found[..., start : start + CHANNELS] = np.asarray(function(*some, *given)).reshape(*shape[:2], -1)
    return found


def in_rows(values: Array) -> Array:
    """Return values [n, ..] as [h, ``ROW``, ..], padded with 0, since a side of OpenCV's maps has to be less than 32768."""
    padded = np.zeros((-(-len(values) // ROW), ROW, *values.shape[1:]), values.dtype)
    padded.reshape(-1, *values.shape[1:])[: len(values)] = values
    return padded
