"""``--map``: clips whose classes the network calls otherwise."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from clockseg.cli._terminal import indented
from clockseg.errors import DataError, UsageError

if TYPE_CHECKING:
    from clockseg.clockwork.network import StagedNetwork
    from clockseg.datasets.clips import Clip


def renamed(clips: Sequence[Clip], file: Path, net: StagedNetwork) -> list[Clip]:
    """``clips`` with the class map in ``file``; classes of theirs that nothing of the network becomes are told.

    ``DataError`` if the map doesn't fit the classes of the network and theirs.
    """
    from clockseg.datasets.class_map import read_class_map

    mapped = read_class_map(file)
    found = [
        clip if clip.classes is None else replace(clip, classes=replace(clip.classes, renames=mapped)) for clip in clips
    ]
    if all(clip.classes is None for clip in found):
        raise UsageError(f"--map {file}: no clip says what its classes are, so there is nothing to map to.")
    for text in dict.fromkeys(_unreached(clip, net) for clip in found):
        if text:
            print(f"clockseg: warning: {indented(text)}", file=sys.stderr)
    return found


def _unreached(clip: Clip, net: StagedNetwork) -> str:
    classes = clip.classes
    if classes is None:
        return ""
    if net.sidecar is None or not net.sidecar.classes:
        raise UsageError(f"--map renames classes, and network {net.name!r} doesn't say what its are.")
    ids = set(classes.lookup(net.sidecar.classes)[: len(net.sidecar.classes)].tolist())
    missing = [name for id, name in enumerate(classes.names) if id not in ids]
    if len(missing) == len(classes.names):
        raise DataError(f"{clip.path}: nothing of the network becomes any of its classes.")
    return f"nothing of the network becomes {', '.join(missing)}: they score 0 where they are." if missing else ""
