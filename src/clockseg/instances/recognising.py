"""Recognition of instance networks among ONNX files, by the shapes of their outputs and their own metadata."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import onnx
from onnx import TensorProto

from clockseg.errors import NetworkError
from clockseg.graph.static import declared_shape, fix
from clockseg.instances.heads import Head, anchors_of, is_channels_first
from clockseg.types import Size

KINDS = (
    "Outputs that can be used: class scores are [1, classes, h, w]; class ids are whole numbers [1, h, w]; depth and other "
    "numbers are [1, channels, h, w], and a matte is [1, 1, h, w] (give --classes none); instances are the outputs of a "
    "YOLO-seg export ([1, 4 + classes + 32, boxes] and prototypes [1, 32, h, w]), of RF-DETR ([1, n, 4], [1, n, classes], "
    "[1, n, h, w]), of a mask transformer ([1, n, classes + 1], [1, n, h, w]), or of Mask R-CNN (boxes [n, 4], labels [n], "
    "scores [n], masks [n, 1, h, w])."
)
"""The shapes of each kind of output that can be used."""
_OTHER_TASKS = {"detect": "boxes without masks", "pose": "key points", "obb": "rotated boxes", "classify": "one class"}
Triple = tuple[float, float, float]
PLAIN: tuple[Triple, Triple] = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
IMAGENET: tuple[Triple, Triple] = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
RF_DETR = ("dets", "labels", "masks")
"""The outputs of RF-DETR's own exporter; all of its networks read pixels normalised as ImageNet's."""


COCO = 91
"""Classes of a network that doesn't say how many it has: COCO's ids, with which nearly all of these are trained."""


@dataclass(frozen=True)
class Recognised:
    """An instance head, and what else the file tells.

    ``why``: how it was recognised; ``classes``: their number, None if unknown; ``names``: of the classes, by id; ``size`` and
    ``stride``: the working size and the multiple of its sides; ``pixels``: mean and standard deviation of the pixels of 0..1
    that it reads, None if unknown.
    """

    head: Head
    why: str
    classes: int | None = None
    names: tuple[str, ...] = ()
    size: Size | None = None
    stride: int | None = None
    pixels: tuple[Triple, Triple] | None = None

    @property
    def pad_value(self) -> tuple[int, int, int] | None:
        """The colour with which the network's own letterbox pads, RGB 0..255; None if it isn't known."""
        return (114, 114, 114) if self.head.layout.startswith("yolo") else None

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes, numbered where the file has none; as many as COCO's ids if it doesn't say how many."""
        if self.names and len(set(self.names)) == len(self.names):
            return self.names
        return tuple(f"class {index}" for index in range(self.classes or COCO))


def recognise(model: onnx.ModelProto) -> Recognised | None:
    """Return the instance head of a network, by the shapes of its outputs; None if they are not those of one.

    ``NetworkError`` if the file's metadata names a task that gives no masks, such as a detector's.
    """
    shapes, told = output_shapes(model), {one.key: one.value for one in model.metadata_props}
    if (task := told.get("task")) in _OTHER_TASKS:
        raise NetworkError(
            f"the file's metadata says task {task!r}, which outputs {_OTHER_TASKS[task]}: its outputs are {shown(shapes)}. "
            f"Export the network for segmentation. {KINDS}"
        )
    kinds = {value.name: value.type.tensor_type.elem_type for value in model.graph.output}
    whole = {name for name, kind in kinds.items() if kind in (TensorProto.INT64, TensorProto.INT32)}
    names = _names(told)
    found = _by_shapes(shapes, whole, names)
    if found is None:
        return None
    head, yolo = found.head, found.head.layout.startswith("yolo")
    settings = _literal(told.get("args", ""), dict) or {}
    least, overlap = settings.get("conf") or head.score, settings.get("iou") or head.overlap
    return replace(
        found,
        head=replace(head, score=float(least), overlap=float(overlap)),
        names=names if found.classes in (None, len(names)) else (),
        size=_size(told),
        stride=int(told["stride"]) if told.get("stride", "").isdigit() else 32 if yolo else None,
        pixels=PLAIN if yolo or head.layout == "rcnn" else IMAGENET if head.outputs == RF_DETR else None,
    )


def output_shapes(model: onnx.ModelProto) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the outputs by name; 0 for a side that is not known."""
    shapes = {value.name: declared_shape(value) for value in model.graph.output}
    if all(all(shape) and shape for shape in shapes.values()):
        return shapes
    weights = {weight.name for weight in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    sides = {value.name: [side or 640 for side in declared_shape(value)] for value in inputs}
    given = {name: (1, 3, *sides[name][2:]) for name in sides if len(sides[name]) == 4}
    try:
        static = fix(model, given)
        return {name: shape if all(shape) and shape else static.shape(name) for name, shape in shapes.items()}
    except (NetworkError, KeyError):
        return shapes


def shown(shapes: Mapping[str, tuple[int, ...]]) -> str:
    """Return shapes as text, such as ``boxes [1, ?, 4]``."""
    return ", ".join(f"{name} [{', '.join(str(side or '?') for side in shape)}]" for name, shape in shapes.items())


def _by_shapes(shapes: Mapping[str, tuple[int, ...]], whole: set[str], names: tuple[str, ...]) -> Recognised | None:
    """Recognise a head; ``whole``: the outputs of whole numbers, ``names``: those of the classes that the file tells."""
    flat, pairs, rows, found = ([name for name, shape in shapes.items() if len(shape) == rank] for rank in (1, 2, 3, 4))
    if len(found) != 1:
        return None
    [maps] = found
    count = shapes[maps][1]
    if len(pairs) == 1 and len(flat) == 2:
        labels = [name for name in flat if name in whole]
        if shapes[pairs[0]][1] != 4 or len(labels) != 1 or count not in (0, 1):
            return None
        [scores] = {*flat} - {*labels}
        head = Head("rcnn", (pairs[0], labels[0], scores, maps), score=0.5)
        return Recognised(head, "boxes, labels, scores and masks (Mask R-CNN)")
    if len(rows) == 2 and len(shapes) == 3 and {shapes[name][1] for name in rows} == {count}:
        boxes = [name for name in rows if shapes[name][2] == 4 and name != "labels"]
        if boxes:
            logits = next(name for name in rows if name != boxes[0])
            why = f"boxes, class logits and masks of {count} queries (RF-DETR, DETR)"
            return Recognised(Head("detr", (boxes[0], logits, maps), score=0.5), why, shapes[logits][2])
    # An output as high and wide as the maps is another map: class ids, or a confidence.
    if len(rows) == 1 and count and shapes[rows[0]][1:] != shapes[maps][2:]:
        return _with_one(rows[0], maps, shapes, names)
    return None


def _with_one(rows: str, maps: str, shapes: Mapping[str, tuple[int, ...]], names: tuple[str, ...]) -> Recognised | None:
    """Recognise a YOLO, or queries: one output of rows beside the maps."""
    (_, first, last), count = shapes[rows], shapes[maps][1]
    if first == count and last > 1:
        why = f"class logits and masks of {count} queries (a mask transformer)"
        return Recognised(Head("queries", (rows, maps), score=0.5), why, last - 1)
    if last == 6 + count and not 4 + count < first < last:
        why = f"{first or 'some'} boxes after suppression, with {count} coefficients of prototypes (YOLO)"
        return Recognised(Head("yolo-suppressed", (rows, maps)), why, len(names) or None)
    if first == 3 * anchors_of(shapes[maps][2:]) and first:
        why = f"boxes with objectness, {last - 5 - count} class scores and {count} coefficients of prototypes (YOLOv5)"
        return Recognised(Head("yolov5", (rows, maps)), why, last - 5 - count)
    expected = 4 + len(names) + count
    by_anchors = first if is_channels_first((first, last), shapes[maps][2:]) else last
    channels = expected if names and expected in (first, last) else by_anchors or max(first, last)
    if channels <= 4 + count:
        return None
    why = f"boxes with {channels - 4 - count} class scores and {count} coefficients of prototypes (YOLO)"
    return Recognised(Head("yolo", (rows, maps)), why, channels - 4 - count)


def _names(told: Mapping[str, str]) -> tuple[str, ...]:
    found = _literal(told.get("names", ""), (dict, list))
    if isinstance(found, dict) and set(found) == set(range(len(found))):
        return tuple(str(found[index]) for index in range(len(found)))
    return tuple(map(str, found)) if isinstance(found, list) else ()


def _size(told: Mapping[str, str]) -> Size | None:
    found = _literal(told.get("imgsz", ""), list)
    if not found or len(found) != 2 or not all(isinstance(side, int) and side > 0 for side in found):
        return None
    return found[1], found[0]


def _literal(text: str, kinds: type | tuple[type, ...]) -> Any:
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return found if isinstance(found, kinds) else None
