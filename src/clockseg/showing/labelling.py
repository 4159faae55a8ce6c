"""Labels from coarse score maps: only the cells that border another label are upsampled.

Between four neighbouring cells of a score map whose best class is the same, bilinear interpolation keeps that class the best:
the label is known without interpolating. Most of a map is like that, so the labels of a frame cost a fraction of upsampling
all scores, and are the same.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from clockseg.clockwork.network import StagedNetwork
from clockseg.execution.cache import add_note, cache_limit, read_notes
from clockseg.graph.part import FRAME_SIZE, LABELS, Built, GraphPart
from clockseg.libraries import opencv
from clockseg.showing.maps import Maps
from clockseg.types import Array, Labels, Size

if TYPE_CHECKING:
    import onnx

UPSAMPLING = "upsampling.json"
"""The file in the cache folder that tells by the digest of a model whether it is upsampling alone."""


def labels_of(scores: Array, size: Size, *, everywhere: bool = False) -> Labels:
    """Return the labels of score maps upsampled bilinearly (half-pixel centres) to ``size``; the lowest id wins ties.

    ``scores``: float32 [h, w, classes], at most 256 classes; ``size``: (W, H), not smaller than the map. The result is uint8
    [H, W]. ``everywhere`` interpolates all cells: the same labels, more slowly.

    >>> labels_of(np.float32([[[1, 0], [0, 2]]]), (4, 1)).tolist()
    [[0, 0, 1, 1]]
    """
    cv2 = opencv()
    height, width = scores.shape[:2]
    grid = _grid(height, width, size[1], size[0])
    best = argmax(scores)
    corners = cv2.copyMakeBorder(best, 1, 1, 1, 1, cv2.BORDER_REPLICATE)
    quads = corners[:-1, :-1]
    differ = (quads != corners[:-1, 1:]) | (quads != corners[1:, :-1]) | (quads != corners[1:, 1:])
    if everywhere:
        differ[:] = True
    labels = np.asarray(cv2.remap(quads, grid.columns, grid.rows, cv2.INTER_NEAREST))
    rows, columns = np.nonzero(differ)
    if rows.size:
        _interpolate(scores, labels, grid, rows, columns)
    return labels


class _Grid(NamedTuple):
    """The position of a picture's pixels in a map, by quads: quad q of a side lies between the centres of cells q - 1 and q.

    ``columns`` and ``rows``: the quad of each pixel, as OpenCV's remap takes it. ``left`` and ``top``: the first pixel of each
    quad. ``across`` and ``down``: the interpolation weight of cell q for each pixel of the quad, float32 [quads, most pixels].
    ``wide`` and ``high``: the number of pixels of each quad.
    """

    columns: Array
    rows: Array
    left: Array
    top: Array
    across: Array
    down: Array
    wide: Array
    high: Array


@lru_cache(maxsize=8)
def _grid(height: int, width: int, rows: int, columns: int) -> _Grid:
    across, wide, left, x = _side(width, columns)
    down, high, top, y = _side(height, rows)
    shape = rows, columns
    maps = np.broadcast_to(x, shape).astype(np.float32), np.broadcast_to(y[:, None], shape).astype(np.float32)
    whole, parts = opencv().convertMaps(*maps, opencv().CV_16SC2, nninterpolation=True)
    return _Grid(whole, parts, left, top, across, down, wide, high)


def _side(cells: int, pixels: int) -> tuple[Array, Array, Array, Array]:
    """Return the weights, the number of pixels and the first pixel of each quad along one side, and the quad of each pixel."""
    place = (np.arange(pixels) + 0.5) * (cells / pixels) - 0.5
    quad = np.floor(place).astype(np.int64) + 1
    count = np.bincount(quad, minlength=cells + 1)
    first = np.concatenate([[0], np.cumsum(count)[:-1]])
    weights = np.zeros((cells + 1, max(1, count.max())), np.float32)
    weights[quad, np.arange(pixels) - first[quad]] = place - np.floor(place)
    return weights, count, first, quad


def _interpolate(scores: Array, labels: Labels, grid: _Grid, rows: Array, columns: Array) -> None:
    """Write the labels of the pixels of some quads."""
    height, width, classes = scores.shape
    cells = scores.reshape(-1, classes)
    top, below = np.maximum(rows - 1, 0) * width, np.minimum(rows, height - 1) * width
    left, right = np.maximum(columns - 1, 0), np.minimum(columns, width - 1)
    # Classes first, so that each step below is over long rows.
    down = grid.down[rows].T[None]
    edges = []
    for side in (left, right):
        above = np.ascontiguousarray(cells[top + side].T)[:, None]
        edges.append(above + (np.ascontiguousarray(cells[below + side].T)[:, None] - above) * down)
    near, step = edges[0], edges[1] - edges[0]
    across, x = grid.across[columns].T, np.arange(grid.across.shape[1])[:, None, None]
    y = np.arange(grid.down.shape[1])[None, :, None]
    found = np.stack([argmax_first(near + step * weight) for weight in across])
    at = (grid.top[rows] + y) * labels.shape[1] + (grid.left[columns] + x)
    # Quads at the edge, and some of a fractional scale, have fewer pixels than others.
    there = (x < grid.wide[columns]) & (y < grid.high[rows])
    if there.all():
        labels.reshape(-1)[at] = found
    else:
        labels.reshape(-1)[at[there]] = found[there]


def argmax(scores: Array) -> Labels:
    """Return the class with the highest score, the lowest of several: float32 [h, w, classes] -> uint8 [h, w].

    >>> argmax(np.float32([[[1, 1], [0, 1]]])).tolist()
    [[0, 1]]
    """
    height, width, classes = scores.shape
    planes = opencv().transpose(scores.reshape(-1, classes)) if classes > 1 else scores.reshape(1, -1)
    return argmax_first(planes).reshape(height, width)


def argmax_first(planes: Array) -> Labels:
    """Return the index along the first axis of the highest value, the lowest of several, as uint8.

    Makes one pass over whole planes per class, which is faster than numpy's argmax for few classes.
    """
    best = planes.max(axis=0)
    found = np.zeros(best.shape, np.uint8)
    for index in range(len(planes) - 1, -1, -1):
        np.copyto(found, index, where=planes[index] == best)
    return found


@lru_cache(maxsize=64)
def upsamples(part: GraphPart, size: Size) -> str | None:
    """Return the name of the tensor that ``part`` takes, if all it does is bilinear upsampling and argmax; else None.

    ``size``: the working size. Depthwise transposed convolutions with a bilinear kernel count as bilinear upsampling: they differ
    from it only at the picture's edge, and there by the same factor in all classes. The answer is kept on disk.
    """
    built = part.build(size)
    known = read_notes(UPSAMPLING)
    if built.digest in known:
        return str(known[built.digest]) or None
    found = _upsampled(built)
    if cache_limit():
        add_note(UPSAMPLING, built.digest, found or "")
    return found


def _upsampled(built: Built) -> str | None:
    import onnx

    model = onnx.load_model_from_string(built.model)
    if len(model.graph.input) != 1 or len(model.graph.output) != 1:
        return None
    constants = {value.name: onnx.numpy_helper.to_array(value) for value in model.graph.initializer}
    labelled = False
    for node in model.graph.node:
        found = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
        if node.op_type == "ArgMax":
            labelled = True
        elif node.op_type == "Resize":
            if labelled or not _bilinear_resize(found):
                return None
        elif node.op_type == "ConvTranspose":
            if labelled or not _bilinear_kernel(node, found, constants):
                return None
        elif node.op_type not in ("Reshape", "Cast", "Identity"):
            return None
    return model.graph.input[0].name if labelled else None


def _bilinear_resize(attributes: dict[str, Any]) -> bool:
    mode = attributes.get("coordinate_transformation_mode", b"half_pixel")
    return attributes.get("mode") == b"linear" and mode in (b"half_pixel", b"pytorch_half_pixel")


def _bilinear_kernel(node: onnx.NodeProto, attributes: dict[str, Any], constants: dict[str, Array]) -> bool:
    kernel = constants.get(node.input[1])
    stride = attributes.get("strides", [1, 1])[0]
    if kernel is None or len(node.input) > 2 or kernel.shape[1:] != (1, 2 * stride, 2 * stride):
        return False
    if attributes.get("group", 1) != len(kernel) or list(attributes.get("pads", [])) != [stride // 2] * 4:
        return False
    side = 1 - np.abs((np.arange(2 * stride) + 0.5) / stride - 1)
    return bool(np.allclose(kernel[:, 0].astype(np.float32), np.outer(side, side), atol=1e-3))


class Labeller:
    """Makes the network's output from maps, and restores it to the frame's size."""

    def __init__(self, net: StagedNetwork) -> None:
        self.net, self.conclude = net, net.conclude or net.finish
        part = getattr(self.conclude, "part", None)
        self.graph = part if isinstance(part, GraphPart) else None

    def __call__(self, maps: Maps, image: Any) -> Any:
        value = self._sparse(maps)
        return self.net.restore(self.conclude(maps.value()) if value is None else value, image)

    def _sparse(self, maps: Maps) -> Any:
        """Return the labels of score maps that the network would only upsample; None if it does more."""
        if self.graph is None or len(maps.planes) != 1 or FRAME_SIZE not in maps.given:
            return None
        [(name, scores)] = maps.planes.items()
        width, height = (int(side) for side in maps.given[FRAME_SIZE])
        if scores.ndim != 3 or self.graph.outputs != (LABELS,) or upsamples(self.graph, (width, height)) != name:
            return None
        return {LABELS: labels_of(scores, (width, height))[None], FRAME_SIZE: maps.given[FRAME_SIZE]}
