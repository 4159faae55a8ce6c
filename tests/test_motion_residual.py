"""The clock on what motion leaves unexplained, and what a cut looks like."""

from __future__ import annotations

import numpy as np
import pytest

from clockseg import Session, UsageError, either, every, parse_schedule, run
from clockseg.carry import Flow, Motion, Sight, Warp
from clockseg.clocks import ALWAYS, Tick, budget, motion_residual
from clockseg.clocks.maps import scene_cut
from clockseg.clocks.rates import carried
from clockseg.clocks.threshold import FULL, MotionResidual
from clockseg.clockwork.network import Group, Stage, StagedNetwork
from clockseg.clockwork.schedule import schedule_for
from clockseg.execution.liveness import liveness
from clockseg.execution.recording import Recording, needs

WARP = Warp(Flow())


def brightness(image: np.ndarray) -> np.ndarray:
    return image[None, None, ::8, ::8, 0].astype(np.float32)


NET = StagedNetwork(
    "light",
    (Stage("a", brightness), Stage("b", lambda trunk: trunk * 2)),
    (Group("sum", ("a", "b"), lambda a, b: a + b),),
    finish=lambda value: {"labels": (value[:, 0] > 384).astype(np.uint8)},
    restore=lambda value, image: value["labels"],
)


def textured(shift: int = 0, seed: int = 0, width: int = 160) -> np.ndarray:
    """A picture that has moved ``shift`` pixels to the left."""
    import cv2

    noise = np.random.default_rng(seed).integers(0, 256, (24, 128, 3), dtype=np.uint8)
    wide = cv2.resize(noise, (512, 96), interpolation=cv2.INTER_CUBIC)
    return np.ascontiguousarray(wide[:, shift : shift + width])


def with_a_square(t: int, size: int = 40) -> np.ndarray:
    """The same picture, on which something appears that was nowhere before."""
    image = textured()
    if t:
        image[20 : 20 + size, 30 : 30 + size] = textured(seed=t)[:size, :size]
    return image


def fired(images, schedule) -> list[int]:
    return [int(record.fired[0]) for _, record in run(NET, images, carried(schedule, WARP))][1:]


def test_what_moves_is_explained_and_what_appears_is_not() -> None:
    still, panned, new = (
        [textured()] * 8,
        [textured(4 * t) for t in range(8)],
        [with_a_square(t % 2) for t in range(8)],
    )
    assert sum(fired(still, motion_residual(0.05))) == 0
    assert sum(fired(panned, motion_residual(0.06))) <= 2  # only what comes into view at the edge
    assert sum(fired(new, motion_residual(0.05))) == 7


def test_the_signal_is_the_unexplained_share_since_the_last_firing() -> None:
    images = [textured(3 * t) for t in range(6)]
    records = [record for _, record in run(NET, images, carried(motion_residual(9.0), WARP))]
    flow, sights = Flow(), [WARP.see(lambda: None, image, None) for image in images]
    motion: Motion | None = None
    for before, now, record in zip(sights, sights[1:], records[1:], strict=False):
        motion = WARP.compose(motion, flow.observe(before, now))
        assert motion is not None
        assert record.signal[0] == pytest.approx(np.minimum(motion.residual, FULL).mean() / FULL)
    assert records[-1].signal[0] > records[1].signal[0] > 0


@pytest.mark.parametrize(
    "gate",
    [
        motion_residual(0.1),
        budget(network_rate=0.25),
        budget(motion_residual, network_rate=0.25),
        either(motion_residual(0.1), budget(motion_residual, network_rate=0.25)),
    ],
)
def test_it_gates_the_whole_network_which_then_runs_and_is_kept_as_one(gate) -> None:
    schedule = carried(gate, WARP)(2)
    assert schedule.clocks[1] == ALWAYS
    found = liveness(NET, schedule)
    # Only the output is moved: no value of a stage or a group is read again.
    assert set(found) <= {"finish", "prepare", "see", "observe", "compose"}
    for _, record in run(NET, [with_a_square(t // 2) for t in range(8)], schedule):
        assert len(set(record.fired)) == 1
        assert record.propagated == ("" if record.fired[0] else "output")


@pytest.mark.parametrize(
    "schedule", [motion_residual(0.1), either(every(8), budget(motion_residual, network_rate=0.5))]
)
def test_without_motion_it_is_refused_when_the_session_begins(schedule) -> None:
    with pytest.raises(UsageError, match=r"(?s)carry identity estimates none\. Give carried"):
        Session(NET, schedule)
    Session(NET, carried(schedule, WARP))


def test_a_tape_plays_it_as_a_session_runs_it() -> None:
    images = [with_a_square(t // 3) for t in range(12)]
    schedules = [
        carried(gate, WARP)
        for gate in (motion_residual(0.03), budget(motion_residual, network_rate=0.4), budget(network_rate=0.3))
    ]
    recording = Recording(NET, needs(NET, schedules, outputs=True))
    for image in images:
        recording.add(image)
    for schedule in schedules:
        live = list(run(NET, images, schedule))
        played = list(recording.play(schedule))
        assert [one.record.fired for one in played] == [record.fired for _, record in live]
        assert all(np.array_equal(one.output.value, output) for one, (output, _) in zip(played, live, strict=True))


def test_it_is_written_as_text() -> None:
    made = schedule_for(parse_schedule("carried(motion_residual(0.26), warp(flow))"), 3)
    assert made.clocks[0] == MotionResidual(0.26)
    with pytest.raises(UsageError, match="must be a number"):
        parse_schedule('motion_residual("much")')
    with pytest.raises(UsageError, match=r"such as motion_residual\(0.1\)"):
        parse_schedule("motion_residual")


def test_a_cut_shows_in_the_pictures_beside_the_motion() -> None:
    """Where motion explains nothing but the pictures look alike, as from a codec's frame without vectors, is no cut."""
    flow = np.zeros((48, 64, 2), np.float32)
    rng = np.random.default_rng(0)
    grain = [rng.integers(0, 120, (48, 64), dtype=np.uint8) for _ in range(2)]
    alike = Motion(flow, Sight(grain[0]), Sight(grain[1]))
    other = Motion(flow, Sight(grain[0]), Sight(grain[1] + np.uint8(100)))
    assert alike.unexplained() > 0.5
    assert not scene_cut(alike, None, None, 0.0)[0]
    assert scene_cut(other, None, None, 0.0)[0]
    assert not scene_cut(other, None, None, 0.6)[0]  # as it has been for a while


def test_what_it_needs_is_on_the_tick_alone() -> None:
    sight = Sight(np.zeros((8, 8), np.uint8))
    travel = Motion(np.full((8, 8, 2), 2.0, np.float32), sight, sight)
    tick = Tick(5, 1, None, None, None, None, 3, 0, travel=travel)
    decision, state = MotionResidual(0.4)(tick, None)
    assert decision == (True, 28 / 64, False)  # two columns and two rows came into view
    assert state is None
