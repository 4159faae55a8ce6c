"""Plots: what is drawn, that it is drawn the same each time, and that it can be read."""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from clockseg import UsageError
from clockseg.cli import evaluate as evaluate_command
from clockseg.cli.main import main
from clockseg.evaluation.evaluate import Evaluation
from clockseg.evaluation.metrics import Confusion, Deviation
from clockseg.evaluation.tally import Tally
from clockseg.paper.adaptive_clock import PUBLISHED, draw_rates
from clockseg.paper.report import Row
from clockseg.paper.velocity import Shot, Velocity, draw_velocity
from clockseg.report import style
from clockseg.report.plots import draw_evaluation
from toy_networks import CLASSES, toy, write_clip

NAMES = ("frame_oracle", "skip_frame(4)", "either(adaptive(0.15), at_least_every(8))")
LONG = "carried(either(budget(network_rate=0.25, cap=12), motion_residual(0.125)), warp(flow(scale=0.25), of='held'))"


def shot(name: str, change: float, frames: int = 12) -> Shot:
    """Every frame changes by a little more than the one before; deep stages by less."""
    course = np.concatenate([[0], change * np.linspace(0.8, 1.2, frames - 1)])
    return Shot(name, tuple(range(frames)), 2 * course, (course, course / 2), course / 3, np.full(frames, np.nan))


def velocity(shots: int = 3) -> Velocity:
    return Velocity("toy", ("shallow", "deep"), tuple(shot(f"clip{n}", 0.1 * (n + 1)) for n in range(shots)))


def confusion(right: float, classes: int = 3) -> Confusion:
    """The share ``right`` of 1,000 pixels of each class, the rest spread evenly."""
    wrong = round(1000 * (1 - right) / (classes - 1))
    return Confusion(np.full((classes, classes), wrong) + np.diag([1000 - wrong * classes] * classes))


def evaluation(name: str, right: float, time: float, *, labelled: bool = True, classes: int = 3) -> Evaluation:
    scores = confusion(right, classes) if labelled else Confusion.none(classes)
    oracle = confusion(0.95, classes) if labelled else Confusion.none(classes)
    return Evaluation(
        name,
        "identity",
        tuple(f"class {index}" for index in range(classes)),
        scores,
        Confusion.none(classes),
        confusion(right, classes),
        oracle,
        Tally(("a",), 1, 11, (5,), 5, 10 * time),
        Tally(("a",), 1, 11, (10,), 10, 10.0),
    )


def evaluations(**options: Any) -> list[Evaluation]:
    return [evaluation(name, 0.9 - 0.1 * place, 1 - 0.3 * place, **options) for place, name in enumerate(NAMES)]


DRAWN = {
    "velocity": lambda path: draw_velocity(velocity(), path),
    "evaluation": lambda path: draw_evaluation([*evaluations(), evaluation(LONG, 0.5, 0.4)], path),
    "rates": lambda path: draw_rates("Curve", PUBLISHED, path),
}


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that are drawn, kept instead of written."""
    import matplotlib

    kept: list[Figure] = []

    @contextmanager
    def keep(path: Any, *, size: tuple[float, float], dots: int = 200) -> Any:
        with matplotlib.rc_context(fname=style.STYLE):
            kept.append(Figure(figsize=size, dpi=dots, layout="constrained"))
            yield kept[-1]
            FigureCanvasAgg(kept[-1]).draw()

    for module in ("clockseg.report.plots", "clockseg.paper.adaptive_clock", "clockseg.paper.velocity"):
        monkeypatch.setattr(import_module(module), "figure", keep)
    return kept


def lines(axes: Any, label: str) -> list[tuple[list[float], list[float]]]:
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines if line.get_label() == label]


# Every plot


@pytest.mark.parametrize(("name", "kind"), [*((name, "svg") for name in DRAWN), ("evaluation", "png")])
def test_the_same_numbers_give_the_same_bytes(name, kind, tmp_path) -> None:
    for folder in ("a", "b"):
        DRAWN[name](tmp_path / folder / f"plot.{kind}")
    first, second = ((tmp_path / folder / f"plot.{kind}").read_bytes() for folder in ("a", "b"))
    assert first == second
    assert [path.name for path in (tmp_path / "a").iterdir()] == [f"plot.{kind}"]
    assert b"<dc:date>" not in first


@pytest.mark.parametrize("name", DRAWN)
def test_text_is_text_and_all_of_it_is_inside(name, page, tmp_path) -> None:
    DRAWN[name](tmp_path / "plot.svg")
    [drawn] = page
    # Numbers at ticks beyond the ends of an axis are there, and not drawn.
    shown = [text for text in drawn.findobj(Text) if re.search("[A-Za-z%]", text.get_text()) and text.get_visible()]
    assert len(shown) >= 5
    edge = 1.5
    for text in shown:
        box = text.get_window_extent()
        if box.width and text.get_clip_box() is None:
            assert -edge < box.x0 < box.x1 < drawn.bbox.x1 + edge, text
            assert -edge < box.y0 < box.y1 < drawn.bbox.y1 + edge, text
        assert text.get_fontsize() >= 8, text


def test_text_in_an_svg_can_be_searched(tmp_path) -> None:
    draw_evaluation(evaluations(), tmp_path / "plot.svg")
    text = (tmp_path / "plot.svg").read_text()
    assert all(f">{name}" in text for name in (*NAMES, "class 0", "class 2"))
    assert "'DejaVu Sans', sans-serif" in text  # releases of matplotlib write the style in different forms


def test_a_png_has_twice_a_screen_s_dots(tmp_path) -> None:
    draw_evaluation(evaluations(), tmp_path / "plot.png")
    with Image.open(tmp_path / "plot.png") as drawn:
        assert drawn.width == style.HALF * 200


def test_series_differ_in_more_than_colour() -> None:
    looks = [tuple(style.marked(index).values()) for index in range(77)]
    assert len(set(looks)) == 77
    assert len({marker for _, marker in looks[: len(style.CYCLE)]}) == len(style.CYCLE)
    dashes = [style.dashed(index)["linestyle"] for index in range(len(style.CYCLE))]
    assert len(set(dashes)) == len(dashes)


# What is drawn


def test_velocity_shows_the_course_of_every_depth(page) -> None:
    found = velocity()
    draw_velocity(found, "velocity.svg")
    least, most = page[0].axes
    assert [line.get_label() for line in least.lines] == ["pixels", "shallow", "deep", "output"]
    assert (least.get_title(loc="left"), most.get_title(loc="left")) == ("least motion: clip0", "most motion: clip2")
    [(frames, changes)] = lines(most, "deep")
    assert frames == list(range(1, 12))
    assert changes == list(found.shots[2].stages[1][1:])
    assert least.get_ylim() == most.get_ylim()


def test_velocity_of_one_shot(page) -> None:
    draw_velocity(velocity(1), "velocity.svg")
    [only] = page[0].axes
    assert only.get_title(loc="left") == "clip0"


@pytest.mark.parametrize(("labelled", "what"), [(True, "mIoU, %"), (False, "agreement (mIoU), %")])
def test_an_evaluation_shows_scores_in_time_and_classes(page, labelled, what) -> None:
    found = evaluations(labelled=labelled)
    draw_evaluation(found, "schedules.svg")
    times, classes = page[0].axes
    assert times.get_ylabel() == what
    for place, one in enumerate(found):
        scores = one.scores if labelled else one.agreement
        assert lines(times, one.schedule) == [([one.relative_time], [pytest.approx(100 * scores.mean_iu)])]
        marker = style.marked(place)["marker"]
        drawn = [line.get_xdata()[0] for line in classes.lines if line.get_marker() == marker]
        uncut = one.oracle.iu if labelled else 1.0
        assert drawn == pytest.approx(list(100 * (scores.iu - uncut)))
    own = 100 * found[0].oracle.iu if labelled else [100] * 3
    told = [label.get_text() for label in classes.get_yticklabels()]
    assert told == [f"class {index}  {iu:.0f}" for index, iu in enumerate(own)]


def test_of_many_classes_the_largest_are_shown(page) -> None:
    draw_evaluation(evaluations(classes=40), "schedules.svg")
    classes = page[0].axes[1]
    assert len(classes.get_yticks()) == 24
    assert "the largest 24 of 40 classes" in classes.get_xlabel()


def test_of_networks_that_give_numbers_errors_are_shown(page) -> None:
    tally = Tally(("a",), 1, 11, (5,), 5, 5.0)
    error = Deviation(2.0, 10.0, 4, 0.3)
    none, uncut = Confusion.none(0), replace(tally, seconds=10.0)
    one = Evaluation("alternating", "identity", (), none, none, none, none, tally, uncut, deviation=error)
    draw_evaluation([one], "depth.svg")
    [times] = page[0].axes
    assert lines(times, "alternating") == [([0.5], [pytest.approx(100 * error.relative_error)])]
    assert times.get_ylabel() == "relative error, %"


def test_rates_go_by_kind_and_source(page) -> None:
    measured = [
        Row("YouTube-Objects", "frame oracle", "measured", 72.0, full_frames=100.0),
        Row("YouTube-Objects", "adaptive(0.25)", "measured", 70.0, full_frames=40.0),
        Row("YouTube-Objects", "(1,1,2)", "measured", 69.0, full_frames=50.0),
        Row("YouTube-Objects", "pixel clock(0.1)", "measured", 66.0, full_frames=40.0),
    ]
    published = [row for row in PUBLISHED if row.data == "YouTube-Objects"]
    draw_rates("Curve", [*published, *measured], "curve.svg")
    [score] = page[0].axes
    assert lines(score, "adaptive: measured here") == [([40.0, 100.0], [70.0, 72.0])]
    assert lines(score, "(1,1,n): measured here") == [([50.0], [69.0])]
    [(rates, _)] = lines(score, "adaptive: authors' notebook")
    assert rates == sorted(rates)
    assert len(rates) == 5
    by_name = {line.get_label(): line for line in score.lines}
    assert by_name["adaptive: published"].get_markerfacecolor() == "white"
    assert by_name["adaptive: measured here"].get_markerfacecolor() != "white"


# The command; that of velocity is in test_velocity


@pytest.fixture
def clips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    net = replace(toy(), engine="toy engine", sidecar=SimpleNamespace(classes=CLASSES, schedule="alternating"))
    monkeypatch.setattr(evaluate_command, "load_network", lambda args: net)
    write_clip(tmp_path / "data" / "a", 6, labelled=3)
    return tmp_path / "data"


def command(clips: Path) -> list[str]:
    return ["evaluate", str(clips), "--schedule", "frame_oracle", "--schedule", "skip_frame(2)", "--quiet"]


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_a_command_draws_what_it_found(kind, clips, tmp_path, capsys) -> None:
    file = tmp_path / "new" / f"plot.{kind}"
    assert main([*command(clips), "--plot", str(file)]) == 0
    assert file.read_bytes().startswith(b"<?xml" if kind == "svg" else b"\x89PNG")
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_without_matplotlib_it_says_what_to_install(clips, monkeypatch, capsys) -> None:
    monkeypatch.setattr("clockseg.cli.options.find_spec", lambda name: None)
    assert main([*command(clips), "--plot", "plot.svg"]) == 1
    assert "pip install '.[plots]' in the clone" in capsys.readouterr().err


def test_drawing_without_matplotlib(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="pip install"):
        draw_evaluation(evaluations(), "plot.svg")


def test_a_figure_has_one_of_two_endings(tmp_path) -> None:
    with pytest.raises(UsageError, match=r"\.svg or \.png"), style.figure(tmp_path / "a"):
        pass
    assert not list(tmp_path.iterdir())
