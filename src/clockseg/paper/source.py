"""Sources of clips and networks for the experiments: the paper's data sets and weights, or stand-ins for them.

``DIR`` of the paper's data holds VOCdevkit, nyud, youtube-objects and cityscapes, each in its own layout (docs/datasets.md);
the folder of weights holds the authors' files converted with ``clockseg import``. Stand-ins replace both: the bundled network runs on a
clip with labels on every frame, in ``DIR/camvid/val``, and on the videos in ``DIR``, ``DIR/videos`` and ``DIR/davis``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from clockseg.clockwork.network import StagedNetwork
from clockseg.datasets import Clip, read_data
from clockseg.datasets.layouts import translate
from clockseg.errors import DataError
from clockseg.paper.methods import Method, Networks, measured, score
from clockseg.paper.report import Row
from clockseg.segmenting.inputs import VIDEO_SUFFIXES


@dataclass(frozen=True)
class Source:
    """Clips, the networks that run on them, and the first scored frame of each clip.

    ``filled``: the frame at which an adaptive clock is filled, which does not count for its rate. ``balanced``: True if the
    scored frames contain each phase of a fixed rate equally often.
    """

    name: str
    clips: tuple[Clip, ...]
    networks: Networks
    first_scored: int = 2
    filled: int = 1
    balanced: bool = False

    @property
    def classes(self) -> int:
        """The number of classes of the labels."""
        known = next((clip.classes for clip in self.clips if clip.classes is not None), None)
        if known is None:
            raise DataError("the clips have no class names; add a classes.json next to them.")
        return len(known.names)

    def rows(self, methods: Sequence[Method], *, say: Callable[[str], None]) -> list[Row]:
        """Return the measured row of each method on these clips; the first method is the frame oracle."""
        scores = score(methods, self.clips, classes=self.classes, first_scored=self.first_scored, say=say)
        return measured(self.name, methods, scores)


@dataclass(frozen=True)
class Setting:
    """The user's setting: the folders of data and weights, and the stand-ins for them.

    ``load``: returns a staged network for a name or file. ``standin``: the network that replaces the paper's, or None. Of its
    dense clip, every ``step``-th frame is a still for translation, and videos are every ``distances``-th frame; of its other
    videos, the first ``longest`` frames are used. ``say`` gets sentences on the progress.
    """

    data: Path
    load: Callable[[str | Path], StagedNetwork]
    weights: Path | None = None
    standin: str | None = None
    step: int = 2
    distances: tuple[int, ...] = (1, 5, 10)
    longest: int = 250
    say: Callable[[str], None] = lambda text: None

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the origin of the figures, for the report."""
        return (STANDIN_NOTE.format(Path(self.standin).stem),) if self.standin else ()

    def translated(self, shift: int) -> Source:
        """Return translated stills, labelled from frame 2 on: PASCAL's seg11valid, or frames of the dense clip."""
        if self.standin:
            found = tuple(replace(clip, every=self.step) for clip in self._dense)
            stills = Source("CamVid stills", found, self._standins)
        else:
            stills = self._official("PASCAL")
        clips = tuple(translate(stills.clips, shift=shift))
        return replace(stills, name=f"{stills.name}, shift {shift}", clips=clips, balanced=True)

    def videos(self, *names: str) -> Iterator[Source]:
        """Yield the data sets of these names that exist, or the dense clip subsampled at each of ``distances``."""
        if self.standin:
            yield from map(self._every, self.distances)
            return
        found = [name for name in names if (self.data / PLACES[name].folder).is_dir()]
        if not found:
            wanted = ", ".join(PLACES[name].folder for name in names)
            raise DataError(f"{self.data} holds none of {wanted}; add a data set (docs/datasets.md), or use --standin.")
        yield from map(self._official, found)

    def stills(self) -> Source | None:
        """Return single labelled frames: PASCAL's seg11valid, or those of the dense clip; None if the stand-ins have none."""
        if not self.standin:
            return replace(self._official("PASCAL"), first_scored=0)
        return Source("stills", tuple(self._labelled), self._standins, 0) if self._labelled else None

    def films(self, *, every: int = 10) -> Source:
        """Return whole videos: every N-th frame of YouTube-Objects' shots, or all videos in DIR."""
        if not self.standin:
            return self._official("YouTube-Objects", every=every)
        folders = [self.data / name for name in ("davis", "videos") if (self.data / name).is_dir()]
        others = (clip for folder in folders for clip in _videos(folder) or read_data(folder))
        clips = [*self._labelled, *_videos(self.data), *others]
        if not clips:
            raise DataError(f"{self.data} holds no video. {STANDIN_DATA}")
        return Source("videos", tuple(replace(clip, limit=self.longest) for clip in clips), self._standins)

    def _every(self, distance: int) -> Source:
        """Return every ``distance``-th frame of the dense clip, once from each of the first frames on.

        All phases are scored, except for the first three frames of each such clip.
        """
        clips = [_from(clip, offset, distance) for clip in self._dense for offset in range(distance)]
        if min(len(clip.images) for clip in clips) < 5:
            raise DataError(
                f"{self.data / 'camvid/val'}: too few frames to take every {distance}; {5 * distance} are needed."
            )
        return Source(f"CamVid every {distance}", tuple(clips), self._standins, first_scored=3, filled=2)

    def _official(self, name: str, **options: Any) -> Source:
        """Return one of the paper's data sets with the networks that run on it."""
        place = PLACES[name]
        folder = self.data / place.folder
        if not folder.is_dir():
            raise DataError(
                f"{folder} is missing; --data names the folder that holds {place.folder} (docs/datasets.md)."
            )
        clips = read_data(folder, **{**place.options, **options})
        return Source(name, tuple(clips), self._networks(place.weights), place.first_scored, place.filled)

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

    def _networks(self, full: str) -> Networks:
        """Return the network of these weights, and those that end after its first and its second stage."""
        found = self._weights(full)
        if found is None:
            raise DataError(
                f"{self.weights or '--weights'}: no {full}.onnx; make it with clockseg import "
                f"{full}.caffemodel --out {full}.onnx (docs/fcn8s.md), and give its folder with --weights."
            )
        data = full.partition("-")[0]
        return Networks(self.load(found), *(self._loaded(f"{data}-fcn-{end}") for end in ("pool3", "pool4")))

    def _weights(self, stem: str) -> Path | None:
        file = None if self.weights is None else self.weights / f"{stem}.onnx"
        return file if file is not None and file.is_file() else None

    def _loaded(self, stem: str) -> StagedNetwork | None:
        file = self._weights(stem)
        return None if file is None else self.load(file)


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
    """A data set of the paper: its folder in DIR, the stem of the weights that run on it, and the options to read it with."""

    folder: str
    weights: str
    options: Mapping[str, Any]
    first_scored: int = 2
    filled: int = 1


VOC = "voc-fcn8s-heavy"
PLACES = {
    "PASCAL": Place("VOCdevkit", VOC, {"layout": "pascal", "split": "seg11valid"}),
    "NYUDv2": Place("nyud", "nyud-fcn8s-rgb-heavy", {"layout": "nyud"}),
    "YouTube-Objects": Place("youtube-objects", VOC, {"layout": "youtube_objects", "every": 10}),
    "Cityscapes": Place("cityscapes", "cityscapes-fcn8s-heavy", {"layout": "cityscapes", "after": 0}, 3, 0),
}


def _from(clip: Clip, offset: int, distance: int) -> Clip:
    """Return every ``distance``-th frame of a clip, from frame ``offset`` on, as a clip of its own."""
    name = f"{clip.name} {offset}::{distance}"
    return replace(clip, name=name, images=clip.images[offset::distance], labels=clip.labels[offset::distance])


def _videos(folder: Path) -> list[Clip]:
    videos = sorted(file for file in folder.iterdir() if file.is_file() and file.suffix.lower() in VIDEO_SUFFIXES)
    return [clip for file in videos for clip in read_data(file)]
