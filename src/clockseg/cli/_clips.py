"""The clips given to a command, one after the other: a bad one is reported and does not stop the others."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from clockseg.cli._options import read_data_options
from clockseg.cli._progress import shown
from clockseg.cli._terminal import fail, warn
from clockseg.errors import DataError, UsageError, VideoError

if TYPE_CHECKING:
    from clockseg.clockwork.network import StagedNetwork
    from clockseg.datasets.clips import Clip, ClipFrame

T = TypeVar("T")


class Account:
    """Problems so far, printed on standard error as they occur."""

    def __init__(self) -> None:
        self.troubles = 0

    def cut_short(self, text: str) -> None:
        """Report that not all of a clip could be decoded."""
        self.troubles += 1
        warn(text)

    def failed(self, text: object) -> None:
        """Report that a clip is left out."""
        self.troubles += 1
        fail(text)


def clips_of(args: argparse.Namespace, account: Account) -> list[Clip]:
    """Return the clips in all of ``args.data`` that can be read."""
    found: list[Clip] = []
    for data in args.data:
        try:
            found += read_data_options(args, data)
        except (DataError, VideoError) as error:
            account.failed(error)
    return found


def each(clips: Sequence[Clip], one: Callable[[Clip], T], account: Account) -> Iterator[tuple[Clip, T]]:
    """Yield each clip with the result of ``one``; clips that can't be read are reported and left out."""
    for clip in clips:
        try:
            made = one(clip)
        except (DataError, VideoError) as error:
            account.failed(f"{error} Clip {clip.name} is left out.")
        else:
            yield clip, made


def frames_of(clip: Clip, net: StagedNetwork, account: Account, *, quiet: bool) -> Iterator[ClipFrame]:
    """Yield the frames of a clip, decoded ahead, and show progress; for commands that run every stage on every frame."""
    from clockseg.clockwork.trace import Progress, Tally
    from clockseg.video.threads import prefetch

    always = Tally(tuple(stage.name for stage in net.stages))
    expected = len(clip.taken) if clip.taken is not None else clip.limit
    decoded = clip.frames(problem=lambda text: account.cut_short(f"{clip.path}: {text}"))
    with shown(clip.name, quiet=quiet) as show, closing(prefetch(decoded)) as frames:
        for done, frame in enumerate(frames, start=1):
            yield frame
            show(Progress(clip.name, done, expected, always))


def renamed(clips: Sequence[Clip], file: Path, net: StagedNetwork) -> list[Clip]:
    """Apply the class map in ``file`` to ``clips``; warn of classes that no class of the network is mapped to.

    ``DataError`` if the map doesn't fit the classes of the network and of the clips.
    """
    from clockseg.datasets.classes import read_class_map

    mapped = read_class_map(file)
    found = [
        clip if clip.classes is None else replace(clip, classes=replace(clip.classes, renames=mapped)) for clip in clips
    ]
    if all(clip.classes is None for clip in found):
        raise UsageError(f"--map {file}: none of the clips names its classes, so there is nothing to map to.")
    for text in dict.fromkeys(_unreached(clip, net) for clip in found):
        if text:
            warn(text)
    return found


def _unreached(clip: Clip, net: StagedNetwork) -> str:
    classes = clip.classes
    if classes is None:
        return ""
    if net.sidecar is None or not net.sidecar.classes:
        raise UsageError(f"--map renames classes, but network {net.name!r} names none.")
    ids = set(classes.lookup(net.sidecar.classes)[: len(net.sidecar.classes)].tolist())
    missing = [name for id, name in enumerate(classes.names) if id not in ids]
    if len(missing) == len(classes.names):
        raise DataError(f"{clip.path}: no class of the network is mapped to any of its classes.")
    return (
        f"no class of the network is mapped to {', '.join(missing)}: they score 0 where they occur." if missing else ""
    )
