"""The tinted picture and the strip under it."""

from __future__ import annotations

import numpy as np
import pytest

from clockseg.errors import UsageError
from clockseg.video import Strip, overlay
from video_making import picture


def test_overlay_is_the_formula():
    rng = np.random.default_rng(0)
    image, labels = rng.integers(0, 256, (21, 33, 3), dtype=np.uint8), rng.integers(0, 14, (21, 33), dtype=np.uint8)
    palette = rng.integers(0, 256, (11, 3), dtype=np.uint8)
    labels[0, 0] = 255
    for opacity in (0.0, 0.3, 1.0):
        expected = image.astype(float)
        inside = labels < 11
        expected[inside] = (1 - opacity) * expected[inside] + opacity * palette[labels[inside]]
        assert np.abs(overlay(image, labels, palette, opacity=opacity) - expected).max() <= 1


def test_overlay_leaves_its_inputs_alone():
    image, labels = picture(8, 6), np.full((6, 8), 255, np.uint8)
    before = image.copy()
    assert np.array_equal(overlay(image, labels, [[1, 2, 3]]), before)
    assert np.array_equal(image, before)


def test_overlay_of_two_sizes_is_refused():
    with pytest.raises(UsageError, match="Give one size"):
        overlay(picture(8, 6), np.zeros((6, 9), np.uint8), [[0, 0, 0]])


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("width", [1, 2, 15, 33, 320, 640, 1280, 1920, 3840])
def test_strip_fits_any_width(width, stages):
    strip = Strip((width, 100), [f"a rather long stage name {k}" for k in range(stages)])
    for frame in range(5):
        drawn = strip.draw([True] * stages, fill=frame == 0)
        assert drawn.shape == (strip.height, width, 3)
        assert drawn.dtype == np.uint8
    assert strip.height % 2 == 0


def test_strip_tells_states_apart_by_shape_as_well_as_colour():
    def inked(fired, fill):
        strip = Strip((40, 100), ["one", "two"])  # too narrow for words
        return int((strip.draw(fired, fill).max(2) > 60).sum())

    held, one, both, fill = inked([0, 0], False), inked([1, 0], False), inked([1, 1], False), inked([1, 1], True)
    assert held < one < both < fill


def test_strip_scrolls():
    strip = Strip((640, 100), ["one", "two", "three"])
    first = strip.draw([True, True, True], fill=True)
    later = [strip.draw([True, False, False], fill=False) for _ in range(3)][-1]
    column = 110
    assert not np.array_equal(first, later)
    assert np.array_equal(first[:, :column], later[:, :column])
    many = [strip.draw([True, False, False], fill=False) for _ in range(200)]
    assert np.array_equal(many[-2], many[-1])


def test_strip_needs_a_state_for_each_stage():
    with pytest.raises(UsageError, match="Give one a stage"):
        Strip((320, 100), ["one", "two"]).draw([True], fill=False)
    with pytest.raises(UsageError, match="at least one"):
        Strip((320, 100), [])
