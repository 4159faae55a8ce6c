"""The pictures that `scene` learns from and is validated on: photographs, and frames of videos and clips."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import cv2

from clockseg.errors import DataError
from clockseg.types import Image

LONG_SIDE = 512
"""Frames of videos and clips are shrunk to this many pixels, as the photographs are already."""
PERMISSIVE = (
    "trapedes", "homemap", "jetson", "raccoon", "sam2gal", "sam2bed", "sam2img", "intel", "intelasl", "intelgif",
    "azure", "edgenets", "coral", "coraltraffic", "carnd1", "carnd2", "carndv", "elementary", "depthany1", "depthany2",
    "yolomark", "popos", "davis", "cocoyolox",
)  # fmt: skip
"""Sources whose repository states permissive or free terms; `README.md` of the data lists all of them."""
VIDEOS = {"videos/solidWhiteRight.mp4": 10, "videos/one-by-one-person-detection.mp4": 20}
"""Videos in the shared data folder, and how many frames apart they are sampled."""
CLIPS = {"davis": 8, "camvid/train": 4}
"""Folders of clips in the shared data folder, and how many frames apart they are sampled."""
PERMISSIVE_CLIPS = ("davis",)


@dataclass(frozen=True)
class Picture:
    """A picture's unique name, its file, and the frame's number if the file is a video."""

    name: str
    file: Path
    frame: int | None = None

    @property
    def source(self) -> str:
        """The source that the name begins with."""
        return self.name.split("_")[0]


def validation_pictures(data: Path) -> list[Picture]:
    """Return the pictures that are never trained on; `data` is the shared data folder."""
    names = (data / "scenes" / "val.txt").read_text().split()
    return [Picture(Path(name).stem, data / "scenes" / "images" / f"{Path(name).stem}.jpg") for name in names]


def training_pictures(data: Path, *, permissive: bool = False) -> list[Picture]:
    """Return the pictures to train on: the photographs not in `val.txt`, then frames of the videos and the clips.

    `permissive`: only sources whose repositories state permissive terms. `DataError` if nothing is there.
    """
    held = {picture.name for picture in validation_pictures(data)}
    photographs = [Picture(file.stem, file) for file in sorted((data / "scenes" / "images").glob("*.jpg"))]
    found = [picture for picture in photographs if picture.name not in held]
    if permissive:
        found = [picture for picture in found if picture.source in PERMISSIVE]
    if not found:
        raise DataError(f"{data / 'scenes' / 'images'} holds no picture to train on (*.jpg, not named in val.txt).")
    return [*found, *_video_frames(data), *_clip_frames(data, permissive)]


def _video_frames(data: Path) -> Iterator[Picture]:
    for name, apart in VIDEOS.items():
        file = data / name
        if file.exists():
            count = int(cv2.VideoCapture(str(file)).get(cv2.CAP_PROP_FRAME_COUNT))
            yield from (Picture(f"video_{file.stem}_{at:05d}", file, at) for at in range(0, count, apart))


def _clip_frames(data: Path, permissive: bool) -> Iterator[Picture]:
    for folder, apart in CLIPS.items():
        if permissive and folder not in PERMISSIVE_CLIPS:
            continue
        for clip in sorted(path for path in (data / folder).glob("*") if (path / "images").is_dir()):
            for file in sorted((clip / "images").glob("*.jpg"))[::apart]:
                yield Picture(f"clip_{clip.name}_{file.stem}", file)


def read_picture(picture: Picture) -> Image:
    """Decode a picture and shrink it to a long side of at most `LONG_SIDE`; `DataError` if it can't be decoded."""
    if picture.frame is None:
        image = cv2.imread(str(picture.file))
    else:
        video = cv2.VideoCapture(str(picture.file))
        video.set(cv2.CAP_PROP_POS_FRAMES, picture.frame)
        image = video.read()[1]
    if image is None:
        raise DataError(f"{picture.file} can't be decoded (picture {picture.name}).")
    factor = LONG_SIDE / max(image.shape[:2])
    if factor < 1:
        image = cv2.resize(image, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA)
    rgb: Image = cv2.cvtColor(image, cv2.COLOR_BGR2RGB)  # type: ignore[assignment]
    return rgb
