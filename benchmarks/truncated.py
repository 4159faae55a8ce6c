"""Networks that end after one of their stages, to time what a network that is only so deep costs."""

from __future__ import annotations

from dataclasses import replace

from clockseg.clockwork.network import Stage, StagedNetwork
from clockseg.errors import UsageError
from clockseg.graph.part import LABELS, GraphFusion, Pick, Take


def truncated(net: StagedNetwork, stage: int) -> StagedNetwork:
    """Truncate ``net`` after the head of stage ``stage`` (1 the first), uncut, with that stage's scores enlarged bilinearly.

    For timing: what a network that is only so deep costs. The paper's truncated baselines are trained as such; the scores
    here were made for a clock to watch and for fusing, so this one's accuracy is not theirs. ``net`` is a network of
    graphs, as ``clockseg.load(.., engine=None)`` gives it; ``UsageError`` for another, and for a stage that isn't there
    or has no scores.
    """
    if not 1 <= stage <= len(net):
        raise UsageError(f"truncated after stage {stage}; {net.name!r} has stages 1 to {len(net)}.")
    last = net.stages[stage - 1]
    if not isinstance(net.executor, GraphFusion):
        raise UsageError(
            f"network {net.name!r} is not a graph, or is compiled already; give one from clockseg.load(.., engine=None) "
            "and compile the result."
        )
    if not isinstance(last.scores, Take):
        raise UsageError(f"stage {stage} ({last.name}) of {net.name!r} has no class scores; truncate after another.")
    name = f"{net.name} to {last.name}"
    part = net.executor.make(name, (net.executor.frame,), (), (last.scores.name,))
    only = (Stage(last.name, part, scores=None),)
    return replace(net, name=name, stages=only, groups=(), finish=Pick((LABELS,)), whole=part)
