"""Fused parts: calls of one batch run as one model, and only the time differs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import networks
from clockseg import (
    Session,
    UsageError,
    adaptive,
    alternating,
    at_least_every,
    difference,
    either,
    exponential,
    fill,
    fixed_rate,
    frame_oracle,
    pipelined,
    run,
    skip_frame,
    step,
)
from clockseg.carry import Flow, Warp
from clockseg.clocks import ALWAYS, Every
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Schedule, schedule_for
from clockseg.engines import onnxruntime, openvino, timed
from clockseg.engines.compiled import CompiledPart, compiled
from clockseg.execution import fused
from clockseg.execution.liveness import depths, liveness
from clockseg.execution.recording import record, replay
from clockseg.networks.load import load

ENGINES = {"openvino": openvino, "onnxruntime": onnxruntime}
SCHEDULES = {
    "frame_oracle": frame_oracle,
    "skip_frame(2)": skip_frame(2),
    "alternating": alternating,
    "exponential": exponential,
    "fixed_rate((1, 2, 2))": fixed_rate((1, 2, 2)),
    "adaptive(0)": adaptive(0),
    "adaptive(0.2)": adaptive(0.2),
    "adaptive(0.05, 0.2)": adaptive(0.05, 0.2),
    "either": either(adaptive(0.3), at_least_every(3)),
    "pixels": difference(0.05, of="pixels"),
    "features": difference(0.3, of="features"),
    "plain": Schedule((ALWAYS, lambda tick: tick.t % 2 == 0, ALWAYS)),
    "cap": Schedule((ALWAYS, ALWAYS, at_least_every(3))),
    "pipelined(2)": pipelined(2),
    "pipelined(3)": pipelined(3),
    "not nested": fixed_rate((1, 2, 3), nested=False),
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What engines keep on disk goes to the tests' own folder."""
    monkeypatch.setenv("CLOCKSEG_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], StagedNetwork]:
    """The tiny network in each engine, compiled once."""
    path = networks.write_tiny(tmp_path_factory.mktemp("joined"))
    return cache(lambda engine: load(path, engine=engine))


@pytest.fixture
def plain(tmp_path: Path) -> StagedNetwork:
    """The tiny network as graphs."""
    return load(networks.write_tiny(tmp_path), engine=None)


def frames(count: int, seed: int = 1) -> list[np.ndarray]:
    """Noise that drifts, a little more on every other frame."""
    random = np.random.default_rng(seed)
    picture = random.integers(0, 256, (32, 48, 3), dtype=np.uint8)
    found = []
    for index in range(count):
        changed = random.random(picture.shape) < (0.02, 0.3)[index % 2]
        picture = np.where(changed, random.integers(0, 256, picture.shape), picture).astype(np.uint8)
        found.append(picture)
    return found


def apart(net: StagedNetwork) -> StagedNetwork:
    return replace(net, executor=None)


def told(net: StagedNetwork, images: list[np.ndarray], schedule: Any) -> list[Any]:
    """Outputs and records, all but the seconds."""
    return [(output.tobytes(), one._replace(seconds=None)) for output, one in run(net, images, schedule)]


def verdicts(net: StagedNetwork) -> list[Any]:
    """The joints that run, of all sessions of a network so far."""
    found = (verdict.part for one in net.executor.joints.values() for verdict in one.verdicts.values())
    return [part for part in found if part is not None]


def unfused() -> ort.SessionOptions:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    return options


@dataclass
class Counting:
    """An engine that counts its models' runs and compilations, and fuses nothing.

    ``wrong`` says of which models the first output is off by a bit.
    """

    wrong: Callable[[onnx.ModelProto], bool] = lambda model: False
    options: ort.SessionOptions = field(default_factory=unfused)
    runs: int = 0
    compiled: int = 0
    names: list[str] = field(default_factory=list)

    def __call__(self, net: StagedNetwork) -> StagedNetwork:
        def compile(built: Any) -> Any:
            session = ort.InferenceSession(built.model, self.options, providers=["CPUExecutionProvider"])
            model = onnx.load_from_string(built.model)
            off = self.wrong(model)
            self.compiled += 1

            def runner(inputs: Any) -> list[np.ndarray]:
                self.runs += 1
                self.names.append(model.graph.name)
                found = session.run(
                    built.outputs, dict(zip(built.inputs, map(np.ascontiguousarray, inputs), strict=True))
                )
                if off:
                    found[0].reshape(-1).view(np.uint8)[0] ^= 1
                return found

            return runner

        return compiled(net, compile, "counting")

    def of(self, session: Session, image: np.ndarray) -> int:
        """Models run for one frame."""
        before = self.runs
        session(image)
        return self.runs - before


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_joined_is_apart_bit_for_bit(made: Any, engine: str, schedule: Any) -> None:
    net, images = made(engine), frames(9)
    assert told(net, images, schedule) == told(apart(net), images, schedule)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", networks.NETWORKS)
def test_every_kind_of_network(tmp_path: Path, engine: str, name: str) -> None:
    """Without groups, with a finish of its own, with cuts of two tensors, with an output that is no label map."""
    model, sidecar = networks.NETWORKS[name]
    net = load(networks.write_network(tmp_path, model(), sidecar), engine=engine)
    for schedule in (frame_oracle, alternating, exponential, difference(0.2, of="features")):
        assert told(net, frames(5), schedule) == told(apart(net), frames(5), schedule)
    assert verdicts(net)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("nested", [True, False])
def test_held_stages_are_warped_whichever_stages_fire(tmp_path: Path, engine: str, skip: bool, nested: bool) -> None:
    """Where stage 1 fires alone, nothing that it computes is read, and the model of what runs reads no frame."""
    path = networks.write_network(tmp_path, networks.three_levels(skip=skip), networks.THREE_LEVELS)
    net = load(path, engine=engine)
    found = list(product((True, False), repeat=3))
    fires = [(True, True, True), *found, *found[::-1]]
    clocks = tuple(lambda tick, stage=stage: fires[tick.t][stage] for stage in range(3))
    schedule = Schedule(clocks, nested=nested, carry=Warp(Flow()))
    images = frames(len(fires))
    joined = told(net, images, schedule)
    assert joined == told(apart(net), images, schedule)
    assert len({one.fired for _, one in joined}) == (4 if nested else 8)
    assert bool(verdicts(net)) == nested


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tiny", "unet", "branches"])
def test_in_bf16_too(tmp_path: Path, name: str) -> None:
    model, sidecar = networks.NETWORKS[name]
    net = load(networks.write_network(tmp_path, model(), sidecar), engine="openvino", precision="bf16")
    for schedule in (frame_oracle, alternating, pipelined(2), difference(0.3, of="features")):
        assert told(net, frames(5), schedule) == told(apart(net), frames(5), schedule)
    assert np.asarray(net(frames(1)[0])).dtype in (np.uint8, np.float32)


def test_bf16_maps_that_may_only_be_read(plain: StagedNetwork) -> None:
    """Wherever they come from: OpenVINO shares no such memory."""
    net = openvino(plain, precision="bf16")
    trunk = net.stages[0].body(net.prepare(frames(1)[0]))
    wanted = net.stages[1].body(trunk)["scores_2"]
    fixed = {name: array.copy() for name, array in trunk.items()}
    for array in fixed.values():
        array.flags.writeable = False
    assert np.array_equal(net.stages[1].body(fixed)["scores_2"], wanted)
    wide = {name: array.astype(np.float32) if name == "low" else array for name, array in trunk.items()}
    assert np.array_equal(net.stages[1].body(wide)["scores_2"], wanted)


@pytest.mark.parametrize(
    ("schedule", "runs"),
    [
        (frame_oracle, {1}),
        (skip_frame(2), {0, 1}),
        (alternating, {1}),
        (exponential, {1}),
        (Schedule((ALWAYS, ALWAYS, at_least_every(2))), {1}),
        (adaptive(0), {2}),  # the first two stages; the last, once its clock has seen the second's map, with the groups
        (adaptive(2.0), {2}),
        (difference(3.0, of="pixels"), {0}),
        (difference(0.0, of="pixels"), {1}),
        (pipelined(2), {5}),  # every part by itself
    ],
)
def test_how_many_models_run_for_a_frame(plain: StagedNetwork, schedule: Any, runs: set[int]) -> None:
    engine = Counting()
    session = Session(engine(plain), schedule)
    session(frames(1)[0])
    assert {engine.of(session, image) for image in frames(6)[1:]} == runs


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_after_the_first_frame_nothing_is_compiled(plain: StagedNetwork, schedule: Any) -> None:
    engine = Counting()
    session = Session(engine(plain), schedule)
    images = frames(9)
    session(images[0])
    known = engine.compiled
    for image in images[1:]:
        session(image)
    if session.schedule.nested:
        assert engine.compiled == known
    runs = engine.runs
    again = Session(session.net, schedule)
    again(images[0])
    assert engine.runs - runs <= 3 + 2, "what is compiled isn't tried again"


def test_every_stage_and_nothing_to_keep_is_the_uncut_network_itself(plain: StagedNetwork) -> None:
    engine = Counting()
    net = engine(plain)
    session = Session(net, frame_oracle)
    for image in frames(3):
        session(image)
    assert verdicts(net) == [net.whole]
    assert engine.names[-1] == "whole"


def test_other_bits_run_apart(plain: StagedNetwork) -> None:
    engine = Counting(wrong=lambda model: "&" in model.graph.name or model.graph.name == "whole")
    net = engine(plain)
    for schedule in (alternating, adaptive(0.2)):
        assert told(net, frames(6), schedule) == told(apart(net), frames(6), schedule)
    session = Session(net, frame_oracle)
    session(frames(1)[0])
    assert engine.of(session, frames(2)[1]) == 5
    assert not verdicts(net)


def test_stages_and_groups_as_two_where_fusing_across_gives_other_bits(plain: StagedNetwork) -> None:
    engine = Counting(wrong=lambda model: model.graph.name == "whole" or "deep & mid+deep" in model.graph.name)
    session = Session(engine(plain), frame_oracle)
    session(frames(1)[0])
    assert engine.of(session, frames(2)[1]) == 2
    assert engine.names[-2:] == ["low & mid & deep", "mid+deep & low+mid+deep"]
    assert told(session.net, frames(4), frame_oracle) == told(apart(session.net), frames(4), frame_oracle)


def test_labels_that_agree_by_chance_are_not_enough(plain: StagedNetwork) -> None:
    """The uncut network's labels are right here; what tells is that its witness has other scores."""
    engine = Counting(wrong=lambda model: len(model.graph.output) == 2 and "deep & mid+deep" in model.graph.name)
    session = Session(engine(plain), frame_oracle)
    session(frames(1)[0])
    assert engine.of(session, frames(2)[1]) == 1
    assert engine.names[-1] != "whole"


def test_other_bits_of_a_joint_that_leaves_tensors_out(plain: StagedNetwork) -> None:
    """As in bf16: where what is held is given, nothing is fused across it."""
    engine = Counting(wrong=lambda model: model.graph.name == "whole")
    session = Session(engine(plain), frame_oracle)
    session(frames(1)[0])
    assert engine.of(session, frames(2)[1]) == 1
    assert engine.names[-1] == "low & mid & deep & mid+deep & low+mid+deep"
    assert [sorted(one.held.value)[1:] for one in session.memory.stages] == [["scores_1"], ["scores_2"], ["scores_3"]]


def test_large_networks_run_apart(plain: StagedNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "BYTES", 100)
    engine = Counting()
    session = Session(engine(plain), alternating)
    session(frames(1)[0])
    assert engine.of(session, frames(2)[1]) == 4
    assert engine.of(Session(session.net, frame_oracle), frames(1)[0]) > 0
    oracle = Session(session.net, frame_oracle)
    oracle(frames(1)[0])
    assert engine.of(oracle, frames(2)[1]) == 1, "the uncut network is there anyway"


def test_a_step_keeps_everything_whatever_the_next_schedule_is(made: Any) -> None:
    net = made("onnxruntime")
    plain = apart(net)
    order = [frame_oracle(3), exponential(3), skip_frame(2)(3), alternating(3), pipelined(3)(3)]
    _, memory = fill(net, order[0], frames(1)[0])
    _, other = fill(plain, order[0], frames(1)[0])
    for schedule, image in zip(order, frames(6)[1:], strict=True):
        _, memory = step(net, schedule, memory, image)
        _, other = step(plain, schedule, other, image)
        for mine, theirs in zip(memory.stages, other.stages, strict=True):
            for value, wanted in ((mine.trunk.value, theirs.trunk.value), (mine.held.value, theirs.held.value)):
                assert value.keys() == wanted.keys()
                assert all(np.array_equal(value[name], wanted[name]) for name in wanted)
        assert memory.values.keys() == other.values.keys()


def test_a_session_keeps_what_is_read_again(made: Any) -> None:
    session = Session(made("openvino"), alternating)
    for image in frames(3):
        session(image)
    kept = [sorted(name for name in one.held.value if name != "frame size") for one in session.memory.stages]
    assert kept == [[], [], ["scores_3"]]


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (frame_oracle, {}),
        (skip_frame(3), {}),
        (alternating, {"deep.head": {"mid+deep"}}),
        (exponential, {"deep.head": {"mid+deep"}, "mid+deep": {"low+mid+deep"}}),
        (adaptive(2.0), "mid.head"),
    ],
)
def test_what_a_schedule_reads_again(plain: StagedNetwork, schedule: Any, expected: Any) -> None:
    found = liveness(plain, schedule_for(schedule, 3))
    wanted = {name: readers for name, readers in found.items() if "restore" not in readers}
    assert expected in wanted if isinstance(expected, str) else wanted == expected


@pytest.mark.parametrize(
    ("schedule", "last"),
    [
        (Schedule((Every(2), Every(2), Every(4))), [3, 2, 0]),
        (schedule_for(adaptive(0.1), 3), [3, 2]),
        (frame_oracle(4), [4]),
        (skip_frame(2)(2), [2, 0]),
    ],
)
def test_how_many_stages_may_fire_on_a_frame(schedule: Schedule, last: list[int]) -> None:
    assert list(depths(schedule)) == last


def test_a_clock_that_looks_at_nothing_is_asked_once_and_in_order(made: Any) -> None:
    asked: list[int] = []

    class Telling(Every):
        def __call__(self, tick: Any, state: Any) -> Any:
            asked.append(tick.stage)
            return super().__call__(tick, state)

    session = Session(made("onnxruntime"), Schedule((ALWAYS, Telling(2), Telling(4))))
    session(frames(1)[0])
    asked.clear()
    for image in frames(5)[1:]:
        session(image)
    assert asked == [2, 2, 3, 2, 2, 3]


def test_other_parts_are_run_as_they_are(made: Any) -> None:
    """What runs parts as one stands for those parts alone: not for one put in the place of another, nor for timed ones."""
    net = made("onnxruntime")
    seen: list[str] = []

    def spied(value: Any) -> Any:
        seen.append("mid")
        return net.stages[1].body(value)

    other = replace(net, stages=(net.stages[0], replace(net.stages[1], body=spied), net.stages[2]))
    assert told(other, frames(3), frame_oracle) == told(net, frames(3), frame_oracle)
    assert len(seen) == 3
    wrapped, times = timed(net)
    told(wrapped, frames(3), frame_oracle)
    assert times.calls["deep.body"] == 3
    assert net.uncut().executor is None


def test_seconds_are_shared_out(made: Any) -> None:
    net = made("onnxruntime")
    for (_, one), fired in zip(run(net, frames(5), alternating), (3, 2, 3, 2, 3), strict=True):
        assert [seconds > 0 for seconds in one.seconds.stages] == [True] * fired + [False] * (3 - fired)
        assert one.seconds.fuse > 0
    [(_, first), (_, second), *_] = run(net, frames(3), frame_oracle)
    assert all(one.seconds.network < 5 for one in (first, second))


def test_recordings_decide_as_sessions_do(made: Any) -> None:
    net, images = made("openvino"), frames(8)
    recording = record(net, images)
    for threshold in (0.02, 0.1, 0.3):
        session = Session(net, adaptive(threshold))
        for image, replayed in zip(images, replay(recording, adaptive(threshold)), strict=True):
            session(image)
            assert (session.record.fired, session.record.signal) == (replayed.fired, replayed.signal)


def test_two_working_sizes(made: Any) -> None:
    net = made("onnxruntime")
    small = [image[:16] for image in frames(3)]
    for images in (frames(3), small, frames(3)):
        assert told(net, images, alternating) == told(apart(net), images, alternating)


@pytest.mark.parametrize("engine", ENGINES)
def test_threads_that_come_at_once(plain: StagedNetwork, engine: str) -> None:
    net, images = ENGINES[engine](plain), frames(4)
    found: dict[int, Any] = {}
    workers = [
        threading.Thread(target=lambda n=number: found.update({n: told(net, images, alternating)}))
        for number in range(3)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert list(found.values()) == [told(apart(net), images, alternating)] * 3


def test_a_part_that_only_passes_a_tensor_on(tmp_path: Path) -> None:
    sidecar = replace(networks.TINY, cuts=(("low",), ("mid", "low"), ("deep", "low")))
    for engine in ENGINES:
        net = load(networks.write_network(tmp_path, networks.tiny(), sidecar), engine=engine)
        image = frames(1)[0]
        assert np.array_equal(net(image), net.uncut()(image))
        assert told(net, frames(4), alternating) == told(apart(net), frames(4), alternating)


def test_the_graph_itself_runs_nothing(plain: StagedNetwork) -> None:
    with pytest.raises(UsageError, match="not compiled"):
        Session(plain, frame_oracle)
    assert isinstance(onnxruntime(plain).stages[0].body, CompiledPart)


clocks = st.one_of(
    st.integers(1, 3).map(Every),
    st.integers(1, 3).map(at_least_every),
    st.floats(0, 0.6).map(lambda threshold: adaptive(threshold)),
)


@given(st.tuples(st.integers(1, 2).map(Every), clocks, clocks), st.lists(st.integers(0, 1), min_size=2, max_size=2))
@example((Every(2), Every(1), Every(1)), [1, 0])  # a plan failed when some of its calls had run
def test_any_schedule(made: Any, chosen: Any, delays: list[int]) -> None:
    net = made("onnxruntime")
    every = [clock for clock in chosen if isinstance(clock, Every)]
    nested = not any(b.period % a.period for a, b in pairwise(every))
    schedule = Schedule(chosen, delays=(0, *delays), nested=nested)
    assert told(net, frames(5), schedule) == told(apart(net), frames(5), schedule)


def test_verdicts_are_kept_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the next start nothing is tried again, and the parts that are never run alone aren't compiled."""
    monkeypatch.setenv("CLOCKSEG_CACHE", str(tmp_path / "cache"))
    path, images = networks.write_tiny(tmp_path), frames(4)
    first = told(load(path, engine="openvino"), images, alternating)
    net = load(path, engine="openvino")
    assert told(net, images, alternating) == first
    assert not any(stage.body.runners for stage in net.stages)
    assert len(verdicts(net)) == 2
    (tmp_path / "cache" / "fused.json").write_text("{", encoding="utf-8")
    net = load(path, engine="openvino")
    assert told(net, images, alternating) == first
    assert all(stage.body.runners for stage in net.stages), "a damaged file is as none"
