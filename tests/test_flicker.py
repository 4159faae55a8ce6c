"""Flicker: what motion explains is none, what it doesn't is, and what can't be compared is left out."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from clockseg import skip_frame
from clockseg.carry import Flow, Warp
from clockseg.carry.motion import optical_flow
from clockseg.clocks.rates import carried, frame_oracle
from clockseg.clockwork.network import Stage, StagedNetwork
from clockseg.datasets import read_data
from clockseg.evaluation.evaluate import evaluate
from clockseg.evaluation.flicker import LARGEST, Flickers, Following, consistent, flicker_facts, flickering
from clockseg.evaluation.metrics import Confusion
from toy_networks import CLASSES, toy, write_clip


def texture(width: int, height: int = 96, seed: int = 0) -> np.ndarray:
    """A picture with something to see at every place, uint8 RGB."""
    noise = np.random.default_rng(seed).integers(0, 256, (height // 4, width // 4, 3), dtype=np.uint8)
    return np.asarray(cv2.resize(noise, (width, height), interpolation=cv2.INTER_CUBIC))


def panned(pixels: int, frames: int, seed: int = 0) -> list[np.ndarray]:
    """A picture that moves to the left by ``pixels`` a frame."""
    wide = texture(160 + pixels * frames, seed=seed)
    return [np.ascontiguousarray(wide[:, pixels * t : pixels * t + 160]) for t in range(frames)]


def bright(image: np.ndarray) -> np.ndarray:
    """Labels that belong to the picture: large areas, whose borders move along with it."""
    grey = cv2.GaussianBlur(image[..., 0], (0, 0), 9)
    return (grey > np.median(grey)).astype(np.uint8)


def counted(images: list[np.ndarray], labels: list[np.ndarray], classes: int = 2) -> Confusion:
    found = Flickers(1, classes)
    for image, each in zip(images, labels, strict=True):
        found.see(image, [each])
    return found.counted[0]


def flicker(found: Confusion) -> float:
    return flicker_facts(found)["flicker"]


def test_labels_that_move_with_the_picture_do_not_flicker() -> None:
    wide = texture(160 + 16)
    labels = bright(wide)
    cut = [slice(4 * t, 4 * t + 160) for t in range(4)]
    images = [np.ascontiguousarray(wide[:, at]) for at in cut]
    moving = counted(images, [np.ascontiguousarray(labels[:, at]) for at in cut])
    stuck = counted(images, [np.ascontiguousarray(labels[:, :160])] * 4)
    assert moving.pixels == stuck.pixels > 0.7 * 3 * 96 * 160
    assert flicker(moving) < 0.03 < 0.1 < flicker(stuck)


def test_what_changes_though_nothing_moves_flickers_by_exactly_so_much() -> None:
    image, one = texture(160), np.zeros((96, 160), np.uint8)
    other = one.copy()
    other[:24] = 1
    assert counted([image] * 3, [one] * 3).counts.tolist() == [[2 * 96 * 160, 0], [0, 0]]
    found = counted([image] * 2, [one, other])
    assert found.counts.tolist() == [[72 * 160, 0], [24 * 160, 0]]
    assert flicker_facts(found) == {"flicker": pytest.approx(1 - 0.75 / 2), "pixels": pytest.approx(0.25)}


def test_the_truth_is_now_and_the_prediction_the_moved_past() -> None:
    image, one = texture(160), np.zeros((96, 160), np.uint8)
    assert counted([image] * 2, [one, one + 1]).counts.tolist() == [[0, 0], [96 * 160, 0]]


def test_first_frames_other_sizes_and_cuts_are_left_out() -> None:
    following, (a, b), (c, d) = Following(), panned(2, 2), panned(2, 2, seed=1)
    assert following.see(a) is None
    assert following.see(b) is not None
    assert following.see(c) is None  # another scene
    assert following.see(d) is not None
    assert following.see(d[:48]) is None
    assert following.see(d[:48]) is not None
    labels = [np.zeros((96, 160), np.uint8)] * 2 + [np.ones((96, 160), np.uint8)] * 2
    assert flicker(counted([a, b, c, d], labels)) == 0


def test_what_came_from_outside_is_not_counted() -> None:
    following = Following()
    for image in panned(8, 2):
        found = following.see(image)
    assert not found.sure[:, -6:].any()
    assert found.sure[:, 40:120].mean() > 0.9
    assert np.allclose(np.median(found.places[40:50, 40:120, 0], axis=0), np.arange(48, 128), atol=0.7)


def test_both_ways_within_a_pixel() -> None:
    there, back = np.zeros((8, 8, 2), np.float32), np.zeros((8, 8, 2), np.float32)
    there[2] = [0, 1]
    back[4, 5] = [0.6, -0.6]
    back[5, 5] = [0.8, -0.8]
    found = consistent(there, back)
    assert np.argwhere(~found).tolist() == [[5, 5]]  # off by 1.13, the other by 0.85
    assert consistent(there * 0.5, back, 2).all()


def test_large_frames_are_looked_at_on_a_smaller_grid(monkeypatch) -> None:
    seen = []

    def told(now: np.ndarray, before: np.ndarray, **how: int) -> np.ndarray:
        seen.append(now.shape)
        return optical_flow(now, before, **how)

    monkeypatch.setattr("clockseg.evaluation.flicker.optical_flow", told)
    for width, height in ((320, 240), (1920, 1080)):
        following = Following()
        for _ in range(2):
            found = following.see(np.zeros((height, width, 3), np.uint8))
        assert found.places.shape == (height, width, 2)
        assert found.sure.shape == (height, width)
    assert seen == [(120, 160)] * 2 + [(270, LARGEST)] * 2


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32, np.int64])
def test_ids_of_any_whole_type(dtype) -> None:
    image, labels = texture(160), (np.arange(96 * 160).reshape(96, 160) % 7).astype(dtype)
    assert flicker(counted([image] * 2, [labels] * 2, 7)) == 0


@pytest.mark.parametrize("size", [(1, 1), (3, 200), (17, 16)])
def test_any_size_of_frame(size) -> None:
    width, height = size
    images, labels = [np.zeros((height, width, 3), np.uint8)] * 2, [np.zeros((height, width), np.uint8)] * 2
    assert flicker(counted(images, labels)) == 0


def test_nothing_counted_is_none() -> None:
    assert flicker_facts(Confusion.none(3)) == {"flicker": None, "pixels": None}


def test_sums_over_clips_are_sums() -> None:
    image, dark = texture(160), np.zeros((96, 160), np.uint8)
    found = Following()
    found.see(image)
    same = found.see(image)
    one, other = flickering(dark, dark, same, 2), flickering(dark + 1, dark, same, 2)
    assert flicker_facts(one + other)["pixels"] == 0.5


def network() -> StagedNetwork:
    """Labels by brightness, one stage."""
    return StagedNetwork("bright", (Stage("all", lambda image: image[..., 0] >> 7, scores=None),))


def test_evaluate_finds_motion_once_a_frame_for_all(tmp_path: Path, monkeypatch) -> None:
    write_clip(tmp_path / "clip", 5, size=(64, 48))
    seen = []
    find = Following.see
    monkeypatch.setattr(Following, "see", lambda self, image: seen.append(1) or find(self, image))
    every, held = evaluate(toy(), {"every": frame_oracle, "held": skip_frame(9)}, read_data(tmp_path), classes=CLASSES)
    assert len(seen) == 5
    assert every.flickers == every.uncut_flickers == held.uncut_flickers
    assert flicker(held.flickers) < flicker(held.uncut_flickers)  # noise that hardly moves: held labels are calm
    assert held.facts()["flicker"] == flicker_facts(held.flickers)


def test_evaluate_tells_a_moved_output_from_one_that_stays(tmp_path: Path) -> None:
    folder = tmp_path / "clip" / "images"
    folder.mkdir(parents=True)
    for index, image in enumerate(panned(6, 5)):
        cv2.imwrite(str(folder / f"{index}.png"), cv2.merge([cv2.GaussianBlur(image[..., 0], (0, 0), 5)] * 3))
    schedules = {"moved": carried(skip_frame(4), Warp(Flow(1))), "stays": skip_frame(4)}
    moved, stays = evaluate(network(), schedules, read_data(tmp_path), classes=["dark", "bright"])
    assert flicker(moved.flickers) < 0.7 * flicker(stays.flickers)


def test_clips_do_not_run_into_each_other(tmp_path: Path) -> None:
    write_clip(tmp_path / "a", 3, size=(64, 48))
    write_clip(tmp_path / "b", 3, size=(64, 48))  # the same seed: without the border between them there would be no cut
    [both] = evaluate(toy(), {"it": frame_oracle}, read_data(tmp_path), classes=CLASSES)
    one, other = (evaluate(toy(), {"it": frame_oracle}, [clip], classes=CLASSES)[0] for clip in read_data(tmp_path))
    assert both.flickers == one.flickers + other.flickers == (one + other).flickers
    assert both.flickers.pixels <= 4 * 64 * 48
