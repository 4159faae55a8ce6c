"""A network that runs whole, as one stage: instance networks, and files that were not cut."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import cast

import onnx
from onnx import helper

from clockseg.clockwork.network import Part, Stage, StagedNetwork
from clockseg.errors import NetworkError
from clockseg.graph.extraction import SCORES, built, with_frame, with_labels
from clockseg.graph.nodes import with_sides
from clockseg.graph.part import IMAGE, LABELS, Built, GraphPart, Pick
from clockseg.graph.sidecar import Sidecar
from clockseg.graph.static import declared_shape, fix
from clockseg.types import Size


def staged_whole(model: onnx.ModelProto, sidecar: Sidecar, outputs: Sequence[str]) -> StagedNetwork:
    """Make a network of one stage, from uint8 frames to ``outputs``, or to labels if the one output has classes.

    Shapes inside are left to the engine, which has to compile the result: suppression gives as many boxes as it finds, and
    operators may be unknown here. Class scores pass to ``finish``, which makes labels of them. ``outputs`` are the graph's,
    with their types. ``prepare`` and ``restore`` keep their defaults.
    """
    there = {value.name: value for value in model.graph.output}
    if missing := [name for name in outputs if name not in there]:
        raise NetworkError(f"the sidecar reads {', '.join(missing)}; the network gives {', '.join(sorted(there))}.")
    labels = bool(sidecar.classes) and sidecar.instances is None
    scores = labels and there[outputs[0]].type.tensor_type.elem_type in SCORES
    source = _Source(model, sidecar, tuple(outputs))
    given = (LABELS,) if labels else source.outputs
    whole = GraphPart("whole", (IMAGE,), given, lambda size: source.built(size, labels=labels))
    body, finish = whole, cast(Part, Pick(given))
    if scores:
        body = GraphPart("body", (IMAGE,), source.outputs, lambda size: source.built(size, labels=False))
        finish = GraphPart("finish", source.outputs, given, source.finish)
    stages = (Stage(sidecar.stage_names[0], body, scores=None),)
    return StagedNetwork(
        sidecar.name,
        stages,
        finish=finish,
        whole=whole,
        sidecar=sidecar,
        fused=Pick(source.outputs if scores else given),
    )


@dataclass(frozen=True, eq=False)
class _Source:
    model: onnx.ModelProto
    sidecar: Sidecar
    outputs: tuple[str, ...]

    def built(self, size: Size, *, labels: bool) -> Built:
        """Build the graph at one working size, with its outputs in this order."""
        name = self.sidecar.input.name
        model = with_sides(self.model, name, (1, 3, *size[::-1]))
        values = {value.name: deepcopy(value) for value in model.graph.output}
        del model.graph.output[:], model.graph.value_info[:]
        model.graph.output.extend(values[output] for output in self.outputs)
        model = with_frame(model, name, self.sidecar.input)
        return built(with_labels(model, self.outputs[0], size) if labels else model)

    def finish(self, size: Size) -> Built:
        """Build the part from the scores to labels."""
        [scores] = self.outputs
        value = next(value for value in self.model.graph.output if value.name == scores)
        info = helper.make_tensor_value_info(scores, value.type.tensor_type.elem_type, self._shape(value, size))
        graph = helper.make_graph([], "finish", [info], [info])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        return built(with_labels(model, scores, size))

    def _shape(self, value: onnx.ValueInfoProto, size: Size) -> Sequence[int | None]:
        """Return the shape of an output at a working size; None for sides that only the engine knows."""
        declared = [side or None for side in declared_shape(value)]
        if None in declared:
            with suppress(NetworkError):
                return fix(self.model, {self.sidecar.input.name: (1, 3, *size[::-1])}).shape(value.name)
        return declared
