"""The frames that a plan looks at, through every network once: tapes, the reference's labels, and a few frames to time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import NamedTuple

from clockseg.clockwork.network import StagedNetwork
from clockseg.datasets.clips import Clip, ClipFrame
from clockseg.errors import DataError
from clockseg.execution.tape import Tape, Wanted, wanted
from clockseg.planning.blocks import Slot, slots
from clockseg.planning.candidates import Candidate, schedule_of
from clockseg.planning.costs import Sample
from clockseg.planning.trial import Scene, Truth, labels_of
from clockseg.video.threads import prefetch

BLOCK_SECONDS = 4.0
FPS = 25.0
"""Of a clip that does not say."""
SAMPLES = 36
"""Consecutive frames on which costs are measured."""
SAMPLE_BYTES = 100_000_000
"""What these may hold in memory; of large frames there are fewer, but not fewer than the least."""
LEAST_SAMPLES = 12
WEIGHED = 8
"""Frames that tell how many bytes one takes on all tapes."""
LEAST_FRAMES = 32
"""That a plan is made on."""


class Asked(NamedTuple):
    """``limit``: frames of all clips together; ``most_bytes`` of all tapes; ``vectors``: whether any carry reads them.

    ``progress(done, of)``, ``problem(sentence)``.
    """

    limit: int
    most_bytes: int
    vectors: bool
    progress: Callable[[int, int], None]
    problem: Callable[[str], None]


@dataclass(eq=False)
class Taped:
    """One scene a network, the reference's first, and consecutive frames to time."""

    scenes: list[Scene]
    samples: list[Sample] = field(default_factory=list)

    def add(self, frame: ClipFrame, slot: Slot) -> None:
        """One more frame."""
        outputs = [scene.tape.add(frame.image, vectors=frame.vectors, first=slot.first) for scene in self.scenes]
        self.scenes[0].truth.add(slot, labels_of(outputs[0], self.scenes[0].tape.net))
        room = len(self.samples) < max(LEAST_SAMPLES, min(SAMPLES, SAMPLE_BYTES // frame.image.nbytes))
        # Consecutive ones only, or motion is none that a camera sees.
        if room and (not slot.first or not self.samples) and len(self.samples) == self.frames - 1:
            self.samples.append(Sample(frame.image.copy(), frame.vectors))

    @property
    def bytes(self) -> int:
        """Of all tapes and labels."""
        return sum(scene.tape.store.bytes for scene in self.scenes) + self.scenes[0].truth.store.bytes

    @property
    def frames(self) -> int:
        """On each of the tapes."""
        return len(self.scenes[0].tape)


def first_frame(clips: Sequence[Clip]) -> ClipFrame:
    """The first frame there is, with its vectors if it has any; ``DataError`` if there is none."""
    for clip in clips:
        for frame in clip.frames(vectors=True):
            return frame
    raise DataError("there is no frame to plan on.")


def taped(
    nets: Sequence[StagedNetwork],
    candidates: Sequence[Sequence[Candidate]],
    clips: Sequence[Clip],
    classes: int,
    asked: Asked,
) -> Taped:
    """Every network's tape with what its candidates need, over blocks of the clips; ``DataError`` if they are too short."""
    keeps = [wanted(net, [schedule_of(net, one) for one in each]) for net, each in zip(nets, candidates, strict=True)]
    some = islice(chain.from_iterable(clip.frames(vectors=asked.vectors) for clip in clips), WEIGHED)
    most = min(asked.limit, asked.most_bytes // _bytes_of(_taped(nets, keeps, classes), some))
    made = _taped(nets, keeps, classes)
    for clip in clips:
        _take(made, clip, most // len(clips), asked)
        clip.check_unchanged()
    if made.frames < LEAST_FRAMES:
        raise DataError(
            f"{made.frames} frames are too few to plan on; give video with {LEAST_FRAMES} at least, a larger --limit or "
            "a smaller --size."
        )
    return made


def _taped(nets: Sequence[StagedNetwork], keeps: Sequence[Wanted], classes: int) -> Taped:
    truth = Truth(classes)
    return Taped(
        [Scene(number, Tape(net, keep), truth) for number, (net, keep) in enumerate(zip(nets, keeps, strict=True))]
    )


def _bytes_of(empty: Taped, frames: Iterable[ClipFrame]) -> int:
    """Of a frame on all tapes, at most: the first has no motion, and not all have vectors."""
    most = 1
    for number, frame in enumerate(frames):
        before = empty.bytes
        empty.add(frame, Slot(number, number == 0, 0, False))
        most = max(most, empty.bytes - before)
    return most


def _take(made: Taped, clip: Clip, most: int, asked: Asked) -> None:
    """The frames of one clip that are to be looked at."""
    count, fps = _length(clip)
    plan = slots(count, most, round(BLOCK_SECONDS * (fps or FPS) / clip.every))
    wanted, taken = next(plan, None), 0
    start = made.frames
    decoded = enumerate(clip.frames(problem=asked.problem, vectors=asked.vectors))
    with closing(prefetch(frame for frame in decoded)) as frames:
        for index, frame in frames:
            if wanted is None:
                break
            if index == wanted.frame:
                made.add(frame, wanted._replace(block=wanted.block + 1_000_000 * start))
                taken += 1
                asked.progress(made.frames, asked.limit)
                wanted = next(plan, None)


def _length(clip: Clip) -> tuple[int | None, float | None]:
    """Return the approximate number of frames of a clip, and its FPS."""
    if clip.taken is not None:
        return len(clip.taken), None if clip.classes is None else clip.classes.fps
    with clip.open() as video:
        count = None if video.frames_hint is None else video.frames_hint // clip.every
        return count, None if video.fps is None else float(video.fps)
