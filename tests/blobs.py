"""Made videos of coloured discs with exact masks, and an instance network that finds them, exported like a YOLO.

The network has real convolution weights: colours become maps of three classes, which are the prototypes; large kernels find how
much of a class lies around an anchor, which is its score, and where its centre of gravity is, which is the centre of its box.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

RADIUS = 22
NAMES = ("red", "green", "blue")
COLOURS = np.array([(220, 40, 40), (40, 200, 40), (40, 40, 220)], np.uint8)
SIZE = (320, 256)
M = 32


class Disc(NamedTuple):
    """A disc of a class, and its centre at a frame; those later in a list lie on top."""

    kind: int
    place: Callable[[int], tuple[float, float]]


class Scene(NamedTuple):
    """Frames, uint8 RGB, and the visible masks of each frame by the number of the disc."""

    images: list[np.ndarray]
    truth: list[dict[int, np.ndarray]]


def scene(discs: list[Disc], frames: int, *, bar: bool = False, pan: float = 1.0) -> Scene:
    """Draw discs over a textured background that pans; ``bar``: a grey post in the middle hides what passes behind it."""
    width, height = SIZE
    random = np.random.default_rng(3)
    coarse = random.integers(70, 180, (height // 8 + 8, width // 8 + 40)).astype(np.uint8)
    wide = np.kron(coarse, np.ones((8, 8), np.uint8))
    skins = [random.integers(-35, 1, (2 * RADIUS + 9, 2 * RADIUS + 9)) for _ in discs]
    rows, columns = np.mgrid[:height, :width]
    images, truth = [], []
    for number in range(frames):
        offset = round(pan * number)
        image = np.repeat(wide[:height, offset : offset + width, None], 3, axis=2).copy()
        masks: dict[int, np.ndarray] = {}
        for index, disc in enumerate(discs):
            x, y = disc.place(number)
            inside = (columns - x) ** 2 + (rows - y) ** 2 <= RADIUS**2
            skin = skins[index][
                np.clip(rows - round(y) + RADIUS + 4, 0, 2 * RADIUS + 8),
                np.clip(columns - round(x) + RADIUS + 4, 0, 2 * RADIUS + 8),
            ]
            paint = np.clip(COLOURS[disc.kind].astype(int) + skin[..., None], 0, 255).astype(np.uint8)
            image[inside] = paint[inside]
            masks = {other: mask & ~inside for other, mask in masks.items()} | {index: inside}
        if bar:
            hidden = np.abs(columns - width // 2) < 8
            image[hidden] = np.repeat(wide[:height, :width, None], 3, axis=2)[hidden] // 3
            masks = {index: mask & ~hidden for index, mask in masks.items()}
        images.append(image)
        truth.append({index: mask for index, mask in masks.items() if mask.sum() > 60})
    return Scene(images, truth)


def scenes() -> dict[str, Scene]:
    """Return a video of each difficulty."""
    along = [
        Disc(0, lambda t: (40 + 3 * t, 60)),
        Disc(1, lambda t: (270 - 2 * t, 130)),
        Disc(2, lambda t: (60 + 2 * t, 200)),
    ]
    crossing = [
        Disc(0, lambda t: (50 + 4 * t, 110)),
        Disc(1, lambda t: (270 - 4 * t, 130)),
        Disc(0, lambda t: (160, 210 - 3 * t)),
    ]
    behind = [Disc(0, lambda t: (60 + 3 * t, 70)), Disc(2, lambda t: (260 - 3 * t, 180))]
    passing = [
        Disc(0, lambda t: (-30 + 5 * t, 60)),
        Disc(1, lambda t: (350 - 5 * t, 130)),
        Disc(2, lambda t: (250 + 4 * t, 200)),
    ]
    return {
        "apart": scene(along, 48),
        "crossing": scene(crossing, 48),
        "occlusion": scene(behind, 48, bar=True),
        "entries and exits": scene(passing, 48),
    }


def blob_model(*, suppressed: bool = False, ballast: int = 0) -> onnx.ModelProto:
    """Return the network as a YOLO exports itself: [1, 4 + 3 + 32, anchors] and prototypes, or [1, 300, 6 + 32] with ``suppressed``.

    ``ballast``: so many convolutions of 64 channels at half of the resolution run too, and hardly count in the result.
    """
    width, height = SIZE
    graph = _Graph()
    colour = np.array([[1, -0.5, -0.5], [-0.5, 1, -0.5], [-0.5, -0.5, 1]], np.float32).reshape(3, 3, 1, 1)
    maps = graph.add(
        "Clip",
        graph.add("Mul", graph.add("Conv", _loaded(graph, ballast) if ballast else "images", colour), np.float32(2.2)),
        np.float32(0),
        np.float32(1),
    )
    coarse = graph.add("AveragePool", maps, kernel_shape=[4, 4], strides=[4, 4])
    wide = np.zeros((M, 3, 1, 1), np.float32)
    wide[[0, 1, 2], [0, 1, 2]] = 14.0
    bias = np.zeros(M, np.float32)
    bias[:3] = -7.0
    graph.add("Conv", coarse, wide, bias, out="output1")
    reach = 6
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1].astype(np.float32)
    disc = (x**2 + y**2 <= (reach + 0.5) ** 2).astype(np.float32)
    kernels = [np.repeat((disc * part)[None, None], 3, axis=0) for part in (np.ones_like(x), 4 * x, 4 * y)]
    moments = [graph.add("Conv", coarse, one, group=3, strides=[2, 2], pads=[reach] * 4) for one in kernels]
    area = np.float32(np.pi * (RADIUS / 4) ** 2)
    mass, *sides = (graph.add("Reshape", one, np.array([1, 3, -1])) for one in moments)
    share = graph.add("Div", mass, area)
    scores = graph.add("Sigmoid", graph.add("Mul", graph.add("Sub", share, np.float32(0.45)), np.float32(10)))
    if suppressed:
        grid = graph.add("Reshape", scores, np.array([1, 3, height // 8, width // 8]))
        highest = graph.add("MaxPool", grid, kernel_shape=[7, 7], pads=[3] * 4)
        peaks = graph.add("Cast", graph.add("Equal", grid, highest), to=TensorProto.FLOAT)
        scores = graph.add("Reshape", graph.add("Mul", grid, peaks), np.array([1, 3, -1]))
    weights = graph.add("Softmax", graph.add("Mul", share, np.float32(30)), axis=1)
    centres = [graph.add("Div", one, graph.add("Add", mass, np.float32(1e-3))) for one in sides]
    ones = [graph.add("ReduceSum", graph.add("Mul", weights, one), np.array([1]), keepdims=1) for one in centres]
    rows, columns = np.mgrid[: height // 8, : width // 8].astype(np.float32)
    places = [(8 * grid + 1.5).reshape(1, 1, -1) for grid in (columns, rows)]
    boxes = [graph.add("Add", one, place) for one, place in zip(ones, places, strict=True)]
    anchors = places[0].shape[2]
    sizes = np.full((1, 2, anchors), 2 * RADIUS + 3, np.float32)
    rest = np.zeros((1, M - 3, anchors), np.float32)
    graph.add("Concat", *boxes, sizes, scores, weights, rest, axis=1, out="raw" if suppressed else "output0")
    if suppressed:
        _end_to_end(graph)
    count = [1, 300, 6 + M] if suppressed else [1, 7 + M, anchors]
    made = helper.make_graph(
        graph.nodes,
        "blobs",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, height, width])],
        [
            helper.make_tensor_value_info("output0", TensorProto.FLOAT, count),
            helper.make_tensor_value_info("output1", TensorProto.FLOAT, [1, M, height // 4, width // 4]),
        ],
        graph.weights,
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(
        model,
        {
            "task": "segment",
            "stride": "32",
            "names": str(dict(enumerate(NAMES))),
            "imgsz": str([height, width]),
            "args": str({"iou": 0.3}),
        },
    )
    return model


def shaped_model(layout: str, *, queries: int = 30) -> onnx.ModelProto:
    """Return a network of random weights with the outputs of an RF-DETR ("detr"), a mask transformer ("queries") or Mask R-CNN ("rcnn")."""
    random, graph = np.random.default_rng(1), _Graph()
    width, height = SIZE
    maps = graph.add("Conv", "images", random.normal(0, 0.3, (16, 3, 3, 3)), strides=[4, 4], pads=[1] * 4)
    maps = graph.add(
        "Relu", graph.add("Conv", graph.add("Relu", maps), random.normal(0, 0.2, (16, 16, 3, 3)), pads=[1] * 4)
    )
    if layout == "rcnn":
        return _rcnn(graph, maps)
    mean = graph.add("GlobalAveragePool", maps)
    masks = "masks" if layout == "detr" else "masks_queries_logits"
    graph.add("Conv", maps, random.normal(0, 0.4, (queries, 16, 1, 1)), out=masks)
    classes = 91 if layout == "detr" else 81
    scores = graph.add(
        "Conv", mean, random.normal(0, 0.5, (queries * classes, 16, 1, 1)), random.normal(-2, 3, queries * classes)
    )
    logits = "labels" if layout == "detr" else "class_queries_logits"
    graph.add("Reshape", scores, np.array([1, queries, classes]), out=logits)
    outputs = [(logits, [1, queries, classes]), (masks, [1, queries, height // 4, width // 4])]
    if layout == "detr":
        boxes = graph.add("Conv", mean, random.normal(0, 0.5, (queries * 4, 16, 1, 1)))
        graph.add("Sigmoid", graph.add("Reshape", boxes, np.array([1, queries, 4])), out="dets")
        outputs.insert(0, ("dets", [1, queries, 4]))
    made = helper.make_graph(
        graph.nodes,
        layout,
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, height, width])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs],
        graph.weights,
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _rcnn(graph: _Graph, maps: str) -> onnx.ModelProto:
    """Append boxes of 91 classes around the cells of ``maps``, suppressed, and masks of the size of the frame as torchvision pastes them."""
    random = np.random.default_rng(2)
    width, height = SIZE
    coarse = graph.add("AveragePool", maps, kernel_shape=[16, 16], strides=[16, 16])
    rows, columns = np.mgrid[: height // 64, : width // 64].astype(np.float32) * 64 + 32
    centres = np.stack([columns, rows], axis=2).reshape(1, -1, 2)
    grid = np.concatenate([centres - 40, centres + 40], axis=2).clip(0, max(SIZE))
    cells = grid.shape[1]
    moves = graph.add("Tanh", graph.add("Conv", coarse, random.normal(0, 0.5, (4, 16, 1, 1))))
    moves = graph.add("Transpose", graph.add("Reshape", moves, np.array([1, 4, cells])), perm=[0, 2, 1])
    boxes = graph.add("Add", grid, graph.add("Mul", moves, np.float32(12)))
    kinds = graph.add("Conv", coarse, random.normal(0, 0.5, (91, 16, 1, 1)), random.normal(-1, 1, 91))
    scores = graph.add("Sigmoid", graph.add("Reshape", kinds, np.array([1, 91, cells])))
    chosen = graph.add("NonMaxSuppression", boxes, scores, np.array([2]), np.float32([0.5]), np.float32([0.5]))
    kind, cell = (graph.add("Gather", chosen, np.array(column), axis=1) for column in (1, 2))
    graph.add("Identity", kind, out="classes")
    graph.add("Gather", graph.add("Squeeze", boxes, np.array([0])), cell, axis=0, out="boxes")
    pair = graph.add("Concat", *(graph.add("Unsqueeze", one, np.array([1])) for one in (kind, cell)), axis=1)
    graph.add("GatherND", graph.add("Squeeze", scores, np.array([0])), pair, out="scores")
    planes = graph.add("Sigmoid", graph.add("Conv", maps, random.normal(0, 0.4, (cells, 16, 1, 1))))
    planes = graph.add("Resize", planes, "", np.float32([1, 1, 4, 4]), mode="linear")
    planes = graph.add("Gather", graph.add("Squeeze", planes, np.array([0])), cell, axis=0)
    graph.add("Unsqueeze", planes, np.array([1]), out="masks")
    shapes: dict[str, list[str | int]] = {
        "boxes": ["n", 4],
        "classes": ["n"],
        "scores": ["n"],
        "masks": ["n", 1, height, width],
    }
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64 if name == "classes" else TensorProto.FLOAT, shape)
        for name, shape in shapes.items()
    ]
    given = helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, height, width])
    made = helper.make_graph(graph.nodes, "rcnn", [given], outputs, graph.weights)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _loaded(graph: _Graph, layers: int) -> str:
    """Return the image plus next to nothing of the result of ``layers`` convolutions."""
    random = np.random.default_rng(0)
    maps = graph.add("Conv", "images", random.normal(0, 0.1, (64, 3, 3, 3)), strides=[2, 2], pads=[1] * 4)
    for _ in range(layers):
        maps = graph.add("Relu", graph.add("Conv", maps, random.normal(0, 0.04, (64, 64, 3, 3)), pads=[1] * 4))
    small = graph.add("Conv", maps, random.normal(0, 1e-9, (3, 64, 1, 1)))
    return graph.add("Add", "images", graph.add("GlobalAveragePool", small))


def _end_to_end(graph: _Graph) -> None:
    """Keep the 300 boxes with the highest scores, without overlap suppression, as YOLO26 does; its training makes them one each."""
    rows = graph.add("Transpose", "raw", perm=[0, 2, 1])
    corner, side, scores, rest = (
        graph.add("Slice", rows, np.array([first]), np.array([last]), np.array([2]))
        for first, last in ((0, 2), (2, 4), (4, 7), (7, 7 + M))
    )
    half = graph.add("Div", side, np.float32(2))
    best = graph.add("ReduceMax", scores, axes=[2], keepdims=1)
    kind = graph.add("Cast", graph.add("ArgMax", scores, axis=2, keepdims=1), to=TensorProto.FLOAT)
    low, high = graph.add("Sub", corner, half), graph.add("Add", corner, half)
    every = graph.add("Concat", low, high, best, kind, rest, axis=2)
    _, top = graph.add("TopK", graph.add("Squeeze", best, np.array([0, 2])), np.array([300]), outputs=2)
    graph.add("Gather", every, top, axis=1, out="output0")


class _Graph:
    """Appends nodes to a graph; arrays among the arguments become constants."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def add(
        self,
        operator: str,
        *given: str | np.ndarray | np.float32,
        out: str = "",
        outputs: int = 1,
        **attributes: object,
    ):
        names = []
        for one in given:
            if not isinstance(one, str):
                array = np.asarray(one)
                name = f"weight{len(self.weights)}"
                kind = np.int64 if array.dtype.kind == "i" else np.float32
                self.weights.append(numpy_helper.from_array(array.astype(kind), name))
                one = name
            names.append(one)
        made = [out or f"t{len(self.nodes)}_{index}" for index in range(outputs)]
        self.nodes.append(helper.make_node(operator, names, made, name=f"n{len(self.nodes)}", **attributes))
        return made if outputs > 1 else made[0]


def write_blobs(folder: Path, **options: bool) -> Path:
    """Write the network as an ONNX file, and return its path."""
    path = folder / "blobs.onnx"
    onnx.checker.check_model(model := blob_model(**options))
    onnx.save(model, path)
    return path


def found_masks(outputs: Iterator) -> list[dict[int, np.ndarray]]:
    """Return the masks of each frame's instances by identity."""
    return [{int(one.ids[n]): one.mask(n) for n in range(len(one))} for one in outputs]


def check_coco(folder: Path, names: Sequence[str]) -> int:
    """Check that pycocotools loads the instances of a result folder as COCO results, with the same masks; return their number."""
    import clockseg

    COCO = pytest.importorskip("pycocotools.coco").COCO
    lines = list(clockseg.read_instances(folder))
    coco = COCO()
    coco.dataset = {
        "images": [{"id": line["frame"], "width": line["size"][0], "height": line["size"][1]} for line in lines],
        "categories": [{"id": number, "name": name} for number, name in enumerate(names)],
        "annotations": [],
    }
    coco.createIndex()
    written = [json.loads(line) for line in (folder / "instances.jsonl").read_text().splitlines()]
    results = coco.loadRes([one for line in written for one in line["instances"]])
    found = [one for line in lines for one in line["instances"]]
    for own, one in zip(found, results.loadAnns(results.getAnnIds()), strict=True):
        assert names[one["category_id"]] == own["category"]
        assert (results.annToMask(one).astype(bool) == own["mask"]).all()
    return len(found)
