"""Regions: what changes is computed in windows, and put where it belongs; equal to the whole where the halo covers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from clockseg import Session, UsageError, load, parse_schedule
from clockseg._tiles import Box, shapes, windows
from clockseg.carry import Flow, Warp
from clockseg.clocks import ALWAYS, PREPARED, Along, Regions, Tick, View, Whole
from clockseg.engines.priced import priced
from clockseg.gate import at_least_every, either, regions
from clockseg.graph.receptive_field import Field
from clockseg.graph.sidecar import Input
from clockseg.recording import needs
from clockseg.schedule import Schedule, carried, frame_oracle
from networks import TINY, tiny, write_network
from symbolic import network

SIZE = (480, 256)
"""WIDTH, HEIGHT of the frames; ``tiny`` looks about 30 pixels far."""
SIDECAR = replace(TINY, input=Input("input", *SIZE, scale=1 / 255, pad_multiple=8))


def frame(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (SIZE[1], SIZE[0], 3), dtype=np.uint8)


def changed(picture: np.ndarray, box: Box, seed: int = 9) -> np.ndarray:
    """``picture`` with other contents in ``box``."""
    other = picture.copy()
    other[box.top : box.bottom, box.left : box.right] = frame(seed)[box.top : box.bottom, box.left : box.right]
    return other


def pooled() -> onnx.ModelProto:
    """``tiny`` with a mean over the whole picture in its last stage."""
    model = tiny()
    nodes = list(model.graph.node)
    [deep] = [node for node in nodes if "deep" in node.output]
    deep.output[:] = ["deep.local"]
    mean = helper.make_node("GlobalAveragePool", ["deep.local"], ["deep.mean"], name="context")
    total = helper.make_node("Add", ["deep.local", "deep.mean"], ["deep"], name="with_context")
    index = nodes.index(deep) + 1
    del model.graph.node[:]
    model.graph.node.extend([*nodes[:index], mean, total, *nodes[index:]])
    return model


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory):
    return load(write_network(tmp_path_factory.mktemp("tiny"), tiny(), SIDECAR), engine="onnxruntime")


@pytest.fixture(scope="module")
def with_mean(tmp_path_factory: pytest.TempPathFactory):
    path = write_network(tmp_path_factory.mktemp("pooled"), pooled(), replace(SIDECAR, name="pooled"))
    return load(path, engine="onnxruntime")


def covering(net, **options) -> object:
    """Regions with halo and spread that cover how far the network looks."""
    reach = net.locality(len(net)).reach
    return regions(0.01, level=0, halo=reach, spread=reach, most=1.0, **options)


PLACES = [Box(226, 130, 250, 150), Box(0, 0, 12, 12), Box(460, 244, 480, 256), Box(0, 150, 20, 170)]


@pytest.mark.parametrize("box", PLACES, ids=["middle", "corner", "last-corner", "border"])
def test_windows_give_the_whole_frame_where_the_halo_covers(net, box: Box) -> None:
    first = frame()
    second = changed(first, box)
    session, whole = Session(net, covering(net)), Session(net, frame_oracle)
    for image in (first, second):
        found, expected = session(image), whole(image)
    assert session.record.fired == (True, True, True)
    assert 0 < session.record.share[0] < 0.9
    for mine, theirs in zip(session.memory.stages, whole.memory.stages, strict=True):
        for name in set(mine.held) & set(theirs.held) - {"frame size"}:
            np.testing.assert_allclose(mine.held[name], theirs.held[name], atol=1e-5, err_msg=name)
    np.testing.assert_array_equal(found, expected)


def test_without_halo_it_is_not_the_same(net) -> None:
    """What the test above would miss if windows were never used, or if a halo did nothing."""
    first = frame()
    session, whole = Session(net, regions(0.01, level=0, halo=0)), Session(net, frame_oracle)
    for image in (first, changed(first, PLACES[0])):
        session(image), whole(image)
    mine, theirs = session.memory.stages[0].held, whole.memory.stages[0].held
    assert max(np.abs(mine[name] - theirs[name]).max() for name in theirs if name in mine) > 1e-3


def test_what_lies_outside_is_as_it_was(net) -> None:
    first = frame()
    session = Session(net, regions(0.01, level=0, halo=0))
    session(first)
    before = {name: array.copy() for name, array in session.memory.stages[0].held.items()}
    old = session.memory
    session(changed(first, PLACES[0]))
    after = session.memory.stages[0].held
    assert session.record.share[0] < 0.5
    for name in set(before) - {"frame size"}:
        assert (after[name] == before[name]).mean() > 0.5
        assert not np.array_equal(after[name], before[name])
        np.testing.assert_array_equal(old.stages[0].held[name], before[name])  # a memory is never written to


def test_nothing_fires_on_a_still_picture(net) -> None:
    session = Session(net, regions(0.01))
    outputs = [session(frame()) for _ in range(3)]
    assert session.tally.network_rate == 0
    assert outputs[2] is outputs[0] or np.array_equal(outputs[2], outputs[0])


def test_a_picture_that_changes_all_over_fires_whole(net) -> None:
    session, whole = Session(net, regions(0.01)), Session(net, frame_oracle)
    for seed in (0, 1):
        found, expected = session(frame(seed)), whole(frame(seed))
    assert session.record.fired == (True, True, True)
    assert session.record.share == ()
    np.testing.assert_array_equal(found, expected)


def test_a_stage_over_the_whole_picture_is_refused_by_name(with_mean) -> None:
    with pytest.raises(UsageError, match=r"GlobalAveragePool \(context\).*stages=2"):
        Session(with_mean, regions(0.01))


def test_the_stages_after_fire_whole_by_their_own_clock(with_mean) -> None:
    first = frame()
    session = Session(with_mean, regions(0.01, stages=2, rest=at_least_every(2)))
    found = []
    for seed in range(4):
        session(changed(first, PLACES[0], seed))
        found.append(session.record.fired)
    assert found == [(True, True, True), (True, True, False), (True, True, True), (True, True, False)]
    assert session.record.share[0] < 0.9
    assert session.record.share[-1] < 0.9


def test_without_a_clock_they_fire_when_the_whole_does(with_mean) -> None:
    session = Session(with_mean, regions(0.01, stages=2, every=3))
    fired = []
    for seed in range(7):
        session(changed(frame(), PLACES[0], seed))
        fired.append(session.record.fired[2])
    assert fired == [True, False, False, True, False, False, True]


def test_prices_count_the_share_that_ran(net) -> None:
    session = Session(net, regions(0.01, halo=0))
    for image in (frame(), changed(frame(), PLACES[0])):
        session(image)
    prices = priced(net, SIZE)
    share = session.record.share[0]
    assert prices.frame(session.record).multiply_adds == pytest.approx(share * prices.full.multiply_adds, rel=0.01)


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        (carried(regions(0.1), Warp(Flow())), "fixed camera"),
        (Schedule((Regions(0.1), ALWAYS, ALWAYS), delays=(0, 1, 0)), "no delays"),
        (Schedule((ALWAYS, Regions(0.1), ALWAYS)), "from stage 1 on"),
        (regions(0.1, stages=4), "stages=1 to 3"),
    ],
    ids=["warp", "delays", "second", "too-many"],
)
def test_what_does_not_fit_is_refused(net, schedule, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Session(net, schedule)


def test_a_network_of_functions_is_refused() -> None:
    with pytest.raises(UsageError, match="ONNX"):
        Session(network(), regions(0.1))


@pytest.mark.parametrize(
    "options",
    [{"threshold": 0}, {"threshold": 2}, {"tile": 2}, {"halo": -1}, {"every": 0}, {"most": 0}, {"level": 300}],
    ids=str,
)
def test_odd_numbers_are_refused(options: dict) -> None:
    with pytest.raises(UsageError):
        regions(**{"threshold": 0.1} | options)


def test_it_is_no_part_of_other_clocks() -> None:
    with pytest.raises(UsageError, match="takes clocks"):
        either(regions(0.1), at_least_every(4))


def test_as_text() -> None:
    assert parse_schedule("regions(0.1, stages=2, every=50)")(3).clocks == (Regions(0.1, every=50), Along(), Whole())


def asked(clock: Regions, pictures: list[np.ndarray]) -> list:
    """The clock's answers on these pictures, the first of which was filled from."""
    state, first, found = None, {"image": pictures[0][None]}, []
    for t, picture in enumerate(pictures[1:], start=1):
        view = View({"image": picture[None]}, first, first)
        decision, state = clock(Tick(t, 1, None, None, None, None, t, 0, views={PREPARED: view}), state)
        found.append(decision.fire)
    return found


def test_slow_drift_adds_up_and_each_tile_by_itself() -> None:
    still = np.full((64, 96, 3), 100, np.uint8)
    pictures = []
    for step in range(9):
        picture = still.copy()
        picture[:32, :32] += np.uint8(5 * step)
        pictures.append(picture)
    masks = asked(Regions(0.5, level=16), pictures)
    assert [bool(mask.any()) for mask in masks] == [False, False, False, True, False, False, False, True]
    assert masks[3].shape == (2, 3)
    assert masks[3].sum() == 1
    assert masks[3][0, 0]


def test_noise_is_left_alone() -> None:
    random = np.random.default_rng(0)
    pictures = [np.clip(100 + random.normal(0, 12, (64, 96, 3)), 0, 255).astype(np.uint8) for _ in range(4)]
    assert not any(np.any(mask) for mask in asked(Regions(0.05, level=16), pictures))


@settings(max_examples=40, deadline=None)
@given(
    places=st.sets(st.tuples(st.integers(0, 5), st.integers(0, 9)), min_size=1, max_size=20),
    halo=st.sampled_from([0, 8, 20, 40]),
    spread=st.sampled_from([0, 10]),
)
def test_windows_hold_every_place(places: set[tuple[int, int]], halo: int, spread: int) -> None:
    mask, size = np.zeros((6, 10), bool), (320, 192)
    for place in places:
        mask[place] = True
    found = windows(mask, size, step=8, halo=halo, spread=spread)
    if found is None:
        return
    covered = np.zeros(size[::-1], bool)
    for outer, inner in found:
        assert all(side % 8 == 0 for side in (*outer, *inner))
        assert min(outer.left, outer.top) >= 0
        assert outer.right <= size[0]
        assert outer.bottom <= size[1]
        assert (outer.width, outer.height) in shapes(size, 8)
        assert inner.left - outer.left >= halo or inner.left == outer.left == 0
        assert outer.bottom - inner.bottom >= halo or inner.bottom == outer.bottom == size[1]
        covered[inner.top : inner.bottom, inner.left : inner.right] = True
    for row, column in places:
        top, left = max(0, 32 * row - spread), max(0, 32 * column - spread)
        assert covered[top : 32 * row + 32 + spread, left : 32 * column + 32 + spread].all()


def test_reach_of_known_layers() -> None:
    assert Field(1, 0, 0).window(kernel=3, stride=1, pad=1).reach == 1
    assert Field(1, 0, 0).window(kernel=3, stride=2, pad=1).window(kernel=3, stride=2, pad=1) == Field(4, 3, 3)
    assert Field(4, 0, 3).enlarged(2, before=4, after=2).reach == 8


def test_how_far_tiny_looks_is_not_too_little(net) -> None:
    """Beyond its reach, a change of the frame changes nothing; within, it does: measured on what the network gives."""
    reach = net.locality(3).reach
    first, x = frame(), 240
    second = changed(first, Box(x, 0, SIZE[0], SIZE[1]))
    before, after = net(first), net(second)
    differs = np.flatnonzero((before != after).any(axis=0))
    assert differs.min() >= x - reach
    assert differs.min() < x


def test_the_bundled_network_can_be_told() -> None:
    street = load("street", engine=None)
    assert street.locality(2).mixing == ""
    assert street.locality(2).reach > 100
    assert "ReduceMean" in street.locality(3).mixing


def test_it_cannot_be_replayed() -> None:
    with pytest.raises(UsageError, match="can't be replayed"):
        needs(regions(0.1)(3))
