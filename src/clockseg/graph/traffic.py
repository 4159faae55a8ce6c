"""Bytes that a graph's operations read and write.

What is done element by element (an activation, a bias, adding another map, quantizing) is done by engines while they
write the map that it works on, and what only renames a map's sides is not done at all. So such an operation moves only
what it reads beside that map, and a map has the narrowest type that it takes on the way through such operations. Every
other operation reads its inputs, weights included, and writes its outputs once. An engine may move less, where maps stay
in its caches, and more, where it lays them out anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import onnx
from onnx import helper

from clockseg.graph.static import Static

_NAMES = """
Abs Add And BatchNormalization Cast CastLike Ceil Celu Clip DequantizeLinear Div Dropout Elu Equal Erf Exp Flatten Floor
Gelu Greater GreaterOrEqual HardSigmoid HardSwish Identity LeakyRelu Less LessOrEqual Log Max Min Mish Mul Neg Not Or PRelu
Pow QuantizeLinear Reciprocal Relu Reshape Round Selu Sigmoid Softplus Sqrt Squeeze Sub Sum Swish Tanh ThresholdedRelu
Unsqueeze Where Xor
"""
IN_PASSING = frozenset(_NAMES.split())
"""Operations (ONNX names) on each element by itself, and those that only rename sides."""


def moved(static: Static) -> int:
    """Bytes that all operations of the graph read and write, by the types it says; engines in bf16 move half."""
    memory = _Memory(static)
    return sum(memory.moved(node) for node in static.nodes)


@dataclass
class _Memory:
    """Where maps lie: ``home`` of a map is the one that it is made in place of, ``narrowest`` the bytes of its elements."""

    static: Static
    home: dict[str, str] = field(default_factory=dict)
    narrowest: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in self.static.nodes:
            if (base := self._base(node)) is not None:
                self.home[node.output[0]] = self._home(base)
        for tensor in self.static.types:
            home, width = self._home(tensor), self._width(tensor)
            self.narrowest[home] = min(width, self.narrowest.get(home, width))

    def moved(self, node: onnx.NodeProto) -> int:
        base = self._base(node)
        reads = [name for name in node.input if name in self.static.types]
        if base is None:
            return sum(map(self._bytes, (*reads, *filter(None, node.output))))
        reads.remove(base)
        return sum(map(self._bytes, reads))

    def _base(self, node: onnx.NodeProto) -> str | None:
        """What ``node`` works on element by element: the largest that it reads; None for any other operation."""
        reads = [name for name in node.input if name in self.static.types]
        if node.op_type not in IN_PASSING or not reads:
            return None
        base = max(reads, key=self.static.elements)
        return base if self.static.elements(base) == self.static.elements(node.output[0]) else None

    def _home(self, tensor: str) -> str:
        return self.home.get(tensor, tensor)

    def _width(self, tensor: str) -> int:
        return int(helper.tensor_dtype_to_np_dtype(self.static.types[tensor][0]).itemsize)

    def _bytes(self, tensor: str) -> int:
        return self.static.elements(tensor) * self.narrowest[self._home(tensor)]
