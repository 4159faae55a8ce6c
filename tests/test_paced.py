"""The paced clock: its threshold moves so that its fire rate stays."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clockseg import UsageError, adaptive, at_least_every, confidence, either, parse_schedule, run
from clockseg.clocks import Tick, View, Watch, difference, paced
from clockseg.clocks.combine import SPAN
from clockseg.clockwork.network import Stage, StagedNetwork
from clockseg.clockwork.schedule import schedule_for

NET = StagedNetwork("watched", (Stage("a", np.asarray), Stage("b", np.asarray)))
CELLS = 400
SCORES = Watch("scores", 1)


def moving(changes) -> list[np.ndarray]:
    """Maps of 0 and 1 of which, at each frame, the next ``change`` cells of 400 flip."""
    now, at, maps = np.zeros(CELLS, np.uint8), 0, []
    for change in changes:
        now = now.copy()
        now[np.arange(at, at + change) % CELLS] ^= 1
        at += change
        maps.append(now)
    return maps


def firings(schedule, maps) -> list[int]:
    return [int(record.fired[1]) for _, record in run(NET, maps, schedule)][1:]


def rate(schedule, maps) -> float:
    fired = firings(schedule, maps)
    return sum(fired) / len(fired)


def test_the_threshold_by_hand() -> None:
    """Signal .1 at each frame after firing: it fires while .1 >= threshold * exp(0.2 * (firings - rate * frames))."""
    clock, state = paced(difference(0.1), 0.5), None
    zeros, tenth = np.zeros(10, np.uint8), np.eye(1, 10, dtype=np.uint8)[0]
    answers, fires = [], 0
    for t in range(1, 6):
        view = View(tenth, zeros, zeros)
        decision, state = clock(Tick(t, 2, None, *view, 1, fires, views={SCORES: view}), state)
        fires += decision.fire
        answers.append((decision.fire, round(decision.signal, 9)))
    # Factors of the threshold: 1, exp(0.1) after a firing, 1 after a frame without.
    assert answers == [
        (True, 0.1),
        (False, round(0.1 / math.exp(0.1), 9)),
        (True, 0.1),
        (False, round(0.1 / math.exp(0.1), 9)),
        (True, 0.1),
    ]


@pytest.mark.parametrize("asked", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("motion", [2, 8, 40])
def test_the_rate_stays_whatever_the_motion(asked, motion) -> None:
    rng = np.random.default_rng(motion)
    maps = moving(rng.poisson(motion, 700))
    assert abs(rate(paced(adaptive(0.02), asked), maps) - asked) < math.log(SPAN) / 0.2 / 699
    # The fixed threshold's rate follows the motion.
    assert rate(adaptive(0.02), maps) == pytest.approx({2: 0.24, 8: 0.66, 40: 1.0}[motion], abs=0.1)


@given(
    st.lists(st.integers(0, 40), min_size=20, max_size=60),
    st.floats(0.05, 0.95),
    st.floats(0.01, 0.2),
)
def test_the_signal_meets_the_fixed_threshold(changes, asked, threshold) -> None:
    schedule = paced(adaptive(threshold), asked)
    for _, record in list(run(NET, moving(changes), schedule))[1:]:
        assert record.fired[1] == (record.signal[1] >= threshold)


def test_where_nothing_changes_nothing_fires_and_it_wakes_up_soon() -> None:
    still, then = [0] * 5000, [20] * 200
    fired = firings(paced(adaptive(0.05), 0.5), moving([0, *still, *then]))
    assert sum(fired[:5000]) == 0
    # The deficit of 2500 firings is not made up for: the threshold has stopped at a 32nd.
    assert sum(fired[5000:]) < 100 + math.log(SPAN) / 0.2 + 1


def test_firings_of_others_count() -> None:
    """The cap alone fires on a third of the frames, more than the quarter asked for: the clock adds next to none."""
    maps = moving([5] * 600)
    assert rate(either(paced(adaptive(0.02), 0.25), at_least_every(3)), maps) == pytest.approx(1 / 3, abs=0.03)


def test_it_is_written_as_text_and_gates_as_its_clock_does() -> None:
    made = schedule_for(parse_schedule("either(paced(adaptive(0.02, watch=1), 0.5), at_least_every(8))"), 3)
    assert made.clocks[1].parts[0] == paced(difference(0.02, 1), 0.5)
    assert parse_schedule('paced(difference(0.1, of="pixels"), 0.5)') == paced(difference(0.1, of="pixels"), 0.5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: paced(confidence(0.5), 0.5), "whose threshold can adapt"),
        (
            lambda: paced(either(adaptive(0.1)), 0.5),
            r"^either\(adaptive\(0\.1\)\) can't be paced.*Use either and both around",
        ),
        (lambda: paced(adaptive(0.1), 0), "between 0 and 1"),
        (lambda: paced(adaptive(0.1), 1.0), "between 0 and 1"),
        (lambda: paced(adaptive(0.1), float("nan")), "must be a number"),
        (lambda: paced(0.1, 0.5), "takes clocks"),
        (lambda: parse_schedule("paced"), "such as paced"),
    ],
)
def test_what_cannot_be_paced_is_refused(make, message) -> None:
    with pytest.raises(UsageError, match=message):
        make()
