"""The one place that opens containers with PyAV, so that a keyword which a version lacks is handled once."""

from __future__ import annotations

from typing import Any

import av
from av.container import InputContainer, OutputContainer

_OPTIONAL = {"metadata_errors": "replace"}
"""Keywords that not every supported PyAV has. PyAV 19 dropped this one: it never fails on metadata that is not UTF-8."""


def open_for_reading(file: Any, **options: Any) -> InputContainer:
    """Open a file, URL, device or file object for decoding; ``options`` are those of ``av.open``.

    Metadata that is not UTF-8 never makes a file unreadable.
    """
    container: InputContainer
    try:
        container = av.open(file, "r", **options, **_OPTIONAL)
    except TypeError as error:
        if not any(name in str(error) for name in _OPTIONAL):
            raise
        container = av.open(file, "r", **options)
    return container


def open_for_writing(file: str, **options: Any) -> OutputContainer:
    """Open a file for encoding; ``options`` are those of ``av.open``."""
    container: OutputContainer = av.open(file, "w", **options)
    return container
