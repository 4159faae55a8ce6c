"""Labels from coarse score maps: only the cells that border another label are upsampled.

Between four neighbouring cells of a score map whose best class is the same, bilinear interpolation keeps that class the best:
the label is known without interpolating. Most of a map is like that, so the labels of a frame cost a fraction of upsampling
all scores, and are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from clockseg.carry.motion import sampled
from clockseg.clockwork.network import StagedNetwork
from clockseg.execution.cache import add_note, cache_limit, read_notes
from clockseg.graph.part import FRAME_SIZE, LABELS, Built, GraphPart
from clockseg.libraries import opencv
from clockseg.showing.maps import Maps, Part, blended, blended_at
from clockseg.types import Array, Labels, Size

if TYPE_CHECKING:
    import onnx

UPSAMPLING = "upsampling.json"
"""The file in the cache folder that tells by the digest of a model whether it is upsampling alone."""


class Scores(NamedTuple):
    """A score map in the cells that labels are interpolated from.

    ``best``: the label of each cell, uint8 [h, w]. ``cells``: float32 [n, classes]; ``row``: the row in it of each cell, int
    [h * w], arbitrary where all cells around have the same label; None: ``cells`` has all.
    """

    best: Labels
    cells: Array
    row: Array | None = None


UNSURE = 255
"""In place of the label of a quad whose corners differ."""


def scores_of(name: str, parts: Sequence[Part]) -> Scores:
    """Return the scores that ``blended`` gives, where labels are interpolated.

    A cell between four cells of one label in each part keeps this label, however they are weighted, and is not blended.
    """
    cv2 = opencv()
    height, width, classes = parts[0].maps.planes[name].shape
    motions = [motion for _, motion, _ in parts if motion is not None]
    if len(motions) < len(parts) or classes > UNSURE:
        plane = blended(parts).planes[name]
        return Scores(argmax(plane), plane.reshape(-1, classes))
    # The quad around (x, y) is the one that rounding (x + 0.5, y + 0.5) gives, or one that has the same cells there.
    sure = [
        sampled(_sure(one.maps, name), motion.places(height, width) + 0.5, nearest=True)
        for one, motion in zip(parts, motions, strict=True)
    ]
    best = sure[0]
    for other in sure[1:]:
        best = np.where(best == other, best, np.uint8(UNSURE))
    changes = cv2.morphologyEx(best, cv2.MORPH_GRADIENT, np.ones((3, 3), np.uint8))
    needed = np.flatnonzero(cv2.bitwise_or(changes, cv2.compare(best, UNSURE, cv2.CMP_EQ)))
    if not needed.size:
        return Scores(best, np.zeros((0, classes), np.float32))
    cells, row = blended_at(name, parts, needed), np.zeros(height * width, np.int64)
    best.reshape(-1)[needed], row[needed] = argmax(cells[None])[0], np.arange(needed.size)
    return Scores(best, cells, row)


def _sure(maps: Maps, name: str) -> Array:
    """Return the label of each quad of a map, uint8 [h + 1, w + 1]; ``UNSURE`` if its corners differ."""
    if name not in maps.derived:
        quads, differ = _quads(argmax(maps.planes[name]))
        maps.derived[name] = np.where(differ, np.uint8(UNSURE), quads)
    return maps.derived[name]


def _quads(best: Labels) -> tuple[Array, Array]:
    """Return the label of the first corner of each quad [h + 1, w + 1], and True where another corner has another one."""
    corners = opencv().copyMakeBorder(best, 1, 1, 1, 1, opencv().BORDER_REPLICATE)
    quads = corners[:-1, :-1]
    return quads, (quads != corners[:-1, 1:]) | (quads != corners[1:, :-1]) | (quads != corners[1:, 1:])


def upsampled(scores: Scores, size: Size) -> Labels:
    """Return the labels of scores upsampled bilinearly (half-pixel centres) to ``size``; the lowest id wins ties.

    ``size``: (W, H), not smaller than the map. The result is uint8 [H, W].
    """
    quads, differ = _quads(scores.best)
    across, down = _side(scores.best.shape[1], size[0]), _side(scores.best.shape[0], size[1])
    labels: Labels = quads.repeat(across.pixels, axis=1).repeat(down.pixels, axis=0)
    rows, columns = np.nonzero(differ)
    if rows.size:
        _interpolate(scores, labels, across, down, rows, columns)
    return labels


class _Side(NamedTuple):
    """The pixels along one side of a picture in a map, by quads: quad q lies between the centres of cells q - 1 and q.

    ``first`` and ``pixels``: the first pixel and the number of pixels of each quad. ``weights``: of cell q for each pixel of quad
    q, float32 [quads, most pixels].
    """

    first: Array
    pixels: Array
    weights: Array


@lru_cache(maxsize=16)
def _side(cells: int, pixels: int) -> _Side:
    place = (np.arange(pixels) + 0.5) * (cells / pixels) - 0.5
    quad = np.floor(place).astype(np.int64) + 1
    count = np.bincount(quad, minlength=cells + 1)
    first = np.cumsum(count) - count
    weights = np.zeros((cells + 1, max(1, count.max())), np.float32)
    weights[quad, np.arange(pixels) - first[quad]] = place - np.floor(place)
    return _Side(first, count, weights)


def _interpolate(scores: Scores, labels: Labels, across: _Side, down: _Side, rows: Array, columns: Array) -> None:
    """Write the labels of the pixels of some quads."""
    (height, width), (_, cells, row) = scores.best.shape, scores
    top, below = np.maximum(rows - 1, 0) * width, np.minimum(rows, height - 1) * width
    left, right = np.maximum(columns - 1, 0), np.minimum(columns, width - 1)
    ends = [top + left, below + left, top + right, below + right]
    corners = [np.take(cells, end if row is None else row[end], axis=0) for end in ends]
    # Interpolated scores stay between those of the corners: a class that is above another's lowest one in no corner never wins.
    bound = reduce(np.minimum, corners).max(axis=1, keepdims=True)
    can_win = ~(reduce(np.maximum, corners) < bound)
    many = np.count_nonzero(can_win, axis=1)
    pairs, first = np.flatnonzero(can_win), np.cumsum(many) - many
    # Quads with the most such classes first, so that those with one more class are always the first ones, in long rows.
    order = np.argsort(-many, kind="stable")
    rows, columns, many, first = rows[order], columns[order], many[order], first[order]
    to_right = across.weights.take(columns, axis=0).T[:, None].copy()
    to_bottom = down.weights.take(rows, axis=0).T.copy()
    best = np.full((*to_right.shape[:1], *to_bottom.shape), -np.inf, np.float32)
    found: Labels = np.zeros(best.shape, np.uint8)
    for number in range(many[0]):
        count = np.count_nonzero(many > number)
        pair = pairs[first[:count] + number]
        a, b, c, d = [corner.reshape(-1).take(pair) for corner in corners]
        near, far = a + (b - a) * to_bottom[:, :count], c + (d - c) * to_bottom[:, :count]
        value, known = near + (far - near) * to_right[..., :count], best[..., :count]
        # Classes come in order: a better one has a higher id, and of several that are best the lowest stays.
        better = (value > known).view(np.uint8) * (pair % cells.shape[1]).astype(np.uint8)
        np.maximum(found[..., :count], better, out=found[..., :count])
        np.maximum(known, value, out=known)
    x, y = np.arange(found.shape[0])[:, None, None], np.arange(found.shape[1])[None, :, None]
    at = (down.first[rows] + y) * labels.shape[1] + (across.first[columns] + x)
    # Quads at the edge, and some of a fractional scale, have fewer pixels than others.
    there = (x < across.pixels[columns]) & (y < down.pixels[rows])
    labels.reshape(-1)[at[there]] = found[there]


def argmax(scores: Array) -> Labels:
    """Return the class with the highest score, the lowest of several: float32 [h, w, classes] -> uint8 [h, w].

    One pass over whole planes per class is faster than numpy's argmax for few classes.
    """
    height, width, classes = scores.shape
    planes = opencv().transpose(scores.reshape(-1, classes)) if classes > 1 else scores.reshape(1, -1)
    best, last = planes.max(axis=0), len(planes) - 1
    # The last class less the class, so that 0 is the rest, and the lowest class of several has the highest number.
    found = np.zeros(best.shape, np.uint8)
    for index in range(last):
        np.maximum(found, np.equal(planes[index], best).view(np.uint8) * np.uint8(last - index), out=found)
    return np.subtract(last, found, out=found, casting="unsafe").reshape(height, width)


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
        elif node.op_type in ("Resize", "ConvTranspose"):
            if labelled or not _bilinear(node, found, constants):
                return None
        elif node.op_type not in ("Reshape", "Cast", "Identity"):
            return None
    return model.graph.input[0].name if labelled else None


def _bilinear(node: onnx.NodeProto, attributes: dict[str, Any], constants: dict[str, Array]) -> bool:
    """Return True if a Resize or a ConvTranspose is bilinear upsampling with half-pixel centres."""
    if node.op_type == "Resize":
        mode = attributes.get("coordinate_transformation_mode", b"half_pixel")
        return attributes.get("mode") == b"linear" and mode in (b"half_pixel", b"pytorch_half_pixel")
    kernel = constants.get(node.input[1])
    stride = attributes.get("strides", [1, 1])[0]
    if kernel is None or len(node.input) > 2 or kernel.shape[1:] != (1, 2 * stride, 2 * stride):
        return False
    if attributes.get("group", 1) != len(kernel) or list(attributes.get("pads", [])) != [stride // 2] * 4:
        return False
    side = 1 - np.abs((np.arange(2 * stride) + 0.5) / stride - 1)
    return bool(np.allclose(kernel[:, 0].astype(np.float32), np.outer(side, side), atol=1e-3))


class Labeller:
    """Blends maps, makes the network's output from them, and restores it to the frame's size."""

    def __init__(self, net: StagedNetwork) -> None:
        self.net, self.conclude = net, net.conclude or net.finish
        part = getattr(self.conclude, "part", None)
        self.graph = part if isinstance(part, GraphPart) else None

    def fuse(self, parts: Sequence[Part]) -> Maps | tuple[Scores, Size]:
        """Return the blended maps; of score maps that the network would only upsample, the scores with the frame's size."""
        first = parts[0].maps
        if (
            self.graph is None
            or self.graph.outputs != (LABELS,)
            or len(first.planes) > 1
            or FRAME_SIZE not in first.given
        ):
            return blended(parts)
        [(name, plane)] = first.planes.items()
        size = self.graph.frame_size([first.given])
        only = plane.ndim == 3 and upsamples(self.graph, size) == name
        return (scores_of(name, parts), size) if only else blended(parts)

    def __call__(self, fused: Maps | tuple[Scores, Size], image: Any) -> Any:
        """Return the output for a frame from what ``fuse`` returned."""
        made = self.conclude(fused.value()) if isinstance(fused, Maps) else {LABELS: upsampled(*fused)[None]}
        return self.net.restore(made, image)
