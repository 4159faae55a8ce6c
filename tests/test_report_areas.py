"""Class areas over time, as CSV."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

import networks
from clockseg import DataError, load, read_labels
from clockseg.cli.main import main
from clockseg.report import write_areas
from video_making import picture, write_video


def test_one_row_per_frame_with_the_share_of_each_class(tmp_path: Path) -> None:
    video = write_video(tmp_path / "a.mp4", [picture(48, 32, seed) for seed in range(3)])
    network = str(networks.write_tiny(tmp_path))
    assert main(["segment", str(video), "--out", str(tmp_path), "--network", network, "--engine", "onnxruntime"]) == 0
    areas = tmp_path / "areas.csv"
    assert main(["report", str(tmp_path / "a"), "--video", "none", "--areas", str(areas), "--quiet"]) == 0
    with areas.open(newline="") as file:
        rows = list(csv.DictReader(file))
    maps = list(read_labels(tmp_path / "a"))
    assert [row["frame"] for row in rows] == ["0", "1", "2"]
    for row, labels in zip(rows, maps, strict=True):
        for id, name in enumerate(load(network, engine=None).classes):
            assert float(row[name]) == pytest.approx(np.mean(labels == id), abs=1e-5)
    assert main(["report", str(tmp_path / "a"), "--areas", str(areas), "--out", str(tmp_path / "b.html")]) == 2


def test_a_run_without_label_maps_is_refused(tmp_path: Path) -> None:
    video = write_video(tmp_path / "a.mp4", [picture(48, 32)] * 2)
    command = ["segment", str(video), "--out", str(tmp_path), "--network", str(networks.write_tiny(tmp_path))]
    assert main([*command, "--engine", "onnxruntime", "--write", "trace"]) == 0
    with pytest.raises(DataError, match="no maps of classes"):
        write_areas(tmp_path / "a", tmp_path / "areas.csv")
