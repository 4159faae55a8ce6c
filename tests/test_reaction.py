"""Reaction lag: what is an event, when it is over, and the median over events some of which no one saw the end of."""

from __future__ import annotations

import statistics
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from skimage.measure import label as components

from clockseg.errors import UsageError
from clockseg.evaluation.reaction import Lag, Reaction, Reactions, events

SHAPE = (20, 30)
DARK = np.zeros(SHAPE, np.uint8)


def reaction(oracle, labels) -> Reaction:
    """Return the reaction of one clip's label maps to the oracle's, frame by frame."""
    clip = Reactions(1)
    for now, shown in zip(oracle, labels, strict=True):
        clip.see(now, [shown])
    return clip.end()[0]


def thing(*, label: int = 1, rows: slice = slice(4, 10), columns: slice = slice(5, 13)) -> np.ndarray:
    """A rectangle of 6 x 8 on the ground of class 0."""
    labels = DARK.copy()
    labels[rows, columns] = label
    return labels


def clip(text: str) -> list[np.ndarray]:
    """A frame a letter: ``.`` without and ``x`` with the thing."""
    return [thing() if letter == "x" else DARK for letter in text]


def lags(oracle: str, schedule: str) -> dict[Lag, int]:
    return dict(reaction(clip(oracle), clip(schedule)).counts)


# Outcomes


def test_the_oracle_reacts_at_once():
    assert lags("..xxx..", "..xxx..") == {Lag("appear", "reacted", 0): 1, Lag("vanish", "reacted", 0): 1}


def test_the_lag_is_the_number_of_frames_until_the_schedule_shows_it():
    assert lags("..xxxxx", "....xxx") == {Lag("appear", "reacted", 2): 1}
    assert lags("xx.....", "xxxxx..") == {Lag("vanish", "reacted", 3): 1}


def test_an_event_is_missed_if_the_oracle_takes_it_back_first():
    assert lags("..xxx..", ".......") == {Lag("appear", "missed", 2): 1, Lag("vanish", "reacted", 0): 1}


def test_an_event_that_the_clips_end_leaves_open_was_watched_to_the_last_frame():
    assert lags("..xxx", ".....") == {Lag("appear", "open", 2): 1}


@pytest.mark.parametrize("oracle", ["..x..", ".xxxx", "...x", "xx.xx", ".x.x.x.x."])
def test_a_flicker_is_no_event(oracle):
    """Nor is what happens before two frames have shown what was there, or in the last one."""
    assert lags(oracle, "." * len(oracle)) == {}


def test_every_schedule_has_the_same_events():
    both = Reactions(3)
    for oracle, late, never in zip(clip("..xxxx..xx"), clip("....xxxx.."), clip(".........."), strict=True):
        both.see(oracle, [oracle, late, never])
    assert [found.events for found in both.end()] == [3, 3, 3]


def test_what_is_waited_for_is_given_up_after_a_hundred_frames():
    for_long = lags(".." + "x" * 300, "." * 302)
    assert for_long == {Lag("appear", "open", 99): 1}


def test_another_size_begins_another_clip():
    seen = Reactions(1)
    for labels in clip("..xx"):
        seen.see(labels, [DARK])
    for labels in [np.zeros((9, 9), np.uint8), *[np.ones((9, 9), np.uint8)] * 3]:
        seen.see(labels, [labels])
    assert seen.end()[0].counts == {Lag("appear", "open", 1): 1}


def test_half_of_the_region_is_enough_and_less_is_not():
    half, less = thing(columns=slice(5, 9)), thing(columns=slice(5, 9))
    less[4, 5] = 0
    assert reaction([DARK, DARK, thing(), thing()], [DARK, DARK, half, half]).median() == 0
    assert reaction([DARK, DARK, thing(), thing()], [DARK, DARK, less, half]).median() == 1
    assert reaction([thing(), thing(), DARK, DARK], [half, half, half, half]).median() == 0


def test_a_schedule_that_shows_another_class_there_has_not_reacted():
    assert reaction([DARK, DARK, thing(), thing()], [DARK, DARK, thing(label=2), thing()]).median() == 1


# Events


def told(before: np.ndarray, now: np.ndarray) -> list[tuple[str, int, int]]:
    return sorted((event.kind, event.label, int(event.region.sum())) for event in events(before, now))


def test_what_changes_its_class_appears_and_vanishes():
    assert told(thing(), thing(label=2)) == [("appear", 2, 48), ("vanish", 1, 48)]


def test_what_grows_or_moves_a_little_is_the_same_thing():
    assert told(thing(), thing(columns=slice(5, 20))) == []
    assert told(thing(), thing(columns=slice(9, 17))) == []


def test_a_neighbour_over_a_corner_belongs_to_it():
    before, now = thing(), thing()
    now[10:14, 13:17] = 1
    assert told(before, now) == []
    now[10, 13] = 0
    assert told(before, now) == [("appear", 1, 15)]


def test_the_least_region_is_a_thousandth_of_the_frame():
    before, now = np.zeros((2, 100, 200), np.uint8)
    now[0, :19] = 1
    assert told(before, now) == []
    now[0, 19] = 1
    assert told(before, now) == [("appear", 1, 20)]


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.int64, np.uint64])
def test_labels_may_be_any_whole_numbers(kind):
    assert told(DARK.astype(kind), thing(label=100).astype(kind)) == [("appear", 100, 48)]


def test_maps_of_other_shapes_are_refused():
    with pytest.raises(UsageError, match=r"\[20, 30\] and \[3, 3\]"):
        list(events(DARK, np.zeros((3, 3), np.uint8)))


BLOBS = arrays(np.uint8, (6, 7), elements=st.integers(0, 2)).map(lambda small: small.repeat(2, 0).repeat(2, 1))


@settings(deadline=None)  # the first example loads OpenCV
@given(BLOBS, BLOBS)
def test_events_are_scikit_images_components_without_a_common_pixel(before, now):
    expected = []
    for change, here, there in (("appear", now, before), ("vanish", before, now)):
        for label in np.unique(here):
            regions = components(here == label, connectivity=2)
            for index in range(1, regions.max() + 1):
                if not (there[regions == index] == label).any():
                    expected.append((change, int(label), int((regions == index).sum())))
    assert told(before, now) == sorted(expected)


@settings(deadline=None)
@given(st.lists(BLOBS, max_size=8))
def test_the_oracle_never_lags(frames):
    found = reaction(frames, frames)
    assert set(found.counts) <= {Lag("appear", "reacted", 0), Lag("vanish", "reacted", 0)}


# Sums and medians


@given(st.lists(st.integers(0, 9), min_size=1))
def test_where_every_event_is_reacted_to_the_median_is_the_plain_one(frames):
    found = sum((Reaction(Counter({Lag("appear", "reacted", one): 1})) for one in frames), Reaction())
    assert found.median() == found.median("appear") == statistics.median_low(frames)
    assert found.median("vanish") is None


def counted(**numbers: int) -> Reaction:
    """``reacted_2=3``: three events with a lag of 2."""
    return Reaction(Counter({Lag("appear", name[:-2], int(name[-1])): number for name, number in numbers.items()}))


def test_missed_events_are_never_reacted_to():
    assert counted(reacted_0=1, missed_3=1).median() == 0
    assert counted(reacted_0=1, missed_3=2).median() is None
    assert counted(missed_0=2, reacted_1=2, reacted_3=1).median() == 3


def test_open_events_count_for_as_long_as_they_were_watched():
    # Kaplan-Meier by hand: at 1 six are watched and two react (4/6 left), at 3 three and one reacts (4/6 * 2/3 = 4/9).
    found = counted(reacted_1=2, open_2=1, reacted_3=1, open_5=2)
    assert found.median() == 3
    # To leave the open ones out would give 1, to count them as never reacted to would give none.
    assert counted(reacted_1=2, reacted_3=1).median() == 1
    assert counted(reacted_1=2, missed_2=1, reacted_3=1, missed_5=2).median() == 3
    assert counted(reacted_0=1, open_0=5, reacted_4=1).median() == 4


def test_a_half_is_a_half_whatever_the_steps():
    assert counted(reacted_0=1, reacted_1=1, reacted_2=1, missed_9=3).median() == 2


def test_facts():
    vanished = Reaction(Counter({Lag("vanish", "reacted", 2): 3}))
    found = counted(reacted_0=2, reacted_1=1, missed_4=1, open_2=1) + vanished
    assert found.facts() == {
        "median": 2, "appear": 1, "vanish": 2, "at_once": 0.25, "events": 8, "missed": 1, "open": 1,
    }  # fmt: skip
    assert Reaction().facts() == {
        "median": None, "appear": None, "vanish": None, "at_once": None, "events": 0, "missed": 0, "open": 0,
    }  # fmt: skip


@settings(deadline=None)
@given(st.lists(BLOBS, min_size=1, max_size=6), st.lists(BLOBS, min_size=1, max_size=6))
def test_a_sum_of_clips(first, second):
    both = reaction(first, first[::-1]) + reaction(second, second[::-1])
    assert both.events == reaction(first, first).events + reaction(second, second).events
