"""The clips that a command was given, one after the other: a bad one is told of and does not stop the others."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

from clockseg.cli._options import read_data_options
from clockseg.cli._progress import shown
from clockseg.cli._terminal import indented
from clockseg.clockwork.trace import Progress, Tally
from clockseg.errors import DataError, VideoError

if TYPE_CHECKING:
    from clockseg.clockwork.network import StagedNetwork
    from clockseg.datasets.clips import Clip, ClipFrame

T = TypeVar("T")


class Account:
    """What went wrong, told on standard error as it happens."""

    def __init__(self) -> None:
        self.troubles = 0

    def cut_short(self, text: str) -> None:
        """Not all of a clip could be decoded."""
        self.troubles += 1
        print(f"clockseg: warning: {indented(text)}", file=sys.stderr)

    def failed(self, text: object) -> None:
        """A clip is left out."""
        self.troubles += 1
        print(f"clockseg: error: {indented(text)}", file=sys.stderr)


def clips_of(args: argparse.Namespace, account: Account) -> list[Clip]:
    """The clips in all of ``args.data`` that can be found."""
    found: list[Clip] = []
    for data in args.data:
        try:
            found += read_data_options(args, data)
        except (DataError, VideoError) as error:
            account.failed(error)
    return found


def each(clips: Sequence[Clip], one: Callable[[Clip], T], account: Account) -> Iterator[tuple[Clip, T]]:
    """Each clip with what ``one`` makes of it; those that can't be read are left out."""
    for clip in clips:
        try:
            made = one(clip)
        except (DataError, VideoError) as error:
            account.failed(f"{error} Clip {clip.name} is left out.")
        else:
            yield clip, made


def frames_of(clip: Clip, net: StagedNetwork, account: Account, *, quiet: bool) -> Iterator[ClipFrame]:
    """The frames of a clip, decoded ahead, for a command that runs every stage on each: its progress is shown."""
    from clockseg.video.threads import prefetch

    always = Tally(tuple(stage.name for stage in net.stages))
    expected = len(clip.taken) if clip.taken is not None else clip.limit
    decoded = clip.frames(problem=lambda text: account.cut_short(f"{clip.path}: {text}"))
    with shown(clip.name, quiet=quiet) as show, closing(prefetch(decoded)) as frames:
        for done, frame in enumerate(frames, start=1):
            yield frame
            show(Progress(clip.name, done, expected, always))
