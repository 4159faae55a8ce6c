"""Class areas over time: a CSV file with the share of the picture that each class covers on each frame of a run."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np

from clockseg.errors import DataError
from clockseg.files import whole
from clockseg.report.run import read_run


def write_areas(result: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
    """Write one row per frame of a result folder: its number, its time in seconds, and the share of each class, 0..1.

    Pixels without a class are in the column ``none``. ``DataError`` if the folder has no label maps.

    >>> write_areas("nowhere", "areas.csv")
    Traceback (most recent call last):
        ...
    clockseg.errors.DataError: nowhere: no such folder. Give a folder that clockseg segment wrote.
    """
    run = read_run(result)
    if run.numeric or not run.mapped or not run.classes:
        raise DataError(
            f"{run.folder}: no maps of classes in it. Segment with --write labels and a network with classes."
        )
    classes = len(run.classes)
    with whole(Path(path)) as part, part.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["frame", "seconds", *run.classes, "none"])
        for number, seconds, (labels, _) in zip(run.numbers, run.seconds, run.maps(), strict=False):
            shares = np.bincount(labels.ravel(), minlength=256) / labels.size
            covered = [f"{share:.6f}" for share in (*shares[:classes], shares[classes:].sum())]
            rows.writerow([int(number), f"{seconds:.6f}", *covered])
