"""Tables of evaluations: CSV with every figure, LaTeX with the printed rows."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from clockseg import UsageError, evaluate, skip_frame
from clockseg.datasets import read_data
from clockseg.evaluation.tables import percent, table, write_table
from toy_networks import CLASSES, toy, write_clip


@pytest.fixture
def found(tmp_path: Path):
    write_clip(tmp_path / "a", 5, labelled=3)
    return evaluate(toy(), {"50 % & more": skip_frame(2), "third": skip_frame(3)}, read_data(tmp_path), classes=CLASSES)


def test_csv_has_every_figure_in_full(found, tmp_path: Path) -> None:
    write_table(found, tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["schedule"] for row in rows] == ["50 % & more", "third"]
    assert float(rows[0]["agreement.pixel_acc"]) == found[0].facts()["agreement"]["pixel_acc"]
    assert float(rows[1]["iu.dark"]) == found[1].facts()["iu"]["dark"]
    assert float(rows[0]["kept"]) == found[0].kept


def test_latex_has_the_rows_that_are_printed_with_special_characters_escaped(found, tmp_path: Path) -> None:
    write_table(found, tmp_path / "t.tex")
    lines = (tmp_path / "t.tex").read_text().splitlines()
    head, *rows = table(found)
    assert lines[0] == rf"\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}"
    assert [len(line.split(" & ")) for line in lines[4:6]] == [len(head)] * 2
    assert lines[4].startswith(r"50 \% \& more & ")
    assert rows[0][1].replace("%", r"\%") in lines[4]
    assert (percent(0.6612), percent(None)) == ("66.1 %", "-")


def test_other_names_are_refused(found, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"ends in \.csv or \.tex"):
        write_table(found, tmp_path / "t.xls")
    assert not list(tmp_path.glob("t.*"))
