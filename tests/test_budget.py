"""The budget: its rate comes out right, it saves for motion, refills at cuts, and nothing is staler than its cap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clockseg import Session, UsageError, adaptive, confidence, difference, either, every, parse_schedule, run
from clockseg.carry import Flow, Warp
from clockseg.clocks import ALWAYS, PICTURE, Decision, Plain, Tick, Watch, budget, motion_residual, watches
from clockseg.clocks.combine import LEAST, MOST, SLACK
from clockseg.clocks.maps import scene_cut
from clockseg.clocks.rates import carried
from clockseg.clockwork.network import Stage, StagedNetwork
from clockseg.clockwork.schedule import schedule_for
from clockseg.execution.recording import needs, record, replay

PICTURES = StagedNetwork(
    "red", (Stage("a", lambda image: image[..., 0], scores=None), Stage("b", np.asarray, scores=None))
)
NET = StagedNetwork("two", (Stage("a", np.asarray, scores=None), Stage("b", np.asarray, scores=None)))


@dataclass(frozen=True)
class Grown:
    """A signal that grows by what the frame, a number, says is moving: about as a residual does."""

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        so_far = float(np.ravel(tick.image)[0]) + (0.0 if tick.since == 1 or state is None else state)
        return Decision(False, so_far), so_far

    gates_after = 0

    def watches(self, stage: int) -> frozenset[Watch]:
        return frozenset()


def firings(motion, clock) -> np.ndarray:
    """Of each frame after the first, whether the network ran."""
    frames = [np.float64([0.0]), *(np.float64([one]) for one in motion)]
    return np.array([record.fired[0] for _, record in run(NET, frames, clock)][1:])


def away(fired, rate) -> np.ndarray:
    """How many firings there were more than asked for, after each frame."""
    return np.cumsum(fired) - rate * np.arange(1, len(fired) + 1)


KINDS = {
    "steady": lambda rng: rng.gamma(20, 0.05, 600),
    "rough": lambda rng: rng.gamma(0.5, 1, 600),
    "in turn": lambda rng: np.where(np.arange(600) // 100 % 2, 1.0, 0.02) * rng.gamma(9, 0.1, 600),
    "faster and faster": lambda rng: np.exp(np.arange(600) / 100) * rng.gamma(9, 0.1, 600),
    "slower and slower": lambda rng: np.exp(-np.arange(600) / 100) * rng.gamma(9, 0.1, 600),
}


@pytest.mark.parametrize("rate", [0.5, 0.25, 0.1])
@pytest.mark.parametrize("kind", KINDS)
def test_the_rate_comes_out_right_from_the_hundredth_frame_on(kind, rate) -> None:
    found = away(firings(KINDS[kind](np.random.default_rng(3)), budget(network_rate=rate, signal=Grown())), rate)
    after = np.arange(1, 601)
    assert np.all(np.abs(found[100:]) / after[100:] < 0.02)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(0.001, 100), min_size=30, max_size=300), st.floats(0.05, 0.95))
def test_what_is_saved_and_owed_is_bounded_whatever_the_signal(motion, rate) -> None:
    slack = np.clip(SLACK * np.arange(1, len(motion) + 1), LEAST, MOST)
    assert np.all(np.abs(away(firings(motion, budget(network_rate=rate, signal=Grown())), rate)) <= slack + 1e-6)


def test_a_long_still_stretch_leaves_no_more_than_the_slack_for_when_motion_is_back() -> None:
    rng, rate = np.random.default_rng(0), 0.25
    motion = np.concatenate([rng.gamma(9, 0.1, 200), np.zeros(3000), rng.gamma(9, 0.1, 300)])
    fired = firings(motion, budget(network_rate=rate, signal=Grown()))
    assert not fired[230:3200].any()  # nothing changed
    back = away(fired[3200:], rate)
    assert fired[3200:3220].mean() < 0.75  # no burst: what was saved is spent little by little
    assert back.max() <= 2 * MOST + 1
    assert back.min() >= -1  # no famine
    assert abs(away(fired[3300:], rate)[-1]) <= MOST + 1


def test_it_saves_where_nothing_moves_for_where_something_does() -> None:
    motion = KINDS["in turn"](np.random.default_rng(1))
    fired = firings(motion, budget(network_rate=0.25, signal=Grown()))
    moving = np.arange(600) // 100 % 2 == 1
    assert fired[moving].mean() > 1.4 * fired[~moving].mean()


@pytest.mark.parametrize(("rate", "cap"), [(0.5, 3), (0.25, 5), (0.1, 12)])
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_gets_as_old_as_the_cap(kind, rate, cap) -> None:
    motion = KINDS[kind](np.random.default_rng(5)) * (np.arange(600) > 300)  # nothing at all at first
    fired = firings(motion, budget(network_rate=rate, cap=cap, signal=Grown()))
    assert np.diff([-1, *np.flatnonzero(fired), 600]).max() <= cap


def test_firings_of_others_count() -> None:
    motion = KINDS["steady"](np.random.default_rng(2))
    schedule = either(budget(network_rate=0.25, signal=Grown()), every(6))
    records = [one for _, one in run(NET, [np.float64([one]) for one in motion], schedule)]
    assert np.mean([one.fired[0] for one in records[1:]]) == pytest.approx(0.25, abs=0.02)


def textured(seed: int, shift: int) -> np.ndarray:
    """A picture of something that moves to the left."""
    import cv2

    rng = np.random.default_rng(seed)
    noise = rng.integers(0, 140, (12, 64, 3), dtype=np.uint8) + np.uint8(rng.integers(0, 100))
    return np.ascontiguousarray(cv2.resize(noise, (512, 96), interpolation=cv2.INTER_CUBIC)[:, shift : shift + 160])


SPLICED = [textured(0, 3 * t) for t in range(30)] + [textured(1, 2 * t) for t in range(30)]


@pytest.mark.parametrize("warped", [True, False])
def test_a_cut_refills_at_that_very_frame_and_nothing_else_does(warped) -> None:
    schedule = budget(network_rate=0.1)
    schedule = carried(schedule, Warp(Flow())) if warped else schedule
    records = [record for _, record in run(PICTURES, SPLICED, schedule)]
    assert [t for t, record in enumerate(records) if record.fill] == [0, 30]
    assert sum(record.fired[0] for record in records[1:]) == pytest.approx(6, abs=2)  # the cut's counts


def test_a_cut_is_seen_through_either() -> None:
    schedule = carried(either(motion_residual(2.0), budget(motion_residual, network_rate=0.1)), Warp(Flow()))
    records = [record for _, record in run(PICTURES, SPLICED, schedule)]
    assert [t for t, record in enumerate(records) if record.fill] == [0, 30]


def test_a_function_of_the_tick_is_a_signal_too() -> None:
    schedule = budget(Plain(lambda tick: Decision(False, float(tick.image[0])), gates_after=0), network_rate=0.25)
    records = [one for _, one in run(NET, list(np.random.default_rng(0).random((200, 1))), schedule)]
    assert np.mean([one.fired[0] for one in records[1:]]) == pytest.approx(0.25, abs=0.02)
    large = [one.signal[0] for one in records[20:] if one.fired[0]]
    assert np.mean(large) > 0.7


def test_what_goes_on_is_no_cut() -> None:
    """A strobe: light and dark in turn. It is taken for a cut once or twice, not for ever."""
    dark, light = np.zeros((48, 64, 3), np.uint8), np.full((48, 64, 3), 200, np.uint8)
    usual, cuts = 0.0, []
    for t in range(1, 100):
        cut, usual = scene_cut(None, (dark, light)[t % 2], (dark, light)[1 - t % 2], usual)
        cuts.append(cut)
    assert cuts[0]
    assert not any(cuts[8:])


@dataclass(frozen=True)
class Slow:
    """Stands for the wall: a budget that is told what frames took."""

    budget: Any
    fired: float
    held: float

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        return self.budget(tick._replace(last_seconds=self.fired if tick.since == 1 else self.held), state)

    gates_after = 0

    def watches(self, stage: int) -> frozenset[Watch]:
        return frozenset()


@pytest.mark.parametrize(("fps", "rate"), [(20, 0.5), (40, 0.1875), (10, 1.0), (300, 0.0)])
def test_frames_a_second_come_out_right(fps, rate) -> None:
    """A firing takes 90 ms, a frame without 10 ms."""
    clock = Slow(budget(fps=fps, signal=Grown()), 0.09, 0.01)
    fired = firings(KINDS["rough"](np.random.default_rng(0)) + 0.01, clock)
    assert fired[100:].mean() == pytest.approx(rate, abs=0.03)


def test_the_session_tells_what_frames_took() -> None:
    ticks: list[float] = []
    session = Session(NET, Plain(lambda tick: ticks.append(tick.last_seconds) or False, gates_after=0))
    seconds = []
    for _ in range(3):
        session(np.zeros(3))
        seconds.append(session.record.seconds.network)
    assert ticks == seconds[:2]
    assert min(ticks) > 0


def test_a_rate_is_replayed_and_frames_a_second_are_not() -> None:
    pictures = SPLICED[20:40]
    schedule = budget(network_rate=0.25)
    recording = record(NET, pictures, keep=needs(NET, [schedule]))
    live = [one for _, one in run(NET, pictures, schedule)]
    assert [(one.fired, one.signal) for one in replay(recording, schedule)] == [(one.fired, one.signal) for one in live]
    with pytest.raises(UsageError, match=r"budget\(fps=30\).* goes by the seconds"):
        needs(NET, [budget(fps=30)])
    three = StagedNetwork("three", tuple(Stage(name, np.asarray) for name in "abc"))
    assert needs(three, [budget(adaptive, network_rate=0.2)]) == {Watch("labels", 2)}


def test_it_is_written_as_text_over_any_signal() -> None:
    assert parse_schedule("budget(network_rate=0.25, cap=12)") == budget(network_rate=0.25, cap=12)
    assert parse_schedule("budget(motion_residual, network_rate=0.5)").signal == motion_residual(0.0)
    over = parse_schedule('budget(difference(0.3, of="pixels"), fps=30)')
    assert schedule_for(over, 2).clocks == (budget(fps=30, signal=difference(0.3, of="pixels")), ALWAYS)
    assert watches(over, 1) == {PICTURE}
    watching = schedule_for(parse_schedule("budget(adaptive(0, watch=1), network_rate=0.5)"), 3)
    assert watching.clocks[1].signal == adaptive(0, watch=1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (budget, "one of two"),
        (lambda: budget(network_rate=0.5, fps=30), "one of two"),
        (lambda: budget(network_rate=0), "between 0 and 1"),
        (lambda: budget(network_rate=1.5), "between 0 and 1"),
        (lambda: budget(network_rate="much"), "must be a number"),
        (lambda: budget(fps=-1), "above 0"),
        (lambda: budget(network_rate=0.1, cap=5), "more than 10"),
        (lambda: budget(network_rate=0.5, cap=0), "at least 1"),
        (
            lambda: list(run(NET, [np.zeros((8, 8, 3), np.uint8)] * 3, budget(lambda tick: True, network_rate=0.5))),
            "gave no signal at frame 1",
        ),
        (lambda: budget(confidence(0.5), network_rate=0.5), 'sense="above"'),
        (lambda: budget(0.5, network_rate=0.5), "takes clocks"),
        (lambda: budget("adaptive", network_rate=0.5), "takes clocks"),
        (lambda: parse_schedule("budget"), "such as budget"),
        (lambda: Session(NET, budget(motion_residual, network_rate=0.5)), "the carry identity estimates none"),
    ],
)
def test_what_cannot_be_kept_to_is_refused(make, message) -> None:
    with pytest.raises(UsageError, match=message):
        make()
