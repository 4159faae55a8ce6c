"""The teacher's answers for every picture, computed once and kept on disk.

The teacher is MOSAIC R4 (Wang and Howard, 2021, arXiv:2112.11623), an 8-bit TFLite file that OpenVINO reads. Its class
scores at stride 4, before the last enlargement, become class probabilities, averaged over the whole picture, its mirror
image and four overlapping crops, which show the teacher the picture at a larger scale.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import cv2
import numpy as np
import openvino

from clockseg.errors import NetworkError
from clockseg.files import whole
from clockseg.types import Array, Image, Labels
from recipes.scene.pictures import Picture, read_picture

SIDE = 512
"""The teacher's input is square; pictures are stretched."""
GRID = 128
"""Rows and columns of its scores."""
CROP = 0.75
"""The side of a crop as a share of the picture's."""
CROPS_SHARE = 0.3
"""The weight of the crops in the average; the rest is the whole picture's and its mirror image's."""


class Teacher:
    """The teacher in OpenVINO: class probabilities, or labels as its own file gives them."""

    def __init__(self, file: Path) -> None:
        core = openvino.Core()
        model = core.read_model(file)
        last = [op for op in model.get_ordered_ops() if op.get_type_name() == "Interpolate"][-1]
        scores = last.input_value(0)
        if list(scores.get_shape()[:3]) != [1, GRID, GRID]:
            raise NetworkError(
                f"{file}: its scores are {list(scores.get_shape())}; [1, {GRID}, {GRID}, classes] is read."
            )
        self._classes = int(scores.get_shape()[3])
        soft = openvino.Model(
            [openvino.opset13.result(openvino.opset13.softmax(scores, 3).output(0))], model.get_parameters()
        )
        self._soft = core.compile_model(soft, "CPU")
        self._labels = core.compile_model(core.read_model(file), "CPU")

    def labels(self, image: Image) -> Labels:
        """Return the labels of a picture, uint8 [512, 512]."""
        labels: Labels = self._labels(stretched(image)[None])[0][0].astype(np.uint8)
        return labels

    def probabilities(self, image: Image, *, crops: bool) -> Array:
        """Return averaged class probabilities, float32 [128, 128, classes], of the picture stretched to a square."""
        square = stretched(image)
        both: Array = (self._soft_of(square) + self._soft_of(square[:, ::-1])[:, ::-1]) / 2
        if not crops:
            return both
        return (1 - CROPS_SHARE) * both + CROPS_SHARE * self._of_crops(image)

    def _of_crops(self, image: Image) -> Array:
        height, width = image.shape[:2]
        side = round(CROP * GRID)
        total: Array = np.zeros((GRID, GRID, self._classes), np.float32)
        cover = np.zeros((GRID, GRID, 1), np.float32)
        for down in (0.0, 1 - CROP):
            for right in (0.0, 1 - CROP):
                top, left = round(down * height), round(right * width)
                crop = image[top : top + round(CROP * height), left : left + round(CROP * width)]
                scores = cv2.resize(self._soft_of(stretched(crop)), (side, side), interpolation=cv2.INTER_LINEAR)
                row, column = round(down * GRID), round(right * GRID)
                place = slice(row, row + side), slice(column, column + side)
                total[place] += scores
                cover[place] += 1
        return total / cover

    def _soft_of(self, square: Image) -> Array:
        soft: Array = self._soft(np.ascontiguousarray(square)[None])[0][0]
        return soft


def stretched(image: Image) -> Image:
    """Return the picture at the teacher's size."""
    way = cv2.INTER_AREA if max(image.shape[:2]) > SIDE else cv2.INTER_LINEAR
    square: Image = cv2.resize(image, (SIDE, SIDE), interpolation=way)  # type: ignore[assignment]
    return square


def soft_file(cache: Path, picture: Picture) -> Path:
    """Return the file of a picture's probabilities: float16 [128, 128, classes]."""
    return cache / "soft" / f"{picture.name}.npy"


def label_file(cache: Path, picture: Picture) -> Path:
    """Return the file of a picture's labels: uint8 [512, 512]."""
    return cache / "labels" / f"{picture.name}.png"


def teach(
    teacher: Path,
    training: Sequence[Picture],
    validation: Sequence[Picture],
    cache: Path,
    say: Callable[[str], None],
    *,
    crops: bool = False,
) -> None:
    """Write what is missing in `cache`: probabilities of the training pictures, labels of the validation pictures."""
    net = Teacher(teacher)
    for folder in ("soft", "labels"):
        (cache / folder).mkdir(parents=True, exist_ok=True)
    for picture in validation:
        if not (file := label_file(cache, picture)).exists():
            with whole(file) as part:
                part.write_bytes(cv2.imencode(".png", net.labels(read_picture(picture)))[1].tobytes())
    missing = [picture for picture in training if not soft_file(cache, picture).exists()]
    for number, picture in enumerate(missing, 1):
        with whole(soft_file(cache, picture)) as part, part.open("wb") as stream:
            np.save(stream, net.probabilities(read_picture(picture), crops=crops).astype(np.float16))
        if number % 100 == 0:
            say(f"{number} of {len(missing)} pictures")
