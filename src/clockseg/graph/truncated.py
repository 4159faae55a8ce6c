"""A network that stops after one of its stages: that stage's own scores, enlarged to the picture (paper, section 4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import onnx

from clockseg.clockwork.network import Stage, StagedNetwork
from clockseg.errors import UsageError
from clockseg.graph.extraction import built, extract, with_labels
from clockseg.graph.part import LABELS, Built, GraphPart, Pick, Take
from clockseg.graph.static import Static, fix
from clockseg.types import Size


def truncated(net: StagedNetwork, stage: int) -> StagedNetwork:
    """``net`` up to the head of stage ``stage`` (1 the first), uncut, with that stage's scores enlarged bilinearly.

    For timing: what a network that is only so deep costs. The paper's truncated baselines are trained as such; the scores
    here were made for a clock to watch and for fusing, so this one's accuracy is not theirs. ``net`` is a network of
    graphs, as ``clockseg.load(.., engine=None)`` gives it; ``UsageError`` for another, and for a stage that isn't there
    or has no scores.
    """
    if not 1 <= stage <= len(net):
        raise UsageError(f"truncated after stage {stage}; {net.name!r} has stages 1 to {len(net)}.")
    last = net.stages[stage - 1]
    bodies = [one.body for one in net.stages[:stage] if isinstance(one.body, GraphPart)]
    if len(bodies) < stage:
        raise UsageError(
            f"network {net.name!r} is no graph, or compiled already; give one from clockseg.load(.., engine=None) "
            "and compile what comes of it."
        )
    if not isinstance(last.scores, Take):
        raise UsageError(f"stage {stage} ({last.name}) of {net.name!r} has no class scores; truncate after another.")
    scores, name = last.scores.name, f"{net.name} to {last.name}"

    def build(size: Size) -> Built:
        models = [body.build(size) for body in bodies]
        upto = extract(_joined(models), models[0].inputs, (scores,), name=name)
        return built(with_labels(upto, scores, size))

    part = GraphPart(name, bodies[0].inputs, (LABELS,), build)
    only = (Stage(last.name, part, scores=None),)
    return replace(net, name=name, stages=only, groups=(), finish=Pick((LABELS,)), whole=part)


def _joined(models: Sequence[Built]) -> Static:
    """Models of which each reads what those before it give, by the same names, as one graph."""
    first, *others = (onnx.load_model_from_string(one.model) for one in models)
    for other in others:
        there = {weight.name for weight in first.graph.initializer}
        first.graph.node.extend(other.graph.node)
        first.graph.initializer.extend(one for one in other.graph.initializer if one.name not in there)
        first.graph.output.extend(other.graph.output)
    inputs = {one.name: one.type.tensor_type.shape.dim for one in first.graph.input}
    return fix(first, {name: tuple(dim.dim_value for dim in shape) for name, shape in inputs.items()})
