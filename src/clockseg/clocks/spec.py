"""A schedule as text: what the command line, sidecars and plans write."""

from __future__ import annotations

import ast
from functools import partial
from typing import Any

from clockseg.carry import Carry, identity, parse_carry
from clockseg.carry.named import CARRIES, as_carry
from clockseg.clocks import gate
from clockseg.clocks.names import named
from clockseg.clockwork.schedule import (
    Named,
    Schedule,
    alternating,
    carried,
    exponential,
    fixed_rate,
    frame_oracle,
    pipelined,
    skip_frame,
)
from clockseg.errors import UsageError

_ALONE: dict[str, Any] = {f.__name__: f for f in (frame_oracle, alternating, exponential)}
_EXAMPLES: dict[Any, str] = {
    skip_frame: "skip_frame(2)",
    fixed_rate: "fixed_rate((1, 2, 2))",
    pipelined: "pipelined(2)",
    gate.adaptive: "adaptive(0.25)",
    gate.difference: 'difference(0.1, of="scores")',
    gate.confidence: "confidence(0.8)",
    gate.motion_residual: "motion_residual(0.1)",
    gate.learned: 'learned("clock.onnx")',
    gate.budget: "budget(network_rate=0.25)",
    gate.paced: "paced(adaptive(0.02), 0.5)",
    gate.every: "every(2)",
    gate.at_least_every: "at_least_every(8)",
    gate.invert: "invert(confidence(0.8))",
    gate.either: "either(adaptive(0.25), at_least_every(8))",
    gate.both: "both(adaptive(0.1), confidence(0.8))",
}
"""Of each schedule that needs arguments, how it is written."""
_CARRIED = "carried(skip_frame(4), warp(flow))"
_TAKING: dict[str, Any] = {f.__name__: f for f in _EXAMPLES}


def parse_schedule(text: str, *, imports: bool = True) -> Schedule | Named:
    """A schedule as the command line, sidecars and plans write it; ``imports=False`` refuses package.module:object.

    >>> parse_schedule("either(adaptive(0.25), at_least_every(8))")(3).clocks[2].clocks[1]
    AtLeastEvery(frames=8)
    """
    known = CARRIES | _ALONE | _TAKING | {"carried": partial(_carried, imports=imports)}
    found: Schedule | Named = named(text, known, imports=imports)
    _check_whole(found)
    if not isinstance(found, Schedule) and not callable(found):
        raise UsageError(f"schedule {text!r} is {found!r}; give a schedule, such as alternating or adaptive(0.25).")
    return found


def _carried(schedule: Any, carry: Any, *, imports: bool) -> Named:
    """``carried(skip_frame(4), warp(flow))``; what is in quotes is read as text, so that it may be package.module:object."""
    inner = parse_schedule(schedule, imports=imports) if isinstance(schedule, str) else schedule
    _check_whole(inner)
    return carried(
        inner, parse_carry(carry, imports=imports) if isinstance(carry, str) else as_carry(carry, str(carry))
    )


def _check_whole(found: Any) -> None:
    """``warp`` and ``adaptive`` are functions too, but not of the number of stages."""
    for name, carry in CARRIES.items():
        if found is carry:
            raise UsageError(f"{name} is a carry, no schedule; give it one to carry: {_CARRIED}.")
    bare = found.func if isinstance(found, partial) else found
    for function, example in (*_EXAMPLES.items(), (_carried, _CARRIED)):
        if bare is function:
            raise UsageError(f"schedule {example.partition('(')[0]} needs arguments, such as {example}.")


def spelled(text: str, carry: Carry) -> str:
    """The one text of a schedule under ``carry``, whatever carry ``text`` names itself; it parses back.

    >>> spelled("skip_frame(4)", parse_carry("warp"))
    'carried(skip_frame(4), warp(flow))'
    >>> spelled("carried(skip_frame(4), warp(flow))", identity)
    'skip_frame(4)'
    """
    inner = _uncarried(text.strip())
    if carry == identity:
        return inner
    return f"carried({repr(inner) if ':' in inner else inner}, {carry})"


def _uncarried(text: str) -> str:
    try:
        tree: Any = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text  # package.module:object, or what parse_schedule refuses
    if not (isinstance(tree, ast.Call) and ast.unparse(tree.func) == "carried" and tree.args):
        return text
    inner = tree.args[0]
    if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
        return _uncarried(inner.value)
    return _uncarried(ast.get_source_segment(text, inner) or "")
