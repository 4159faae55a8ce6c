"""Motion by the codec's vectors: known motion found again, whatever the stream refers to and however it lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from clockseg import Session, UsageError, carried, skip_frame
from clockseg.carry import Auto, Codec, Flow, Interpolate, Motion, Vectors, Warp, parse_carry, settled
from clockseg.carry.codec import BLOCK, Reference, Track, filled, inverse
from clockseg.carry.motion import optical_flow
from clockseg.clockwork.network import Stage, StagedNetwork
from clockseg.datasets import Clip
from clockseg.segmenting.segmentation import segment
from clockseg.showing.stream import stream
from clockseg.video import Frame, open_clip
from video_making import write_video

STEP = 3
WIDTH, HEIGHT = 176, 96


def panned(frames: int, *, width: int = WIDTH, height: int = HEIGHT) -> list[np.ndarray]:
    """A picture that moves to the left by ``STEP`` pixels a frame: what is at x was at x + STEP."""
    import cv2

    noise = np.random.default_rng(0).integers(0, 256, (height // 4, (width + STEP * frames) // 4, 3), dtype=np.uint8)
    wide = cv2.resize(noise, (width + STEP * frames, height), interpolation=cv2.INTER_CUBIC)
    return [np.ascontiguousarray(wide[:, STEP * t : STEP * t + width]) for t in range(frames)]


def video(path: Path, frames: int = 9, **options: str) -> Path:
    """The pan, in H.264 with no more than it is asked for."""
    settings = {"crf": "18", "bf": "0", "g": "250", "sc_threshold": "0"} | options
    return write_video(path, panned(frames), **settings)


def frames_of(path: Path) -> list[Frame]:
    return list(open_clip(path, vectors=True))


def composed(estimator: Codec | Auto, frames: Sequence[Frame], first: int = 0) -> list[Motion]:
    """The motion of each frame after ``first`` since that one; the estimator sees all from the beginning."""
    carry, found, sight, travel = Warp(estimator), [], None, None
    for number, frame in enumerate(frames):
        now = carry.see(lambda: None, frame.image, frame.vectors)
        if sight is not None:
            motion = carry.observe(sight, now)
            travel = carry.compose(travel, motion) if number > first else None
        sight = now
        if number > first:
            found.append(travel)
    return found


def middle(motion: Motion) -> np.ndarray:
    """The median displacement away from the border, in pixels of the frame."""
    rows, columns = motion.flow.shape[:2]
    inner = motion.flow[rows // 4 : -rows // 4, columns // 4 : columns // 2]
    return np.median(inner, (0, 1)) * (WIDTH / columns)


@pytest.mark.parametrize("options", [{}, {"refs": "4"}])
@pytest.mark.parametrize("first", [0, 2, 3])
def test_the_motion_of_a_pan_is_found(tmp_path: Path, options: dict[str, str], first: int) -> None:
    frames = frames_of(video(tmp_path / "pan.mp4", **options))
    for number, motion in enumerate(composed(Codec(), frames, first), start=1):
        assert middle(motion) == pytest.approx([STEP * number, 0], abs=0.2 + 0.1 * number)


def test_a_stream_with_b_frames_takes_flow(tmp_path: Path) -> None:
    frames = frames_of(video(tmp_path / "pan.mp4", bf="3", b_strategy="0"))
    assert frames[1].vectors.reordered
    first, second = (Codec().see(frame.image, (1.0, 1.0), frame.vectors) for frame in frames[1:3])
    found = Codec().observe(first, second).flow
    assert np.array_equal(found, optical_flow(second.grey, first.grey, finest=1))


def test_vectors_come_only_when_asked_for(tmp_path: Path) -> None:
    path = video(tmp_path / "pan.mp4", frames=3)
    assert [frame.vectors for frame in open_clip(path)] == [None] * 3
    known = [frame.vectors.known for frame in frames_of(path)]
    assert known[0] == 0
    assert min(known[1:]) > 0.8


def test_vectors_are_the_same_at_every_reading(tmp_path: Path) -> None:
    path = video(tmp_path / "pan.mp4", frames=24, bf="3")
    once, again = frames_of(path), frames_of(path)
    assert all(np.array_equal(a.vectors.blocks, b.vectors.blocks) for a, b in zip(once, again, strict=True))


def test_a_picture_that_is_turned(tmp_path: Path) -> None:
    for rotation, flip, expected in [
        (90, False, (0, -STEP)),
        (-90, False, (0, STEP)),
        (180, False, (-STEP, 0)),
        (0, True, (-STEP, 0)),
        (90, True, None),
    ]:
        path = tmp_path / f"turned{rotation}{flip}.mp4"
        write_video(path, panned(4), rotation=rotation, flip=flip, crf="18", bf="0")
        frames = frames_of(path)
        sights = [Codec().see(frame.image, (1.0, 1.0), frame.vectors) for frame in frames]
        by_vectors = Codec().observe(sights[1], sights[2]).flow
        by_flow = Flow(1.0).observe(*(Flow(1.0).see(frame.image, (1.0, 1.0), None) for frame in frames[1:3])).flow
        assert np.median(by_vectors, (0, 1)) == pytest.approx(np.median(by_flow, (0, 1)), abs=0.25)
        assert expected is None or np.median(by_vectors, (0, 1)) * 2 == pytest.approx(expected, abs=0.5)


def test_the_field_lies_where_its_blocks_do_however_the_picture_is_turned(tmp_path: Path) -> None:
    from clockseg.video.colour import AS_STORED

    # An odd size: the last cells stick out, and turned they come first.
    width, height = 61, 43
    blocks = np.zeros(1, BLOCK)
    blocks[0] = (-1, 8, 8, 44, 12, 20, 8, 4)
    for matrix in [(1, 0), (-1, 0), (0, 1), (0, -1)]:
        for mirror in (1, -1):
            a, b = matrix
            whole = (a, b, 0, -b * mirror, a * mirror, 0, 0, 0, 1)
            upright = AS_STORED.turned(whole)
            told = Vectors(1, blocks, (width, height), upright.axes((width, height)))
            field, known = told.cells
            marked = upright(np.repeat(np.repeat(known, 8, 0), 8, 1)[:height, :width])
            lone = replace(told)
            lone.__dict__["cells"] = (np.where(known[..., None], field, 0), np.ones_like(known))
            found = lone.flow(marked.shape[1], marked.shape[0])
            # (5, 2) in the coded picture, turned as the picture is.
            a, b, _, c, d = whole[:5]
            strongest = np.unravel_index(np.argmax(np.abs(found).sum(-1)), marked.shape)
            assert marked[strongest]
            assert found[strongest] == pytest.approx([5 * a + 2 * c, 5 * b + 2 * d], abs=0.8)


def test_holes_have_their_neighbours_motion() -> None:
    flow = np.zeros((6, 8, 2), np.float32)
    flow[:, :2], flow[:, 6:] = 4, 8
    known = np.zeros((6, 8), bool)
    known[:, :2] = known[:, 6:] = True
    found = filled(flow, known)
    assert found[0, 2].tolist() == [4, 4]
    assert found[0, 5].tolist() == [8, 8]
    assert (found[:, 2:6] >= 4).all()
    assert not filled(flow, np.zeros_like(known)).any()


def test_a_frame_without_vectors_of_its_own_takes_flow(tmp_path: Path) -> None:
    frames = frames_of(video(tmp_path / "keys.mp4", g="3"))
    assert [frame.vectors.known > 0 for frame in frames[:4]] == [False, True, True, False]
    for number, motion in enumerate(composed(Codec(), frames[:6]), start=1):
        assert middle(motion) == pytest.approx([STEP * number, 0], abs=0.2 + 0.1 * number)


def test_a_gap_takes_flow(tmp_path: Path) -> None:
    frames = frames_of(video(tmp_path / "pan.mp4"))
    assert middle(composed(Codec(), frames[::2])[-1]) == pytest.approx([8 * STEP, 0], abs=1)


def test_frames_at_a_distance_have_none(tmp_path: Path) -> None:
    path = video(tmp_path / "pan.mp4")
    for every, known in ((1, True), (2, False)):
        clip = Clip("pan", path, every=every, limit=3)
        assert [frame.vectors is not None for frame in clip.frames(vectors=True)] == [known] * 3
        assert [frame.vectors for frame in clip] == [None] * 3
    schedule = replace(skip_frame(4)(1), carry=Warp(Codec()))
    with pytest.raises(UsageError, match="every"):
        segment(path, tmp_path / "out", bright(), schedule, write=["labels"], every=2)


@pytest.mark.parametrize("codec", ["mpeg4", "msmpeg4"])
def test_other_codecs_that_tell(tmp_path: Path, codec: str) -> None:
    path = write_video(tmp_path / "pan.mkv", panned(5), codec=codec, bf="0", b="4000000")
    frames = frames_of(path)
    assert frames[2].vectors.known > 0.5
    assert middle(composed(Codec(), frames)[-1]) == pytest.approx([4 * STEP, 0], abs=0.7)


def test_codecs_that_tell_nothing(tmp_path: Path) -> None:
    path = write_video(tmp_path / "pan.webm", panned(3), codec="libvpx-vp9")
    frames = frames_of(path)
    assert [frame.vectors for frame in frames] == [None] * 3
    with pytest.raises(UsageError, match=r"without motion vectors.*H\.264.*warp\(auto\) or warp\(flow\)"):
        composed(Codec(), frames)
    assert middle(composed(Auto(), frames)[-1]) == pytest.approx([2 * STEP, 0], abs=0.5)


def test_auto_is_the_codec_where_nothing_refers_to_later_frames(tmp_path: Path) -> None:
    plain, reordered = (frames_of(video(tmp_path / f"{bf}.mp4", bf=bf)) for bf in ("0", "3"))
    for frames, same in ((plain, Codec()), (reordered, Flow())):
        assert Auto().choice(frames[1].vectors) == same
        ours, theirs = composed(Auto(), frames)[-1].flow, composed(same, frames)[-1].flow
        assert np.array_equal(ours, theirs)
    assert str(settled(parse_carry('warp(auto, scale=0.25, of="held")'), plain[1].vectors)) == (
        'warp(codec(scale=0.25), of="held")'
    )


@pytest.mark.parametrize("side", [16, 96])
def test_auto_takes_flow_where_one_of_two_frames_has_vectors(side: int) -> None:
    image, vectors = panned(1, width=side, height=side)[0], Vectors(1, np.zeros(0, BLOCK), (side, side))
    plain, told = (Auto().see(image, (1.0, 1.0), one) for one in (None, vectors))
    for before, now in ((plain, told), (told, plain)):
        assert np.median(np.abs(Auto().observe(before, now).flow)) < 0.5


def test_names() -> None:
    for text in ("warp(codec)", "warp(auto)", "warp(codec(scale=0.25))", 'warp(auto, of="held")'):
        assert str(parse_carry(text)) == text
        assert parse_carry(text).reads_vectors
    assert parse_carry("warp(codec, scale=0.25)") == Warp(Codec(0.25))
    assert not parse_carry("warp(flow)").reads_vectors
    with pytest.raises(UsageError, match="scale 3"):
        parse_carry("warp(codec, scale=3)")


def test_motion_goes_on_along_what_is_referred_to() -> None:
    """A frame that refers to the one before last isn't moved through what lies between, which is wrong here."""
    right = np.ones((4, 6, 2), np.float32)
    track = Track().then([Reference(1, right)]).then([Reference(1, 50 * right)])
    assert track.then([Reference(2, 2 * right)]).newest[0, 0].tolist() == [3, 3]
    half = np.zeros((4, 6), np.uint8)
    half[:, 3:] = 255
    mixed = track.then([Reference(1, right), Reference(2, 2 * right, half)]).newest
    assert mixed[0, :, 0].tolist() == [52, 52, 52, 3, 3, 3]


def test_the_inverse_of_a_field() -> None:
    x = np.arange(40, dtype=np.float32)
    field = np.zeros((3, 40, 2), np.float32)
    field[..., 0] = 2 + np.sin(x / 6)
    there = np.stack(np.broadcast_arrays(x + field[1, :, 0], np.float32(1)), -1)[None, 5:30]
    back = inverse(field, there)
    assert back[0, :, 0] == pytest.approx(-field[1, 5:30, 0], abs=0.02)


def bright() -> StagedNetwork:
    return StagedNetwork("bright", (Stage("a", lambda image: (image[..., 0] > 127).astype(np.uint8)),))


def test_a_session_moves_labels_by_the_codec(tmp_path: Path) -> None:
    frames = frames_of(video(tmp_path / "pan.mp4"))
    schedule = replace(skip_frame(4)(1), carry=parse_carry("warp(codec)"))
    held = replace(skip_frame(4)(1))
    right = {}
    for name, one in (("moved", schedule), ("held", held)):
        session = Session(bright(), one)
        agree = [
            np.mean(session(frame.image, vectors=frame.vectors) == (frame.image[..., 0] > 127)) for frame in frames
        ]
        right[name] = min(agree)
    assert right["moved"] > 0.85 > right["held"]


def test_a_session_without_vectors_is_refused() -> None:
    session = Session(bright(), replace(skip_frame(2)(1), carry=Warp(Codec())))
    image = np.zeros((32, 32, 3), np.uint8)
    session(image)
    with pytest.raises(UsageError, match=r"vectors=frame\.vectors"):
        session(image)


def test_segment_tells_what_auto_came_to(tmp_path: Path) -> None:
    path = video(tmp_path / "pan.mp4")
    schedule = replace(skip_frame(4)(1), carry=Warp(Auto()))
    done = segment(path, tmp_path / "out", bright(), schedule, write=["labels"])
    assert done.summary["carry"] == "warp(codec)"
    sampled = segment(path, tmp_path / "two", bright(), schedule, write=["labels"], every=2, limit=3)
    assert (sampled.summary["frames"], sampled.summary["carry"]) == (3, "warp(flow)")
    reordered = segment(video(tmp_path / "b.mp4", bf="3"), tmp_path / "b", bright(), schedule, write=["labels"])
    assert reordered.summary["carry"] == "warp(flow)"


def test_a_stream_that_changes_its_size_fills_again(tmp_path: Path) -> None:
    small, large = panned(3), panned(3, width=208, height=112)
    raw = b""
    for number, images in enumerate((small, large)):
        path = write_video(tmp_path / f"{number}.h264", images, container_format="h264", bf="0", crf="18")
        raw += path.read_bytes()
    joined = tmp_path / "joined.h264"
    joined.write_bytes(raw)
    session = Session(bright(), replace(skip_frame(8)(1), carry=Warp(Codec())))
    fills = []
    for frame in open_clip(joined, vectors=True):
        assert session(frame.image, vectors=frame.vectors).shape == frame.image.shape[:2]
        fills.append(session.record.fill)
    assert fills == [True, False, False, True, False, False]


@pytest.mark.parametrize("options", [{}, {"refs": "4"}, {"bf": "3", "b_strategy": "0"}])
def test_vectors_are_the_same_however_many_threads_decode(
    tmp_path: Path, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = video(tmp_path / "pan.mp4", frames=40, **options)
    threaded = [frame.vectors.blocks for frame in frames_of(path)]
    monkeypatch.setattr("clockseg.video.decode._THREADS", 1)
    alone = [frame.vectors.blocks for frame in frames_of(path)]
    assert all(np.array_equal(one, other) for one, other in zip(threaded, alone, strict=True))


def test_what_waits_for_a_key_frame_is_one_small_field(tmp_path: Path) -> None:
    write_video(tmp_path / "pan.mp4", panned(6), crf="18", bf="0")
    net = StagedNetwork("flat", (Stage("only", lambda image: np.zeros((1, 2, 12, 16), np.float32)),))
    waiting = stream(net, carried(skip_frame(100), Interpolate(Codec())))
    for frame in frames_of(tmp_path / "pan.mp4"):
        waiting.push(frame.image, vectors=frame.vectors)
    steps = [one.step for one in waiting.window.waiting[1:]]
    height, width = frame.image.shape[:2]
    assert {type(step) for step in steps} == {Motion}
    assert {step.flow.shape for step in steps} == {(height // 4, width // 4, 2)}
