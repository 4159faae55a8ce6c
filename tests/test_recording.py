"""Replay: on what one full pass left, the same decisions, bit for bit, as a session makes."""

from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clockseg import (
    Schedule,
    Session,
    UsageError,
    adaptive,
    alternating,
    at_least_every,
    both,
    confidence,
    difference,
    either,
    every,
    exponential,
    fixed_rate,
    frame_oracle,
    invert,
    load,
    pipelined,
    skip_frame,
)
from clockseg.carry import Identity
from clockseg.clocks import ALWAYS, PICTURE, Watch, budget, paced
from clockseg.execution import recording as module
from clockseg.execution.recording import needs, record, replay
from toy_networks import toy

NET = toy()
EVERYTHING = [PICTURE, *(Watch(of, number) for of in ("labels", "scores", "features") for number in (1, 2, 3))]


def clip(frames: int, *, seed: int = 0, size: tuple[int, int] = (6, 5)) -> list[np.ndarray]:
    """Noise of which a part is drawn anew at each frame, now more, now less, now none."""
    rng = np.random.default_rng(seed)
    picture = rng.integers(0, 256, (*size, 3)).astype(np.uint8)
    images = [picture]
    for _ in range(frames - 1):
        changed = rng.random(picture.shape) < rng.choice([0.0, 0.05, 0.3])
        picture = np.where(changed, rng.integers(0, 256, picture.shape), picture).astype(np.uint8)
        images.append(picture)
    return images


def untimed(records) -> list:
    return [one._replace(seconds=None) for one in records]


def session_records(net, images, schedule) -> list:
    session, found = Session(net, schedule), []
    for image in images:
        session(image)
        found.append(session.record)
    return untimed(found)


def replayed(net, images, schedule) -> list:
    """What a replay gives of a recording of no more than the schedule needs."""
    return untimed(replay(record(net, images, keep=needs(net, [schedule])), schedule))


share = st.floats(0, 0.6)
references = st.sampled_from(["fired", "previous"])
gates = st.one_of(
    st.tuples(share, st.sampled_from([None, 1, 2]), references, st.booleans()).map(
        lambda t: adaptive(t[0], watch=t[1], reference=t[2], strict=t[3])
    ),
    st.tuples(share, st.sampled_from(["labels", "scores", "features", "pixels"]), references).map(
        lambda t: difference(t[0], of=t[1], reference=t[2])
    ),
    st.tuples(st.floats(0.3, 0.6), st.sampled_from(["below", "above"])).map(lambda t: confidence(t[0], sense=t[1])),
    st.tuples(share, st.floats(0.1, 0.9)).map(lambda t: paced(adaptive(t[0]), t[1])),
)
composed = st.one_of(
    gates,
    st.tuples(gates, st.integers(1, 4)).map(lambda t: either(t[0], at_least_every(t[1]))),
    st.tuples(gates, st.integers(1, 3)).map(lambda t: both(t[0], every(t[1]))),
    gates.map(invert),
)
named = st.sampled_from(
    [
        frame_oracle,
        alternating,
        exponential,
        skip_frame(3),
        fixed_rate((1, 3, 2), nested=False),
        pipelined(2),
        pipelined(3),
        adaptive(0.1, 0.3),
        adaptive(0.4, 0.05),
        Schedule((ALWAYS, difference(0.1), difference(0.05, watch=1)), delays=(0, 1, 1)),
        Schedule((difference(0.05, of="pixels"), difference(0.1), difference(0.02)), nested=False),
        Schedule((difference(0.1, of="pixels"), difference(0.2, reference="previous"), difference(0.02, watch=1))),
    ]
)


@settings(deadline=None)
@given(st.one_of(composed, named), st.integers(0, 2**32 - 1))
def test_replay_is_the_session_bit_for_bit(schedule, seed) -> None:
    images = clip(9, seed=seed)
    assert replayed(NET, images, schedule) == session_records(NET, images, schedule)


@settings(deadline=None, max_examples=20)
@given(composed, st.integers(0, 2**32 - 1))
def test_one_recording_serves_all_schedules_and_runs_nothing(schedule, seed) -> None:
    calls = []
    net = NET.map(lambda name, part: lambda *values: calls.append(name) or part(*values))
    images = clip(7, seed=seed)
    recording = record(net, images, keep=EVERYTHING)
    calls.clear()
    assert untimed(replay(recording, schedule)) == session_records(NET, images, schedule)
    assert calls == []


def test_a_change_of_size_refills() -> None:
    images = [*clip(4), *clip(5, size=(5, 6), seed=1), *clip(3, size=(6, 5), seed=2)]
    for schedule in (adaptive(0.1), alternating, pipelined(3), difference(0.05, of="pixels")):
        found = replayed(NET, images, schedule)
        assert [t for t, one in enumerate(found) if one.fill] == [0, 4, 9]
        assert found == session_records(NET, images, schedule)


def test_on_street_too() -> None:
    rng = np.random.default_rng(0)
    scene = np.kron(rng.integers(0, 256, (20, 30, 3)), np.ones((16, 16, 1))).astype(np.uint8)
    images = [scene[:256, 8 * t : 8 * t + 320] for t in range(8)]
    net = load("street", size=160)
    gates = [
        adaptive(0.3),
        adaptive(0.3, 0.2),
        difference(0.3, of="scores"),
        difference(0.3, of="features"),
        confidence(0.7),
        pipelined(3),
    ]
    recording = record(net, images, keep=needs(net, gates))
    for gate in gates:
        assert untimed(replay(recording, gate)) == session_records(net, images, gate)


def test_what_is_kept_by_default_is_the_label_maps_of_stages_that_score() -> None:
    net = replace(NET, stages=(replace(NET.stages[0], scores=None), *NET.stages[1:]))
    recording = record(net, clip(2))
    assert recording.keep == {Watch("labels", 2), Watch("labels", 3)}
    assert recording.look(Watch("labels", 2), 1).dtype == np.uint8


def open_without_a_name() -> int:
    """The number of files on disk that this process has open and that have no name: temporary ones."""
    links = (link for link in Path("/proc/self/fd").iterdir() if link.exists())
    return sum("(deleted)" in str(link.readlink()) for link in links)


@pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="the files that a process has open are told by Linux alone"
)
def test_beyond_its_memory_it_goes_to_disk_and_is_gone_with_the_recording(monkeypatch) -> None:
    monkeypatch.setattr(module, "MEMORY_BYTES", 100)
    images, before = clip(6), open_without_a_name()
    recording = record(NET, images, keep=[PICTURE])
    assert open_without_a_name() == before + 1
    for index, image in enumerate(images):
        np.testing.assert_array_equal(recording.look(PICTURE, index), image)
    del recording
    gc.collect()
    assert open_without_a_name() == before


def test_arrays_of_any_layout_come_back_as_they_were() -> None:
    store, rng = module.Store(), np.random.default_rng(0)
    arrays = [
        rng.random((2, 3, 4)).astype(np.float32).transpose(2, 0, 1)[::-1],
        np.zeros((0, 4), np.int32),
        np.float64(3.5),
        np.array([[True, False]]),
        rng.random(5).astype(np.float16)[::2],
    ]
    places = [store.add(array) for array in arrays]
    for place, array in reversed(list(zip(places, arrays, strict=True))):
        found = store[place]
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)


def test_seconds_are_those_recorded_of_what_fires() -> None:
    recording = record(NET, clip(4))
    for index, one in enumerate(replay(recording, skip_frame(2))):
        full = recording.frames[index].seconds
        expected = full.stages if index % 2 == 0 else (0.0, 0.0, 0.0)
        assert one.seconds.stages == expected
        assert (one.seconds.fuse, one.seconds.finish) == ((full.fuse, full.finish) if index % 2 == 0 else (0.0, 0.0))
        assert one.seconds.clock == 0
    last = list(replay(recording, alternating))[1]
    assert last.seconds.stages == (*recording.frames[1].seconds.stages[:2], 0.0)


class Moving(Identity):
    """A carry that is not the identity, though made from it."""


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (budget(fps=30), "stage 1, budget.* can't be replayed"),
        (either(adaptive(0.1), at_least_every(2)), None),
        (Schedule((ALWAYS, ALWAYS, difference(0.1)), carry=Moving()), "can't be replayed: give identity"),
        (difference(0.1, of="scores"), "the scores of stage 2, which wasn't recorded"),
        (difference(0.1, of="pixels"), "the picture, which wasn't recorded"),
        (confidence(0.5), r"record with keep=needs\(net"),
        (fixed_rate((1, 2)), "has 2 stages and the network 3"),
        (adaptive(0.1, watch=3), "Give at most 2"),
        ("adaptive(0.1)", "is not a schedule"),
    ],
)
def test_what_cannot_be_replayed_is_refused_at_once(schedule, message) -> None:
    recording = record(NET, clip(2))
    if message is None:
        replay(recording, schedule)
    else:
        with pytest.raises(UsageError, match=message):
            replay(recording, schedule)


def test_a_stage_without_scores_is_refused_as_a_session_does() -> None:
    net = replace(NET, stages=(NET.stages[0], replace(NET.stages[1], scores=None), NET.stages[2]))
    with pytest.raises(UsageError, match='of="features"'):
        replay(record(net, clip(2)), adaptive(0.1))


@pytest.mark.parametrize(
    ("watch", "message"),
    [
        (Watch("labels", 4), "1 to 3, or PICTURE"),
        (Watch("sound", 1), "can't be recorded"),
        (Watch("scores", 2), "no class scores at stage 2"),
    ],
)
def test_what_cannot_be_recorded_is_refused(watch, message) -> None:
    net = replace(NET, stages=(NET.stages[0], replace(NET.stages[1], scores=None), NET.stages[2]))
    with pytest.raises(UsageError, match=message):
        record(net, clip(2), keep=[watch])


def test_needs_tells_what_each_clock_watches() -> None:
    watched = {
        alternating: set(),
        adaptive(0.1, 0.2): {Watch("labels", 1), Watch("labels", 2)},
        difference(0.1, of="features", watch=1): {Watch("features", 1)},
        either(paced(adaptive(0.1), 0.5), confidence(0.5)): {Watch("labels", 2), Watch("scores", 2)},
        difference(0.1, of="pixels"): {PICTURE},
    }
    for schedule, expected in watched.items():
        assert needs(NET, [schedule]) == expected


def test_an_empty_recording_replays_to_nothing() -> None:
    assert list(replay(record(NET, []), adaptive(0.1))) == []
