"""Held values that move along with the picture: motion composed, resampled once, whatever the map is of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import cv2
import ml_dtypes
import numpy as np
import pytest

from clockseg import (
    Session,
    UsageError,
    alternating,
    carried,
    frame_oracle,
    parse_schedule,
    read_labels,
    run,
    segment,
    skip_frame,
)
from clockseg.carry import Flow, Motion, Sight, Warp, identity, parse_carry
from clockseg.carry.motion import grid, optical_flow, sampled
from clockseg.clockwork.network import Group, Stage, StagedNetwork
from clockseg.clockwork.schedule import schedule_for
from clockseg.networks.load import load
from clockseg.types import IMAGE, PICTURE_SIZE
from clockseg.video import open_clip
from networks import write_tiny
from video_making import write_video

BLANK = Sight(np.zeros((8, 12), np.uint8))


def shift(x: float, y: float = 0.0, sight: Sight = BLANK) -> Motion:
    """Everything came from (x, y) away."""
    return Motion(np.broadcast_to(np.float32([x, y]), (*sight.grey.shape, 2)).copy(), sight, sight)


def texture(width: int = 160, height: int = 96, seed: int = 0) -> np.ndarray:
    """A picture with something to see at every place, uint8 RGB."""
    noise = np.random.default_rng(seed).integers(0, 256, (height // 4, width // 4, 3), dtype=np.uint8)
    return np.asarray(cv2.resize(noise, (width, height), interpolation=cv2.INTER_CUBIC))


def panned(pixels: int, frames: int) -> list[np.ndarray]:
    """A picture that moves to the left by ``pixels`` a frame."""
    wide = texture(160 + pixels * frames)
    return [np.ascontiguousarray(wide[:, pixels * t : pixels * t + 160]) for t in range(frames)]


def test_a_shift_moves_every_kind_of_map() -> None:
    ramp = np.broadcast_to(np.arange(12.0, dtype=np.float32), (1, 3, 8, 12)).copy()
    carry, motion = Warp(Flow()), shift(2)
    for dtype in (np.float32, np.float16, ml_dtypes.bfloat16, np.uint8):
        moved = carry.move(ramp.astype(dtype), motion)
        assert moved.dtype == dtype
        assert moved.shape == ramp.shape
        assert moved[0, 0, 0].astype(int).tolist() == [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 11, 11]
    labels = ramp[0, :1].astype(np.uint8)
    assert carry.move(labels, shift(1.6))[0, 0].tolist() == [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 11, 11]
    assert carry.move(labels.astype(np.int32), shift(1.6))[0, 0, :3].tolist() == [2, 3, 4]
    assert carry.move(labels[None].astype(np.int64), shift(1.6))[0, 0, 0, :3].tolist() == [2, 3, 4]
    assert carry.move(labels > 4, shift(1.6))[0, 0, :4].tolist() == [False, False, False, True]


def test_many_channels_move_as_one() -> None:
    value = np.random.default_rng(0).random((1, 700, 8, 12), np.float32)
    moved = Warp(Flow()).move(value, shift(3))
    assert np.array_equal(moved[..., :9], value[..., 3:])


def test_tensors_move_as_arrays_do() -> None:
    torch = pytest.importorskip("torch")
    value = np.random.default_rng(0).random((1, 3, 8, 12), np.float32)
    motion = shift(1.5, -0.75)
    moved = Warp(Flow()).move({"scores": torch.from_numpy(value)}, motion)["scores"]
    assert np.array_equal(moved.numpy(), Warp(Flow()).move(value, motion))
    for dtype in (np.uint8, np.int64):
        labels = (value[:, 0] * 10).astype(dtype)
        found = Warp(Flow()).move(torch.from_numpy(labels), shift(2, 1))
        assert np.array_equal(found.numpy(), Warp(Flow()).move(labels, shift(2, 1)))
    assert Warp(Flow()).move(torch.from_numpy(value).bfloat16(), motion).dtype == torch.bfloat16
    with pytest.raises(UsageError, match="integers can't be interpolated"):
        Warp(Flow()).move(torch.zeros(1, 2, 8, 12, dtype=torch.int64), motion)


def test_bytes_are_rounded_not_cut() -> None:
    value = np.broadcast_to(np.uint8([0, 3]), (1, 1, 8, 2)).copy()
    moved = Warp(Flow()).move(value, Motion(np.full((8, 2, 2), [0.5, 0], np.float32), BLANK, BLANK))
    assert moved[0, 0, 0].tolist() == [2, 3]


def test_a_dict_moves_map_by_map_and_vectors_stay() -> None:
    value = {"scores": np.zeros((1, 2, 8, 12), np.float32), "frame size": np.array([12, 8])}
    moved = Warp(Flow()).move(value, shift(1))
    assert moved["frame size"] is value["frame size"]
    assert moved["scores"].shape == (1, 2, 8, 12)
    assert Warp(Flow()).move(value, None) is value


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.zeros((1, 40, 7, 9, 2), np.float32), "no map"),
        (np.zeros((2, 40, 7), np.float32), "no map"),
        (np.zeros((1, 2, 8, 12), np.int64), "integers can't be interpolated"),
        ("h1", "no map"),
    ],
)
def test_what_has_no_places_is_refused(value: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Warp(Flow()).move({"held": value}, shift(1))


def test_motions_compose_where_the_first_was() -> None:
    """A pan of 3 and one of 2 are one of 5; of two fields the first is read where the second came from."""
    assert np.allclose(shift(2).after(shift(3)).flow, [5, 0])
    first = shift(0)
    first.flow[:, 6:] = [1, 0]
    then = shift(2)
    assert np.allclose(then.after(first).flow[0, :, 0], [2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3])
    assert Warp(Flow()).compose(None, then) is then
    assert Warp(Flow()).compose(None, None) is None


def test_padding_stays_out_of_it() -> None:
    """The picture covers 3/4 of a map's width and 1/2 of its height: motion is scaled to that part alone."""
    sight = Sight(np.zeros((8, 12), np.uint8), (0.75, 0.5))
    places = shift(2, 1, sight).places(16, 16)
    moved = places - grid(places)
    assert np.allclose(moved[:8, :12], [2, 1])
    assert np.allclose(moved[8:, 12:], [2, 1])
    wide = shift(2, 0, sight).unexplained_map(16, 16)
    assert wide.shape == (1, 1, 16, 16)
    assert not wide[0, 0, 8:].any()
    assert not wide[0, 0, :, 12:].any()


def test_what_came_from_outside_is_not_explained() -> None:
    motion = shift(3)
    assert (motion.residual[:, -3:] == 255).all()
    assert not motion.residual[:, :-3].any()
    assert motion.unexplained() == 3 / 12


def test_flow_finds_a_pan_and_leaves_little() -> None:
    carry = Warp(Flow())
    first, then = (carry.see(lambda: None, cv2.resize(image, (320, 192)), None) for image in panned(4, 2))
    motion = carry.observe(first, then)
    inner = motion.flow[4:-4, 4:-4]
    assert np.abs(np.median(inner, axis=(0, 1)) - [2, 0]).max() < 0.15  # a quarter of the size
    assert motion.unexplained() < 0.15 < Motion(np.zeros_like(motion.flow), first, then).unexplained()


@pytest.mark.parametrize(("width", "height"), [(1, 1), (3, 200), (17, 16), (640, 9)])
def test_flow_copes_with_any_size(width: int, height: int) -> None:
    carry = Warp(Flow(0.1))
    image = np.zeros((height, width, 3), np.uint8)
    motion = carry.observe(carry.see(lambda: None, image, None), carry.see(lambda: None, image, None))
    assert carry.move(np.ones((height, width), np.uint8), motion).tolist() == np.ones((height, width)).tolist()


def colours(value: Any) -> np.ndarray:
    return (value[..., 0] >= 128).astype(np.uint8)[None]


def network(**more: Any) -> StagedNetwork:
    """Two stages that look at the picture, one group; labels are where it is bright."""
    counted = [Stage("near", lambda image: image, scores=None), Stage("far", lambda image: image, scores=None)]
    made = StagedNetwork("toy", tuple(counted), (Group("sum", ("near", "far"), lambda a, b: colours(b)),))
    return replace(made, restore=lambda output, image: output[0], **more)


def test_a_tiny_picture_leaves_no_trace() -> None:
    """DIS settles on other scales for a picture too small for its own, and stays with them."""
    first, then = (cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) for image in panned(6, 2))
    before = optical_flow(then, first)
    optical_flow(np.zeros((16, 16), np.uint8), np.zeros((16, 16), np.uint8))
    assert np.array_equal(optical_flow(then, first), before)


@pytest.mark.parametrize("of", ["output", "held"])
def test_labels_follow_the_picture(of: Any) -> None:
    frames = panned(6, 4)
    schedule = replace(schedule_for(skip_frame(4), 2), carry=Warp(Flow(1), of))
    if of == "held":
        # What these stages hold is a frame, no map.
        with pytest.raises(UsageError, match="no map"):
            list(map(Session(network(), schedule), frames))
        return
    session = Session(network(), schedule)
    kept = Session(network(), skip_frame(4))
    for t, image in enumerate(frames):
        truth, moved, stale = colours(image)[0], session(image), kept(image)
        inside = slice(8, -8 - 6 * t)
        right, wrong = ((one != truth)[8:-8, inside].mean() for one in (moved, stale))
        assert right <= 0.08
        assert t == 0 or right < wrong / 3
    assert session.record.propagated == of
    assert session.record.fired == (False, False)
    assert session.record.held_moved == (False, False)
    assert session.record.seconds.motion > 0


def test_what_stages_hold_is_moved_when_it_is_fused_with_what_is_fresh() -> None:
    """Held values are moved once by all the motion since, on frames on which another stage fires."""
    moved: list[Any] = []
    stages = (Stage("near", lambda image: image[None, ..., 0], scores=None), Stage("far", lambda a: a, scores=None))

    def fuse(near: Any, far: Any) -> Any:
        moved.append(np.abs(near.astype(int) - far)[:, 8:-8, 8:120].mean())
        return near

    net = StagedNetwork("toy", stages, (Group("sum", ("near", "far"), fuse),))
    for carry, fine in ((identity, False), (Warp(Flow(1)), True)):
        moved.clear()
        session = Session(net, replace(schedule_for(alternating, 2), carry=carry))
        for image in panned(4, 2):
            session(image)
        assert (moved[-1] < 10) == fine


@pytest.fixture(scope="module")
def street() -> StagedNetwork:
    return load("street", engine="onnxruntime", size=(96, 64))


def test_of_a_network_on_disk_score_maps_or_labels_are_moved(street: StagedNetwork) -> None:
    frames = panned(2, 3)
    outputs = {}
    for of in ("output", "held"):
        session = Session(street, replace(schedule_for(skip_frame(4), 3), carry=Warp(Flow(), of)))
        outputs[of] = [session(image) for image in frames]
        assert outputs[of][-1].shape == (96, 160)
        assert outputs[of][-1].dtype == np.uint8
    assert np.array_equal(outputs["output"][0], outputs["held"][0])
    assert (outputs["output"][2] != outputs["held"][2]).mean() < 0.1


def test_without_motion_a_moved_score_map_gives_the_very_labels(street: StagedNetwork) -> None:
    image = texture()
    session = Session(street, replace(schedule_for(skip_frame(4), 3), carry=Warp(Flow(), "held")))
    first = session(image).copy()
    assert np.array_equal(session(image), first)
    assert session.record.held_moved == (True, True, True)


def test_every_stage_on_every_frame_is_the_same_under_any_carry(street: StagedNetwork) -> None:
    frames = panned(2, 3)
    plain = [Session(street, frame_oracle)(image) for image in frames]
    session = Session(street, replace(frame_oracle(3), carry=Warp(Flow())))
    assert all(np.array_equal(session(image), other) for image, other in zip(frames, plain, strict=True))


def test_the_picture_in_its_padding_is_told(street: StagedNetwork) -> None:
    prepared = street.prepare(texture(160, 80))
    assert prepared[IMAGE].shape == (1, 64, 96, 3)
    assert prepared[PICTURE_SIZE].tolist() == [96, 48]
    sight = Warp(Flow(1)).see(lambda: prepared, texture(160, 80), None)
    assert sight.grey.shape == (24, 48)
    assert sight.share == (1.0, 0.75)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("identity", "identity"),
        ("warp(flow)", "warp(flow)"),
        ("warp", "warp(flow)"),
        ("warp(flow, scale=0.25)", "warp(flow(scale=0.25))"),
        ('warp(flow(scale=0.25, sparse=True), of="held")', 'warp(flow(scale=0.25, sparse=True), of="held")'),
    ],
)
def test_a_carry_by_name_and_back(text: str, told: str) -> None:
    made = parse_carry(text)
    assert str(made) == told
    assert parse_carry(told) == made


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("warp(flow, scale=0)", "above 0 and at most 1"),
        ("warp(flow, scale=1.5)", "above 0 and at most 1"),
        ('warp(flow, of="labels")', "give one of output, held"),
        ("warp(flow(), scale=0.5)", "options once"),
        ("warp(3)", "pass a motion estimator"),
        ("flow", "not a carry"),
        ("drift", "no carry 'drift'"),
    ],
)
def test_a_wrong_carry_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_carry(text)


def test_places_beyond_the_edge_show_the_edge() -> None:
    assert sampled(np.float32([[1, 2]]), np.float32([[[-5, 0], [9, 3]]])).tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize("carry", ["warp(flow)", 'warp(flow, of="held")', "interpolate(flow)"])
def test_segment_gives_the_labels_that_run_gives_for_decoded_pictures(carry: str, tmp_path: Any) -> None:
    write_video(tmp_path / "pan.mp4", panned(4, 8))
    net, text = load(write_tiny(tmp_path)), f"carried(skip_frame(4), {carry})"
    segment(tmp_path / "pan.mp4", tmp_path / "out", net, parse_schedule(text), write=["labels"])
    with open_clip(tmp_path / "pan.mp4") as clip:
        shown = [output for output, _ in run(net, [frame.picture for frame in clip], text)]
    assert np.array_equal(np.stack(shown), np.stack(list(read_labels(tmp_path / "out" / "labels.mkv"))))


def test_only_frames_that_fire_are_prepared(tmp_path: Any) -> None:
    prepared: list[Any] = []
    tiny = load(write_tiny(tmp_path))
    net = replace(tiny, prepare=lambda image: prepared.append(image) or tiny.prepare(image))
    frames = panned(4, 9)
    shown = [output for output, _ in run(net, frames, "carried(skip_frame(4), warp(flow))")]
    assert [sum(image is frame for image in prepared) for frame in frames] == [
        2,
        0,
        0,
        0,
        1,
        0,
        0,
        0,
        1,
    ]  # its size too
    session = Session(tiny, parse_schedule("carried(skip_frame(4), warp(flow))"))
    assert all(np.array_equal(session(frame), labels) for frame, labels in zip(frames, shown, strict=True))


@pytest.mark.parametrize("carry", ["warp(flow)", "interpolate(flow)"])
def test_a_clock_that_declares_nothing_reads_decoded_pictures_as_arrays(carry: str, tmp_path: Any) -> None:
    write_video(tmp_path / "pan.mp4", panned(4, 4))
    seen: list[Any] = []

    def clock(tick: Any) -> bool:
        seen.append(tick.image[0, 0].shape)
        return False

    schedule = carried(clock, parse_carry(carry))
    with open_clip(tmp_path / "pan.mp4") as clip:
        assert len(list(run(load(write_tiny(tmp_path)), [frame.picture for frame in clip], schedule))) == 4
    assert set(seen) == {(3,)}
