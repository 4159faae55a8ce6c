"""The paper's tables: what is published is whole and consistent, and the protocols are what the facts say they are."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from clockseg import UsageError, alternating, exponential, pipelined, skip_frame
from clockseg.clockwork.network import StagedNetwork
from clockseg.datasets import read_data
from clockseg.paper.methods import (
    NOTEBOOK_3,
    PIPELINE_2,
    PIPELINE_3,
    SKIP,
    Method,
    Networks,
    _Run,
    baselines,
    fixed_rates,
    measured,
    oracle,
    pipelines,
    score,
)
from clockseg.paper.report import ORACLE, Report, Row, cells, find, records, relative_loss, write
from clockseg.paper.tables import RATES, TABLES
from symbolic import frames_of, network
from toy_networks import CLASSES, toy, write_clip


@pytest.fixture
def clip(tmp_path: Path):
    write_clip(tmp_path / "noise", 9, labelled=9)
    return read_data(tmp_path)[0]


def states(method: Method, frames: int) -> list[str]:
    """The frame each stage reflects, for every frame from the method's first start on."""
    run = _Run(method, method.starts[0])
    return [frames_of(str(run.result(t, str(t))[0])) for t in range(method.starts[0], frames)]


def test_expected_10_relative_losses_of_the_published_pipelines():
    wanted = {"NYUDv2": (19.3, 15.1), "YouTube-Objects": (17.0, 8.6)}
    wanted |= {"PASCAL, shift 16": (15.0, 3.9), "PASCAL, shift 32": (30.6, 11.9)}
    rows = [*TABLES["pipeline"].rows(), *TABLES["pipeline-pascal"].rows()]
    for data, losses in wanted.items():
        for method, loss in zip((PIPELINE_3, PIPELINE_2), losses, strict=True):
            row = find(rows, data, method, "paper")
            assert row is not None
            assert relative_loss(row, rows) == pytest.approx(loss, abs=0.05)
            assert row.saving is not None
            assert loss < row.saving


@pytest.mark.parametrize(("shift", "mean", "published"), [(16, 64.6, 64.7), (32, 61.7, 61.9)])
def test_expected_10_alternating_is_the_mean_of_oracle_and_pipeline(shift, mean, published):
    data = f"PASCAL, shift {shift}"
    rows = TABLES["pipeline-pascal"].rows()
    scores = [find(rows, data, method, "paper").mean_iu for method in (ORACLE, PIPELINE_2)]
    assert sum(scores) / 2 == pytest.approx(mean, abs=0.051)
    assert RATES[data]["alternating (1,1,2)"][0] == published


def test_trap_7_start_up_of_the_three_stage_pipeline():
    per_paper, as_notebook, _ = pipelines(Networks(network()), notebook=True)
    assert states(per_paper, 5) == ["000", "100", "210", "321", "432"]
    assert as_notebook.name == NOTEBOOK_3
    assert states(as_notebook, 5) == ["000", "110", "211", "321", "432"]


def test_trap_16_skip_frame_is_scored_on_every_frame_and_phases_are_merged(clip):
    net = toy()
    truth, skipped, odd, even = score(
        [
            Method(ORACLE, net),
            Method(SKIP, net, skip_frame(2), phases=2),
            Method("odd", net, skip_frame(2), first=1),
            Method("even", net, skip_frame(2)),
        ],
        [clip],
        classes=len(CLASSES),
        first_scored=2,
    )
    assert skipped.scores == odd.scores + even.scores
    assert skipped.scores.pixels == 2 * truth.scores.pixels
    assert skipped.fire_rate == 0.5
    assert odd.scores != even.scores


def test_alternating_from_both_phases_is_oracle_and_pipeline_merged(clip):
    methods = [Method(ORACLE, toy()), Method("off", toy(), pipelined(2)), Method("both", toy(), alternating, phases=2)]
    frame_oracle, pipe, merged = score(methods, [clip], classes=len(CLASSES), first_scored=2)
    assert merged.scores == frame_oracle.scores + pipe.scores
    assert merged.boundary == frame_oracle.boundary + pipe.boundary


def test_exponential_needs_frames_before_the_first_scored(clip):
    with pytest.raises(UsageError, match="filled at frame 3 but scored from frame 2"):
        score([Method("exponential", toy(), exponential, phases=4)], [clip], classes=3, first_scored=2)


def test_measured_rows_tell_loss_and_saving(clip):
    nets = Networks(toy(), _first_stage(), None)
    methods = [*oracle(nets), *baselines(nets), *pipelines(nets), *fixed_rates(nets, balanced=False)]
    rows = measured("noise", methods, score(methods, [clip], classes=3, first_scored=3))
    assert [row.method for row in rows[:3]] == [ORACLE, "3-stage baseline", PIPELINE_3]
    assert rows[0].saving == 0
    assert relative_loss(rows[0], rows) == 0
    assert [row.full_frames for row in rows] == [100, None, 100, 100, 50, 25, 50, 50]


def _first_stage() -> StagedNetwork:
    net = toy()
    return StagedNetwork("first", net.stages[:1], (), net.finish, net.prepare)


def test_claims_are_checked_on_published_rows_too():
    failing = {claim.text for claim in _failing("fixed-rate")}
    assert failing == {"clockwork is above skip-frame (the abstract), read of exponential"}
    assert [claim.where for claim in _failing("pipeline-pascal")] == [
        "PASCAL, shift 32, paper"
    ]  # 57.8 against skip-frame's 59.5
    assert [claim.where for claim in _failing("schedules")] == ["Cityscapes, paper", "Cityscapes, notebook"] * 2


def _failing(name: str):
    table = TABLES[name]
    return [claim for claim in table.claims(table.rows()) if not claim.holds]


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_table_has_its_oracle_and_skip_frame(table):
    rows = table.rows()
    for data in {row.data for row in rows}:
        assert find(rows, data, ORACLE, "paper")
        assert find(rows, data, SKIP, "paper")


def test_report_is_written_whole(tmp_path):
    rows = (Row("NYUDv2", ORACLE, "paper", 31.1), Row("NYUDv2", SKIP, "paper", 27.7, saving=50.0))
    report = Report("tiny", "A table", "How.", rows, notes=("A note.",))
    files = write(report, tmp_path / "out", command="clockseg reproduce tiny")
    assert (
        sorted(file.name for file in files)
        == ["tiny.json", "tiny.md"]
        == sorted(file.name for file in (tmp_path / "out").iterdir())
    )
    facts = json.loads((tmp_path / "out/tiny.json").read_text())
    assert facts["rows"][1]["loss"] == pytest.approx(10.93, abs=0.01)
    assert facts["machine"]["cores"] >= 1
    assert facts["date"]
    assert "| NYUDv2 | skip-frame | paper | 27.7 | 10.9 | 50.0 |" in (tmp_path / "out/tiny.md").read_text()


def test_columns_without_figures_are_left_out():
    assert cells(records([Row("NYUDv2", SKIP, "paper", 27.7)]))[0] == ["data", "method", "source", "mean IU"]


def test_labels_of_the_network_are_mapped_before_the_histogram(clip):
    assert replace(clip).classes is not None
    assert np.array(score([Method(ORACLE, toy())], [clip], classes=3)[0].scores.counts).sum() > 0
