"""Video in and out: frames from anything FFmpeg decodes, label maps and overlays back."""

from clockseg.video.background import Background
from clockseg.video.boundaries import boundaries
from clockseg.video.clip import Clip
from clockseg.video.draw import overlay
from clockseg.video.frame import Frame
from clockseg.video.heat import Heat
from clockseg.video.identity import InputChanged
from clockseg.video.labels import LabelWriter, read_labels, write_png
from clockseg.video.prefetch import prefetch
from clockseg.video.read import open_clip
from clockseg.video.span import Span
from clockseg.video.strip import Strip
from clockseg.video.values import ValueWriter, read_values, write_npy
from clockseg.video.write import OverlayWriter

__all__ = [
    "Background",
    "Clip",
    "Frame",
    "Heat",
    "InputChanged",
    "LabelWriter",
    "OverlayWriter",
    "Span",
    "Strip",
    "ValueWriter",
    "boundaries",
    "open_clip",
    "overlay",
    "prefetch",
    "read_labels",
    "read_values",
    "write_npy",
    "write_png",
]
