"""A clip of labelled pictures as a video: what a codec does to it, and what its vectors say, with the labels kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import av

from clockseg.datasets import Clip, ClipFrame

P_ONLY = {"crf": "23", "bf": "0"}
"""libx264 as cameras and drones use it: no frame refers to a later one."""


@dataclass(frozen=True)
class Reencoded:
    """What ``evaluate`` takes for a clip: the frames of ``video``, the labels of ``pictures``."""

    video: Clip
    pictures: Clip

    @property
    def name(self) -> str:
        return self.pictures.name

    @property
    def path(self) -> Path:
        return self.video.path

    @property
    def classes(self) -> object:
        return self.pictures.classes

    @property
    def labelled(self) -> int:
        return self.pictures.labelled

    @property
    def taken(self) -> range | None:
        return self.pictures.taken

    @property
    def limit(self) -> int | None:
        return self.pictures.limit

    def frames(
        self, *, problem: Callable[[str], None] = lambda text: None, vectors: bool = False
    ) -> Iterator[ClipFrame]:
        """Frame by frame; a lost one would shift all labels after it, so a count that differs is an error."""
        pairs = zip(self.video.frames(problem=problem, vectors=vectors), self.pictures.taken or (), strict=True)
        for frame, index in pairs:
            yield replace(frame, index=index, labels=self.pictures.frame(index).labels)


def reencoded(clip: Clip, path: Path, *, fps: int = 15, options: Mapping[str, str] = P_ONLY) -> Reencoded:
    """``clip`` as H.264 in ``path``."""
    with av.open(str(path), "w") as out:
        stream = out.add_stream("libx264", rate=Fraction(fps), options=dict(options))
        stream.pix_fmt = "yuv420p"
        for number, frame in enumerate(clip):
            if not number:
                stream.height, stream.width = frame.image.shape[:2]
            out.mux(stream.encode(av.VideoFrame.from_ndarray(frame.image, format="rgb24")))
        out.mux(stream.encode(None))
    return Reencoded(Clip(clip.name, path), clip)
