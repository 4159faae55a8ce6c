"""Played from a recording: the same labels and records, bit for bit, as a session gives, whatever is carried."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clockseg import (
    Schedule,
    Session,
    UsageError,
    adaptive,
    alternating,
    difference,
    exponential,
    frame_oracle,
    load,
    pipelined,
    skip_frame,
)
from clockseg.carry import Flow, Warp, identity, parse_carry
from clockseg.clocks import ALWAYS, PICTURE, Decision, Watch, at_least_every, budget, either, motion_residual, paced
from clockseg.clocks.rates import carried
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import schedule_for
from clockseg.execution.recording import Recording, needs
from clockseg.video import OverlayWriter, open_clip
from toy_networks import toy

BY_MOTION = ("motion residual", "budget")


class Unexplained:
    """A clock on what the motion leaves unexplained, and on the share of light labels that were shown last."""

    def __init__(self, threshold: float, refill: bool = False) -> None:
        self.threshold, self.refill = threshold, refill

    def __call__(self, tick: Any, state: Any) -> tuple[Decision, Any]:
        signal = tick.travel.unexplained() + float((tick.output == 2).mean()) / 10
        assert tick.motion.unexplained() <= 1
        return Decision(signal >= self.threshold, signal, self.refill and signal >= self.threshold), None

    gates_after = 0

    def watches(self, stage: int) -> frozenset[Any]:
        return frozenset()


def clip(frames: int, *, step: int = 3, seed: int = 0) -> list[np.ndarray]:
    """A picture that moves to the left, with a little noise, and stands still at times."""
    import cv2

    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (12, 16 + frames, 3), dtype=np.uint8)
    wide = cv2.resize(coarse, (64 + step * frames, 48), interpolation=cv2.INTER_CUBIC)
    at = np.cumsum(rng.choice([0, 1, step], frames))
    return [np.ascontiguousarray(wide[:, place : place + 64]) for place in at]


CARRIES = ["identity", "warp(flow)", 'warp(flow, scale=1, of="held")']
SCHEDULES: dict[str, Any] = {
    "skip_frame": skip_frame(3),
    "alternating": alternating,
    "exponential": exponential,
    "adaptive": adaptive(0.1),
    "adaptive in two": adaptive(0.05, 0.1),
    "features": difference(0.1, of="features"),
    "pixels": difference(0.05, of="pixels"),
    "pixels, capped": either(difference(0.2, of="pixels"), at_least_every(3)),
    "paced": paced(difference(0.1, of="pixels"), 0.4),
    "pipelined": pipelined(2),
    "motion residual": either(motion_residual(0.2), at_least_every(4)),
    "budget": budget(motion_residual, network_rate=0.4, cap=4),
    "never again": difference(3, of="pixels"),
}


def compared(net: StagedNetwork, schedule: Schedule, images: list[np.ndarray], firsts: tuple[int, ...]) -> None:
    """Play it and run it; the same, frame by frame."""
    recording, session = Recording(net, needs(net, [schedule], outputs=True)), Session(net, schedule)
    for index, image in enumerate(images):
        recording.add(image, first=index in firsts)
    for index, (image, played) in enumerate(zip(images, recording.play(schedule), strict=True)):
        if index in firsts:
            session.reset()
        np.testing.assert_array_equal(played.output.value, session(image))
        assert played.record._replace(seconds=None) == session.record._replace(seconds=None)


@pytest.mark.parametrize("carry", CARRIES)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_it_is_the_session_bit_for_bit(schedule: str, carry: str) -> None:
    made = schedule_for(carried(SCHEDULES[schedule], parse_carry(carry)), 3)
    if carry == "identity" and schedule in BY_MOTION:
        return
    compared(toy(), made, [*clip(9), *clip(5, seed=1)], (0, 9))


@pytest.mark.parametrize("refill", [False, True])
def test_clocks_are_shown_motion_and_what_was_shown(refill: bool) -> None:
    clock = Unexplained(0.15, refill)
    for of in ("output", "held"):
        compared(toy(), Schedule((clock, ALWAYS, ALWAYS), carry=Warp(Flow(), of)), clip(12), (0,))


def test_a_change_of_size_begins_a_clip() -> None:
    images = [*clip(4), *(image[:40] for image in clip(4, seed=2))]
    compared(toy(), schedule_for(carried(skip_frame(3), Warp(Flow())), 3), images, ())


@pytest.mark.slow
def test_a_bundled_network_with_its_padding() -> None:
    net = load("street", engine="openvino", size=(96, 80), threads=1)
    for schedule, carry in (
        (skip_frame(3), Warp(Flow(), "held")),
        (alternating, Warp(Flow())),
        (adaptive(0.02), identity),
    ):
        compared(net, schedule_for(carried(schedule, carry), 3), clip(6), (0,))


def test_the_network_does_not_run_again() -> None:
    calls: list[str] = []
    net = toy().map(lambda name, part: lambda *values: calls.append(name) or part(*values))
    schedules = [carried(schedule, Warp(Flow())) for schedule in (skip_frame(2), alternating)]
    recording = Recording(net, needs(net, schedules, outputs=True))
    for image in clip(4):
        recording.add(image)
    calls.clear()
    whole, apart = (list(recording.play(schedule)) for schedule in schedules)
    assert calls == []
    assert [played.output.value.shape for played in whole] == [(48, 64)] * 4
    assert calls == []
    assert [played.output.value.shape for played in apart] == [(48, 64)] * 4
    # Only where fresh and held were fused.
    assert calls == ["fuse", "finish"] * 2


def test_equal_keys_are_equal_labels_whichever_schedule_shows_them() -> None:
    net, shown = toy(), {}
    schedules = [carried(skip_frame(n), Warp(Flow(), of)) for n in (2, 3, 4, 6) for of in ("output", "held")]
    schedules += [frame_oracle, skip_frame(3), skip_frame(6), alternating, exponential]
    recording = Recording(net, needs(net, schedules, outputs=True))
    for image in clip(13):
        recording.add(image)
    met = 0
    for schedule in schedules:
        for played in recording.play(schedule):
            met += played.output.key in shown
            known = shown.setdefault(played.output.key, played.output.value)
            np.testing.assert_array_equal(known, played.output.value)
    assert met > 50


def test_a_long_hold_does_not_overflow_the_stack() -> None:
    never = schedule_for(carried(SCHEDULES["never again"], Warp(Flow())), 3)
    recording, image = Recording(toy(), needs(toy(), [never], outputs=True)), clip(1)[0]
    for _ in range(500):
        recording.add(image)
    *_, last = recording.play(never)
    np.testing.assert_array_equal(last.output.value, toy()(image))


def test_a_codec_s_vectors_and_what_they_refer_to(tmp_path: Path) -> None:
    path = str(tmp_path / "pan.mp4")
    images = clip(14, step=2)
    with OverlayWriter(path, fps=Fraction(25)) as writer:
        for image in images:
            writer.append(image)
    for text in ("warp(codec)", "warp(auto)"):
        made = schedule_for(carried(skip_frame(5), parse_carry(text)), 3)
        recording, session = Recording(toy(), needs(toy(), [made], outputs=True)), Session(toy(), made)
        frames = list(open_clip(path, vectors=True))
        assert frames[1].vectors is not None
        for frame in frames:
            recording.add(frame.image, vectors=frame.vectors)
        for frame, played in zip(frames, recording.play(made), strict=True):
            np.testing.assert_array_equal(played.output.value, session(frame.image, vectors=frame.vectors))


def test_only_what_is_needed_is_kept() -> None:
    whole = needs(toy(), [skip_frame(4), carried(skip_frame(2), Warp(Flow()))], outputs=True)
    assert whole == {"output", ("motion", Flow())}
    assert PICTURE in needs(toy(), [difference(0.1, of="pixels")], outputs=True)
    assert needs(toy(), [alternating], outputs=True) == {"output", ("held", 0), ("held", 1), ("held", 2)}
    assert Watch("features", 2) in needs(toy(), [difference(0.1, of="features")], outputs=True)
    recording = Recording(toy(), whole)
    recording.add(clip(1)[0])
    recording.add(clip(1)[0])
    with pytest.raises(UsageError, match="wasn't recorded; record with keep=needs"):
        [played.output.value for played in recording.play(alternating)]


def test_what_cannot_be_played_is_refused() -> None:
    def slow(tick: Any) -> bool:
        return tick.last_seconds > 1

    recording = Recording(toy(), needs(toy(), [slow], outputs=True))
    for image in clip(2):
        recording.add(image)
    with pytest.raises(UsageError, match="can't be replayed"):
        list(recording.play(slow))

    class Own(type(identity)):
        estimates_motion = True

        def __eq__(self, other: object) -> bool:
            return self is other

        __hash__ = object.__hash__

    with pytest.raises(UsageError, match="can't be replayed"):
        needs(toy(), [carried(skip_frame(2), Own())], outputs=True)
    words = StagedNetwork("words", toy().stages[:1], finish=str, prepare=toy().prepare)
    with pytest.raises(UsageError, match="gives str, which can't be recorded"):
        Recording(words, needs(words, [skip_frame(2)], outputs=True)).add(clip(1)[0])
