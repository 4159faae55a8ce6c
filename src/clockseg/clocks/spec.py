"""Schedules as text, as the command line, sidecars and plans write them."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from clockseg import clocks
from clockseg.carry.warp import CARRIES, carry_of
from clockseg.clocks import rates
from clockseg.clocks.expressions import object_named, parsed, source, text_of
from clockseg.clocks.rates import NamedSchedule, carried
from clockseg.clockwork.carry import Carry, identity
from clockseg.clockwork.clock import is_clock
from clockseg.clockwork.schedule import Schedule, ScheduleLike
from clockseg.errors import UsageError

_CARRIED = "carried(skip_frame(4), warp(flow))"
_EXAMPLES = {
    text.partition("(")[0]: text
    for text in (
        "frame_oracle",
        "alternating",
        "exponential",
        "skip_frame(2)",
        "fixed_rate((1, 2, 2))",
        "pipelined(2)",
        "adaptive(0.25)",
        'difference(0.1, of="scores")',
        "confidence(0.8)",
        "motion_residual(0.1)",
        'learned("clock.onnx")',
        "budget(network_rate=0.25)",
        "paced(adaptive(0.02), 0.5)",
        "every(2)",
        "at_least_every(8)",
        "invert(confidence(0.8))",
        "either(adaptive(0.25), at_least_every(8))",
        "both(adaptive(0.1), confidence(0.8))",
        _CARRIED,
    )
}
"""An example of each expression, by its name."""
_LIKE_A_FILE = re.compile(r"""[^()\[\]:'"]+\.[A-Za-z]\w*""")


def parse_schedule(text: str, *, imports: bool = True) -> ScheduleLike:
    """Return the schedule that ``text`` describes; ``imports=False`` refuses package.module:object.

    >>> parse_schedule("either(adaptive(0.25), at_least_every(8))").parts[1]
    AtLeastEvery(frames=8)
    >>> print(parse_schedule("carried(skip_frame(6), interpolate(flow))"))
    carried(skip_frame(6), interpolate(flow))
    """
    text = text.strip()
    if _LIKE_A_FILE.fullmatch(text):
        why = "a schedule file ends in .toml" if Path(text).is_file() else "there is no such file"
        raise UsageError(
            f"schedule {text!r}: {why}. Give FILE.toml, which clockseg tune and plan write, or a schedule."
        )
    found: Any = _whole(object_named(text, CARRIES | _KNOWN, imports=imports))
    printable = is_clock(found) or isinstance(found, Schedule | NamedSchedule)
    return found if printable else NamedSchedule(found, text)


def _carried(inner: Any, carry: Any = None) -> NamedSchedule:
    if carry is None:
        raise UsageError(f"carried takes a schedule and a carry, such as {_CARRIED}.")
    return carried(_whole(inner), carry_of(carry, str(carry)))


_KNOWN: dict[str, Any] = {
    name: found for name, found in (vars(rates) | vars(clocks) | {"carried": _carried}).items() if name in _EXAMPLES
}


def _whole(found: Any) -> ScheduleLike:
    """Return a schedule, a clock, or a function of the number of stages; ``UsageError`` for others, and names without arguments."""
    names = [name for name, known in (CARRIES | _KNOWN).items() if found is known]
    if (names[:1] and names[0] in CARRIES) or hasattr(found, "compose"):
        raise UsageError(f"{(*names, found)[0]} is a carry, not a schedule; combine it with a schedule: {_CARRIED}.")
    if names and "(" in _EXAMPLES[names[0]]:
        raise UsageError(f"schedule {names[0]} needs arguments, such as {_EXAMPLES[names[0]]}.")
    if isinstance(found, type):
        raise UsageError(f"{found.__name__} is a class, not a schedule; give an instance, {found.__name__}(..).")
    if not callable(found) and not isinstance(found, Schedule):
        raise UsageError(f"{found!r} is no schedule; give one, such as alternating or adaptive(0.25).")
    return found  # type: ignore[no-any-return]  # any of these


def is_carried(text: str) -> bool:
    """Return True if ``text`` is a schedule with a carry, ``carried(..)``."""
    tree = parsed(text)
    return isinstance(tree, ast.Call) and ast.unparse(tree.func) == "carried" and bool(tree.args)


def uncarried(text: str) -> tuple[str, str | None]:
    """Return the text of the schedule that ``carried(..)`` takes, and that of its carry; ``text`` and None for other schedules."""
    if not is_carried(text):
        return text, None
    call: Any = parsed(text)
    inner, *carry = (source(text, one) for one in (*call.args, *(keyword.value for keyword in call.keywords)))
    return inner, carry[0] if carry else None


def spelled(text: str, carry: Carry) -> str:
    """Return the text of the schedule ``text`` under ``carry``, which replaces a carry that ``text`` names."""
    text = text.strip()
    while is_carried(text):
        text, _ = uncarried(text)
    return text if carry == identity else f"carried({text}, {text_of(carry)})"
