"""Expected values, group 4: what each schedule costs, from the stages' shares of the time or of the multiply-adds."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clockseg import (
    Schedule,
    UsageError,
    adaptive,
    alternating,
    exponential,
    fixed_rate,
    frame_oracle,
    pipelined,
    skip_frame,
)
from clockseg.clocks import ALWAYS
from clockseg.paper.methods import relative_cost

TIME = (59, 18, 23)
"""The paper's shares of the stages, in percent of the time."""
MULTIPLY_ADDS = (90_942_640_896, 45_696_786_432, 44_326_453_248)
"""FCN-8s, 21 classes, 500x500: the convolutions of each stage."""


@pytest.mark.parametrize(
    ("schedule", "cost"),
    [
        (frame_oracle, 100),
        (skip_frame(2), 50),
        (exponential, 73.75),
        (alternating, 88.5),
        (fixed_rate((1, 2, 2)), 79.5),
        (pipelined(1), 100),
        (pipelined(2), 77),
        (pipelined(3), 59),
    ],
    ids=["oracle", "skip-frame", "exponential", "alternating", "1-2-2", "pipelined-1", "pipelined-2", "pipelined-3"],
)
def test_expected_4_in_percent_of_the_time(schedule, cost) -> None:
    assert 100 * relative_cost(schedule, TIME) == pytest.approx(cost, abs=1e-12)


def test_expected_4_exponential_costs_half_as_much_again_as_skip_frame() -> None:
    assert relative_cost(exponential, TIME) / relative_cost(skip_frame(2), TIME) == pytest.approx(1.475)


@pytest.mark.parametrize(
    ("rate", "cost"),
    [
        (1, 100),
        (0.93, 98.39),
        (0.52, 88.96),
        (0.50, 88.5),
        (0.21, 81.83),
        (0.716, 93.468),
        (0.323, 84.429),
        (0.085, 78.955),
        (0.024, 77.552),
        (0, 77),
    ],
)
def test_expected_4_adaptive_at_a_fire_rate(rate, cost) -> None:
    assert 100 * relative_cost(adaptive(0.25), TIME, (1, 1, rate)) == pytest.approx(cost, abs=1e-12)


@pytest.mark.parametrize(
    ("schedule", "cost"), [(exponential, 69.0), (alternating, 87.75), (fixed_rate((1, 2, 2)), 75.1)]
)
def test_expected_4_in_percent_of_the_multiply_adds(schedule, cost) -> None:
    digits = len(str(cost).split(".")[1])
    assert round(100 * relative_cost(schedule, MULTIPLY_ADDS), digits) == cost


def test_given_rates_are_for_every_schedule() -> None:
    rates = (1, 0.5, 0.25)
    for schedule in (adaptive(0.1, 0.25), exponential, adaptive(0.25)):
        assert relative_cost(schedule, TIME, rates) == pytest.approx(0.7375)
    gated_pipeline = Schedule((ALWAYS, lambda tick: True, ALWAYS), delays=(0, 0, 1))
    assert relative_cost(gated_pipeline, TIME, (1, 0.5, 1)) == pytest.approx(0.68)


@pytest.mark.parametrize(
    ("schedule", "rates", "message"),
    [
        (adaptive(0.25), None, "one of 0..1 per stage"),
        (adaptive(0.25), (1, 1, 1.5), "one of 0..1 per stage"),
        (adaptive(0.25), (1, 1, math.nan), "one of 0..1 per stage"),
        (adaptive(0.25), (1, 0.5), "for 3 stages"),
        (Schedule((ALWAYS, ALWAYS)), None, "the network 3"),
    ],
)
def test_what_has_no_cost_is_refused(schedule, rates, message) -> None:
    with pytest.raises(UsageError, match=message):
        relative_cost(schedule, TIME, rates)


@given(st.lists(st.floats(0.01, 1), min_size=3, max_size=3), st.integers(1, 3), st.floats(0, 1))
def test_nothing_costs_more_than_everything_and_units_do_not_matter(shares, k, rate) -> None:
    assert relative_cost(pipelined(k), shares) <= 1 + 1e-12
    cost = relative_cost(adaptive(0.25), shares, (1, 1, rate))
    assert relative_cost(adaptive(0.25), [1000 * share for share in shares], (1, 1, rate)) == pytest.approx(cost)
    assert (shares[0] + shares[1]) / sum(shares) - 1e-12 <= cost <= 1 + 1e-12
