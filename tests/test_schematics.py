"""The two schematic figures: what they trace, that nothing overlaps, and that the committed files are up to date."""

from __future__ import annotations

import itertools
import re
from importlib.metadata import version
from pathlib import Path

import pytest
import schematics
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from symbols import Made, cells, part

from clockseg import alternating, exponential, pipelined

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (alternating, "000 110 222 332 444"),
        (exponential, "000 100 220 320 444"),
        (pipelined(3), "000 100 210 321 432"),
    ],
    ids=["alternating", "exponential", "pipelined-3"],
)
def test_the_schedules_reflect_the_expected_frames(schedule, expected) -> None:
    found = schematics.session_cells(schedule)
    rows = ["".join(str(cell.reflects) for cell in found if cell.t == t) for t in range(5)]
    assert " ".join(rows) == expected


def test_arrows_go_up_in_a_frame_and_one_frame_on_in_a_pipeline() -> None:
    for cell in schematics.session_cells(exponential):
        assert cell.reads == (((cell.module - 1, cell.t),) if cell.fired else ())
        assert cell.fired == (cell.t % 2 ** (cell.module - 1) == 0)
    for cell in schematics.session_cells(pipelined(3)):
        late = cell.module > 1 and cell.t > 0
        assert cell.fired
        assert cell.reads == ((cell.module - 1, cell.t - late),)


def test_the_staged_networks_connections() -> None:
    assert set(schematics.connections(schematics.staged_network()(Made("frame")))) == {
        ("frame", "conv1_1 .. pool3"),
        ("conv1_1 .. pool3", "conv4_1 .. pool4"),
        ("conv4_1 .. pool4", "conv5_1 .. fc7"),
        ("conv1_1 .. pool3", "score_pool3"),
        ("conv4_1 .. pool4", "score_pool4"),
        ("conv5_1 .. fc7", "upscore2"),
        ("upscore2", "fuse_pool4"),
        ("score_pool4", "fuse_pool4"),
        ("fuse_pool4", "fuse_pool3"),
        ("score_pool3", "fuse_pool3"),
        ("fuse_pool3", "score"),
    }


def test_a_clock_rn_reads_the_frame_before_and_is_blank_when_off() -> None:
    ran = schematics.course(schematics.symbolic_clock_rn())
    for cell in ran.cells:
        on = cell.t % 2 ** (cell.module - 1) == 0
        slower = {(module, cell.t - 1) for module in range(cell.module, 4)} if cell.t else set()
        assert cell.fired == on == ((cell.module, cell.t) not in ran.blank)
        assert set(cell.reads) == ({(0, cell.t)} | slower if on else set())


def test_a_clock_fcn_reads_the_module_before_and_is_never_blank() -> None:
    ran = schematics.course(schematics.symbolic_clock_fcn())
    assert not ran.blank
    for cell in ran.cells:
        period = 2 ** (cell.module - 1)
        assert cell.reads == (((cell.module - 1, cell.t),) if cell.t % period == 0 else ())
        assert cell.reflects == cell.t // period * period


def test_a_value_kept_is_read_where_it_stands_now() -> None:
    first, second = Made("x"), Made("x")
    kept = part("A")(first)
    found = cells([(first, [kept]), (second, [kept]), (Made("x"), [part("B")(kept, second)])])
    assert [(cell.fired, cell.reflects, cell.reads) for cell in found] == [
        (True, 0, ((0, 0),)),
        (False, 0, ()),
        (True, 1, ((1, 1), (0, 1))),
    ]


@pytest.mark.parametrize(
    ("draw", "size"), [(schematics.draw_staged_network, (7, 4.9)), (schematics.draw_clock_rn_and_fcn, (7, 5))]
)
def test_no_text_overlaps_another_or_the_edge(draw, size) -> None:
    drawn = Figure(figsize=size)
    canvas = FigureCanvasAgg(drawn)
    draw(drawn)
    canvas.draw()
    boxes = [(text.get_text(), text.get_window_extent()) for text in drawn.findobj(Text) if text.get_text()]
    assert len(boxes) > 40
    for text, box in boxes:
        assert 0 < box.x0 < box.x1 < drawn.bbox.x1, text
        assert 0 < box.y0 < box.y1 < drawn.bbox.y1, text
    for (text, box), (other, its) in itertools.combinations(boxes, 2):
        assert not box.overlaps(its), (text, other)


def test_the_committed_figures_are_up_to_date(tmp_path) -> None:
    pinned = re.findall(r"^matplotlib==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    if pinned != [version("matplotlib")]:
        pytest.skip(f"figures are drawn by matplotlib {pinned}, this is {version('matplotlib')}")
    schematics.write(tmp_path)
    for name in ("staged-network.svg", "clock-rn-and-fcn.svg"):
        assert (tmp_path / name).read_bytes() == (ROOT / "docs/figures" / name).read_bytes(), f"draw {name} anew"
