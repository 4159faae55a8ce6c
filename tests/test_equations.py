"""The paper's equations (1) and (2): the values of its networks, and the session as one of them."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs torch")

import doctest
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

import clockseg
import symbolic
from clockseg import Group, Stage, StagedNetwork, UsageError
from clockseg.carry import Identity
from clockseg.paper.equations import (
    Equations,
    carried,
    cascade,
    clock_fcn,
    clock_rn,
    firings,
    fixed_rate,
    module,
    modules,
    pipeline,
    relu,
    srn,
    unroll,
)
from toy_networks import toy

DOCS = Path(__file__).resolve().parents[1] / "docs"
W_H, W_I = [[0.5, 0.5], [0.0, 0.5]], [[1.0], [1.0]]


def rounded(values) -> list[list[float]]:
    return [[round(float(v), 6) for v in value] for value in values]


# Recurrent networks.
def test_clock_rn_held_and_as_printed() -> None:
    held, literal = (
        [y_H for y_H, _ in unroll(clock_rn(W_I, W_H, held=held), [1, 1, 1], np.zeros(2))] for held in (True, False)
    )
    assert rounded(held) == [[0.761594, 0.761594], [0.942681, 0.761594], [0.951947, 0.88113]]
    assert rounded(literal) == [[0.761594, 0.761594], [0.942681, 0.0], [0.899833, 0.761594]]


def test_a_clock_rns_module_that_is_off_outputs_zero() -> None:
    outputs = [y_O for _, y_O in unroll(clock_rn(W_I, W_H), [1, 1], np.zeros(2))]
    assert rounded(outputs[1:]) == [[0.692184, 0.0]]


@pytest.mark.parametrize("held", [True, False])
def test_all_periods_one_is_the_srn(held) -> None:
    rng = np.random.default_rng(0)
    full, W, xs = rng.normal(size=(4, 4)), rng.normal(size=(4, 3)), rng.normal(size=(6, 3))
    clocked = unroll(clock_rn(W, full, periods=(1, 1, 1, 1), held=held), xs)
    for (y_H, y_O), (srn_H, srn_O) in zip(clocked, unroll(srn(W, full), xs), strict=True):
        np.testing.assert_array_equal(y_H, srn_H)
        np.testing.assert_array_equal(y_O, srn_O)


def test_the_srns_state_is_torchs_rnn() -> None:
    rnn = torch.nn.RNN(3, 5, nonlinearity="tanh", bias=False).double()
    xs = torch.randn(7, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    weights = [w.detach().numpy() for w in (rnn.weight_ih_l0, rnn.weight_hh_l0)]
    states = np.array([y_H for y_H, _ in unroll(srn(*weights), xs.numpy())])
    np.testing.assert_allclose(states, rnn(xs)[0].detach().numpy(), rtol=0, atol=1e-14)


def test_the_srns_output_goes_through_w_h_again_or_through_w_o() -> None:
    rng = np.random.default_rng(1)
    W, H, W_O = rng.normal(size=(4, 3)), rng.normal(size=(4, 4)), rng.normal(size=(2, 4))
    [(y_H, literal)] = unroll(srn(W, H), [np.ones(3)])
    [(same_H, mapped)] = unroll(srn(W, H, W_O=W_O), [np.ones(3)])
    np.testing.assert_array_equal(y_H, same_H)
    np.testing.assert_array_equal(literal, np.tanh(H @ y_H))
    np.testing.assert_array_equal(mapped, np.tanh(W_O @ y_H))


def test_a_clock_rn_of_blocks() -> None:
    """Three modules of two units, periods 1, 2, 4: a module is on as a whole, and reads itself and slower ones."""
    rng = np.random.default_rng(2)
    H = np.triu(np.ones((3, 3)))[:, :, None, None] * rng.normal(size=(3, 3, 2, 2))
    H = H.transpose(0, 2, 1, 3).reshape(6, 6)
    states = np.array([y_H for y_H, _ in unroll(clock_rn(np.ones((6, 1)), H, size=2), [1] * 5)])
    moved = np.any(np.diff(states, axis=0) != 0, axis=0).reshape(3, 2)
    assert moved.tolist() == [[True, True]] * 3
    changes = (np.diff(states, axis=0) != 0).reshape(4, 3, 2).all(axis=2)
    assert changes.tolist() == [[True, False, False], [True, True, False], [True, False, False], [True, True, True]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: clock_rn(np.ones((4, 1)), np.ones((4, 4)), size=2), r"W_H\[2, 0\] = 1.0 lets module 2 \(period 2\)"),
        (lambda: clock_rn(W_I, W_H, periods=(2, 1)), "fast to slow"),
        (lambda: clock_rn(W_I, W_H, periods=(0, 1)), "at least 1"),
        (lambda: clock_rn(W_I, W_H, periods=(1,)), "periods .1,. for 2 modules"),
        (lambda: clock_rn(W_I, W_H, size=3), "2 units in modules of 3"),
        (lambda: clock_rn(W_I, [[1.0, 2.0]]), r"W_H \[n, n\]"),
        (lambda: clock_rn([1.0, 1.0], W_H), "W_I has shape"),
        (lambda: srn(1.0, 1.0), r"W_H \[n, n\]"),
        (lambda: srn([[1.0]], W_H), r"W_H \[n, n\]"),
        (lambda: next(unroll(srn(W_I, W_H), [np.ones(3)])), r"times a value of shape \(3,\)"),
        (lambda: next(unroll(clock_fcn([abs], fixed_rate(1, 2)), [1])), "2 values for 1 stages at t = 0"),
        (lambda: next(cascade([abs, abs], fixed_rate(1), [1])), "1 values for 2 stages at t = 0"),
        (lambda: pipeline([abs, abs], (1, 0)), "0 for the first"),
    ],
)
def test_what_does_not_fit_is_refused(make, message) -> None:
    with pytest.raises(UsageError, match=message):
        make()


# The session: bodies are (1); heads, groups and finish come after (2).
def numeric() -> StagedNetwork:
    """Three stages of different shapes and values of at least 0; the last pools."""

    def pool(h):
        return h.reshape(h.shape[0], h.shape[1] // 2, 2).max(axis=2)

    def scores(h):
        return np.stack([h - 9, 5 - h, h % 3])[None]

    stages = (
        Stage("s1", lambda x: np.float32(x) * 2 + 1, scores),
        Stage("s2", lambda h: pool(h) * np.float32(0.5), lambda h: scores(np.repeat(h, 2, axis=1))),
        Stage("s3", lambda h: h % np.float32(7), lambda h: scores(np.repeat(h, 2, axis=1))),
    )
    fuse = Group("fuse", ("s1", "s2", "s3"), lambda *held: sum(held))
    return StagedNetwork("numeric", stages, (fuse,), lambda value: value[0].argmax(axis=0).astype(np.uint8))


def clip(frames: int = 9, *, seed: int = 0, shape: tuple[int, ...] = (4, 6)) -> list[np.ndarray]:
    """Noise that drifts, so that adaptive clocks fire at some frames."""
    rng = np.random.default_rng(seed)
    pictures = [rng.integers(0, 40, shape).astype(np.uint8)]
    for _ in range(frames - 1):
        changed = rng.random(shape) < 0.2
        pictures.append(np.where(changed, rng.integers(0, 40, shape), pictures[-1]).astype(np.uint8))
    return pictures


def fused(net: StagedNetwork, features) -> np.ndarray:
    """What comes after (2): heads, groups and finish, of the features of each stage."""
    values = {stage.name: stage.head(h) for stage, h in zip(net.stages, features, strict=True)}
    for group in net.groups:
        values[group.name] = group.function(*(values[name] for name in group.reads))
    return net.finish(values[net.last])


def session(net: StagedNetwork, images, schedule) -> tuple[list[np.ndarray], list]:
    outputs, records = zip(*clockseg.run(net, images, schedule), strict=True)
    return list(outputs), list(records)


def bodies(net: StagedNetwork) -> list:
    return [stage.body for stage in net.stages]


def prepared(net: StagedNetwork, images) -> list:
    return [net.prepare(image) for image in images]


nested = st.lists(st.integers(1, 3), min_size=3, max_size=3).map(lambda m: np.cumprod(m).tolist())
schedules = st.one_of(
    nested.map(clockseg.fixed_rate),
    st.floats(0, 1).map(clockseg.adaptive),
    st.tuples(st.floats(0, 1), st.floats(0, 1)).map(lambda t: clockseg.adaptive(*t)),
    st.floats(0, 0.5).map(lambda t: clockseg.difference(t, of="pixels")),
    st.sampled_from([clockseg.frame_oracle, clockseg.alternating, clockseg.exponential, clockseg.skip_frame(2)]),
)


@given(schedules, st.integers(0, 2**32 - 1))
def test_a_nested_session_is_the_clock_fcn(schedule, seed) -> None:
    """Bit for bit, as Table 2 has it (a function of x alone) and module by module."""
    net, images = numeric(), clip(seed=seed)
    outputs, records = session(net, images, schedule)
    clocks = firings(records)
    of_x = unroll(clock_fcn(bodies(net), clocks), prepared(net, images))
    by_module = cascade(bodies(net), clocks, prepared(net, images))
    for output, (y_H, y_O), h in zip(outputs, of_x, by_module, strict=True):
        np.testing.assert_array_equal(fused(net, y_O), output)
        for a, b, c in zip(y_H, h, y_O, strict=True):
            np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(a, c)


@pytest.mark.parametrize("threshold", [0.1, 0.25, 0.45])
def test_an_adaptive_session_on_pictures_is_the_clock_fcn(threshold) -> None:
    net, images = toy(), clip(12, shape=(16, 24, 3), seed=3)
    images = [image * 6 for image in images]
    outputs, records = session(net, images, clockseg.adaptive(threshold))
    assert 1 < sum(record.fired[2] for record in records) < 12
    wanted = unroll(clock_fcn(bodies(net), firings(records)), prepared(net, images))
    for output, (_, y_O) in zip(outputs, wanted, strict=True):
        np.testing.assert_array_equal(fused(net, y_O), output)


@pytest.mark.parametrize(("k", "delays"), [(1, (0, 0, 0)), (2, (0, 0, 1)), (3, (0, 1, 1))])
def test_a_pipelined_session_is_the_pipeline(k, delays) -> None:
    for net, images in ((numeric(), clip()), (toy(), clip(shape=(16, 24, 3)))):
        outputs, _ = session(net, images, clockseg.pipelined(k))
        for output, (_, y_O) in zip(outputs, unroll(pipeline(bodies(net), delays), prepared(net, images)), strict=True):
            np.testing.assert_array_equal(fused(net, y_O), output)


def test_a_segment_after_a_delay_may_have_several_stages() -> None:
    net, images, delays = numeric(), clip(), (0, 1, 0)
    schedule = clockseg.Schedule(clockseg.frame_oracle(3).clocks, delays)
    for output, (_, y_O) in zip(
        session(net, images, schedule)[0], unroll(pipeline(bodies(net), delays), images), strict=True
    ):
        np.testing.assert_array_equal(fused(net, y_O), output)


def test_read_as_printed_equation_2_would_run_a_pipelines_delayed_stages_again() -> None:
    net, images = numeric(), clip(3)
    network = pipeline(bodies(net), (0, 0, 1))
    [*_, (y_H, _)] = unroll(network, images)
    printed = network(2)._replace(f_R=None).y_O(y_H)
    np.testing.assert_array_equal(printed[2], net.stages[2].body(y_H[1]))
    assert not np.array_equal(printed[2], y_H[2])


# Nested or not, on strings: they have + and * by a bit, which is all that (1) needs, and "" for 0.
def reflected(states) -> str:
    return " ".join(symbolic.frames_of("+".join(h)) for h in states)


def test_as_a_function_of_x_alone_it_holds_only_when_nested() -> None:
    """Periods (1, 2, 3): at t = 3 stage 3 fires and stage 2 rests, on frame 2; a function of x alone knows only frame 3."""
    net, periods = symbolic.network(), (1, 2, 3)
    ran = [record.reflects for _, record in clockseg.run(net, "01234", clockseg.fixed_rate(periods, nested=False))]
    assert [int("".join(map(str, row))) for row in ran] == [0, 100, 220, 322, 442]
    by_module = reflected(cascade(bodies(net), fixed_rate(*periods), "01234", ""))
    assert by_module == "000 100 220 322 442"
    network, states, y = clock_fcn(bodies(net), fixed_rate(*periods)), [], modules("", "", "")
    for t, x in enumerate("01234"):
        y = network(t).y_H(x, y)
        states.append(y)
    assert reflected(states) == "000 100 220 323 443"


@given(nested)
def test_nested_firings_on_strings(periods) -> None:
    net = symbolic.network()
    ran = [record.reflects for _, record in clockseg.run(net, "012345678", clockseg.fixed_rate(periods))]
    wanted = " ".join("".join(map(str, row)) for row in ran)
    assert reflected(cascade(bodies(net), fixed_rate(*periods), "012345678", "")) == wanted


# ReLU, masks, skip-frame, carry.
def test_relu_changes_nothing_on_features_of_at_least_zero() -> None:
    """What (2) does in a clock FCN: bit for bit the features themselves, but not where they are below zero."""
    rng = np.random.default_rng(0)
    h = [np.maximum(rng.normal(size=shape), 0).astype(np.float32) for shape in ((2, 3), (4,), (1,))]
    shown = clock_fcn([abs] * 3, fixed_rate(1, 1, 1))(0).y_O(modules(*h))
    for before, after in zip(h, shown, strict=True):
        assert (before.tobytes(), before.dtype) == (after.tobytes(), after.dtype)
    assert module(abs, 1).y_O(np.array([-1.0, 2.0])).tolist() == [0.0, 2.0]


def test_relu_on_scores_changes_the_answer() -> None:
    net, [image] = toy(), clip(1, shape=(16, 24, 3))
    features = unroll(clock_fcn(bodies(net), fixed_rate(1, 1, 1)), [net.prepare(image * 6)])
    [(_, y_O)] = features
    rectified = replace(net, stages=tuple(replace(s, head=lambda h, head=s.head: relu(head(h))) for s in net.stages))
    assert np.any(fused(net, y_O) != fused(rectified, y_O))


def test_a_clock_may_be_a_mask_over_places() -> None:
    """One module, on at the left half: there f(x), at the right what was held; as bits all on or all off."""
    left = np.array([[True, True, False, False]] * 2)
    now, before = np.full((3, 2, 4), 5, np.float32), np.full((3, 2, 4), 1, np.float32)
    mixed = module(lambda x: x * 2, left).y_H(now, before)
    np.testing.assert_array_equal(mixed, np.broadcast_to(np.where(left, 10, 1), mixed.shape))
    assert mixed.dtype == np.float32
    for bit in (True, False):
        masked = module(lambda x: x * 2, np.full((2, 4), bit)).y_H(now, before)
        np.testing.assert_array_equal(masked, module(lambda x: x * 2, bit).y_H(now, before))
    [(y_H, _)] = unroll(clock_fcn([lambda x: x * 2] * 2, lambda t: (left, True)), [now], modules(before, before))
    np.testing.assert_array_equal(y_H[0], mixed)
    np.testing.assert_array_equal(y_H[1], now * 4)


def reused(outputs: Iterable[Any], clocks: Any) -> Iterator[Any]:
    """The outputs under C_O = any(C_l): while nothing fires, the last one is repeated; (2) as printed would give 0."""
    shown = None
    for t, output in enumerate(outputs):
        shown = output if any(np.any(c) for c in clocks(t)) else shown
        yield shown


def test_skip_frames_output_is_reused_exactly() -> None:
    net, images = numeric(), clip()
    outputs, records = session(net, images, clockseg.skip_frame(3))
    clocks = firings(records)
    network = clock_fcn(bodies(net), clocks)
    anew = [fused(net, y_O) for _, y_O in unroll(network, images)]
    for output, same_output, made in zip(outputs, reused(anew, clocks), anew, strict=True):
        np.testing.assert_array_equal(output, same_output)
        np.testing.assert_array_equal(output, made)
    shown = list(reused(anew, clocks))
    assert shown[1] is shown[0]
    assert shown[2] is shown[0]
    assert shown[3] is anew[3]


def test_c_o_as_printed_blanks_the_output() -> None:
    network = clock_fcn([abs], fixed_rate(2))
    blank = lambda t: network(t)._replace(C_O=any(fixed_rate(2)(t)))  # noqa: E731
    assert [y_O[0] for _, y_O in unroll(blank, [3, 4, 5])] == [3, 0, 5]


class Shift(Identity):
    """Motion is a number of columns to the right, told by the pictures' corner pixel."""

    estimates_motion = True

    def see(self, prepare, image, vectors):
        return image

    def observe(self, before, image):
        return int(image[0, 0])

    def compose(self, first, then):
        return (first or 0) + (then or 0)

    def move(self, value, motion):
        return np.roll(value, motion, axis=-1) if motion else value


def pointwise() -> StagedNetwork:
    """Stages and heads that work place by place, so that moving features and moving scores is the same."""
    stages = tuple(Stage(f"s{k}", lambda h, k=k: np.float32(h) * 2 + k) for k in (1, 2, 3))
    return StagedNetwork("pointwise", stages, (Group("fuse", ("s1", "s2", "s3"), lambda *held: sum(held)),))


def shifts(images) -> list[int]:
    return [int(image[0, 0]) for image in images]


def roll(images):
    return lambda t: partial(np.roll, shift=shifts(images)[t], axis=-1)


@given(nested, st.integers(0, 2**32 - 1))
def test_a_carry_is_f_h_in_1_only(periods, seed) -> None:
    net, images = pointwise(), clip(7, seed=seed)
    outputs, _ = session(net, images, replace(clockseg.fixed_rate(periods)(3), carry=Shift()))
    network = carried(clock_fcn(bodies(net), fixed_rate(*periods)), roll(images))
    for output, (_, y_O) in zip(outputs, unroll(network, images), strict=True):
        np.testing.assert_array_equal(fused(net, y_O), output)


@pytest.mark.parametrize("k", [2, 3])
def test_a_carry_moves_what_a_pipeline_computes_late(k) -> None:
    net, images = pointwise(), clip(7)
    schedule = replace(clockseg.pipelined(k)(3), carry=Shift())
    network = carried(pipeline(bodies(net), schedule.delays), roll(images))
    for output, (_, y_O) in zip(session(net, images, schedule)[0], unroll(network, images), strict=True):
        np.testing.assert_array_equal(fused(net, y_O), output)


def test_a_carry_in_2_would_move_this_frames_state_too() -> None:
    net, images = pointwise(), clip(4)
    network = carried(clock_fcn(bodies(net), fixed_rate(1, 1, 2)), roll(images))
    [*_, (y_H, y_O)] = unroll(network, images)
    as_printed = network(3)._replace(f_R=None).y_O(y_H)
    for h, right, wrong in zip(y_H, y_O, as_printed, strict=True):
        np.testing.assert_array_equal(right, h)
        np.testing.assert_array_equal(wrong, np.roll(h, shifts(images)[3], axis=-1))
    assert any(np.any(right != wrong) for right, wrong in zip(y_O, as_printed, strict=True))


# The seven arguments themselves.
@given(st.lists(st.integers(-9, 9), min_size=8, max_size=8))
def test_each_argument_stands_where_the_paper_has_it(numbers) -> None:
    a, b, c, d, C_I, C_H, C_O, x = numbers
    equations = Equations(
        f_I=lambda v: a * v,
        f_H=lambda v: b + v,
        f_O=lambda v: c - v,
        f_T=lambda v: v * d + 1,
        C_I=C_I,
        C_H=C_H,
        C_O=C_O,
    )
    hidden = d * (C_H * (b + 3) + C_I * (a * x)) + 1
    assert equations.y_H(x, 3) == hidden
    assert equations.y_O(hidden) == c - C_O * (b + hidden)
    assert equations._replace(K=0).y_H(x, 3) == 3


def test_the_page_says_what_the_code_does() -> None:
    failed, tried = doctest.testfile(str(DOCS / "equations.md"), module_relative=False)
    assert tried > 5
    assert not failed
