"""Schedules as text, as the command line, sidecars and plans write them."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from clockseg import clocks
from clockseg.carry.spec import CARRIES, carry_of
from clockseg.clocks import rates
from clockseg.clocks.expressions import object_named, parsed, source
from clockseg.clockwork.carry import Carry, identity
from clockseg.clockwork.schedule import ByStages, Schedule, ScheduleLike, carried
from clockseg.errors import UsageError

_EXAMPLES: dict[str, tuple[Any, str]] = {
    "frame_oracle": (rates.frame_oracle, ""),
    "alternating": (rates.alternating, ""),
    "exponential": (rates.exponential, ""),
    "skip_frame": (rates.skip_frame, "skip_frame(2)"),
    "fixed_rate": (rates.fixed_rate, "fixed_rate((1, 2, 2))"),
    "pipelined": (rates.pipelined, "pipelined(2)"),
    "adaptive": (clocks.adaptive, "adaptive(0.25)"),
    "difference": (clocks.difference, 'difference(0.1, of="scores")'),
    "confidence": (clocks.confidence, "confidence(0.8)"),
    "motion_residual": (clocks.motion_residual, "motion_residual(0.1)"),
    "learned": (clocks.learned, 'learned("clock.onnx")'),
    "budget": (clocks.budget, "budget(network_rate=0.25)"),
    "paced": (clocks.paced, "paced(adaptive(0.02), 0.5)"),
    "every": (clocks.every, "every(2)"),
    "at_least_every": (clocks.at_least_every, "at_least_every(8)"),
    "invert": (clocks.invert, "invert(confidence(0.8))"),
    "either": (clocks.either, "either(adaptive(0.25), at_least_every(8))"),
    "both": (clocks.both, "both(adaptive(0.1), confidence(0.8))"),
}
"""Schedules and clocks by name, with an example of each that needs arguments."""
_CARRIED = "carried(skip_frame(4), warp(flow))"
_LIKE_A_FILE = re.compile(r"""[^()\[\]:'"]+\.[A-Za-z]\w*""")


def parse_schedule(text: str, *, imports: bool = True) -> ScheduleLike:
    """Return the schedule that ``text`` describes; ``imports=False`` refuses package.module:object.

    >>> parse_schedule("either(adaptive(0.25), at_least_every(8))").parts[1]
    AtLeastEvery(frames=8)
    """
    if _LIKE_A_FILE.fullmatch(text.strip()):
        why = "a schedule file ends in .toml" if Path(text.strip()).is_file() else "there is no such file"
        raise UsageError(
            f"schedule {text!r}: {why}. Give FILE.toml, which clockseg tune and plan write, or a schedule."
        )
    known = {name: found for name, (found, _) in _EXAMPLES.items()}
    return _whole(object_named(text, {**CARRIES, **known, "carried": _carried}, imports=imports))


def _carried(inner: Any, carry: Any = None) -> ByStages:
    if carry is None:
        raise UsageError(f"carried takes a schedule and a carry, such as {_CARRIED}.")
    return carried(_whole(inner), carry_of(carry, str(carry)))


def _whole(found: Any) -> ScheduleLike:
    """Return a schedule, a clock, or a function of the number of stages; ``UsageError`` for others, and names without arguments."""
    carries = [name for name, carry in CARRIES.items() if found is carry]
    if carries or hasattr(found, "compose"):
        raise UsageError(f"{(*carries, found)[0]} is a carry, not a schedule; combine it with a schedule: {_CARRIED}.")
    for function, example in (*_EXAMPLES.values(), (_carried, _CARRIED)):
        if found is function and example:
            raise UsageError(f"schedule {example.partition('(')[0]} needs arguments, such as {example}.")
    if isinstance(found, type) or (not callable(found) and not isinstance(found, Schedule)):
        raise UsageError(f"{found!r} is no schedule; give one, such as alternating or adaptive(0.25).")
    return found  # type: ignore[no-any-return]  # any of these


def spelled(text: str, carry: Carry) -> str:
    """Return the text of the schedule ``text`` under ``carry``, which replaces a carry that ``text`` names.

    >>> from clockseg.carry import parse_carry
    >>> spelled("skip_frame(4)", parse_carry("warp"))
    'carried(skip_frame(4), warp(flow))'
    >>> spelled("carried(skip_frame(4), warp(flow))", identity)
    'skip_frame(4)'
    """
    inner = _uncarried(text.strip())
    return inner if carry == identity else f"carried({inner}, {carry})"


def _uncarried(text: str) -> str:
    try:
        tree: Any = parsed(text)
    except SyntaxError:
        return text  # parse_schedule refuses it
    if isinstance(tree, ast.Call) and ast.unparse(tree.func) == "carried" and tree.args:
        return _uncarried(source(text, tree.args[0]))
    return text
