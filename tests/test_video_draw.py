"""The tinted picture, and the legend and the strip under it."""

from __future__ import annotations

import numpy as np
import pytest

from clockseg.errors import UsageError
from clockseg.video import Bar, Heat, Legend, overlay
from clockseg.video.overlay import colours_of
from video_making import picture

STAGES = ("one", "two", "three")


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


def test_colours_are_a_network_s_own_or_of_the_palette():
    assert colours_of([[1, 2, 3]], 1) == [[1, 2, 3]]
    assert colours_of([], 1) == ((214, 81, 81),)
    assert len(colours_of([])) == 255


def test_numbers_are_drawn_from_dark_to_bright():
    image, values = np.zeros((1, 3, 3), np.uint8), np.array([[0.0, 9.0, np.nan]])
    assert Heat((0.0, 9.0))(image, values).tolist() == [[[34, 0, 42], [126, 116, 18], [0, 0, 0]]]
    assert Heat().levels(values).tolist() == [[0, 254, 255]]


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("width", [1, 2, 15, 33, 320, 640, 1280, 1920, 3840])
def test_strip_fits_any_width(width, stages):
    strip = Bar((width, 100), [f"a rather long stage name {k}" for k in range(stages)], per_stage=True)
    for frame in range(5):
        drawn = strip.draw([True] * stages, fill=frame == 0)
        assert drawn.shape == (strip.height, width, 3)
        assert drawn.dtype == np.uint8
    assert strip.height % 2 == 0


def test_strip_tells_states_apart_by_shape_as_well_as_colour():
    def inked(fired, fill):
        strip = Bar((40, 100), ["one", "two"], per_stage=True)  # too narrow for words
        return int((strip.draw(fired, fill).max(2) > 60).sum())

    held, one, both, fill = inked([0, 0], False), inked([1, 0], False), inked([1, 1], False), inked([1, 1], True)
    assert held < one < both < fill


def test_strip_scrolls():
    strip = Bar((640, 100), ["one", "two", "three"], per_stage=True)
    first = strip.draw([True, True, True], fill=True)
    later = [strip.draw([True, False, False], fill=False) for _ in range(3)][-1]
    column = 110
    assert not np.array_equal(first, later)
    assert np.array_equal(first[:, :column], later[:, :column])
    many = [strip.draw([True, False, False], fill=False) for _ in range(200)]
    assert np.array_equal(many[-2], many[-1])


def test_strip_needs_a_state_for_each_stage():
    with pytest.raises(UsageError, match="Give one per stage"):
        Bar((320, 100), ["one", "two"], per_stage=True).draw([True], fill=False)
    with pytest.raises(UsageError, match="at least one"):
        Bar((320, 100), [], per_stage=True)


@pytest.mark.parametrize("width", [1, 2, 15, 33, 320, 1920])
def test_legend_and_activity_fit_any_width(width):
    legend = Legend((width, 100), ["road"], [(1, 2, 3)] * 40)
    bar = Bar((width, 100), STAGES)
    labels = np.arange(40, dtype=np.uint8).repeat(100).reshape(50, 80)
    assert legend.draw(labels).shape == (legend.height, width, 3)
    assert bar.draw([True, True, False], fill=False).shape == (bar.height, width, 3)
    assert legend.height % 2 == bar.height % 2 == 0


def test_legend_shows_the_classes_that_are_there_largest_first():
    legend = Legend((640, 100), ["road", "sky", "car"], [(250, 0, 0), (0, 250, 0), (0, 0, 250)])
    labels = np.zeros((40, 40), np.uint8)
    labels[:10] = 1
    drawn = legend.draw(labels)

    def places(colour):
        return np.flatnonzero((drawn == colour).all(axis=2).any(axis=0))

    assert 0 < places((250, 0, 0)).max() < places((0, 250, 0)).min()
    assert not len(places((0, 0, 250)))


def test_legend_begins_anew_with_a_shot():
    colours = [(250, 0, 0), (0, 250, 0)]
    follows, alone = Legend((640, 100), ["road", "sky"], colours), Legend((640, 100), ["road", "sky"], colours)
    road, sky = np.zeros((100, 640), np.uint8), np.ones((100, 640), np.uint8)
    follows.draw(road)
    assert (follows.draw(sky, fill=True) == alone.draw(sky)).all()


def test_legend_leaves_out_what_has_no_label_and_follows_slowly():
    legend = Legend((640, 100), ["road", "sky"], [(250, 0, 0), (0, 250, 0)])
    nothing = np.full((40, 40), 255, np.uint8)
    assert legend.draw(nothing).shape == (legend.height, 640, 3)
    assert not (legend.draw(nothing) == (250, 0, 0)).all(axis=2).any()
    legend.draw(np.zeros((40, 40), np.uint8))
    assert (legend.draw(nothing) == (250, 0, 0)).all(axis=2).any()


def said(fired):
    bar = Bar((640, 100), STAGES)
    for one in fired:
        bar.draw(one, fill=False)
    return bar.words


def test_activity_says_how_often_the_network_ran():
    all_, some, none = [True] * 3, [True, False, False], [False] * 3
    assert said([all_, none, none, none, none, none] * 7) == "network ran: 1 of 6 frames"
    assert said([all_] * 9) == "network ran: every frame"
    assert said([all_, some, some] * 9) == "network ran: 1 of 3 frames, in part: 2 of 3"
    assert said([some] * 9) == "network ran in part: every frame"
    assert said([none] * 9) == "network ran: none of 9 frames"


def test_activity_tells_states_apart_by_shape():
    def inked(fired, fill=False):
        return int((Bar((40, 100), STAGES[:2]).draw(fired, fill).max(2) > 110).sum())

    assert inked([0, 0]) < inked([1, 0]) < inked([1, 1]) == inked([0, 0], fill=True)
