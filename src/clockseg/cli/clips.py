"""The clips given to a command, one after the other: a bad one is reported and does not stop the others."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

from clockseg.cli.progress import shown
from clockseg.cli.terminal import fail, warn
from clockseg.errors import DataError, VideoError

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
    from clockseg.datasets import read_data

    found: list[Clip] = []
    for data in args.data:
        try:
            found += read_data(data, layout=args.layout, every=args.every, limit=args.limit)
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

    always = Tally(net.names)
    expected = clip.expected() or clip.limit
    decoded = clip.frames(problem=account.cut_short)
    with shown(clip.name, quiet=quiet) as show, closing(prefetch(decoded)) as frames:
        for done, frame in enumerate(frames, start=1):
            yield frame
            show(Progress(clip.name, done, expected, always))
