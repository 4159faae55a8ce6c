"""A schedule as text: what the command line, sidecars and plans write."""

from __future__ import annotations

from clockseg._errors import UsageError
from clockseg._names import named
from clockseg.gate import adaptive, at_least_every, both, confidence, difference, either, every, invert, paced
from clockseg.schedule import Named, Schedule, alternating, exponential, fixed_rate, frame_oracle, pipelined, skip_frame


def parse_schedule(text: str) -> Schedule | Named:
    """A schedule as the command line, sidecars and plans write it.

    >>> parse_schedule("either(adaptive(0.25), at_least_every(8))")(3).clocks[2].clocks[1]
    AtLeastEvery(frames=8)
    """
    by_name = {f.__name__: f for f in (frame_oracle, alternating, exponential)}
    by_call = {
        f.__name__: f
        for f in (
            skip_frame,
            fixed_rate,
            pipelined,
            adaptive,
            difference,
            confidence,
            paced,
            every,
            at_least_every,
            either,
            both,
            invert,
        )
    }
    if text.strip() in by_call:
        raise UsageError(f"schedule {text.strip()} needs arguments, such as {_EXAMPLES[text.strip()]}.")
    found: Schedule | Named = named(text, by_name | by_call)
    if not isinstance(found, Schedule) and not callable(found):
        raise UsageError(f"schedule {text!r} is {found!r}; give a schedule, such as alternating or adaptive(0.25).")
    return found


_EXAMPLES = {
    "skip_frame": "skip_frame(2)",
    "fixed_rate": "fixed_rate((1, 2, 2))",
    "pipelined": "pipelined(2)",
    "adaptive": "adaptive(0.25)",
    "difference": 'difference(0.1, of="scores")',
    "confidence": "confidence(0.8)",
    "paced": "paced(adaptive(0.02), 0.5)",
    "every": "every(2)",
    "at_least_every": "at_least_every(8)",
    "invert": "invert(confidence(0.8))",
    "either": "either(adaptive(0.25), at_least_every(8))",
    "both": "both(adaptive(0.1), confidence(0.8))",
}
