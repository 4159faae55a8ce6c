"""Where frames with labels come from: folders of clips."""

from clockseg.datasets.classes import Classes, read_classes
from clockseg.datasets.clips import Clip, ClipFrame, read_clips
from clockseg.datasets.labels import read_labels_png

__all__ = ["Classes", "Clip", "ClipFrame", "read_classes", "read_clips", "read_labels_png"]
