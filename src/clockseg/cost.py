"""What a network costs before it is run: multiply-adds, parameters and bytes, from shapes alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Cost:
    """The price of a part: multiply-adds of a run, numbers it has learned, and bytes of what it gives.

    >>> Cost(10, 2, 4) + Cost(1, 1, 4)
    Cost(multiply_adds=11, parameters=3, bytes=8)
    """

    multiply_adds: int = 0
    parameters: int = 0
    bytes: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.multiply_adds + other.multiply_adds, self.parameters + other.parameters, self.bytes + other.bytes
        )


def multiply_adds(operator: str, inputs: Sequence[Shape], output: Shape) -> int:
    """Multiply-adds of one operation (ONNX names); 0 for all but convolutions and matrix products.

    ``inputs``: the shapes it reads, weights second. A convolution costs a kernel per output element, a transposed one
    per input element; bias, padding and activation aren't counted.

    >>> multiply_adds("Conv", [(1, 3, 8, 8), (16, 3, 3, 3)], (1, 16, 8, 8))
    27648
    >>> multiply_adds("ConvTranspose", [(1, 21, 16, 16), (21, 1, 4, 4)], (1, 21, 34, 34))
    86016
    >>> multiply_adds("MatMul", [(1, 64, 32), (32, 10)], (1, 64, 10))
    20480
    """
    if operator == "Conv":
        return math.prod(output) * math.prod(inputs[1][1:])
    if operator == "ConvTranspose":
        return math.prod(inputs[0]) * math.prod(inputs[1][1:])
    if operator == "MatMul":
        return math.prod(output) * inputs[0][-1]
    if operator == "Gemm":
        return math.prod(output) * (math.prod(inputs[0]) // output[0])
    return 0
