"""Change clocks that count only the classes that matter."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from clockseg import Session, UsageError, adaptive, difference, either, every, parse_schedule, run
from clockseg.clocks import Tick, View, Watch, budget, paced
from clockseg.clocks.maps import SMALLEST_SHARE, change
from clockseg.clockwork.network import Stage, StagedNetwork
from clockseg.execution.recording import record, replay

NAMES = ("sky", "road", "pedestrian", "bicyclist")
BARE = StagedNetwork("labels", (Stage("a", np.asarray), Stage("b", np.asarray)))
NET = replace(BARE, sidecar=SimpleNamespace(classes=NAMES, schedule=None))
MATTER = ("pedestrian", "bicyclist")


def frames() -> list[np.ndarray]:
    """Ten by ten places: the sky turns into road, a row a frame; from the fourth frame on a pedestrian walks along."""
    found = []
    for t in range(8):
        labels = np.zeros((1, 10, 10), np.uint8)
        labels[:, :t] = 1
        if t >= 4:
            labels[0, 9, t - 3 : t + 1] = 2
        found.append(labels)
    return found


def fired(schedule, net=NET) -> list[int]:
    return [int(one.fired[-1]) for _, one in run(net, frames(), schedule)][1:]


def test_it_is_one_minus_intersection_over_union_for_a_class() -> None:
    before, now = np.array([0, 1, 1, 1, 2, 3] * 50), np.array([0, 0, 1, 1, 1, 3] * 50)
    assert change(now, before, [1]) == pytest.approx(1 - 2 / 4)
    assert change(now, before, [1, 2]) == pytest.approx(2 / 4)
    assert change(now, before, [3]) == 0
    assert change(now, before, [0, 1, 2, 3]) == change(now, before)
    assert change(now, before, [7]) == 0


def test_a_stray_place_is_no_great_change() -> None:
    before = np.zeros((100, 100), np.uint8)
    now = before.copy()
    now[5, 5] = 2
    assert change(now, before, [2]) == pytest.approx(1 / (SMALLEST_SHARE * 10_000))
    with pytest.raises(UsageError, match="can't be compared"):
        change(now, before[:5], [2])


def test_only_changes_of_what_matters_fire() -> None:
    assert fired(adaptive(0.1)) == [1] * 7
    assert fired(adaptive(0.1, classes=MATTER)) == [0, 0, 0, 1, 1, 1, 1]
    assert fired(adaptive(0.1, classes=("bicyclist",))) == [0] * 7
    # Half of the pedestrian's places are others after two frames: 4 + 2 places show it in either map, 4 of these differ.
    assert fired(adaptive(0.6, classes=("pedestrian",))) == [0, 0, 0, 1, 0, 1, 0]


def test_ids_are_names_and_need_no_sidecar() -> None:
    assert fired(adaptive(0.1, classes=(2, 3)), BARE) == fired(adaptive(0.1, classes=MATTER))
    assert fired(adaptive(0.1, classes=("pedestrian", 3))) == fired(adaptive(0.1, classes=MATTER))
    with pytest.raises(UsageError, match=r"no class 'pedestrian'.*give ids"):
        Session(BARE, adaptive(0.1, classes=MATTER))


@pytest.mark.parametrize(
    "schedule",
    [
        adaptive(0.1, classes=("pedestrain",)),
        either(every(9), adaptive(0.1, classes=("pedestrain",))),
        paced(adaptive(0.1, classes=("pedestrain",)), 0.5),
        budget(adaptive(0, classes=("pedestrain",)), network_rate=0.5),
    ],
)
def test_a_wrong_name_is_told_when_the_session_begins(schedule) -> None:
    with pytest.raises(UsageError, match="Did you mean pedestrian"):
        Session(NET, schedule)


def test_an_id_too_large_is_told_where_the_classes_are_known() -> None:
    with pytest.raises(UsageError, match="no class 4; its ids are 0 to 3"):
        Session(NET, adaptive(0.1, classes=(4,)))


@pytest.mark.parametrize("classes", [(True,), (-1,), (1.5,), (None,)])
def test_what_is_no_class_is_refused(classes) -> None:
    with pytest.raises(UsageError, match="names or ids"):
        adaptive(0.1, classes=classes)


def test_it_is_replayed_with_its_names() -> None:
    schedule = adaptive(0.1, classes=MATTER)
    recording = record(NET, frames())
    assert [one.fired for one in replay(recording, schedule)] == [one.fired for _, one in run(NET, frames(), schedule)]


def test_it_is_written_as_text_and_one_class_may_stand_alone() -> None:
    assert parse_schedule('adaptive(0.1, classes=("pedestrian", 3))') == difference(0.1, classes=("pedestrian", 3))
    assert parse_schedule('difference(0.1, classes="pedestrian")') == difference(0.1, classes=("pedestrian",))
    with pytest.raises(UsageError, match='give of="labels"'):
        difference(0.1, of="scores", classes=MATTER)


def test_names_are_taken_from_the_tick() -> None:
    view = View(np.array([[[2, 0]]]), np.array([[[0, 0]]]), np.array([[[0, 0]]]))
    tick = Tick(1, 2, None, *view, 1, 0, views={Watch("scores", 1): view}, classes=NAMES)
    assert difference(0.5, classes=("pedestrian",))(tick, None)[0] == (True, 1.0, False)
    assert difference(0.5, classes=("bicyclist",))(tick, None)[0].signal == 0
