"""The pages on writing a clock, a carry and an engine: what they show runs everywhere they say, and faults are told briefly."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clockseg import (
    Session,
    UsageError,
    adaptive,
    at_least_every,
    both,
    budget,
    either,
    every,
    invert,
    parse_schedule,
    run,
)
from clockseg import clocks as families
from clockseg.carry import Flow, Identity, Warp
from clockseg.cli.main import main
from clockseg.clocks import PICTURE, Decision, Watch, facts, motion_residual, paced, with_threshold
from clockseg.clocks.rates import carried
from clockseg.clockwork.clock import watches
from clockseg.clockwork.network import Stage, StagedNetwork
from clockseg.clockwork.schedule import Schedule, schedule_for
from clockseg.execution.recording import needs, record, replay
from clockseg.planning.tuning import tune
from toy_networks import toy
from video_making import picture, write_video

ROOT = Path(__file__).resolve().parents[1]


def block(page: str) -> str:
    """The first block of the page that is marked to run."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(r"^<!-- runs -->\n```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)[0]


def commands(page: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(r"^(clockseg .*)$", text, re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be in, with a video and the two modules of the pages."""
    wide = picture(320, 96)
    write_video(tmp_path / "drive.mp4", [np.roll(wide, -3 * t, 1)[:, :160] for t in range(34)])
    (tmp_path / "my_clocks.py").write_text(block("write-a-clock.md"), encoding="utf-8")
    (tmp_path / "my_carries.py").write_text(block("write-a-carry.md"), encoding="utf-8")
    monkeypatch.setenv("CLOCKSEG_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_clock_of_the_page_is_short() -> None:
    assert len(block("write-a-clock.md").splitlines()) <= 25


@pytest.mark.slow
@pytest.mark.parametrize("page", ["write-a-clock.md", "write-a-carry.md"])
@pytest.mark.usefixtures("folder")
def test_every_command_of_the_page_runs(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    import shlex

    for command in commands(page):
        name, *given = shlex.split(command)[1:]
        assert main([name, *given, "--size", "96", *([] if name == "plan" else ["--limit", "12"])]) == 0, command
    capsys.readouterr()


def test_the_engine_of_the_page_gives_nearly_the_same_labels() -> None:
    names: dict[str, Any] = {}
    exec(compile(block("engines.md"), "engines.md", "exec"), names)
    net = toy()
    image = np.full((8, 8, 3), 90, np.uint8)
    assert names["half"](net).engine == "half"
    assert np.array_equal(names["half"](net)(image), net(image))


def maps(count: int, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(1, 3, 6, 8)) for _ in range(count)]


NET = StagedNetwork("maps", (Stage("one", np.asarray), Stage("two", np.asarray)))


def changed(tick, threshold=0.5):
    share = float((tick.watched.argmax(1) != tick.reference.argmax(1)).mean())
    return Decision(share >= threshold, share)


@dataclass(frozen=True)
class Around:
    """Somebody's combinator: it only says what it is made of."""

    inner: Any

    @property
    def parts(self) -> tuple[Any, ...]:
        return (self.inner,)

    def __call__(self, tick: Any, state: Any) -> Any:
        return self.inner(tick, state)


class Bare:
    """A clock of one method."""

    def __call__(self, tick, state):
        return Decision(tick.since >= 3, float(tick.since)), state


@pytest.mark.parametrize("clock", [changed, Bare()], ids=["function", "class"])
def test_what_is_called_with_a_tick_works_everywhere(clock) -> None:
    images = maps(20, 1)
    for schedule in (
        clock,
        either(clock, at_least_every(3)),
        both(clock, at_least_every(2)),
        invert(clock),
        budget(clock, network_rate=0.3),
        Around(families.as_clock(clock)),
    ):
        ran = [(one.fired, one.signal) for _, one in run(NET, images, schedule)]
        recording = record(NET, images, keep=needs(NET, [schedule]))
        assert [(one.fired, one.signal) for one in replay(recording, schedule)] == ran
        assert all(fired == (True, fired[1]) for fired, _ in ran)


def test_a_function_with_a_threshold_is_tuned_and_paced() -> None:
    images = maps(60, 2)
    recording = record(NET, images, keep={Watch("scores", 1)})
    found = tune([recording], changed, 0.5)
    assert abs(found.point.fire_rate - 0.5) < 0.1
    with_it = with_threshold(families.as_clock(changed), found.point.threshold)
    assert facts(with_it).threshold == found.point.threshold
    both_ways = (lambda t: either(partial(changed, threshold=t), at_least_every(50)), partial(changed))
    assert all(abs(tune([recording], way, 0.5).point.fire_rate - 0.5) < 0.1 for way in both_ways)
    records = [one for _, one in run(NET, images, paced(changed, 0.25))]
    assert 0.1 < np.mean([one.fired[1] for one in records[1:]]) < 0.5


def test_somebodys_combinator_declares_what_its_parts_do() -> None:
    with pytest.raises(UsageError, match="by the seconds"):
        needs(NET, [Around(budget(fps=30))])
    with pytest.raises(UsageError, match="estimates none"):
        Session(NET, Around(motion_residual(0.1)))
    schedule = schedule_for(carried(Around(motion_residual(0.1)), Warp(Flow())), 2)
    assert schedule.clocks[0] == Around(motion_residual(0.1))  # it gates the whole network, as its part does
    pictures = [np.full((32, 48, 3), 40 * t, np.uint8) for t in range(4)]
    assert (
        len(
            list(
                run(
                    StagedNetwork("plain", (Stage("a", np.asarray, scores=None),)),
                    pictures,
                    carried(Around(motion_residual(0.1)), Warp(Flow(), of="held")),
                )
            )
        )
        == 4
    )
    assert watches(Around(adaptive(0.1, watch=1)), 3) == {Watch("scores", 1)}


class Reads:
    """A clock that reads one attribute of the tick, and watches nothing but the scores of stage 1."""

    def __init__(self, read: Any, gates_after: int | None = None) -> None:
        self.read, self.gates_after = read, gates_after

    def __call__(self, tick: Any, state: Any) -> Any:
        return Decision(self.read(tick) is not None), state


def test_a_map_that_is_not_declared_is_refused() -> None:
    with pytest.raises(UsageError, match=r"the clock of stage 2 watches Watch\(of='scores', stage=1\); add this map"):
        list(run(NET, maps(2, 0), Reads(lambda tick: tick.at(Watch("features", 1)))))


def test_what_a_recording_lacks_is_told_with_the_attribute_to_declare() -> None:
    recording = record(NET, maps(2, 0), keep={Watch("scores", 1)})
    with pytest.raises(UsageError, match=r"'output' of frame 0 wasn't recorded.* declare not_replayable"):
        list(replay(recording, Reads(lambda tick: tick.output)))
    with pytest.raises(UsageError, match=r"the picture of frame 1 wasn't recorded.* declare it in watches\(stage\)"):
        list(replay(recording, Reads(lambda tick: tick.image + 0)))


def test_stages_that_there_are_not_are_refused_by_the_name_of_the_attribute() -> None:
    for number, said in (
        (3, "its gates_after.* at most 1; gates_after = 0"),
        (-1, r"gates_after \(or watch=\) of Reads is -1"),
    ):
        with pytest.raises(UsageError, match=said):
            schedule_for(Reads(lambda tick: tick, gates_after=number), 2)


MODULE = """
def person(tick, threshold=0.5):
    return tick.since >= 2 + threshold


def broken(tick):
    wanted = {}
    return wanted["person"]


class Broken:
    def __call__(self, tick, state):
        return tick.t > 2
"""


def test_code_is_named_inside_a_spec_but_not_by_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_clocks.py").write_text(MODULE)
    fired = [one.fired[1] for _, one in run(NET, maps(7, 0), parse_schedule("own_clocks:person"))]
    assert fired == [True, False, False, True, False, False, True]
    for text in (
        "either(own_clocks:person, at_least_every(8))",
        "own_clocks:person(threshold=2)",
        "invert(own_clocks:person(1))",
    ):
        assert schedule_for(parse_schedule(text), 2)
        with pytest.raises(UsageError, match="names code"):
            parse_schedule(text, imports=False)
    assert facts(parse_schedule("either(own_clocks:person(0.25), every(4))")).threshold == 0.25
    with pytest.raises(UsageError, match="is a class"):
        parse_schedule("either(own_clocks:Broken, every(4))")


def test_a_function_declares_facts_as_attributes() -> None:
    def bright(tick, threshold=0.5):
        return tick.watched.mean() >= threshold

    bright.gates_after, bright.watches = 0, {PICTURE}
    schedule = schedule_for(bright, 2)
    assert schedule.watched == (frozenset({PICTURE}), frozenset())
    assert facts(schedule.clocks[0]).threshold == 0.5
    assert [one.fired for _, one in run(NET, maps(3, 0), bright)] == [(True, True), (False, False), (False, False)]


def test_a_clock_with_a_period_decides_for_the_whole_network() -> None:
    class Third:
        period, gates_after = 3, 0

        def __call__(self, tick, state):
            return Decision(tick.t % 3 == 0), state

    fired = [one.fired for _, one in run(NET, maps(5, 0), Third())]
    assert fired == [(True, True), (False, False), (False, False), (True, True), (False, False)]
    assert str(schedule_for(Third(), 2)) == "skip_frame(3)"


@pytest.mark.parametrize("clock", [lambda tick: np.zeros(2) > 0, lambda tick, state: (np.zeros(2) > 0, None)])
def test_a_clock_that_answers_with_an_array_is_refused(clock) -> None:
    with pytest.raises(UsageError, match="returned ndarray; return True, False or a Decision"):
        list(run(NET, maps(3, 0), clock))


ANSWERS = {
    "nothing": None,
    "text": "no",
    "pair": (True, None),
    "iterator": iter(()),
    "fire": Decision("yes"),  # type: ignore[arg-type]
    "signal": Decision(True, "much"),  # type: ignore[arg-type]
    "signals": Decision(True, np.zeros(2)),  # type: ignore[arg-type]
    "refill": Decision(True, refill=None),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_an_answer_of_another_kind_is_refused_with_the_name_of_the_clock(answer) -> None:
    def odd(tick):
        return answer

    for clock in (odd, families.either(odd, families.at_least_every(9)), families.invert(odd)):
        with pytest.raises(UsageError, match=r"clock .*odd returned .*; return True, False or a Decision"):
            list(run(NET, maps(3, 0), clock))


@pytest.mark.parametrize("number", [np.float32, np.float64, lambda mean: np.asarray(float(mean))])
def test_signals_of_numpy_are_numbers(number) -> None:
    def brightness(tick, threshold=0.5):
        signal = number(np.mean(tick.watched))
        return Decision(signal >= threshold, signal)

    records = [one for _, one in run(NET, maps(9, 0), brightness)]
    assert all(type(signal) in (float, type(None)) for one in records for signal in one.signal)
    assert all(type(fired) is bool for one in records for fired in one.fired)
    recording = record(NET, maps(30, 0), keep=needs(NET, [brightness]))
    assert type(tune([recording], brightness, 0.5).point.threshold) is float


def test_a_placeholder_is_for_tune_and_plan_alone(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"\{\} stands for a threshold in `tune` and `plan`"):
        parse_schedule("my_clocks:ClassMoved({})")


def test_a_clock_without_a_signal_is_not_tuned() -> None:
    def late(tick, threshold=2.0):
        return tick.since > threshold

    recording = record(NET, maps(4, 0), keep=needs(NET, [late]))
    with pytest.raises(UsageError, match="gave no signal on these frames"):
        tune([recording], late, 0.5)


def test_a_plan_refuses_a_carry_of_the_users(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "drive.mp4", "--keep", "0.9", "--clock", "carried(skip_frame(6), warp(flow))"]) == 2
    assert "give the clock alone, without carried(..)" in capsys.readouterr().err


@pytest.mark.parametrize("given", [("tune", "--fire-rate", "0.5"), ("plan", "--keep", "0.95")])
def test_a_schedule_file_of_ones_own_code_is_refused_at_the_start(given, capsys: pytest.CaptureFixture[str]) -> None:
    name, *goal = given
    assert main([name, "none.mp4", *goal, "--clock", "my_clocks:ClassMoved({})", "--out", "own.toml"]) == 2
    said = capsys.readouterr().err
    assert "'my_clocks:ClassMoved({})' names code" in said
    assert "pass the printed schedule to --schedule" in said
    assert not Path("own.toml").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "own_faults:broken",
            r"the clock broken of stage 2 failed at frame 1: own_faults.py, line 8, in broken: KeyError: 'person'",
        ),
        ("either(every(2), own_faults:broken)", r"the clock broken of .*line 8"),
        ("own_faults:Broken()", "the clock Broken of stage 2 returned False at frame 1; return a pair"),
    ],
)
def test_a_fault_in_a_clock_is_told_in_one_line(text, said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_faults.py").write_text(MODULE)
    with pytest.raises(UsageError, match=said) as told:
        list(run(NET, maps(3, 0), parse_schedule(text)))
    assert type(told.value.__cause__) in (KeyError, type(None))


CARRIES = """
from clockseg.carry import Identity


class Still:
    of = "held"

    def move(self, value, motion):
        return value


class Typo(Identity):
    of = "outputs"


class Broken(Identity):
    estimates_motion = True
    of = "output"

    def observe(self, before, now):
        return 1

    def move(self, value, motion):
        return value["car"]


class Short(Broken):
    def see(self, prepare, image):
        return image


class Nothing(Broken):
    def move(self, value, motion):
        pass


class Half(Broken):
    def move(self, value, motion):
        return value[..., ::2]
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Still()", "it lacks estimates_motion, reads_vectors, see, observe, compose. Give identity"),
        ("Still", "it lacks estimates_motion"),
        ("Typo", r"Typo is a class; give an instance, Typo\(..\)"),
        ("Typo()", "has of = 'outputs'; give one of 'output', 'held'"),
        ("Broken()", r"move of the carry Broken failed at frame 1: own_carries.py, line 24, in move: IndexError: "),
        ("Short()", r"see of the carry Short failed at frame 0: own_carries.py, line 28, in see: TypeError: "),
        ("Nothing()", "move of the carry Nothing returned None at frame 1; return the moved value"),
        (
            "Half()",
            r"move of the carry Half returned \(1, 3, 6, 4\) for \(1, 3, 6, 8\) at frame 1; keep the value's shape",
        ),
    ],
)
def test_a_fault_in_a_carry_is_told_in_one_line(text, said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_carries.py").write_text(CARRIES)
    with pytest.raises(UsageError, match=said):
        list(run(NET, maps(3, 0), parse_schedule(f"carried(skip_frame(3), own_carries:{text})")))


def test_a_carry_that_inherits_the_identity_prints_as_itself() -> None:
    class Own(Identity):
        pass

    assert str(Own()) != "identity" == str(Identity())


def test_a_motion_without_a_residual_is_told_where_a_clock_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = CARRIES.replace('return value["car"]', "return value")
    (tmp_path / "unread_carries.py").write_text(source)
    with pytest.raises(UsageError, match="has no residual, which this clock reads"):
        list(run(NET, maps(3, 0), parse_schedule("carried(motion_residual(0.1), unread_carries:Broken())")))


def test_a_carry_is_checked_wherever_a_schedule_is_made() -> None:
    class Typo(Identity):
        of = "outputs"

    for make in (lambda: carried(every(2), Typo()), lambda: Schedule((every(2),), carry=Typo())):
        with pytest.raises(UsageError, match="of = 'outputs'"):
            make()


def test_nobody_outside_of_clocks_asks_for_a_kind_of_clock() -> None:
    kinds = {name for name in families.__all__ if isinstance(getattr(families, name), type)} - {
        "Decision",
        "Watch",
    }
    for path in (ROOT / "src/clockseg").rglob("*.py"):
        room = path.relative_to(ROOT / "src/clockseg")
        if room.parts[0] == "clocks" or room.as_posix() == "clockwork/clock.py":
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        ours = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            and (node.module or "").startswith(("clockseg.clocks", "clockseg.clockwork.clock"))
            for alias in node.names
            if alias.name in kinds
        }
        asked = {
            name.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("isinstance", "issubclass")
            for name in ast.walk(node.args[1])
            if isinstance(name, ast.Name)
        }
        matched = {
            name.id
            for node in ast.walk(tree)
            if isinstance(node, ast.MatchClass)
            for name in ast.walk(node.cls)
            if isinstance(name, ast.Name)
        }
        assert not ours & (asked | matched), f"{room}: declare a fact instead (clockseg.clockwork.clock.Facts)"
