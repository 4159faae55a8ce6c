"""Many videos: workers segment their pieces, and a manifest records the state of each video, so that a run can be resumed."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import Any, NamedTuple

from clockseg.clockwork.trace import Progress
from clockseg.errors import UsageError
from clockseg.segmenting.inputs import Input
from clockseg.segmenting.manifest import Entry, Manifest, State, manifest
from clockseg.segmenting.pieces import Piece, PieceResult
from clockseg.segmenting.results import SUMMARY, ResultFolder, apart
from clockseg.segmenting.segmentation import Planned, Segmented, Work, unwritable
from clockseg.segmenting.workers import OnProgress, Step, Task, TaskResult, Workers
from clockseg.video import InputChanged
from clockseg.video.read import source_identity

TRIES = 3
"""Attempts at a step whose worker dies during it."""
FIGURES = ("network_rate", "relative_time_estimate", "relative_multiply_adds", "network_seconds", "wall_seconds", "fps")
"""Keys of a summary that the manifest repeats."""


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

    ``workers`` are opened once and closed at the end, however the run ends. ``setting``: plain values that identify the
    network, the schedule and the options; ``limit``: the most frames of each clip, as in its ``Job``. ``resume``: skip inputs
    and pieces that the manifest of ``out`` lists as done with the same setting (``UsageError`` if with another). A clip that
    fails does not stop the others. After an interruption, complete pieces stay for a later run.
    """
    with manifest(out) as known:
        run = _Run(out, known, setting, limit, overwrite=overwrite, resume=resume)
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
class ClipProgress:
    """The progress of one clip: its pieces that are ``waiting``, how many are ``running``, and the results so far."""

    input: Input
    planned: Planned | None = None
    waiting: list[Piece] = field(default_factory=list)
    results: dict[int, PieceResult] = field(default_factory=dict)
    now: dict[int, Progress] = field(default_factory=dict)
    running: int = 0
    finishing: bool = False

    @property
    def frames(self) -> int:
        """Frames of the pieces that are done."""
        return sum(result.figures.tally.frames for result in self.results.values())

    def update(self, piece: Piece | None, progress: Progress) -> Progress:
        """Return the progress of the clip, given that of one of its pieces; the tally is that of the running pieces."""
        if piece is None or self.planned is None:
            return progress
        self.now[piece.number] = progress
        done = self.frames + sum(one.done for one in self.now.values())
        tally = reduce(add, (one.tally for one in self.now.values()))
        return Progress(progress.clip, done, self.planned.expected, tally)


class _Running(NamedTuple):
    """A step that a worker is running."""

    clip: ClipProgress
    step: Step
    piece: Piece | None = None
    tries: int = 1


class _Run:
    def __init__(
        self,
        out: Path,
        known: Manifest,
        setting: dict[str, Any],
        limit: int | None,
        *,
        overwrite: bool,
        resume: bool,
    ) -> None:
        self._out, self._manifest, self._setting, self._limit = out, known, setting, limit
        self._overwrite, self._resume = overwrite, resume
        self._open: list[ClipProgress] = []
        self._running: dict[int, _Running] = {}
        self._again: list[_Running] = []
        self._count = 0

    def named(self, inputs: Sequence[Input]) -> list[Input]:
        """Return the inputs with the folders that an earlier run gave them."""
        known = {key: Path(entry.folder) for key, entry in self._manifest.entries.items()} if self._resume else {}
        new = apart((input.folder for input in inputs if input.key not in known), taken=known.values())
        return [input._replace(folder=known[input.key] if input.key in known else next(new)) for input in inputs]

    def known(self, input: Input) -> Outcome | None:
        """Return the outcome of an input that needs no work: an earlier run did it, or its folder holds another result."""
        before = self._done_before(input)
        if before is not None:
            return Outcome(input, before=before)
        try:
            ResultFolder.check_free(self._out / input.folder, overwrite=self._may_replace(input), resume=self._resume)
        except UsageError as error:
            # The manifest goes on saying what the result is.
            return Outcome(input, error=error)
        return None

    def _may_replace(self, input: Input) -> bool:
        """True also for a result that an earlier run began: it may have been killed while the files got their names."""
        return self._overwrite or (self._resume and input.key in self._manifest.entries)

    def _done_before(self, input: Input) -> Entry | None:
        entry = self._manifest.entries.get(input.key)
        if entry is None or not self._resume:
            return None
        self._check_setting(entry)
        same = entry.identity == source_identity(input.source)
        there = (self._out / entry.folder / SUMMARY).is_file()
        return entry if entry.state == "done" and same and there else None

    def through(
        self, inputs: Sequence[Input], workers: Workers, on_progress: Callable[[Input, Progress], None]
    ) -> Iterator[Outcome]:
        """Keep the workers busy until all inputs are done."""
        coming = iter(inputs)
        while True:
            while workers.idle and (running := self._next(coming)) is not None:
                self._count += 1
                self._running[self._count] = running
                told = partial(_update, on_progress, running.clip, running.piece)
                workers.start(Task(self._count, running.step), told)
            if not self._running:
                return
            result = workers.next_result()
            outcome = self._settle(self._running.pop(result.task), result)
            if outcome is not None:
                yield outcome

    def leave(self) -> None:
        """Clean up after a run that ends early: clips without a complete piece leave nothing, others keep their pieces."""
        for clip in self._open:
            folder = self._out / clip.input.folder
            # The interrupted step may be the one that made the folder.
            result = ResultFolder(folder, (folder,)) if clip.planned is None else clip.planned.result
            if not result.begun():
                result.abandon()
            self._put(clip, "waiting")

    def _next(self, coming: Iterator[Input]) -> _Running | None:
        """Return the next step, of clips already begun first, so that few are open at once."""
        if self._again:
            return self._again.pop()
        for clip in self._open:
            if clip.planned is None or clip.finishing:
                continue
            if self._enough(clip):
                clip.finishing = True
                numbers = (piece.number for piece in clip.planned.pieces if piece.number in clip.results)
                results = tuple(clip.results[number] for number in numbers)
                return _Running(clip, partial(_finish_step, planned=clip.planned, results=results))
            if clip.waiting and not (self._limit is not None and clip.running):
                return self._piece(clip, clip.planned)
        input = next(coming, None)
        return None if input is None else self._begin(ClipProgress(input))

    def _begin(self, clip: ClipProgress) -> _Running:
        overwrite = self._may_replace(clip.input)
        self._open.append(clip)
        self._put(clip, "running")
        source, folder = clip.input.source, self._out / clip.input.folder
        step = partial(_plan_step, source=source, folder=folder, overwrite=overwrite, resume=self._resume)
        return _Running(clip, step)

    def _enough(self, clip: ClipProgress) -> bool:
        if clip.running:
            return False
        return not clip.waiting or (self._limit is not None and clip.frames >= self._limit)

    def _piece(self, clip: ClipProgress, planned: Planned) -> _Running:
        piece = clip.waiting.pop(0)
        clip.running += 1
        left = None if self._limit is None else self._limit - clip.frames
        return _Running(clip, partial(_piece_step, planned=planned, piece=piece, left=left), piece)

    def _settle(self, running: _Running, result: TaskResult) -> Outcome | None:
        """Record the result of a step; return the outcome of its clip if that is now known."""
        clip, piece = running.clip, running.piece
        if piece is not None:
            clip.now.pop(piece.number, None)
        if result.died and running.tries < TRIES and clip in self._open:
            self._again.append(running._replace(tries=running.tries + 1))
            return None
        clip.running -= piece is not None
        if clip not in self._open:  # another of its pieces failed meanwhile
            return None
        if result.error is not None:
            return self._failed(clip, result.error)
        if piece is not None:
            clip.results[piece.number] = result.value
            self._put(clip, "running")
        elif isinstance(result.value, Segmented):
            self._open.remove(clip)
            self._put(clip, "done", result.value)
            return Outcome(clip.input, result.value)
        else:
            clip.planned, clip.results = result.value
            clip.waiting = [piece for piece in clip.planned.pieces if piece.number not in clip.results]
        return None

    def _failed(self, clip: ClipProgress, error: Exception) -> Outcome:
        self._open.remove(clip)
        # Pieces of a file that was replaced are of no use to a later run.
        useless = isinstance(error, UsageError | InputChanged) or not clip.frames
        if clip.planned is not None and useless:
            clip.planned.result.abandon()
        error = unwritable(self._out / clip.input.folder, error) or error
        self._put(clip, "failed", error=str(error))
        return Outcome(clip.input, error=error)

    def _put(
        self, clip: ClipProgress, state: State, done: Segmented | None = None, *, error: str | None = None
    ) -> None:
        summary = {} if done is None else done.summary
        # With a limit not all pieces are needed.
        pieces = len(clip.results) if done else len(clip.planned.pieces) if clip.planned else None
        self._manifest.put(
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
                setting=self._setting,
                identity=clip.planned.identity if clip.planned else source_identity(clip.input.source),
            )
        )

    def _check_setting(self, entry: Entry) -> None:
        for name in self._setting:
            there, here = entry.setting.get(name), self._setting[name]
            if there != here:
                raise UsageError(
                    f"{self._out}: its manifest is of another run: {name} {there!r} there, {here!r} now. Give what it was made "
                    "with, another --out, or --overwrite in place of --resume."
                )


def _update(
    on_progress: Callable[[Input, Progress], None], clip: ClipProgress, piece: Piece | None, progress: Progress
) -> None:
    on_progress(clip.input, clip.update(piece, progress))


def _plan_step(
    work: Work, on_progress: OnProgress, *, source: str, folder: Path, overwrite: bool, resume: bool
) -> tuple[Planned, dict[int, PieceResult]]:
    planned = work.plan(source, folder, overwrite=overwrite, resume=resume)
    return planned, work.done(planned)


def _piece_step(
    work: Work, on_progress: OnProgress, *, planned: Planned, piece: Piece, left: int | None
) -> PieceResult:
    return work.run(planned, piece, left=left, progress=on_progress)


def _finish_step(
    work: Work, on_progress: OnProgress, *, planned: Planned, results: tuple[PieceResult, ...]
) -> Segmented:
    return work.finish(planned, results)
