"""Video in and out: frames from anything FFmpeg decodes, label maps and overlays back."""

from clockseg.files import InputChanged
from clockseg.video.clip import Clip, Frame, Span
from clockseg.video.drawing import OverlayWriter
from clockseg.video.maps import LabelWriter, ValueWriter, read_labels, read_values, write_npy, write_png
from clockseg.video.movie import boundaries
from clockseg.video.overlay import Bar, Heat, Legend, overlay
from clockseg.video.read import open_clip
from clockseg.video.threads import Background, prefetch

__all__ = [
    "Background",
    "Bar",
    "Clip",
    "Frame",
    "Heat",
    "InputChanged",
    "LabelWriter",
    "Legend",
    "OverlayWriter",
    "Span",
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
