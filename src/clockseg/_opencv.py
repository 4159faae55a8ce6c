"""OpenCV, which scales pictures, moves maps and finds motion; imported when first needed."""

from __future__ import annotations

import types

from clockseg._errors import MissingDependency


def opencv() -> types.ModuleType:
    """The library; ``MissingDependency`` tells the line that installs it."""
    try:
        import cv2
    except ImportError as error:
        raise MissingDependency(
            "scaling frames, motion and reaction lag need OpenCV: pip install opencv-python-headless"
        ) from error
    return cv2
