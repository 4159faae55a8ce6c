"""The paper's general clockwork equations, and the networks that are members of them (section 4, Table 2).

    y_H(t) = f_T( C_H(t) ∘ f_H(y_H(t-1)) + C_I(t) ∘ f_I(x(t)) )          (1)
    y_O(t) = f_O( C_O(t) ∘ f_H(y_H(t)) )                                 (2)

with input x, hidden state y_H, output y_O, clocks C (1: on, 0: off) and ∘ the elementwise product.

    network     f_I                    f_H   f_O    f_T    C_I  C_H      C_O
    SRN         W_I                    W_H   tanh   tanh   1    1        1
    clock RN    W_I                    W_H   tanh   tanh   C    C        C
    clock FCN   composition of layers  I     ReLU   I      C    not C    1

As in the equations, every module is computed and then masked, so values must be finite (0 · inf is not 0). A session computes
only the modules that are on, with the same result; tests compare the two. See ``docs/equations.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from clockseg.clocks import ALWAYS
from clockseg.clockwork.network import Value, same
from clockseg.clockwork.schedule import Schedule
from clockseg.clockwork.trace import Record
from clockseg.errors import UsageError
from clockseg.execution.pipeline import segments
from clockseg.types import Array

Map: TypeAlias = Callable[[Value], Value]
Clocks: TypeAlias = Callable[[int], Sequence[Any]]
"""C(t) of several modules: a bit for each, or a mask over its places."""


class Equations(NamedTuple):
    """Equations (1) and (2) at one frame: their seven arguments, and two that the paper's text needs beyond them.

    ``K``: a clock outside f_T, y_H = K ∘ f_T(..) + (1 - K) ∘ y_H(t-1), so that a module that is off keeps its state; 1: (1) as
    printed. ``f_R``: the map through which (2) reads the state; None: f_H, as printed.

    >>> leaky = Equations(f_I=same, f_H=lambda y: y / 2, f_O=same, f_T=same)
    >>> leaky.y_H(1.0, 4.0), leaky._replace(K=0).y_H(1.0, 4.0)
    (3.0, 4.0)
    >>> leaky.y_O(3.0), leaky._replace(f_R=same).y_O(3.0)
    (1.5, 3.0)
    """

    f_I: Map
    f_H: Map
    f_O: Map
    f_T: Map
    C_I: Any = 1
    C_H: Any = 1
    C_O: Any = 1
    K: Any = 1
    f_R: Map | None = None

    def y_H(self, x: Value, y: Value) -> Value:
        """Return the hidden state, equation (1), from the input and the state ``y`` of the frame before."""
        fresh = self.f_T(self.C_H * self.f_H(y) + self.C_I * self.f_I(x))
        return self.K * fresh + (1 - self.K) * y

    def y_O(self, y: Value) -> Value:
        """Return the output, equation (2), from the hidden state ``y`` of the same frame."""
        return self.f_O(self.C_O * (self.f_R or self.f_H)(y))


Network: TypeAlias = Callable[[int], Equations]
"""A network that is a member of the equations: from a frame number t to its equations at that frame."""


def unroll(network: Network, xs: Iterable[Value], y: Value = 0) -> Iterator[tuple[Value, Value]]:
    """Yield y_H(t) and y_O(t) for the inputs x(0), x(1), ..; ``y``: y_H(-1).

    >>> [float(y_H[0].round(6)) for y_H, y_O in unroll(srn([[1.0]], [[0.5]]), [1, 1])]
    [0.761594, 0.88113]
    """
    for t, x in enumerate(xs):
        now = network(t)
        y = now.y_H(x, y)
        yield y, now.y_O(y)


def srn(W_I: Any, W_H: Any, *, W_O: Any = None) -> Network:
    """Return the simple recurrent network, y_H = tanh(W_H y_H(t-1) + W_I x).

    ``W_I`` [n, inputs], ``W_H`` [n, n]. (2) as printed applies W_H once more, y_O = tanh(W_H y_H); with an output map
    ``W_O`` [outputs, n] it is y_O = tanh(W_O y_H), as in the literature.
    """
    f_R = None if W_O is None else _linear(W_O, "W_O")
    equations = Equations(*_input_and_hidden(W_I, W_H), np.tanh, np.tanh, f_R=f_R)
    return lambda t: equations


def clock_rn(W_I: Any, W_H: Any, *, periods: Sequence[int] | None = None, size: int = 1, held: bool = True) -> Network:
    """Return the clockwork RN (Koutník, Greff, Gomez, Schmidhuber, 2014): modules of units, fast to slow, with a clock each.

    ``W_I`` [n, inputs], ``W_H`` [n, n] for n / ``size`` modules of ``size`` units. ``periods`` in rising order, by
    default 2^(i-1): module i is on when t = 0 mod T_i. A module reads itself and those no faster, so W_H is
    block-upper-triangular. A module that is off keeps its state (K = C: the paper's text and figure, and Koutník et al.) or,
    with ``held=False``, has the state zero (Table 2 as printed); in both cases its output is zero (C_O = C).

    >>> clock_rn([[1], [1]], [[1, 0], [1, 1]])
    Traceback (most recent call last):
        ...
    clockseg.errors.UsageError: W_H[1, 0] = 1 lets module 2 (period 2) read the faster module 1 (period 1); W_H must be
    block-upper-triangular: give 0 there.
    """
    f_I, f_H = _input_and_hidden(W_I, W_H)
    T = _unit_periods(len(W_H), periods, size)
    _check_block_upper_triangular(np.asarray(W_H), T, size)

    def at(t: int) -> Equations:
        C = (t % T == 0).astype(int)
        return Equations(f_I, f_H, np.tanh, np.tanh, C_I=C, C_H=C, C_O=C, K=C if held else 1)

    return at


def clock_fcn(stages: Sequence[Map], clocks: Clocks) -> Network:
    """Return the clock FCN of Table 2, a function of x alone: f_I is the composition of layers up to each module.

    ``stages``: f_1 .. f_L, each from its input to its features h_l, which make up the state; heads and fusion come after
    (2). It equals the network that runs (``cascade``) only for nested firings: a module fires only if the one before it does.

    >>> halves = clock_fcn([lambda x: x / 2, lambda x: x / 2], fixed_rate(1, 2))
    >>> [y_H.tolist() for y_H, y_O in unroll(halves, [8, 16])]
    [[4.0, 2.0], [8.0, 2.0]]
    """

    def at(t: int) -> Equations:
        C = _checked(clocks, t, len(stages))
        on, off = modules(*C), modules(*(c == 0 for c in C))
        return Equations(
            lambda x: modules(*_composed(stages, x)), same, lambda y: modules(*map(relu, y)), same, C_I=on, C_H=off
        )

    return at


def module(f: Map, C: Any) -> Equations:
    """Return one module of a clock FCN at one frame: ``f`` of its input where C is on, its former state where C is off.

    >>> module(abs, 1).y_H(-3, 7), module(abs, 0).y_H(-3, 7)
    (3, 7)
    """
    return Equations(f_I=f, f_H=same, f_O=relu, f_T=same, C_I=C, C_H=C == 0)


def cascade(stages: Sequence[Map], clocks: Clocks, xs: Iterable[Value], y: Value = 0) -> Iterator[Array]:
    """Yield ``modules(h_1, .., h_L)`` of the clock FCN that runs, module by module: x_1 is the frame, x_l = h_{l-1}(t).

    Firings need not be nested. Here module 2 is off at t = 1, so module 3 reads its cached features (of 8, not of 16):

    >>> halve = lambda x: x / 2
    >>> [h.tolist() for h in cascade([halve] * 3, fixed_rate(1, 2, 1), [8, 16])]
    [[4.0, 2.0, 1.0], [8.0, 2.0, 1.0]]
    """
    h = [y] * len(stages)
    for t, x in enumerate(xs):
        for index, (f, C) in enumerate(zip(stages, _checked(clocks, t, len(stages)), strict=True)):
            x = h[index] = module(f, C).y_H(x, h[index])
        yield modules(*h)


def pipeline(stages: Sequence[Map], delays: Sequence[int]) -> Network:
    """Return a pipeline: where d_l = 1, f_l moves from f_I to the subdiagonal of f_H, and reads h_{l-1}(t-1). All clocks are on.

    Delays (0, 1, 1) give f_I(x) = (f_1(x), 0, 0), f_H(y) = (0, f_2(y_1), f_3(y_2)). Frame 0 fills the pipeline without delay.
    (2) reads the state itself, f_R = I; as printed it would run the delayed stages once more.

    >>> double = lambda x: 2 * x
    >>> [y_H.tolist() for y_H, y_O in unroll(pipeline([double] * 3, (0, 1, 1)), [1, 2, 3])]
    [[2, 4, 8], [4, 4, 8], [6, 8, 8]]
    """
    parts = segments(Schedule((ALWAYS,) * len(stages), tuple(delays)).delays)
    first, later = stages[: len(parts[0])], parts[1:]

    def f_I(x: Value) -> Array:
        return modules(*_composed(first, x), *[0] * (len(stages) - len(first)))

    def f_H(y: Array) -> Array:
        delayed = (h for s in later for h in _composed(stages[s.start : s.stop], y[s.start - 1]))
        return modules(*(0 * h for h in y[: len(first)]), *delayed)

    fill = clock_fcn(stages, fixed_rate(*[1] * len(stages)))(0)
    return lambda t: fill._replace(f_I=f_I, f_H=f_H, C_H=1, f_R=same) if t else fill


def carried(network: Network, move: Callable[[int], Map]) -> Network:
    """Return a clock FCN or pipeline with warped states: ``move(t)`` warps a module from frame t - 1 to frame t.

    The warp is in f_H of (1) only, because (2) reads the state of the same frame.
    """

    def at(t: int) -> Equations:
        still = network(t)
        moved = still._replace(f_H=lambda y: modules(*map(move(t), still.f_H(y))), f_R=still.f_R or still.f_H)
        return moved if t else still

    return at


def fixed_rate(*periods: int) -> Clocks:
    """Return clocks that are on when t = 0 mod the module's period.

    >>> fixed_rate(1, 2, 4)(2)
    (True, True, False)
    """
    return lambda t: tuple(t % period == 0 for period in periods)


def firings(records: Iterable[Record]) -> Clocks:
    """Return the C(t) of a session, whatever the kind of its clocks. ``records``: those of ``clockseg.run``."""
    return [record.fired for record in records].__getitem__


def modules(*values: Value) -> Array:
    """Return the values of several modules as one array of objects, [modules]: arithmetic goes module by module.

    >>> (modules(1, 0) * modules(np.ones(2), np.ones((2, 2)))).tolist()
    [array([1., 1.]), array([[0., 0.],
           [0., 0.]])]
    """
    made = np.empty(len(values), object)
    for index, value in enumerate(values):  # a slice would broadcast values of equal shape
        made[index] = value
    return made


def relu(h: Value) -> Value:
    """Return max(h, 0)."""
    return np.maximum(h, 0)


def _composed(stages: Sequence[Map], x: Value) -> list[Value]:
    """Return f_1(x), f_2(f_1(x)), .."""
    return list(accumulate(stages, lambda value, f: f(value), initial=x))[1:]


def _checked(clocks: Clocks, t: int, count: int) -> Sequence[Any]:
    C = clocks(t)
    if len(C) != count:
        raise UsageError(f"the clock gives {len(C)} values for {count} stages at t = {t}; give one per stage.")
    return C


def _input_and_hidden(W_I: Any, W_H: Any) -> tuple[Map, Map]:
    n = np.shape(W_H)[:1]
    if not n or np.shape(W_H) != n * 2 or np.shape(W_I)[:1] != n:
        raise UsageError(f"W_I {np.shape(W_I)} and W_H {np.shape(W_H)}; give W_I [n, inputs] and W_H [n, n].")
    return _linear(W_I, "W_I"), _linear(W_H, "W_H")


def _linear(W: Any, name: str) -> Map:
    """Return the multiplication by a matrix; a number stands for a vector of equal values."""
    matrix = np.asarray(W)
    if matrix.ndim != 2:
        raise UsageError(f"{name} has shape {matrix.shape}; give a matrix, [outputs, inputs].")

    def times(v: Value) -> Any:
        if np.shape(v) not in ((), matrix.shape[1:]):
            raise UsageError(f"{name} {matrix.shape} times a value of shape {np.shape(v)}; give [{matrix.shape[1]}].")
        return matrix @ np.broadcast_to(v, matrix.shape[1])

    return times


def _unit_periods(units: int, periods: Sequence[int] | None, size: int) -> Array:
    """Return the period of each unit, [n]."""
    if size < 1 or units % size:
        raise UsageError(f"{units} units in modules of {size}; give a size that divides them.")
    T = [2**i for i in range(units // size)] if periods is None else list(periods)
    if len(T) != units // size or sorted(T) != T or min(T, default=1) < 1:
        raise UsageError(f"periods {tuple(T)} for {units // size} modules; give each one of at least 1, fast to slow.")
    return np.repeat(T, size)


def _check_block_upper_triangular(W_H: Array, T: Array, size: int) -> None:
    for row, column in np.argwhere((T[None, :] < T[:, None]) & (W_H != 0)):
        raise UsageError(
            f"W_H[{row}, {column}] = {W_H[row, column]} lets module {row // size + 1} (period {T[row]}) read the faster "
            f"module {column // size + 1} (period {T[column]}); W_H must be block-upper-triangular: give 0 there."
        )
