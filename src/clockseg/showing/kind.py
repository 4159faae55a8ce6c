"""The kinds of output that networks give."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np

from clockseg.clockwork.network import StagedNetwork
from clockseg.errors import UsageError
from clockseg.types import Array, Size

Kind: TypeAlias = Literal["labels", "values", "instances"]
"""Class ids, uint8 [h, w]; maps of numbers, such as depth, float [h, w] or [channels, h, w]; or instances."""


def kind_of(net: StagedNetwork) -> Kind:
    """Return the kind of the network's output.

    It is what its ``restore`` declares as its ``kind``, else "values" if its sidecar names no classes, else "labels".

    >>> from clockseg.clockwork.network import Stage
    >>> kind_of(StagedNetwork("no sidecar", (Stage("a", str.upper),)))
    'labels'
    """
    declared: Kind | None = getattr(net.restore, "kind", None)
    return declared or ("labels" if net.sidecar is None or net.sidecar.classes else "values")


def checked_values(output: Any, net: StagedNetwork, frame: Size | None = None) -> Array:
    """Return a map of numbers as an array of floats; ``UsageError`` if it is none, or not of the size of its ``frame`` (W, H)."""
    values = np.asarray(output)
    fits = frame is None or (values.ndim in (2, 3) and values.shape[-2:] == frame[::-1])
    if values.dtype.kind == "f" and fits:
        return values
    size = "" if frame is None else f" for a frame of {frame[0]}x{frame[1]}"
    raise UsageError(
        f"network {net.name!r} names no classes and gives {values.dtype} {list(values.shape)}{size}; numbers are floats, [h, w] or "
        "[channels, h, w] of the frame's size. If these are class ids or scores, name the classes in its sidecar; use a Session "
        "for any other output."
    )
