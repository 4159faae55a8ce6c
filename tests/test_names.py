"""Schedules by name: what is read, and what is refused with a reason."""

from __future__ import annotations

import contextlib
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clockseg.clocks import ALWAYS, Every, adaptive, difference, either
from clockseg.clocks.expressions import names_code
from clockseg.clocks.rates import NamedSchedule, alternating, exponential
from clockseg.clocks.spec import parse_schedule
from clockseg.clockwork.schedule import Schedule, schedule_for
from clockseg.errors import UsageError


@pytest.mark.parametrize(
    "text",
    [
        "frame_oracle",
        "skip_frame(2)",
        "fixed_rate((1, 2, 2))",
        "fixed_rate([1,2,4])",
        "alternating",
        "exponential",
        "pipelined(2)",
        "adaptive(0.25)",
        "adaptive(0.1, 0.25)",
        'adaptive(0.25, watch=1, reference="previous", strict=True)',
        'difference(0.1, of="pixels")',
        'confidence(0.8, sense="above")',
        "either(adaptive(0.25), at_least_every(8))",
        "invert(both(adaptive(0.25), confidence(0.9)))",
        "fixed_rate((1,2,3), nested=False)",
        "clockseg.clocks.rates:alternating",
        "at_least_every(4)",
        "every(2)",
    ],
)
def test_every_spec_in_the_help_and_docs_is_read(text) -> None:
    assert len(schedule_for(parse_schedule(text), 3)) == 3


def test_a_spec_is_the_same_object_as_in_python() -> None:
    assert parse_schedule("alternating") is alternating
    assert parse_schedule("either(adaptive(.25), every(3))") == either(difference(0.25), Every(3))
    assert isinstance(parse_schedule("alternating(3)"), Schedule)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("alternatin", "Did you mean alternating"),
        ("adaptive", "needs arguments, such as adaptive"),
        ("adaptive()", "needs a threshold"),
        ("adaptive('x')", "must be a number"),
        ("adaptive(True)", "must be a number"),
        ("adaptive(1e999-1e999)", "neither a number"),
        ("skip_frame(0)", "at least 1"),
        ("skip_frame(2.5)", "whole number"),
        ("skip_frame(2, 3)", "positional argument"),
        ("fixed_rate(2)", "one period per stage"),
        ("fixed_rate((1, 3, 2))", "not nested"),
        ("adaptive(0.25, watch=0)", "at least 1"),
        ("adaptive(0.25, sharp=1)", "sharp"),
        ('adaptive(0.25, reference="last")', "previous"),
        ("either()", "at least one"),
        ("either(alternating)", "takes clocks.* alternating is not a clock"),
        ("fixed_rate(1, 2, 4)", r"fixed_rate\(\) takes 1 .*A list of values is one argument"),
        ("adaptive(0.1, of=2)", r"adaptive\(\) got an unexpected keyword argument 'of'\.$"),
        ("either(adaptive(0.2, watch=1), adaptive(0.3, watch=2))", "the same gates_after"),
        ("__import__('os').system('x')", "only calls of known names"),
        ("[x for x in (1,)]", "neither a number"),
        ("adaptive(**{})", "by name"),
        ("adaptive(0.25, watch=1, watch=1)", "given twice"),
        ("3", "3 is no schedule"),
        ("carried('adaptive', warp)", "'adaptive' is no schedule"),
        ("", "1 to"),
        ("(" * 500, "can't be read"),
        ("a" * 5000, "1 to"),
        ("no.such.module:thing", "can't be imported"),
        ("clockseg.clockwork.schedule:nothing", "can't be imported"),
    ],
)
def test_what_is_wrong_is_told(text, message) -> None:
    with pytest.raises(UsageError, match=message):
        schedule_for(parse_schedule(text), 3)


@pytest.mark.parametrize(
    "text",
    [
        "frame_oracle",
        "skip_frame(2)",
        "fixed_rate((1, 2, 4))",
        "fixed_rate((1, 2, 3), nested=False)",
        "alternating",
        "pipelined(2)",
        "adaptive(0.25)",
        "adaptive(0.1, 0.25, strict=True)",
        'adaptive(0.25, watch=1, reference="previous")',
        'difference(0.1, of="pixels")',
        'confidence(0.8, sense="above")',
        "motion_residual(0.1)",
        "budget(network_rate=0.25, cap=12)",
        "budget(signal=motion_residual(0.0), fps=30)",
        "paced(adaptive(0.02), 0.5)",
        "every(2)",
        "either(adaptive(0.25), both(at_least_every(8), invert(every(3))))",
        "carried(skip_frame(6), interpolate(flow))",
        'carried(either(motion_residual(0.1), at_least_every(8)), warp(flow(scale=0.25), of="held"))',
    ],
)
def test_it_prints_as_the_text_that_it_is_read_from(text) -> None:
    assert str(parse_schedule(text)) == text


def test_schedules_by_name_are_pickled() -> None:
    assert pickle.loads(pickle.dumps(alternating)) is alternating
    made = pickle.loads(pickle.dumps(NamedSchedule(exponential, "mine:doubling")))
    assert str(made) == "mine:doubling"
    assert made(3) == exponential(3)


def test_a_function_with_arguments_keeps_the_facts_that_it_declares(tmp_path, monkeypatch) -> None:
    (tmp_path / "clocks_with_facts.py").write_text(
        "def rested(tick, frames=2):\n    return tick.since >= frames\n\n\nrested.gates_after = 0\n"
    )
    monkeypatch.chdir(tmp_path)
    for text in ("clocks_with_facts:rested", "clocks_with_facts:rested(3)"):
        schedule = schedule_for(parse_schedule(text), 3)
        assert schedule.clocks[0] != ALWAYS, text


def test_a_function_of_another_argument_than_tick_is_no_clock() -> None:
    with pytest.raises(UsageError, match="give a function of \\(tick\\), by this name"):
        either(lambda now: True)


def test_code_of_ones_own_prints_as_text_within_a_schedule(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clocks_that_print.py").write_text(
        "from dataclasses import dataclass\n\n\ndef rested(tick):\n    return tick.since >= 4\n\n\n"
        "def some(n):\n    return lambda stages: None\n\n\n@dataclass(frozen=True)\nclass Mine:\n"
        "    share: float\n    name: str = 'car'\n\n    def __call__(self, tick, state):\n        return True, None\n"
    )
    for text in (
        'either(clocks_that_print:rested, clocks_that_print:Mine(0.5, name="bus"))',
        "carried(clocks_that_print:rested, warp(flow))",
        "clocks_that_print:some(3)",
    ):
        assert str(parse_schedule(text)) == text


def test_a_schedule_for_so_many_stages_prints_as_an_expression_for_it() -> None:
    for text, printed in (
        ("skip_frame(6)", "skip_frame(6)"),
        ("alternating", "fixed_rate((1, 1, 2))"),
        ("budget(network_rate=0.25)", "budget(network_rate=0.25)"),
        ("carried(adaptive(0.2, watch=1), warp(flow))", "carried(adaptive(0.2, watch=1), warp(flow))"),
    ):
        made = schedule_for(parse_schedule(text), 3)
        assert str(made) == printed
        assert schedule_for(parse_schedule(printed), 3) == made
    assert str(adaptive(0.1, 0.2)(3)).startswith("Schedule(clocks=(")


def test_a_module_in_the_current_folder_is_found(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_own_clocks.py").write_text("from clockseg import alternating as mine\n")
    (tmp_path / "my_broken_clocks.py").write_text("1 / 0\n")
    assert parse_schedule("my_own_clocks:mine") is alternating
    with pytest.raises(UsageError, match="division by zero"):
        parse_schedule("my_broken_clocks:mine")


def test_code_is_named_outside_of_quotes() -> None:
    assert names_code("either(mine:clock, every(2))")
    assert not names_code("learned('a:b.onnx', 0.5)")


@given(st.text(max_size=60))
def test_any_text_is_a_schedule_or_a_usage_error(text) -> None:
    if ":" in text:  # would import what it names
        return
    with contextlib.suppress(UsageError):
        parse_schedule(text)


@pytest.mark.parametrize("text", ["confidence(0.8, watch='below', sense='above')", "difference(0.1, watch=1.5)"])
@pytest.mark.parametrize(
    "within", ["{}", "both(adaptive(0.1), {})", "invert({})", "budget(network_rate=0.25, signal={})"]
)
def test_a_watch_that_is_no_stage_is_refused(text: str, within: str) -> None:
    with pytest.raises(UsageError, match=r"watch.* is .*whole number"):
        schedule_for(parse_schedule(within.format(text)), 3)
