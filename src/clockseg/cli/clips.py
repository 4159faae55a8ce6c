"""The clips given to a command, one after the other: a bad one is reported and does not stop the others."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

from clockseg.cli.options import is_quiet
from clockseg.cli.progress import shown
from clockseg.cli.terminal import fail, warn
from clockseg.errors import DataError, VideoError

if TYPE_CHECKING:
    from clockseg.clockwork.network import StagedNetwork
    from clockseg.datasets import Clip
    from clockseg.video.clip import Frame

Item = TypeVar("Item")
Made = TypeVar("Made")


class Clips:
    """The clips in all of ``args.data``. Problems are printed as they occur; if no clip can be read, the last error is raised.

    ``exit_code``: of the command so far: 1 if a clip was left out or cut short, else 0.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        from clockseg.datasets import read_data

        self.exit_code, self._quiet = 0, is_quiet(args)

        def read(data: str) -> list[Clip]:
            return read_data(data, layout=args.layout, every=args.every, limit=args.limit)

        self.all = [clip for clips in self._each(args.data, read) for clip in clips]

    def cut_short(self, text: str) -> None:
        """Report that not all of a clip could be decoded."""
        self.exit_code = 1
        warn(text)

    def map(self, one: Callable[[Clip], Made]) -> list[Made]:
        """Return the results of ``one`` for the clips that can be read."""
        return self._each(self.all, one, lambda clip: f" Clip {clip.name} is left out.")

    def frames(self, clip: Clip, net: StagedNetwork) -> Iterator[Frame]:
        """Yield the frames of a clip, decoded ahead, and show progress; for commands that run every stage on every frame."""
        from clockseg.clockwork.trace import Progress, Tally
        from clockseg.video.threads import prefetch

        always, show = Tally(net.names), shown(clip.name, quiet=self._quiet)
        expected = clip.expected()
        with closing(prefetch(clip.frames(problem=self.cut_short))) as frames:
            for done, frame in enumerate(frames, start=1):
                yield frame
                show(Progress(clip.name, done, expected, always))

    def _each(
        self, items: Sequence[Item], one: Callable[[Item], Made], left_out: Callable[[Item], str] = lambda item: ""
    ) -> list[Made]:
        made = []
        for number, item in enumerate(items, start=1):
            try:
                made.append(one(item))
            except (DataError, VideoError) as error:
                if not made and number == len(items):
                    raise
                self.exit_code = 1
                fail(f"{error}{left_out(item)}")
        return made
