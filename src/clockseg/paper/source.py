"""Sources of clips and networks for the experiments: the paper's data sets and weights, or stand-ins for them.

``DIR`` of the paper's data holds VOCdevkit, nyud, youtube-objects and cityscapes, each in its own layout (docs/datasets.md);
the folder of weights holds the authors' files converted with ``clockseg import``. Stand-ins replace both: the bundled network runs on a
clip with labels on every frame, in ``DIR/camvid/val``, and on the videos in ``DIR``, ``DIR/videos`` and ``DIR/davis``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from clockseg.clockwork.network import StagedNetwork
from clockseg.datasets import Clip, read_data
from clockseg.datasets.layouts import translate
from clockseg.errors import DataError
from clockseg.paper.methods import Method, Networks, measured, score
from clockseg.paper.report import Row

VIDEO_SUFFIXES = (".mp4", ".mkv", ".mov", ".avi", ".webm")
DISTANCES = (1, 5, 10)
"""Steps in frames at which the dense clip of the stand-in is subsampled."""
STEP = 2
"""Every how many frames of the dense clip one is used as a still for translation."""
LONGEST = 250
"""The number of frames used of each video of the stand-in."""


@dataclass(frozen=True)
class Source:
    """Clips, the networks that run on them, and the first scored frame of each clip.

    ``filled``: the frame at which an adaptive clock is filled, which does not count for its rate. ``balanced``: True if the
    scored frames contain each phase of a fixed rate equally often.
    """

    name: str
    clips: tuple[Clip, ...]
    networks: Networks
    classes: int
    first_scored: int = 2
    filled: int = 1
    balanced: bool = False

    def rows(self, methods: Sequence[Method], *, say: Callable[[str], None]) -> list[Row]:
        """Return the measured row of each method on these clips; the first method is the frame oracle."""
        scores = score(methods, self.clips, classes=self.classes, first_scored=self.first_scored, say=say)
        return measured(self.name, methods, scores)


@dataclass(frozen=True)
class Setting:
    """The user's setting: the folders of data and weights, and the stand-ins for them.

    ``load``: returns a staged network for a name or file. ``standin``: the network that replaces the paper's, or None.
    ``step``, ``distances``, ``longest``: the parts of the stand-ins to use. ``say`` gets sentences on the progress.
    """

    data: Path
    load: Callable[[str | Path], StagedNetwork]
    weights: Path | None = None
    standin: str | None = None
    step: int = STEP
    distances: tuple[int, ...] = DISTANCES
    longest: int = LONGEST
    say: Callable[[str], None] = lambda text: None

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the origin of the figures, for the report."""
        return (STANDIN_NOTE.format(Path(self.standin).stem),) if self.standin else ()

    def translated(self, shift: int) -> Source:
        """Return translated stills, labelled from frame 2 on: PASCAL's seg11valid, or frames of the dense clip."""
        if self.standin:
            stills = [replace(clip, every=self.step) for clip in self._dense]
            name, nets = f"CamVid stills, shift {shift}", self._standins
        else:
            stills = self._pascal
            name, nets = f"PASCAL, shift {shift}", self._networks(VOC)
        return Source(name, tuple(translate(stills, shift=shift)), nets, _classes(stills), balanced=True)

    def videos(self, *names: str) -> Iterator[Source]:
        """Yield the data sets of these names that exist, or the dense clip subsampled at each of ``distances``."""
        if self.standin:
            for distance in self.distances:
                yield self._every(distance)
            return
        found = [name for name in names if (self.data / PLACES[name].folder).is_dir()]
        if not found:
            wanted = ", ".join(PLACES[name].folder for name in names)
            raise DataError(f"{self.data} holds none of {wanted}; add a data set (docs/datasets.md), or use --standin.")
        for name in found:
            place = PLACES[name]
            clips = place.read(self._folder(place.folder))
            yield Source(
                name, tuple(clips), self._networks(place.weights), _classes(clips), place.first_scored, place.filled
            )

    def stills(self) -> Source | None:
        """Return single labelled frames: PASCAL's seg11valid, or those of the dense clip; None if the stand-ins have none."""
        if not self.standin:
            clips, nets = self._pascal, self._networks(VOC)
        elif self._labelled:
            clips, nets = self._labelled, self._standins
        else:
            return None
        return Source("stills", tuple(clips), nets, _classes(clips), 0)

    def films(self, *, every: int = 10) -> Source:
        """Return whole videos: every N-th frame of YouTube-Objects' shots, or all videos in DIR."""
        if not self.standin:
            clips = read_data(self._folder(PLACES["YouTube-Objects"].folder), layout="youtube_objects", every=every)
            return Source("YouTube-Objects", tuple(clips), self._networks(VOC), _classes(clips))
        folders = [self.data / name for name in ("davis", "videos") if (self.data / name).is_dir()]
        others = (clip for folder in folders for clip in _videos(folder) or read_data(folder))
        clips = [*self._labelled, *_videos(self.data), *others]
        if not clips:
            raise DataError(f"{self.data} holds no video. {STANDIN_DATA}")
        return Source("videos", tuple(replace(clip, limit=self.longest) for clip in clips), self._standins, 0, 0)

    def _every(self, distance: int) -> Source:
        """Return every ``distance``-th frame of the dense clip, once from each of the first frames on.

        All phases are scored, except for the first three frames of each such clip.
        """
        clips = [_from(clip, offset, distance) for clip in self._dense for offset in range(distance)]
        if min(len(clip.images) for clip in clips) < 5:
            raise DataError(
                f"{self.data / 'camvid/val'}: too few frames to take every {distance}; {5 * distance} are needed."
            )
        return Source(
            f"CamVid every {distance}", tuple(clips), self._standins, _classes(clips), first_scored=3, filled=2
        )

    @property
    def _pascal(self) -> list[Clip]:
        return read_data(self._folder("VOCdevkit"), layout="pascal", split="seg11valid")

    @property
    def _dense(self) -> list[Clip]:
        if not self._labelled:
            raise DataError(f"{self.data / 'camvid/val'} holds no clip with labels. {STANDIN_DATA}")
        return self._labelled

    @cached_property
    def _labelled(self) -> list[Clip]:
        """The stand-in's clips that have labels."""
        folder = self.data / "camvid" / "val"
        if not folder.is_dir():
            return []
        published = (self.data / "camvid" / "valannot").is_dir()
        found = read_data(folder.parent, layout="camvid", split="val") if published else read_data(folder)
        return [clip for clip in found if clip.labelled]

    @cached_property
    def _standins(self) -> Networks:
        full = self.standin or "street"
        return Networks(self.load(full), *(self._loaded(f"{Path(full).stem}-{end}") for end in ("stride8", "stride16")))

    def _networks(self, weights: Sequence[str]) -> Networks:
        full, *truncated = weights
        found = self._weights(full)
        if found is None:
            raise DataError(
                f"{self.weights or '--weights'}: no {full}.onnx; make it with clockseg import "
                f"{full}.caffemodel --out {full}.onnx (docs/fcn8s.md), and give its folder with --weights."
            )
        return Networks(self.load(found), *map(self._loaded, truncated))

    def _weights(self, stem: str) -> Path | None:
        file = None if self.weights is None else self.weights / f"{stem}.onnx"
        return file if file is not None and file.is_file() else None

    def _loaded(self, stem: str) -> StagedNetwork | None:
        file = self._weights(stem)
        return None if file is None else self.load(file)

    def _folder(self, name: str) -> Path:
        found = self.data / name
        if not found.is_dir():
            raise DataError(f"{found} is missing; --data names the folder that holds {name} (docs/datasets.md).")
        return found


STANDIN_DATA = (
    "With --standin, the tables are scored on a clip with labels on every frame: put CLIP/images/*, CLIP/labels/*.png and "
    "classes.json into DIR/camvid/val (docs/datasets.md), and give --data DIR. velocity and adaptive-videos "
    "run on any video in DIR, for example --data demo after `make demo`."
)
STANDIN_NOTE = (
    "Stand-ins: the paper's protocol on CamVid's dense clip (101 labelled frames at 15 Hz, one drive) with the "
    "network `{}`, in three stages, and its truncated networks where they are given. Figures are not comparable with the "
    "paper's; orderings are."
)


@dataclass(frozen=True)
class Place:
    """A data set: its folder in DIR, the weights that run on it, and the function that reads its clips.

    ``weights``: the stems of the network's file, and of those that end after its first and its second stage.
    """

    folder: str
    weights: tuple[str, ...]
    read: Callable[[Path], list[Clip]]
    first_scored: int = 2
    filled: int = 1


VOC = ("voc-fcn8s-heavy", "voc-fcn-pool3", "voc-fcn-pool4")
NYUD = ("nyud-fcn8s-rgb-heavy", "nyud-fcn-pool3", "nyud-fcn-pool4")
CITYSCAPES = ("cityscapes-fcn8s-heavy", "cityscapes-fcn-pool3", "cityscapes-fcn-pool4")
PLACES = {
    "NYUDv2": Place("nyud", NYUD, lambda path: read_data(path, layout="nyud")),
    "YouTube-Objects": Place("youtube-objects", VOC, lambda path: read_data(path, layout="youtube_objects", every=10)),
    "Cityscapes": Place(
        "cityscapes",
        CITYSCAPES,
        lambda path: read_data(path, layout="cityscapes", after=0),
        first_scored=3,
        filled=0,
    ),
}


def _from(clip: Clip, offset: int, distance: int) -> Clip:
    """Return every ``distance``-th frame of a clip, from frame ``offset`` on, as a clip of its own."""
    name = f"{clip.name} {offset}::{distance}"
    return replace(clip, name=name, images=clip.images[offset::distance], labels=clip.labels[offset::distance])


def _videos(folder: Path) -> list[Clip]:
    videos = sorted(file for file in folder.iterdir() if file.is_file() and file.suffix.lower() in VIDEO_SUFFIXES)
    return [clip for file in videos for clip in read_data(file)]


def _classes(clips: list[Clip]) -> int:
    known = next((clip.classes for clip in clips if clip.classes is not None), None)
    if known is None:
        raise DataError("the clips have no class names; add a classes.json next to them.")
    return len(known.names)
