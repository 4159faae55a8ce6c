"""Segmentation of one clip or of many, step by step; a manifest records the state of each clip, so that a run can be resumed."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import closing
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import Any, NamedTuple

from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import ScheduleLike, schedule_for
from clockseg.errors import UsageError
from clockseg.evaluation.tally import Progress, Tally
from clockseg.segmenting.figures import PieceResult
from clockseg.segmenting.inputs import Input
from clockseg.segmenting.manifest import Entry, Manifest, manifest
from clockseg.segmenting.results import SUMMARY, ResultFolder, check_writes, free_name, read_summary
from clockseg.segmenting.work import OnProgress, Piece, Planned, Segmented, Work
from clockseg.segmenting.workers import Workers
from clockseg.showing.kind import kind_of
from clockseg.video import InputChanged
from clockseg.video.drawing import STRIPS
from clockseg.video.read import source_identity


def segment(
    source: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    net: StagedNetwork,
    schedule: ScheduleLike,
    *,
    write: Iterable[str] | None = None,
    every: int = 1,
    limit: int | None = None,
    start_seconds: float | None = None,
    end_seconds: float | None = None,
    overwrite: bool = False,
    name: str | None = None,
    strip: str = STRIPS[0],
    classes: Iterable[str] = (),
    progress: OnProgress = lambda progress: None,
) -> Segmented:
    """Segment a video file, an image or a folder of images into a result folder.

    ``folder`` gets ``summary.json`` and the files for ``write``: labels (``labels.mkv``), overlay (``overlay.mp4``), trace
    (``trace.jsonl``) and png (``png/``), by default the first three. Numbers are written as values (``values.mkv``)
    and npy (``npy/``), instances as ``instances.jsonl``. If anything fails, no file is left.

    ``every``: process every n-th frame only. ``limit``: stop after so many. ``start_seconds``, ``end_seconds``: process a part.
    ``name``: the schedule's name in the summary. ``strip``: the overlay's bar, "activity" or "stages". ``classes``: draw and
    write only these; all other pixels get 255. A long video is cut at key frames at least a minute apart, and each piece has
    its own session.

    ``VideoError`` if no frame can be decoded, ``InputChanged`` if the input is replaced during the run. Of a damaged clip, all
    frames that can be decoded are written, and ``problems`` says what was lost.

    >>> import tempfile
    >>> import numpy as np
    >>> from clockseg import Stage, StagedNetwork, frame_oracle
    >>> from clockseg.video import write_png
    >>> net = StagedNetwork("one", (Stage("a", lambda image: image[..., 0] // 128),))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_png(np.full((16, 16), 200, np.uint8), f"{folder}/light.png")
    ...     segment(f"{folder}/light.png", f"{folder}/out", net, frame_oracle).summary["frames"]
    1
    """
    writes = check_writes(write, kind_of(net))
    # The fraction that was meant: 0.2 as a float is a little more, and the frame at 0.2 s would be lost.
    start, end = (None if at is None else Fraction(at).limit_denominator(10**9) for at in (start_seconds, end_seconds))
    plan = schedule_for(schedule, len(net))
    work = Work(net, plan, writes, every, limit, name, start, end, strip=strip, classes=tuple(classes))
    clip = ClipRun(Input(os.fspath(source), Path(folder)), Path(folder))
    ResultFolder(clip.folder).check_free(overwrite=overwrite)
    try:
        while True:
            step = clip.next_step()
            if done := clip.settle(step, step.call(work, clip.watched(step, progress))):
                return done
    except BaseException:
        if clip.planned is not None:
            clip.planned.result.abandon()
        raise


class Step(NamedTuple):
    """A step of a clip: ``call`` runs it in any process that has a ``Work``. ``piece``: the one it segments, if it is one's."""

    call: Callable[[Work, OnProgress], Any]
    piece: Piece | None = None


@dataclass
class ClipRun:
    """One clip on its way to its result: it is planned, its pieces are segmented, and their files are joined.

    While it is ``ready``, take a step from ``next_step``, run it, and give its value to ``settle``. Steps of several pieces
    may run at once, unless a limit decides which of them are needed. Pieces that are complete on disk are not run again;
    ``keep``: those of an earlier run stay.
    """

    input: Input
    folder: Path
    keep: bool = False
    planned: Planned | None = None
    results: dict[int, PieceResult] = field(default_factory=dict)
    waiting: list[Piece] = field(default_factory=list)
    running: int = 0
    tallies: dict[int, Tally] = field(default_factory=dict)

    @property
    def frames(self) -> int:
        """Frames of the pieces that are done."""
        return sum(result.figures.tally.frames for result in self.results.values())

    @property
    def left(self) -> int | None:
        """The most frames still to be taken; None: all."""
        return None if self.planned is None or self.planned.limit is None else self.planned.limit - self.frames

    @property
    def ready(self) -> bool:
        """True if there is a step that needs no result of those that are running."""
        return not self.running or (bool(self.waiting) and self.left is None)

    def next_step(self) -> Step:
        """Return the next step."""
        self.running += 1
        if self.planned is None:
            return Step(partial(Work.plan, source=self.input.source, folder=self.folder, keep=self.keep))
        if self.waiting and self.left != 0:
            piece = self.waiting.pop(0)
            return Step(partial(Work.run, planned=self.planned, piece=piece, left=self.left), piece)
        results = tuple(result for _, result in sorted(self.results.items()))
        return Step(partial(Work.finish, planned=self.planned, results=results))

    def settle(self, step: Step, value: Any) -> Segmented | None:
        """Take the value of a step; return the result of the clip if this was its last step."""
        self.running -= 1
        if isinstance(value, Segmented):
            return value
        if step.piece is not None:
            self.results[step.piece.number] = value
        else:
            self.planned = value
            for piece in value.pieces:
                if result := PieceResult.read(value.result.piece(piece.number)):
                    self.results[piece.number] = result
                else:
                    self.waiting.append(piece)
        self.tallies |= {number: result.figures.tally for number, result in self.results.items()}
        return None

    def watched(self, step: Step, on_progress: OnProgress) -> OnProgress:
        """Return a function that takes the progress of a step, and passes that of the whole clip to ``on_progress``."""

        def update(now: Progress) -> None:
            if self.planned is not None and step.piece is not None:
                self.tallies[step.piece.number] = now.tally
                tally = reduce(add, self.tallies.values())
                on_progress(Progress(now.clip, tally.frames, self.planned.expected, tally))

        return update


class Outcome(NamedTuple):
    """The outcome of one input: what was ``done``, by an earlier run if ``before``, or the ``error`` it failed with."""

    input: Input
    done: Segmented | None = None
    error: Exception | None = None
    before: bool = False

    @property
    def whole(self) -> bool:
        """True if all of the input was decoded and written."""
        return self.done is not None and not self.done.problems


def segment_many(
    inputs: Sequence[Input],
    out: Path,
    workers: Callable[[], Workers],
    setting: dict[str, Any],
    *,
    overwrite: bool = False,
    resume: bool = False,
    on_progress: Callable[[Input, Progress], None] = lambda clip, progress: None,
) -> Generator[Outcome, None, None]:
    """Segment clips into folders in ``out``, and yield the outcome of each as soon as it is known.

    ``workers`` are opened once and closed at the end, however the run ends. ``setting``: ``Work.facts`` of
    the workers' work. ``resume``: skip inputs that the manifest of ``out`` lists as done, and pieces that are complete, with
    the same setting (``UsageError`` if with another). A clip that fails does not stop the others. After an interruption,
    complete pieces stay for a later run.
    """
    with manifest(out) as known:
        run = _Run(out, known, setting, resume)
        waiting = []
        for input in run.named(inputs):
            outcome = run.known(input, overwrite=overwrite)
            if outcome is not None:
                yield outcome
            else:
                waiting.append(input)
        try:
            with closing(workers()) as opened:
                yield from run.through(waiting, opened, on_progress)
        finally:
            run.leave()


@dataclass
class _Run:
    """A run over many clips: which of them are open, and what the manifest says of each."""

    out: Path
    manifest: Manifest
    setting: dict[str, Any]
    resume: bool
    open: list[ClipRun] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Of progress, which is told by the threads of workers."""

    def named(self, inputs: Sequence[Input]) -> list[Input]:
        """Return the inputs with the folders that an earlier run gave them."""
        known = {key: Path(entry.folder) for key, entry in self.manifest.entries.items()} if self.resume else {}
        taken = set(known.values())
        return [input._replace(folder=known.get(input.key) or free_name(input.folder, taken)) for input in inputs]

    def known(self, input: Input, *, overwrite: bool) -> Outcome | None:
        """Return the outcome of an input that needs no work: an earlier run did it, or its folder holds another result."""
        before = self.manifest.entries.get(input.key) if self.resume else None
        folder = self.out / input.folder
        if before is not None:
            self._check_setting(before)
            if before.state == "done" and self._unchanged(input) and (folder / SUMMARY).is_file():
                return Outcome(input, Segmented(folder, read_summary(folder)), before=True)
        try:
            # An earlier run may have been killed while the files got their names.
            ResultFolder(folder).check_free(overwrite=overwrite or before is not None, resume=self.resume)
        except UsageError as error:
            # The manifest goes on saying what the result is.
            return Outcome(input, error=error)
        return None

    def _unchanged(self, input: Input) -> bool:
        """True if the manifest knows the input, and it is still the same."""
        before = self.manifest.entries.get(input.key)
        return before is not None and before.identity == source_identity(input.source)

    def through(
        self, inputs: Sequence[Input], workers: Workers, on_progress: Callable[[Input, Progress], None]
    ) -> Iterator[Outcome]:
        """Keep the workers busy until all inputs are done."""

        def locked(told: OnProgress, now: Progress) -> None:
            with self.lock:
                told(now)

        coming = iter(inputs)
        running: dict[Future[Any], tuple[ClipRun, Step]] = {}
        while True:
            while len(running) < workers.jobs and (clip := self._next(coming)) is not None:
                step = clip.next_step()
                told = clip.watched(step, partial(on_progress, clip.input))
                running[workers.submit(step.call, partial(locked, told))] = clip, step
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                outcome = self._settle(*running.pop(future), future)
                if outcome is not None:
                    yield outcome

    def leave(self) -> None:
        """Clean up after a run that ends early: clips without a complete piece leave nothing, others keep their pieces."""
        for clip in self.open:
            # The interrupted step may be the one that made the folder.
            result = ResultFolder(clip.folder, (clip.folder,)) if clip.planned is None else clip.planned.result
            if not result.begun():
                result.abandon()
            self._note(clip, state="waiting")

    def _next(self, coming: Iterator[Input]) -> ClipRun | None:
        """Return a clip with a step to run: one already begun if there is one, so that few are open at once."""
        for clip in self.open:
            if clip.ready:
                return clip
        input = next(coming, None)
        if input is None:
            return None
        clip = ClipRun(input, self.out / input.folder, keep=self.resume and self._unchanged(input))
        self.open.append(clip)
        before = self.manifest.entries.get(input.key)
        # Of the pieces that are there, which are those of an earlier run until the clip is planned.
        identity = None if before is None else before.identity
        self.manifest.put(Entry(input.key, str(input.folder), "running", setting=self.setting, identity=identity))
        return clip

    def _settle(self, clip: ClipRun, step: Step, future: Future[Any]) -> Outcome | None:
        """Record the result of a step; return the outcome of its clip if that is now known."""
        if clip not in self.open:  # another of its pieces failed meanwhile
            return None
        error = future.exception()
        if isinstance(error, Exception):
            return self._failed(clip, error)
        with self.lock:
            done = clip.settle(step, future.result())
        if done is None:
            if clip.planned is not None:
                now = {"pieces": len(clip.planned.pieces), "identity": clip.planned.identity}
                self._note(clip, whole=len(clip.results), frames=clip.frames, **now)
            return None
        self.open.remove(clip)
        # With a limit not all pieces are needed.
        self._note(clip, state="done", pieces=len(clip.results))
        return Outcome(clip.input, done)

    def _failed(self, clip: ClipRun, error: Exception) -> Outcome:
        self.open.remove(clip)
        # Pieces of a file that was replaced are of no use to a later run.
        useless = isinstance(error, UsageError | InputChanged) or not clip.frames
        if clip.planned is not None and useless:
            clip.planned.result.abandon()
        self._note(clip, state="failed", error=str(error))
        return Outcome(clip.input, error=error)

    def _note(self, clip: ClipRun, **changes: Any) -> None:
        """Change the entry of a clip in the manifest."""
        self.manifest.put(replace(self.manifest.entries[clip.input.key], **changes))

    def _check_setting(self, entry: Entry) -> None:
        for name, here in self.setting.items():
            there = entry.setting.get(name)
            if there != here:
                raise UsageError(
                    f"{self.out}: its manifest is of another run: {name} {there!r} there, {here!r} now. Give what it was made "
                    "with, another --out, or --overwrite in place of --resume."
                )
