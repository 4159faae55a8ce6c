"""Many videos: the pieces of all of them handed to workers, and a manifest of what became of each, to go on from."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from clockseg.clockwork.trace import Progress
from clockseg.errors import UsageError
from clockseg.segmenting.inputs import Input
from clockseg.segmenting.job import Piece
from clockseg.segmenting.manifest import Entry, Manifest, State, manifest
from clockseg.segmenting.piece_run import PieceResult
from clockseg.segmenting.results import SUMMARY, ResultFolder, apart
from clockseg.segmenting.segmentation import Planned, Segmented, Work, unwritable
from clockseg.segmenting.under_way import UnderWay
from clockseg.segmenting.workers import Heard, Report, Step, Task, Workers
from clockseg.video import InputChanged
from clockseg.video.read import source_identity

TRIES = 3
"""How often a step is taken whose worker dies in the middle of it."""
TOLD = ("network_rate", "relative_time_estimate", "relative_multiply_adds", "network_seconds", "wall_seconds", "fps")
"""What of a summary the manifest repeats."""


class Outcome(NamedTuple):
    """What became of one input: what was made of it, now or ``before``, or why it failed."""

    input: Input
    done: Segmented | None = None
    error: Exception | None = None
    before: Entry | None = None

    @property
    def whole(self) -> bool:
        """Whether all of it was decoded and written."""
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
    told: Callable[[Input, Progress], None] = lambda clip, progress: None,
) -> Generator[Outcome, None, None]:
    """Segment clips into folders in ``out``, and yield what became of each as soon as it is known.

    ``workers`` are opened once and closed at the end, however it comes. ``setting``: plain values that tell one run's
    results from another's; ``limit``: of frames of each clip, as in its ``Job``. ``resume``: what the manifest of ``out``
    says is done, by the same setting, is not done again (``UsageError`` if by another), and pieces that are whole stay.
    A clip that fails does not stop the others. Interrupted, pieces that are whole stay for a later run.
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
            with closing(workers()) as them:
                yield from run.through(waiting, them, told)
        finally:
            run.leave()


class _Doing(NamedTuple):
    clip: UnderWay
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
        self._open: list[UnderWay] = []
        self._doing: dict[int, _Doing] = {}
        self._again: list[_Doing] = []
        self._count = 0

    def named(self, inputs: Sequence[Input]) -> list[Input]:
        """The inputs, with the folders that a run before gave them."""
        known = {key: Path(entry.folder) for key, entry in self._manifest.entries.items()} if self._resume else {}
        new = apart((input.folder for input in inputs if input.key not in known), taken=known.values())
        return [input._replace(folder=known[input.key] if input.key in known else next(new)) for input in inputs]

    def known(self, input: Input) -> Outcome | None:
        """What is known before any work: that a run before is done with it, or that there is a result which is to stay."""
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
        """What this run began may be replaced, also where it was killed while the files got their names."""
        return self._overwrite or (self._resume and input.key in self._manifest.entries)

    def _done_before(self, input: Input) -> Entry | None:
        """What a run before made of this input, if it need not be done again."""
        entry = self._manifest.entries.get(input.key)
        if entry is None or not self._resume:
            return None
        self._check_setting(entry)
        same = entry.identity == source_identity(input.key)
        there = (self._out / entry.folder / SUMMARY).is_file()
        return entry if entry.state == "done" and same and there else None

    def through(
        self, inputs: Sequence[Input], workers: Workers, told: Callable[[Input, Progress], None]
    ) -> Iterator[Outcome]:
        """Keep the workers busy until all is done."""
        coming = iter(inputs)
        while True:
            while workers.idle and (doing := self._next(coming)) is not None:
                self._count += 1
                self._doing[self._count] = doing
                workers.start(Task(self._count, doing.step), partial(_tell, told, doing.clip, doing.piece))
            if not self._doing:
                return
            heard = workers.hear()
            outcome = self._settle(self._doing.pop(heard.task), heard)
            if outcome is not None:
                yield outcome

    def leave(self) -> None:
        """What is under way when the run ends early: clips without a whole piece leave nothing, the others what they have."""
        for clip in self._open:
            folder = self._out / clip.input.folder
            # The plan may have been under way, and have made the folder already.
            result = ResultFolder(folder, (folder,)) if clip.planned is None else clip.planned.result
            if not result.begun():
                result.abandon()
            self._put(clip, "waiting")

    def _next(self, coming: Iterator[Input]) -> _Doing | None:
        """What to do next: of the clips that are under way first, so that few are."""
        if self._again:
            return self._again.pop()
        for clip in self._open:
            if clip.planned is None or clip.finishing:
                continue
            if self._enough(clip):
                clip.finishing = True
                results = tuple(
                    clip.results[piece.number] for piece in clip.planned.pieces if piece.number in clip.results
                )
                return _Doing(clip, partial(_finish_step, planned=clip.planned, results=results))
            if clip.waiting and not (self._limit is not None and clip.running):
                return self._piece(clip, clip.planned)
        input = next(coming, None)
        if input is None:
            return None
        return self._begin(UnderWay(input))

    def _begin(self, clip: UnderWay) -> _Doing:
        overwrite = self._may_replace(clip.input)
        self._open.append(clip)
        self._put(clip, "running")
        source, folder = clip.input.source, self._out / clip.input.folder
        return _Doing(clip, partial(_plan_step, source=source, folder=folder, overwrite=overwrite, resume=self._resume))

    def _enough(self, clip: UnderWay) -> bool:
        if clip.running:
            return False
        return not clip.waiting or (self._limit is not None and clip.frames >= self._limit)

    def _piece(self, clip: UnderWay, planned: Planned) -> _Doing:
        piece = clip.waiting.pop(0)
        clip.running += 1
        left = None if self._limit is None else self._limit - clip.frames
        return _Doing(clip, partial(_piece_step, planned=planned, piece=piece, left=left), piece)

    def _settle(self, doing: _Doing, heard: Heard) -> Outcome | None:
        """Take in what came of a step; the outcome of its clip, if it is known now."""
        clip, value = doing.clip, heard.value
        if doing.piece is not None:
            clip.now.pop(doing.piece.number, None)
        if heard.died and doing.tries < TRIES and clip in self._open:
            self._again.append(doing._replace(tries=doing.tries + 1))
            return None
        clip.running -= doing.piece is not None
        if clip not in self._open:  # it failed in another piece meanwhile
            return None
        if heard.error is not None:
            return self._failed(clip, heard.error)
        if doing.piece is not None:
            clip.results[doing.piece.number] = value
            self._put(clip, "running")
        elif isinstance(value, Segmented):
            self._open.remove(clip)
            self._put(clip, "done", value)
            return Outcome(clip.input, value)
        else:
            clip.planned, clip.results = value
            clip.waiting = [piece for piece in clip.planned.pieces if piece.number not in clip.results]
        return None

    def _failed(self, clip: UnderWay, error: Exception) -> Outcome:
        self._open.remove(clip)
        # Pieces of a file that was replaced are of no use to a later run.
        useless = isinstance(error, UsageError | InputChanged) or not clip.frames
        if clip.planned is not None and useless:
            clip.planned.result.abandon()
        error = unwritable(self._out / clip.input.folder, error) or error
        self._put(clip, "failed", error=str(error))
        return Outcome(clip.input, error=error)

    def _put(self, clip: UnderWay, state: State, done: Segmented | None = None, *, error: str | None = None) -> None:
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
                figures={name: summary[name] for name in TOLD if name in summary},
                problems=() if done is None else done.problems,
                error=error,
                setting=self._setting,
                identity=clip.planned.identity if clip.planned else source_identity(clip.input.key),
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


def _tell(told: Callable[[Input, Progress], None], clip: UnderWay, piece: Piece | None, progress: Progress) -> None:
    told(clip.input, clip.seen(piece, progress))


def _plan_step(
    work: Work, report: Report, *, source: str, folder: Path, overwrite: bool, resume: bool
) -> tuple[Planned, dict[int, PieceResult]]:
    planned = work.plan(source, folder, overwrite=overwrite, resume=resume)
    return planned, work.done(planned)


def _piece_step(work: Work, report: Report, *, planned: Planned, piece: Piece, left: int | None) -> PieceResult:
    return work.run(planned, piece, left=left, progress=report)


def _finish_step(work: Work, report: Report, *, planned: Planned, results: tuple[PieceResult, ...]) -> Segmented:
    return work.finish(planned, results)
