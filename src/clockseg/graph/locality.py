"""How far the parts of a network look: what may be computed in a window of the frame."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import onnx

from clockseg._types import IMAGE, Size
from clockseg.graph.extraction import FRAME, OUTCOME
from clockseg.graph.part import LABELS, GraphPart
from clockseg.graph.receptive_field import Field, Mixing, fields
from clockseg.graph.static import fix
from clockseg.stages import Group, Locality, Part, Stage

_PIXEL = Field(1, 0, 0)


@dataclass(frozen=True, eq=False)
class GraphLocality:
    """Of a network of graph-backed parts; told at the working size ``size`` (WIDTH, HEIGHT), a multiple of ``multiple``."""

    stages: Sequence[Stage]
    groups: Sequence[Group]
    finish: Part
    size: Size
    multiple: int = 1
    _found: dict[int, Locality] = field(default_factory=dict, repr=False)

    def __call__(self, stages: int) -> Locality:
        """Of the first ``stages`` stages, and of what fuses them."""
        if stages not in self._found:
            self._found[stages] = self._find(stages)
        return self._found[stages]

    def _find(self, count: int) -> Locality:
        known = {IMAGE: _PIXEL}
        try:
            for stage in self.stages[:count]:
                known |= self._fields(stage.body, known)
        except Mixing as mixing:
            return Locality(mixing=_told(mixing))
        try:
            fused = known | self._fused(count, known)
        except Mixing as mixing:
            return self._local(known, _told(mixing))
        return self._local(fused)

    def _local(self, known: Mapping[str, Field], fusing: str = "") -> Locality:
        strides = {name: one.stride for name, one in known.items()}
        reach = max(one.reach for one in known.values())
        return Locality("", fusing, reach, strides, math.lcm(self.multiple, *strides.values()))

    def _fused(self, count: int, known: Mapping[str, Field]) -> dict[str, Field]:
        """What is made from the first ``count`` stages; of the others, what they hold is there for the whole frame."""
        made, found = {stage.name for stage in self.stages[:count]}, dict(known)
        for group in self.groups:
            if made.intersection(group.reads):
                made.add(group.name)
                found |= self._fields(group.function, found)
        return found | self._fields(self.finish, found)

    def _fields(self, part: Part, known: Mapping[str, Field]) -> dict[str, Field]:
        """Of the tensors that ``part`` reads and makes."""
        if not isinstance(part, GraphPart):
            return {}
        built = part.build(self.size)
        model = onnx.load_model_from_string(built.model)
        shapes = {
            value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim) for value in model.graph.input
        }
        names = {FRAME: IMAGE, OUTCOME: LABELS}
        given = {name: known.get(names.get(name, name)) or self._whole(name, shape) for name, shape in shapes.items()}
        found = fields(fix(model, shapes), given)
        return {names.get(name, name): found[name] for name in (*built.inputs, *built.outputs) if name in found}

    def _whole(self, name: str, shape: Sequence[int]) -> Field:
        """Of a map that is there for the whole frame: each of its places looks at itself."""
        width, height = self.size
        stride = width // shape[-1] if len(shape) == 4 else 0
        if not stride or (shape[-1] * stride, shape[-2] * stride) != (width, height):
            raise Mixing("a map of another size than the frame's over a whole number", name)
        return Field(stride, 0, stride - 1)


def _told(mixing: Mixing) -> str:
    operator, name = mixing.args
    return f"{operator} ({name})"
