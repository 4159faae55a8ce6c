"""What frames cost: counting the calls of every part gives exactly what records and prices give."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import networks
from clockseg import (
    Schedule,
    Session,
    UsageError,
    adaptive,
    alternating,
    fixed_rate,
    load,
    pipelined,
    run,
    skip_frame,
)
from clockseg.carry import Carry
from clockseg.clocks import ALWAYS
from clockseg.clockwork.network import Group, Stage, StagedNetwork
from clockseg.evaluation.cost import FINISH, Meter, Prices, priced
from clockseg.evaluation.evaluate import Interleaving
from clockseg.execution.recording import record, replay
from clockseg.showing.stream import stream
from clockseg.video.clip import Frame

STAGES, GROUPS = "abcd", "uvwxyz"


class Drift:
    """A carry that moves what is held wherever the picture is another than the one before, and then only."""

    estimates_motion = True
    of = "held"
    reads_vectors = False

    def see(self, prepare: Any, image: Any, vectors: Any) -> Any:
        return image

    def observe(self, before: Any, image: Any) -> int | None:
        return int(image - before) or None

    def compose(self, first: int | None, then: int | None) -> int | None:
        return (first or 0) + (then or 0) or None

    def move(self, value: Any, motion: int | None) -> Any:
        return value if motion is None else value + motion


def sums(*values: Any) -> Any:
    return sum(values)


@st.composite
def fused_networks(draw: Any) -> StagedNetwork:
    """Stages on numbers and groups of any earlier names, as long as each is read by something or is the last."""
    stages = STAGES[: draw(st.integers(1, 4))]
    known, groups = list(stages), []
    for name in GROUPS[: draw(st.integers(0, 4))]:
        reads = draw(st.lists(st.sampled_from(known), min_size=1, max_size=3, unique=True))
        groups.append(Group(name, tuple(reads), sums))
        known.append(name)
    return StagedNetwork("fused", tuple(Stage(name, lambda x: x + 1, scores=None) for name in stages), tuple(groups))


@st.composite
def schedules(draw: Any, stages: int, carry: Carry | None = None) -> Schedule:
    fires = [draw(st.lists(st.booleans(), min_size=1, max_size=5)) for _ in range(stages)]
    clocks = tuple((lambda tick, bits=bits: bits[tick.t % len(bits)]) for bits in fires)
    delays = (0, *(draw(st.integers(0, 1)) for _ in range(stages - 1)))
    how = {} if carry is None else {"carry": carry}
    return Schedule(clocks, delays, nested=draw(st.booleans()), **how)


def some_prices(net: StagedNetwork) -> tuple[Prices, dict[str, int]]:
    """A price of its own for each part, and the same by the name of its function."""
    names = [*(stage.name for stage in net.stages), *(group.name for group in net.groups), FINISH]
    amounts = {name: 10**place for place, name in enumerate(names)}
    reads = {group.name: group.reads for group in net.groups}
    by_function = {f"{stage.name}.body": amounts[stage.name] for stage in net.stages} | amounts
    return Prices(amounts, net.names, reads), by_function


def counting_engine(net: StagedNetwork) -> tuple[StagedNetwork, collections.Counter[str]]:
    calls: collections.Counter[str] = collections.Counter()

    def counted(name: str, part: Any) -> Any:
        def call(*values: Any) -> Any:
            calls[name] += 1
            return part(*values)

        return call

    return net.map(counted), calls


@given(st.data())
def test_priced_records_are_what_counting_the_calls_gives(data: Any) -> None:
    net = data.draw(fused_networks())
    schedule = data.draw(schedules(len(net), data.draw(st.sampled_from([None, Drift()]))))
    images = data.draw(st.lists(st.integers(0, 2).map(np.array), min_size=1, max_size=12))
    prices, amounts = some_prices(net)
    counting, calls = counting_engine(net)
    records = [record for _, record in run(counting, images, schedule)]
    wanted = sum(amounts.get(name, 0) * number for name, number in calls.items())
    assert sum(map(prices.frame, records)) == wanted


@given(st.data())
def test_replayed_records_cost_what_running_costs(data: Any) -> None:
    net = data.draw(fused_networks())
    periods = data.draw(st.sampled_from([(1, 1, 1, 1), (1, 2, 4, 4), (2, 2, 2, 6), (3, 3, 3, 3)]))
    named = data.draw(st.sampled_from([alternating, skip_frame(3), pipelined(1), "periods"]))
    schedule = fixed_rate(periods[: len(net)]) if named == "periods" else named
    images = [np.array(number) for number in range(data.draw(st.integers(1, 9)))]
    prices, amounts = some_prices(net)
    counting, calls = counting_engine(net)
    for _ in run(counting, images, schedule):
        pass
    wanted = sum(amounts.get(name, 0) * number for name, number in calls.items())
    assert sum(map(prices.frame, replay(record(net, images), schedule))) == wanted


def test_what_a_carry_moves_is_fused_again() -> None:
    net = StagedNetwork(
        "two", (Stage("a", lambda x: x, scores=None), Stage("b", lambda x: x, scores=None)), (Group("u", ("b",), sums),)
    )
    prices = Prices({"a": 1, "b": 10, "u": 100, FINISH: 1000}, ("a", "b"), {"u": ("b",)})
    schedule = Schedule((ALWAYS, lambda tick: False), carry=Drift())
    records = [one for _, one in run(net, map(np.array, (0, 0, 5, 5)), schedule)]
    # Where a carry estimates motion, held values are moved and fused anew, however small the motion.
    assert [one.held_moved for one in records] == [(False, False), (False, True), (False, True), (False, True)]
    assert [prices.ran(one) for one in records[1:]] == [("a", "u", "finish")] * 3


def test_a_delayed_stage_is_priced_when_it_fires() -> None:
    net = StagedNetwork("two", tuple(Stage(name, lambda x: x, scores=None) for name in "ab"))
    prices = Prices({"a": 1, "b": 10, FINISH: 100}, ("a", "b"))
    total = sum(prices.frame(record) for _, record in run(net, map(np.array, range(4)), pipelined(2)))
    assert total == 4 * 111


def test_parts_of_a_network_add_up_to_the_whole(tmp_path: Any) -> None:
    net = load(networks.write_tiny(tmp_path), engine=None)
    prices = priced(net)
    assert prices.size == (48, 32)
    assert list(prices.stages) == ["low", "mid", "deep"]
    assert prices.reads == {group.name: group.reads for group in net.groups}
    assert prices.whole is not None
    assert prices.full == prices.whole
    assert priced(net, (96, 64)).full == 4 * prices.full


def test_compiled_networks_are_priced_alike(tmp_path: Any) -> None:
    path = networks.write_tiny(tmp_path)
    net = load(path, engine="onnxruntime", threads=1)
    assert priced(net) == priced(load(path, engine=None))


def test_a_meter_prices_frames_of_any_size(tmp_path: Any) -> None:
    net = load(networks.write_tiny(tmp_path), engine="onnxruntime", threads=1, size="own")
    meter, session = Meter(net), Session(net, adaptive(0.9))
    small, large = (np.zeros((32 * side, 48 * side, 3), np.uint8) for side in (1, 2))
    found = []
    for image in (small, small, large):
        session(image)
        prices = meter.prices(image)
        assert prices is not None
        found.append(prices.frame(session.record))
    every, first, filled = found
    assert every == priced(net, (48, 32)).full
    assert first < every
    assert filled == 4 * every


def test_functions_have_no_price() -> None:
    net = StagedNetwork("two", (Stage("a", str.upper), Stage("b", str.lower)))
    assert Meter(net).prices("x") is None
    with pytest.raises(UsageError, match=r"'a.body' isn't a graph"):
        priced(net, (4, 4))
    with pytest.raises(UsageError, match="doesn't say at which size"):
        priced(net)


def test_prices_of_another_network_are_refused() -> None:
    net = StagedNetwork("one", (Stage("a", str.upper),))
    [(_, one)] = run(net, "x", skip_frame(2))
    with pytest.raises(UsageError, match="a record of 1 stages, and prices of 2"):
        Prices({"a": 0, "b": 0, FINISH: 0}, ("a", "b")).frame(one)


def test_runs_side_by_side_are_priced_against_the_uncut_network(tmp_path: Any) -> None:
    net = load(networks.write_tiny(tmp_path), engine="onnxruntime", threads=1)
    runs = Interleaving(net, [stream(net, skip_frame(2)), stream(net, alternating)])
    images = (np.random.default_rng(seed).integers(0, 256, (32, 48, 3), dtype=np.uint8) for seed in range(5))
    assert len(list(runs(Frame(index, image) for index, image in enumerate(images)))) == 5
    uncut, skipped, alternated = (lane.multiply_adds for lane in runs.lanes)
    assert uncut == 4 * priced(net).full
    assert skipped / uncut == 0.5
    last = priced(net).parts["deep"]
    assert alternated / uncut == pytest.approx(1 - last / 2 / priced(net).full)


def test_a_moved_output_costs_nothing() -> None:
    net = load("street", engine="onnxruntime", size=(64, 64))
    prices = priced(net)
    [(_, first), (_, held)] = run(net, [np.zeros((64, 64, 3), np.uint8)] * 2, skip_frame(2))
    assert prices.ran(first)[-1] == FINISH
    assert prices.ran(held._replace(propagated="output")) == ()
    assert prices.frame(held._replace(propagated="output")) == 0
    stage = held._replace(propagated="output", fired=(True, False, False))
    assert prices.ran(stage) == (prices.stages[0],)


@pytest.mark.parametrize("damaged", ["{", '{"0": 1}', "[]"])
def test_counts_are_kept_by_the_networks_files(tmp_path, monkeypatch, damaged):
    monkeypatch.setenv("CLOCKSEG_CACHE", str(tmp_path))
    net, kept = load("street", engine=None), tmp_path / "multiply-adds.json"
    counted = priced(net, (64, 64))
    assert not kept.exists()
    assert priced(net, (64, 64), setting="a") == priced(net, (64, 64), setting="a") == counted
    # What is on disk is taken as it is, under its own key only.
    told = kept.read_text()
    kept.write_text(told.replace(str(counted.parts["stride8"]), "7"))
    assert priced(net, (64, 64), setting="a").parts["stride8"] == 7
    assert priced(net, (64, 64), setting="b") == counted
    kept.write_text(damaged)
    assert priced(net, (64, 64), setting="a") == counted
