"""The teacher: MOSAIC R4 (Wang and Howard, 2021, arXiv:2112.11623), an 8-bit TFLite file that OpenVINO reads."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Protocol

import cv2
import numpy as np
import openvino

from clockseg.errors import DataError, NetworkError
from clockseg.types import Array, Image, Labels

SIDE = 512
"""The teacher's input is square; pictures are stretched."""
GRID = 128
"""Rows and columns of its scores."""


class Teaches(Protocol):
    """Anything that answers as the teacher does."""

    def probabilities(self, square: Image) -> Array: ...
    def labels(self, image: Image) -> Labels: ...


class Teacher:
    """The teacher in OpenVINO, compiled when it is first asked, in each process that draws views.

    `DataError` if the file isn't there, `NetworkError` if it is another network.
    """

    def __init__(self, file: Path) -> None:
        if not file.is_file():
            raise DataError(f"{file} is no file; give the teacher's TFLite file.")
        self._file = file

    def probabilities(self, square: Image) -> Array:
        """Return class probabilities, float32 [128, 128, classes], of a square picture, uint8 RGB [512, 512, 3]."""
        soft: Array = self._soft(square[None])[0][0]
        return soft

    def labels(self, image: Image) -> Labels:
        """Return the labels of a picture stretched to a square, uint8 [512, 512], as the teacher's own file gives them."""
        way = cv2.INTER_AREA if max(image.shape[:2]) > SIDE else cv2.INTER_LINEAR
        square = cv2.resize(image, (SIDE, SIDE), interpolation=way)
        labels: Labels = self._labels(square[None])[0][0].astype(np.uint8)
        return labels

    @cached_property
    def _soft(self) -> openvino.CompiledModel:
        model = openvino.Core().read_model(self._file)
        last = [op for op in model.get_ordered_ops() if op.get_type_name() == "Interpolate"][-1]
        scores = last.input_value(0)
        if list(scores.get_shape()[:3]) != [1, GRID, GRID]:
            raise NetworkError(
                f"{self._file}: its scores are {list(scores.get_shape())}; [1, {GRID}, {GRID}, classes] is read."
            )
        soft = openvino.opset13.softmax(scores, 3).output(0)
        model = openvino.Model([openvino.opset13.result(soft)], model.get_parameters())
        return openvino.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": 1})  # the training step needs the others

    @cached_property
    def _labels(self) -> openvino.CompiledModel:
        return openvino.compile_model(openvino.Core().read_model(self._file), "CPU")
