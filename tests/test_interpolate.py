"""The carry ``interpolate``: frames between key frames are made from both sides, in order and late."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import cv2
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clockseg
import networks
from clockseg import (
    Session,
    Stage,
    StagedNetwork,
    UsageError,
    adaptive,
    budget,
    carried,
    fixed_rate,
    frame_oracle,
    run,
    skip_frame,
)
from clockseg.carry import Flow, Interpolate, Motion, Sight, Warp, parse_carry
from clockseg.clocks import motion_residual
from clockseg.execution.recording import Recording, needs
from clockseg.networks.cutting import cut_network
from clockseg.networks.settling import Cutting
from clockseg.networks.source import Said
from clockseg.showing.labelling import Scores, argmax, scores_of, upsampled
from clockseg.showing.maps import Maps, Part, blended, trust
from clockseg.showing.stream import stream
from clockseg.showing.window import play
from toy_networks import toy

SIZE = 64


def picture(shift: float, seed: int = 0) -> np.ndarray:
    """Smooth noise, moved to the right by ``shift`` pixels."""
    rng = np.random.default_rng(seed)
    wide = cv2.GaussianBlur(rng.integers(0, 256, (SIZE, 2 * SIZE, 3)).astype(np.uint8), (0, 0), 3)
    wide = cv2.normalize(wide, None, 0, 255, cv2.NORM_MINMAX)
    matrix = np.float32([[1, 0, shift - SIZE / 2], [0, 1, 0]])
    return cv2.warpAffine(wide, matrix, (SIZE, SIZE), flags=cv2.INTER_LINEAR)


def clip(frames: int, *, speed: float = 1.0, seed: int = 0) -> list[np.ndarray]:
    return [picture(speed * t, seed) for t in range(frames)]


def scoring(values: str = "scores") -> StagedNetwork:
    """Two classes by the first channel, also in bfloat16; or its labels alone, or its level as a number."""
    bfloat16 = onnx.helper.tensor_dtype_to_np_dtype(onnx.TensorProto.BFLOAT16)
    stage = {
        "bfloat16": lambda image: np.stack([255.0 - image[..., 0], image[..., 0]])[None].astype(bfloat16),
        "scores": lambda image: np.stack([255.0 - image[..., 0], image[..., 0]])[None].astype(np.float32),
        "labels": lambda image: (image[..., 0] > 127).astype(np.uint8)[None],
        "numbers": lambda image: image[None, None, ..., 0].astype(np.float32),
    }[values]
    finish = {
        "bfloat16": lambda maps: maps[0].astype(np.float32).argmax(0).astype(np.uint8),
        "scores": lambda maps: maps[0].argmax(0).astype(np.uint8),
        "labels": lambda maps: maps[0],
        "numbers": lambda maps: maps[0, 0],
    }[values]
    return StagedNetwork("toy", (Stage("only", stage),), finish=finish)


def outputs(net: StagedNetwork, frames, schedule) -> list[np.ndarray]:
    return [output for output, _ in run(net, frames, schedule)]


def wrong(found, right) -> float:
    return float(np.mean([(a != b).mean() for a, b in zip(found, right, strict=True)]))


def labels_of_all(scores: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """The labels of score maps [h, w, classes], all of which are interpolated at every pixel (half-pixel centres)."""
    sides = []
    for cells, pixels in zip(scores.shape[:2], size[::-1], strict=True):
        place = (np.arange(pixels) + 0.5) * (cells / pixels) - 0.5
        first = np.floor(place).astype(int)
        sides.append((np.maximum(first, 0), np.minimum(first + 1, cells - 1), np.float32(place - first)))
    (top, below, down), (left, right, across) = sides
    down, across = down[:, None, None], across[:, None]
    a, b, c, d = (scores[rows][:, columns] for columns in (left, right) for rows in (top, below))
    near, far = a + (b - a) * down, c + (d - c) * down
    return (near + (far - near) * across).argmax(2)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(2, 9), st.integers(2, 9), st.integers(1, 5), st.integers(9, 40), st.integers(9, 40), st.integers(0, 99)
)
def test_labels_of_border_cells_alone_are_those_of_all_cells(rows, columns, classes, height, width, seed) -> None:
    scores = np.random.default_rng(seed).normal(size=(rows, columns, classes)).astype(np.float32)
    found = upsampled(Scores(argmax(scores), scores.reshape(-1, classes)), (width, height))
    assert (found == labels_of_all(scores, (width, height))).all()
    full = cv2.resize(scores, (width, height), interpolation=cv2.INTER_LINEAR).reshape(height, width, classes)
    assert (found == full.argmax(2)).mean() > 0.999


def test_the_lowest_class_wins_a_tie() -> None:
    assert argmax(np.float32([[[1, 1], [0, 1]]])).tolist() == [[0, 1]]
    plane = np.float32([[[1, 0], [0, 2]]])
    assert upsampled(Scores(argmax(plane), plane.reshape(-1, 2)), (4, 1)).tolist() == [[0, 0, 1, 1]]


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 3), st.integers(1, 70), st.integers(0, 9), st.integers(0, 99))
def test_scores_blended_only_at_borders_give_the_labels_of_all_scores(sides, classes, speed, seed) -> None:
    random = np.random.default_rng(seed)
    sights = [Sight(random.integers(0, 256, (12, 16), dtype=np.uint8)) for _ in range(2)]
    parts = []
    for _ in range(sides):
        coarse = random.normal(size=(3, 4, classes)).astype(np.float32)
        plane = np.stack([cv2.resize(one, (32, 24)) for one in np.moveaxis(coarse, 2, 0)], 2)
        flow = cv2.blur(random.normal(scale=speed, size=(12, 16, 2)).astype(np.float32), (5, 5))
        motion = Motion(flow, *sights)
        parts.append(Part(Maps({"scores": plane}, None), motion, trust(motion, 2)))
    everywhere = labels_of_all(blended(parts).planes["scores"], (128, 96))
    assert (upsampled(scores_of("scores", parts), (128, 96)) == everywhere).all()


@pytest.mark.parametrize("values", ["scores", "bfloat16", "labels", "numbers"])
def test_frames_between_key_frames_are_nearer_to_every_frame_than_by_warp(values) -> None:
    net, frames = scoring(values), clip(13, speed=1.5)
    every = outputs(net, frames, frame_oracle)
    both = outputs(net, frames, carried(skip_frame(6), Interpolate(Flow(), keys=1)))
    behind = outputs(net, frames, carried(skip_frame(6), Warp(Flow())))
    error = wrong if values != "numbers" else lambda a, b: float(np.mean(np.abs(np.subtract(a, b))))
    assert error(both, every) < 0.8 * error(behind, every)


@pytest.mark.parametrize("channels", [65, 150, 255])
def test_any_number_of_classes_is_averaged(channels) -> None:
    """Channels that never win change no label."""
    few, frames, schedule = scoring(), clip(7, speed=1.5), carried(skip_frame(3), Interpolate(Flow()))
    (only,) = few.stages

    def wide(image: np.ndarray) -> np.ndarray:
        return np.concatenate([only.body(image), np.full((1, channels - 2, SIZE, SIZE), -1, np.float32)], axis=1)

    many = StagedNetwork("many", (Stage("only", wide),), finish=few.finish)
    pairs = zip(outputs(many, frames, schedule), outputs(few, frames, schedule), strict=True)
    assert all((found == right).all() for found, right in pairs)


@pytest.mark.parametrize("kind", ["uint8", "bool", "int64"])
def test_labels_may_have_a_channel_and_any_whole_type(kind) -> None:
    """As networks give them that end in a threshold, TopK or an ArgMax that keeps its dimension."""
    plain, frames, schedule = scoring("labels"), clip(7, speed=1.5), carried(skip_frame(3), Interpolate(Flow()))
    (only,) = plain.stages
    other = StagedNetwork(
        "other", (Stage("only", lambda image: only.body(image)[None].astype(kind)),), finish=lambda maps: maps[0, 0]
    )
    for found, right in zip(outputs(other, frames, schedule), outputs(plain, frames, schedule), strict=True):
        assert found.dtype == kind
        assert (found == right).all()


def test_with_one_key_frame_a_side_key_frames_are_as_the_network_gives_them() -> None:
    net, frames = scoring(), clip(7)
    every = outputs(net, frames, frame_oracle)
    both = outputs(net, frames, carried(skip_frame(3), Interpolate(Flow(), keys=1)))
    assert [(both[t] == every[t]).all() for t in (0, 3, 6)] == [True] * 3


def test_key_frames_are_averaged_with_their_neighbours() -> None:
    """One key frame of a still picture is noisy: its neighbours outvote it where they are certain."""
    still, noisy = picture(0), picture(0)
    net = StagedNetwork(
        "noisy",
        (
            Stage(
                "only", lambda image: np.stack([np.full(image.shape[:2], level(image)), np.ones(image.shape[:2])])[None]
            ),
        ),
        finish=lambda maps: maps[0].argmax(0).astype(np.uint8),
    )
    noisy[0, 0] ^= 255

    def level(image: np.ndarray) -> np.float32:
        return np.float32(0.5 if (image[0, 0] == noisy[0, 0]).all() else 2.0)

    frames = [still, noisy, still]
    assert outputs(net, frames, carried(skip_frame(1), Interpolate(Flow(), keys=1)))[1].max() == 1
    assert outputs(net, frames, carried(skip_frame(1), Interpolate(Flow(), keys=2)))[1][8:, 8:].max() == 0


def test_three_labels_are_voted_on() -> None:
    frames = [picture(0), picture(0), picture(0)]
    answers = iter([0, 1, 0])
    net = StagedNetwork("votes", (Stage("only", lambda image: np.full((1, SIZE, SIZE), next(answers), np.uint8)),))
    found = [output.max() for output in outputs(net, frames, carried(skip_frame(1), Interpolate(Flow())))]
    assert found == [0, 0, 0]


@pytest.mark.parametrize("keys", [1, 2])
def test_nothing_is_taken_across_a_cut(keys) -> None:
    """Two clips glued together, the cut between two key frames: each half is what it is by itself."""
    net, schedule = scoring(), carried(skip_frame(4), Interpolate(Flow(), keys=keys))
    first, second = clip(10, seed=1), clip(10, speed=-1.0, seed=2)
    glued = outputs(net, first + second, schedule)
    # The clock fires at 8 and at 12; the cut is at 10.
    alone = outputs(net, first, schedule)
    assert all((glued[t] == alone[t]).all() for t in range(8, 10))
    changed = outputs(net, [255 - image for image in first] + second, schedule)
    assert all((glued[t] == changed[t]).all() for t in range(10, 20))


def test_a_shot_begins_with_a_key_frame() -> None:
    net, shots = scoring(), [clip(5, seed=1), clip(3, speed=-1.0, seed=2), clip(7, speed=2.0, seed=3)]
    frames = [image for shot in shots for image in shot]
    every = outputs(net, frames, frame_oracle)
    fired = []
    for t, (output, record) in enumerate(run(net, frames, carried(skip_frame(6), Interpolate(Flow(), keys=1)))):
        fired += [t] if any(record.fired) else []
        if t in (0, 5, 8):
            assert record.fill
            assert (output == every[t]).all()
    assert fired == [0, 5, 8, 14]


def test_a_cut_keeps_what_clocks_know_and_counts_as_a_run() -> None:
    """Photographs, each a shot of its own: all of them run, and a budget's debts stay."""
    net, photographs = scoring(), [picture(0, seed) for seed in range(12)]
    late = stream(net, carried(budget(network_rate=0.25), Interpolate(Flow())))
    records = [shown.record for image in photographs for shown in late.push(image)]
    records += [shown.record for shown in late.end()]
    assert all(record.fill for record in records)
    assert all(all(record.fired) for record in records)


def test_every_frame_comes_once_and_in_order_late_by_at_most_one_interval() -> None:
    net, frames = scoring(), clip(11)
    late = stream(net, carried(skip_frame(4), Interpolate(Flow())))
    came = [[shown.item for shown in late.push(image, item=t)] for t, image in enumerate(frames)]
    assert came == [[], [], [], [], [0, 1, 2, 3], [], [], [], [4, 5, 6, 7], [], []]
    assert [shown.item for shown in late.end()] == [8, 9, 10]


def test_with_a_lookahead_no_frame_waits_longer() -> None:
    net, frames = scoring(), clip(9)
    late = stream(net, carried(skip_frame(8), Interpolate(Flow())), lookahead=2)
    came = [[shown.item for shown in late.push(image, item=t)] for t, image in enumerate(frames)]
    assert came == [[], [], [0], [1], [2], [3], [4], [5], [6, 7]]
    assert [shown.item for shown in late.end()] == [8]


@pytest.mark.parametrize(
    ("size", "most"), [((64, 64), 240), ((2160, 3840), 16), ((4320, 7680), 8)], ids=["small", "4K", "8K"]
)
def test_waiting_frames_are_bounded_however_long_the_interval_between_key_frames(size, most) -> None:
    """As many as fit into 400 MB, at least 8 and at most 240."""
    coarse = Stage("coarse", lambda image: np.float32([255.0 - image[::64, ::64, 0], image[::64, ::64, 0]])[None])
    net = StagedNetwork("coarse", (coarse,), finish=lambda maps: maps[0].argmax(0).astype(np.uint8))
    image, frames = np.zeros((*size, 3), np.uint8), most + 5
    late = stream(net, carried(skip_frame(1000), Interpolate(Flow(scale=64 / size[1]))))
    shown: list[int] = []
    waited = []
    for t in range(frames):
        shown += [one.item for one in late.push(image, item=t)]
        waited.append(t + 1 - len(shown))
    assert max(waited) == most
    assert shown + [one.item for one in late.end()] == list(range(frames))


def test_records_tell_who_fired_and_what_was_interpolated() -> None:
    records = [record for _, record in run(scoring(), clip(5), carried(skip_frame(2), Interpolate(Flow())))]
    assert [record.fired for record in records] == [(True,), (False,), (True,), (False,), (True,)]
    assert [record.propagated for record in records] == ["", "interpolated"] * 2 + [""]
    assert all(record.seconds.motion > 0 for record in records)


def test_a_change_of_size_ends_a_window() -> None:
    frames = [*clip(5), *(image[:48] for image in clip(5))]
    found = outputs(scoring(), frames, carried(skip_frame(3), Interpolate(Flow())))
    assert [output.shape for output in found] == [(64, 64)] * 5 + [(48, 64)] * 5


@pytest.mark.parametrize("schedule", [fixed_rate((1, 2, 4)), adaptive(0.05), motion_residual(0.2)])
def test_stages_may_fire_by_themselves(schedule) -> None:
    """A frame on which any stage fires is a key frame, fused from fresh and warped values."""
    net, frames = toy(), clip(9)
    every = outputs(net, frames, frame_oracle)
    records = list(run(net, frames, carried(schedule, Interpolate(Flow()))))
    assert len(records) == 9
    assert wrong([output for output, _ in records], every) < 0.25
    fired = [record.fired for _, record in run(net, frames, carried(schedule, Warp(Flow())))]
    assert [record.fired for _, record in records] == fired


@pytest.mark.parametrize(
    "schedule", [carried(skip_frame(2), Interpolate(Flow())), "carried(skip_frame(2), interpolate(flow))"]
)
def test_a_session_refuses_it_and_tells_the_way_out(schedule) -> None:
    with pytest.raises(
        UsageError, match=r"interpolate\(flow\) needs the key frame after .*clockseg\.run.*carry warp\(flow\)"
    ):
        Session(scoring(), schedule)


def test_a_name_in_place_of_a_network_is_refused() -> None:
    with pytest.raises(UsageError, match=r"'street' is not a network; load it first"):
        next(run("street", clip(2), frame_oracle))


def test_a_value_without_maps_is_refused() -> None:
    net = StagedNetwork("words", (Stage("only", lambda image: "a word"),))
    with pytest.raises(UsageError, match="identity"):
        outputs(net, clip(2), carried(skip_frame(2), Interpolate(Flow())))


@pytest.mark.parametrize("text", ["interpolate(flow, keys=3)", "interpolate(3)", "interpolate(flow, keys=True)"])
def test_wrong_options_are_refused(text) -> None:
    with pytest.raises(UsageError, match="interpolate"):
        parse_carry(text)


@pytest.mark.parametrize("text", ["interpolate(flow)", "interpolate(auto, keys=1)", "interpolate(codec(scale=0.25))"])
def test_the_text_of_a_carry_reads_back(text) -> None:
    assert parse_carry(str(parse_carry(text))) == parse_carry(text)


@pytest.mark.parametrize("keys", [1, 2])
def test_a_tape_plays_what_a_run_gives(keys) -> None:
    net, frames, schedule = toy(), clip(11), carried(skip_frame(3), Interpolate(Flow(), keys=keys))
    recording = Recording(net, needs(net, [schedule], outputs=True))
    for image in frames:
        recording.add(image)
    played = list(play(recording, schedule))
    expected = list(run(net, frames, schedule))
    assert [one.record.fired for one in played] == [record.fired for _, record in expected]
    assert [one.record.propagated for one in played] == [record.propagated for _, record in expected]
    assert all((one.output.value == output).all() for one, (output, _) in zip(played, expected, strict=True))


@pytest.mark.parametrize("make", [networks.tiny, networks.unet])
def test_key_frames_of_a_compiled_network_are_those_of_every_frame(make, tmp_path) -> None:
    """Parts that run as one model give the scores alone, also where these are the network's output."""
    onnx.save(make(), tmp_path / "model.onnx")
    said = Said(size=(96, 64), mean=(0.5, 0.4, 0.3), std=(0.2, 0.25, 0.3), output="scores")
    cutting = Cutting(at="auto", measured=False)
    found = cut_network(tmp_path / "model.onnx", tmp_path / "net.onnx", said=said, cutting=cutting, engine="openvino")
    net = clockseg.load(found.file, engine="openvino", threads=1)
    frames = [cv2.resize(image, (96, 64)) for image in clip(5)]
    every = outputs(net, frames, frame_oracle)
    both = outputs(net, frames, carried(skip_frame(2), Interpolate(Flow(), keys=1)))
    assert all((both[t] == every[t]).mean() > 0.999 for t in (0, 2, 4))


def test_motion_seen_ahead_gives_the_labels_of_frames_pushed_one_by_one(tmp_path) -> None:
    net, frames = clockseg.load(networks.write_tiny(tmp_path), threads=1), clip(23)
    late = stream(net, carried(skip_frame(4), Interpolate(Flow())))
    assert late.sees_ahead
    pushed = [shown.output for image in frames for shown in late.push(image)] + [shown.output for shown in late.end()]
    threads = set()

    def given() -> Iterator[np.ndarray]:
        for image in frames:
            threads.add(threading.current_thread())
            yield image

    ran = outputs(net, given(), carried(skip_frame(4), Interpolate(Flow())))
    assert np.array_equal(ran, pushed)
    # Whoever reads frames need not be thread-safe.
    assert threads == {threading.main_thread()}


def test_it_is_one_of_the_public_carries() -> None:
    assert isinstance(clockseg.parse_carry("interpolate"), Interpolate)
