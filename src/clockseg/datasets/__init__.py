"""Data sets: clip folders, and the paper's data sets in their official layouts."""

from clockseg.datasets.classes import Classes, read_classes
from clockseg.datasets.clips import Clip
from clockseg.datasets.labels import read_labels_png
from clockseg.datasets.layouts import LAYOUTS, Layout, parse_layout, read_data, translate

__all__ = [
    "LAYOUTS",
    "Classes",
    "Clip",
    "Layout",
    "parse_layout",
    "read_classes",
    "read_data",
    "read_labels_png",
    "translate",
]
