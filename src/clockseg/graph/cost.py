"""What a network costs before it is run: multiply-adds, parameters and bytes, from shapes; a schedule, from shares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from clockseg.clocks import ALWAYS
from clockseg.clockwork.clock import facts
from clockseg.clockwork.schedule import Named, Schedule, schedule_for
from clockseg.errors import UsageError

Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Cost:
    """What a part is made of: multiply-adds of a run, numbers it has learned, bytes of what it gives.

    ``moved``: bytes that its operations read and write (``clockseg.graph.traffic``).

    >>> Cost(10, 2, 4) + Cost(1, 1, 4)
    Cost(multiply_adds=11, parameters=3, bytes=8, moved=0)
    """

    multiply_adds: int = 0
    parameters: int = 0
    bytes: int = 0
    moved: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.multiply_adds + other.multiply_adds,
            self.parameters + other.parameters,
            self.bytes + other.bytes,
            self.moved + other.moved,
        )


def multiply_adds(operator: str, inputs: Sequence[Shape], output: Shape, *, equation: str = "") -> int:
    """Multiply-adds of one operation (ONNX names); 0 for all but convolutions, products, attention and recurrent layers.

    ``inputs``: the shapes it reads, in ONNX's order, () for what is left out. A convolution costs a kernel per output
    element, a transposed one per input element; of 8 bits they cost what those of floats do. ``equation``: of an Einsum.
    Bias, padding, activation, normalisation, enlargement and argmax aren't counted: they have no products of weights.

    >>> multiply_adds("Conv", [(1, 3, 8, 8), (16, 3, 3, 3)], (1, 16, 8, 8))
    27648
    >>> multiply_adds("ConvTranspose", [(1, 21, 16, 16), (21, 1, 4, 4)], (1, 21, 34, 34))
    86016
    >>> multiply_adds("MatMul", [(1, 64, 32), (32, 10)], (1, 64, 10))
    20480
    >>> multiply_adds("Einsum", [(2, 8, 16), (2, 16, 4)], (2, 8, 4), equation="bij,bjk->bik")
    1024
    """
    if operator in _KERNEL_PER_OUTPUT:
        return math.prod(output) * math.prod(inputs[_KERNEL_PER_OUTPUT[operator]][1:])
    if operator == "ConvTranspose":
        return math.prod(inputs[0]) * math.prod(inputs[1][1:])
    if operator in ("MatMul", "MatMulInteger", "QLinearMatMul"):
        return math.prod(output) * inputs[0][-1]
    if operator == "Gemm":
        return math.prod(output) * (math.prod(inputs[0]) // output[0]) if math.prod(output) else 0
    if operator == "Attention":
        return _attention(inputs, output)
    if operator in ("RNN", "GRU", "LSTM"):
        steps = inputs[0][0] * inputs[0][1]
        return steps * (math.prod(inputs[1]) + math.prod(inputs[2]))
    return _einsum(inputs, equation) if operator == "Einsum" and len(inputs) > 1 else 0


_KERNEL_PER_OUTPUT = {"Conv": 1, "ConvInteger": 1, "DeformConv": 1, "QLinearConv": 3}
"""Convolutions, and which of their inputs the weights are."""


def _attention(inputs: Sequence[Shape], output: Shape) -> int:
    """Queries by keys, then shares by values: [batch, heads, places, channels], or heads and channels in one."""
    query, key = inputs[0], inputs[1]
    past = inputs[4][-2] if len(inputs) > 4 and inputs[4] else 0
    return math.prod(query[:-1]) * (key[-2] + past) * (query[-1] + output[-1])


def _einsum(inputs: Sequence[Shape], equation: str) -> int:
    """A product for each value of all its indices."""
    sides: dict[str, int] = {}
    for term, shape in zip(equation.replace(" ", "").partition("->")[0].split(","), inputs, strict=True):
        before, dots, behind = term.partition("...")
        spread = len(shape) - len(before) - len(behind) if dots else 0
        names = [*before, *(f"...{spread - place}" for place in range(spread)), *behind]
        for name, side in zip(names, shape, strict=True):
            sides[name] = max(sides.get(name, 1), side)
    return math.prod(sides.values()) * (len(inputs) - 1)


def relative_cost(
    schedule: Schedule | Named, shares: Sequence[float], *, fire_rate: float | Sequence[float] | None = None
) -> float:
    """What a frame costs on average under ``schedule``, 1 being every stage: expected, before anything is run.

    ``shares``: of each stage, in any unit (seconds, multiply-adds, percent); what fuses and finishes is left out.
    ``fire_rate``: 0..1, of the stage whose clock goes by what it sees, and of those it gates; or one a stage. Fixed
    rates need none. The segments of a pipelined schedule run at once, so that the longest counts: latency, not work.

    >>> paper = (59, 18, 23)
    >>> from clockseg.clockwork.schedule import exponential, pipelined
    >>> relative_cost(exponential, paper), relative_cost(pipelined(3), paper)
    (0.7375, 0.59)
    >>> from clockseg.clocks import adaptive
    >>> relative_cost(adaptive(0.25), paper, fire_rate=0.5)
    0.885
    """
    made = schedule_for(schedule, len(shares))
    if min(shares) < 0 or not 0 < sum(shares) < math.inf:
        raise UsageError(f"shares {tuple(shares)}; give one finite number of at least 0 a stage, not all of them 0.")
    rates = _rates(made, fire_rate)
    if len(rates) != len(made) or not all(0 <= rate <= 1 for rate in rates):
        raise UsageError(f"fire rates {rates} for {len(made)} stages; give one of 0..1 a stage.")
    segments = (sum(shares[index] * rates[index] for index in segment) for segment in made.segments())
    return max(segments) / sum(shares)


def _rates(schedule: Schedule, given: float | Sequence[float] | None) -> tuple[float, ...]:
    """The share of frames on which each stage fires."""
    periods = [facts(clock).period for clock in schedule.clocks]
    fixed = tuple(1 / period for period in periods if period)
    first = next((i for i, period in enumerate(periods) if not period), len(schedule))
    if given is None and first == len(schedule):
        return fixed
    if isinstance(given, (int, float)):
        follow = range(first + 1, len(schedule))
        if first < len(schedule) and all(schedule.clocks[i] == ALWAYS and not schedule.delays[i] for i in follow):
            return (*fixed[:first], *[given] * (len(schedule) - first))
    elif given is not None:
        return tuple(given)
    raise UsageError(
        f"fire_rate={given} for the clocks {', '.join(map(repr, schedule.clocks))}; give none where all go by the frame "
        "counter, a number where one does not and gates all stages after it, and one a stage otherwise."
    )
