"""Label maps of networks and of clips: their classes, and the lookup from one to the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from clockseg.clockwork.network import StagedNetwork
from clockseg.datasets.clips import Clip
from clockseg.errors import DataError, UsageError
from clockseg.types import Labels
from clockseg.video.clip import Frame


def class_names(
    net: StagedNetwork, classes: Sequence[str] | None = None, baselines: Sequence[tuple[str, StagedNetwork]] = ()
) -> tuple[str, ...]:
    """Return ``classes``, or else the class names in the sidecar of ``net``.

    ``UsageError`` if there are none, or if the sidecar of a baseline names other classes.
    """
    names = tuple(classes or (net.sidecar.classes if net.sidecar is not None else ()))
    if not names:
        raise UsageError(
            f"network {net.name!r} does not say what its classes are; give classes=[name, ..] in their order."
        )
    for name, other in baselines:
        if other.sidecar is not None and tuple(other.sidecar.classes) != names:
            raise UsageError(
                f"network {name} has the classes {', '.join(other.sidecar.classes) or '(none)'}, network {net.name!r} has "
                f"{', '.join(names)}; give networks of the same classes in the same order."
            )
    return names


def scored_classes(clip: Clip, names: tuple[str, ...], net: StagedNetwork) -> tuple[tuple[str, ...], Labels | None]:
    """Return the classes a clip is scored in, and the lookup table from the network's ids to them (None: the same ids)."""
    classes = clip.classes
    if classes is None or (classes.names == names and classes.renames is None):
        return names, None
    if not (clip.labelled or classes.others is not None or classes.renames is not None):
        return names, None
    try:
        return classes.names, classes.lookup(names)
    except DataError as error:
        raise DataError(
            f"{clip.path} has {len(classes.names)} classes ({', '.join(classes.names)}), network {net.name!r} has "
            f"{len(names)} ({', '.join(names)}); {error} To measure agreement only, give the folder of its pictures alone, such as CLIP/images."
        ) from None


def checked_labels(output: Any, net: StagedNetwork, frame: Frame | None = None) -> Labels:
    """Return the output of ``net`` as an array if it is a label map, of the size of its ``frame``; else ``UsageError``."""
    labels = np.asarray(output)
    if labels.dtype.kind in "ui" and labels.ndim == 2 and (frame is None or labels.shape == frame.image.shape[:2]):
        return labels
    size = "" if frame is None else f" for a frame of {list(frame.image.shape)}"
    raise UsageError(
        f"network {net.name!r} gives {labels.dtype} {list(labels.shape)}{size}; give a network whose output is a label map: "
        "class ids [h, w] of the frame's size."
    )
