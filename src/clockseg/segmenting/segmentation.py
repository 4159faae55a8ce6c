"""Segmentation of one clip or of many, step by step; a manifest records the state of each clip, so that a run can be resumed."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import closing
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import Any, NamedTuple

from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import ScheduleLike, schedule_for
from clockseg.clockwork.trace import Progress
from clockseg.errors import UsageError
from clockseg.segmenting import workers
from clockseg.segmenting.inputs import Input
from clockseg.segmenting.manifest import Entry, Manifest, State, manifest, unwritable
from clockseg.segmenting.pieces import Job, Piece, PieceResult
from clockseg.segmenting.results import SUMMARY, ResultFolder, apart, check_writes
from clockseg.segmenting.work import Planned, Segmented, Work
from clockseg.segmenting.workers import Workers
from clockseg.showing.kind import kind_of
from clockseg.video import InputChanged
from clockseg.video.drawing import STRIPS
from clockseg.video.read import source_identity

FIGURES = ("network_rate", "relative_time_estimate", "relative_multiply_adds", "network_seconds", "wall_seconds", "fps")
"""Keys of a summary that the manifest repeats."""


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
    progress: Callable[[Progress], None] = lambda progress: None,
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
    job = Job(writes, every, limit, name, start, end, strip=strip, classes=tuple(classes))
    work = Work(net, schedule_for(schedule, len(net)), job)
    clip = ClipRun(Input(os.fspath(source), Path(folder)), Path(folder), limit=limit, overwrite=overwrite)
    try:
        while True:
            step = clip.next_step()
            if done := clip.settle(step, step.call(work, partial(_tell, progress, clip, step))):
                return done
    except BaseException as error:
        if clip.planned is not None:
            clip.planned.result.abandon()
            if refused := unwritable(folder, error):
                raise refused from error
        raise


class Step(NamedTuple):
    """A step of a clip: ``call`` runs it in any process that has a ``Work``. ``piece``: the one it segments, if it is one's."""

    call: workers.Step
    piece: Piece | None = None


@dataclass
class ClipRun:
    """One clip on its way to its result: it is planned, its pieces are segmented, and their files are joined.

    While it is ``ready``, take a step from ``next_step``, run it, and give its value to ``settle``. Steps of several pieces
    may run at once, unless a ``limit`` decides which of them are needed. Pieces that are complete on disk are not run again.
    """

    input: Input
    folder: Path
    limit: int | None = None
    overwrite: bool = False
    resume: bool = False
    keep: bool = False
    planned: Planned | None = None
    results: dict[int, PieceResult] = field(default_factory=dict)
    waiting: list[Piece] = field(default_factory=list)
    running: int = 0
    progress: dict[int, Progress] = field(default_factory=dict)

    @property
    def frames(self) -> int:
        """Frames of the pieces that are done."""
        return sum(result.figures.tally.frames for result in self.results.values())

    @property
    def ready(self) -> bool:
        """True if there is a step that needs no result of those that are running."""
        if self.planned is None or self.limit is not None:
            return not self.running
        return not self.running or bool(self.waiting)

    def next_step(self) -> Step:
        """Return the next step."""
        self.running += 1
        if self.planned is None:
            plan = partial(Work.plan, source=self.input.source, folder=self.folder, overwrite=self.overwrite)
            return Step(partial(plan, resume=self.resume, keep=self.keep))
        left = None if self.limit is None else self.limit - self.frames
        if self.waiting and (left is None or left > 0):
            piece = self.waiting.pop(0)
            return Step(partial(Work.run, planned=self.planned, piece=piece, left=left), piece)
        results = tuple(result for _, result in sorted(self.results.items()))
        return Step(partial(Work.finish, planned=self.planned, results=results))

    def settle(self, step: Step, value: Any) -> Segmented | None:
        """Take the value of a step; return the result of the clip if this was its last step."""
        self.running -= 1
        if isinstance(value, Segmented):
            return value
        if step.piece is not None:
            self.progress.pop(step.piece.number, None)
            self.results[step.piece.number] = value
        else:
            self.planned, self.results = value, value.complete()
            self.waiting = [piece for piece in value.pieces if piece.number not in self.results]
        return None

    def update(self, step: Step, now: Progress) -> Progress:
        """Return the progress of the clip, given that of one of its steps."""
        if step.piece is None or self.planned is None:
            return now
        self.progress[step.piece.number] = now
        tallies = [result.figures.tally for result in self.results.values()]
        tally = reduce(add, tallies + [one.tally for one in self.progress.values()])
        return Progress(now.clip, tally.frames, self.planned.expected, tally)


class Outcome(NamedTuple):
    """The outcome of one input: ``done`` in this run, done ``before`` by an earlier one, or the ``error`` it failed with."""

    input: Input
    done: Segmented | None = None
    error: Exception | None = None
    before: Entry | None = None

    @property
    def whole(self) -> bool:
        """True if all of the input was decoded and written."""
        if self.before is not None:
            return not self.before.problems
        return self.done is not None and not self.done.problems


def segment_many(
    inputs: Sequence[Input],
    out: Path,
    workers: Callable[[], Workers],
    setting: dict[str, Any],
    *,
    limit: int | None = None,
    overwrite: bool = False,
    resume: bool = False,
    on_progress: Callable[[Input, Progress], None] = lambda clip, progress: None,
) -> Generator[Outcome, None, None]:
    """Segment clips into folders in ``out``, and yield the outcome of each as soon as it is known.

    ``workers`` are opened once and closed at the end, however the run ends. ``setting``: ``Work.facts`` of
    the workers' work; ``limit``: the most frames of each clip, as in its ``Job``. ``resume``: skip inputs that the manifest of
    ``out`` lists as done, and pieces that are complete, with the same setting (``UsageError`` if with another). A clip that
    fails does not stop the others. After an interruption, complete pieces stay for a later run.
    """
    with manifest(out) as known:
        run = _Run(out, known, setting, limit, overwrite, resume)
        waiting = []
        for input in run.named(inputs):
            outcome = run.known(input)
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
    limit: int | None
    overwrite: bool
    resume: bool
    open: list[ClipRun] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Of progress, which is told by the threads of workers."""

    def named(self, inputs: Sequence[Input]) -> list[Input]:
        """Return the inputs with the folders that an earlier run gave them."""
        known = {key: Path(entry.folder) for key, entry in self.manifest.entries.items()} if self.resume else {}
        new = apart((input.folder for input in inputs if input.key not in known), taken=known.values())
        return [input._replace(folder=known[input.key] if input.key in known else next(new)) for input in inputs]

    def known(self, input: Input) -> Outcome | None:
        """Return the outcome of an input that needs no work: an earlier run did it, or its folder holds another result."""
        before = self.manifest.entries.get(input.key) if self.resume else None
        if before is not None:
            self._check_setting(before)
            same = before.identity == source_identity(input.source)
            if before.state == "done" and same and (self.out / before.folder / SUMMARY).is_file():
                return Outcome(input, before=before)
        try:
            ResultFolder.check_free(self.out / input.folder, overwrite=self._may_replace(input), resume=self.resume)
        except UsageError as error:
            # The manifest goes on saying what the result is.
            return Outcome(input, error=error)
        return None

    def _may_replace(self, input: Input) -> bool:
        """True also for a result that an earlier run began: it may have been killed while the files got their names."""
        return self.overwrite or (self.resume and input.key in self.manifest.entries)

    def through(
        self, inputs: Sequence[Input], workers: Workers, on_progress: Callable[[Input, Progress], None]
    ) -> Iterator[Outcome]:
        """Keep the workers busy until all inputs are done."""

        coming = iter(inputs)
        running: dict[Future[Any], tuple[ClipRun, Step]] = {}
        while True:
            while len(running) < workers.jobs and (clip := self._next(coming)) is not None:
                step = clip.next_step()
                running[workers.submit(step.call, partial(self._tell, on_progress, clip, step))] = clip, step
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
            self._put(clip, "waiting")

    def _tell(self, on_progress: Callable[[Input, Progress], None], clip: ClipRun, step: Step, now: Progress) -> None:
        with self.lock:
            on_progress(clip.input, clip.update(step, now))

    def _next(self, coming: Iterator[Input]) -> ClipRun | None:
        """Return a clip with a step to run: one already begun if there is one, so that few are open at once."""
        for clip in self.open:
            if clip.ready:
                return clip
        input = next(coming, None)
        if input is None:
            return None
        before = self.manifest.entries.get(input.key)
        same = before is not None and before.identity == source_identity(input.source)
        replace, folder = self._may_replace(input), self.out / input.folder
        clip = ClipRun(input, folder, self.limit, replace, self.resume, keep=self.resume and same)
        self.open.append(clip)
        self._put(clip, "running")
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
            self._put(clip, "running")
            return None
        self.open.remove(clip)
        self._put(clip, "done", done)
        return Outcome(clip.input, done)

    def _failed(self, clip: ClipRun, error: Exception) -> Outcome:
        self.open.remove(clip)
        # Pieces of a file that was replaced are of no use to a later run.
        useless = isinstance(error, UsageError | InputChanged) or not clip.frames
        if clip.planned is not None and useless:
            clip.planned.result.abandon()
        error = unwritable(clip.folder, error) or error
        self._put(clip, "failed", error=str(error))
        return Outcome(clip.input, error=error)

    def _put(self, clip: ClipRun, state: State, done: Segmented | None = None, *, error: str | None = None) -> None:
        before = self.manifest.entries.get(clip.input.key)
        summary = {} if done is None else done.summary
        # With a limit not all pieces are needed.
        pieces = len(clip.results) if done else len(clip.planned.pieces) if clip.planned else None
        self.manifest.put(
            Entry(
                clip.input.key,
                str(clip.input.folder),
                state,
                pieces=pieces,
                whole=len(clip.results),
                frames=clip.frames if clip.planned else None,
                figures={name: summary[name] for name in FIGURES if name in summary},
                problems=() if done is None else done.problems,
                error=error,
                setting=self.setting,
                # Of the pieces that are there: a clip that is not planned yet has those of an earlier run, if any.
                identity=clip.planned.identity if clip.planned else None if before is None else before.identity,
            )
        )

    def _check_setting(self, entry: Entry) -> None:
        for name in self.setting:
            there, here = entry.setting.get(name), self.setting[name]
            if there != here:
                raise UsageError(
                    f"{self.out}: its manifest is of another run: {name} {there!r} there, {here!r} now. Give what it was made "
                    "with, another --out, or --overwrite in place of --resume."
                )


def _tell(progress: Callable[[Progress], None], clip: ClipRun, step: Step, now: Progress) -> None:
    progress(clip.update(step, now))
