"""DAVIS and data sets with its layout: densely labelled shots of moving objects, one class per shot.

    DATA/JPEGImages/480p/SHOT/NNNNN.jpg
    DATA/Annotations/480p/SHOT/NNNNN.png      grey 0 and 255 (2016), or a palette whose index numbers the objects (2017)
    DATA/ImageSets/480p/val.txt               lists of shots (2017: ImageSets/2017/val.txt), if only some are wanted

The folder of a resolution may be missing, as in data sets that follow DAVIS. Everything that is not background is one class:
"object", or the class that ``shots`` gives for the shot. A network with more classes is then scored as on YouTube-Objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from clockseg.datasets._files import files, folders, missing, pictures, read_lines
from clockseg.datasets.classes import Classes
from clockseg.datasets.clips import Clip
from clockseg.datasets.labels import Mapped, read_index_png
from clockseg.datasets.pascal import colours
from clockseg.errors import UsageError, nearest

WHERE = "Get DAVIS from davischallenge.org; docs/datasets.md shows what goes where."
FPS = 24
OBJECT = Classes(("background", "object"), colours(2), fps=FPS)


def matches(path: Path) -> bool:
    """Return True if a folder looks like DAVIS."""
    return (path / "Annotations").is_dir() and bool(folders(path / "JPEGImages"))


def read(
    path: Path,
    *,
    split: str | None = None,
    resolution: str | None = None,
    shots: Mapping[str, str] | None = None,
) -> list[Clip]:
    """Return a clip for each shot, for those in the list ``split`` ("480p/val", "2017/val"), or for those in ``shots``.

    ``resolution``: the name of a folder (default: 480p if it exists, else none). ``shots``: the class that each shot shows,
    such as ``{"dog": "dog", "dog-agility": "dog"}``. ``DataError`` names what is missing.

    >>> read(Path("nowhere"))
    Traceback (most recent call last):
        ...
    clockseg.errors.DataError: nowhere/JPEGImages is missing: a folder of pictures for each shot. Get DAVIS from
    davischallenge.org; docs/datasets.md shows what goes where.
    """
    if resolution is None:
        resolution = "480p" if (path / "JPEGImages" / "480p").is_dir() else ""
    images, masks = path / f"JPEGImages/{resolution}", path / f"Annotations/{resolution}"
    there = [folder.name for folder in folders(images)]
    if not there:
        raise missing(images, "a folder of pictures for each shot", WHERE)
    wanted = there if split is None else _list(path / "ImageSets" / f"{split}.txt")
    if shots is None:
        return [_clip(shot, images, masks, OBJECT, 1) for shot in wanted]
    if not isinstance(shots, Mapping):
        raise UsageError(f"shots is {shots!r}; give the class that each shot shows, such as {{'dog': 'dog'}}.")
    for shot in shots:
        if shot not in there:
            raise UsageError(f"there is no shot {shot!r} in {images}. {nearest(shot, there)}")
    names = ("background", *sorted(set(shots.values())))
    classes = Classes(names, colours(len(names)), fps=FPS, others=0)
    return [_clip(shot, images, masks, classes, names.index(shots[shot])) for shot in wanted if shot in shots]


def _list(file: Path) -> list[str]:
    if not file.is_file():
        there = [
            f"{folder.name}/{found.stem}" for folder in folders(file.parents[1]) for found in files(folder, (".txt",))
        ]
        raise missing(file, f"a list of shots; the lists there are: {', '.join(there) or 'none'}", WHERE)
    # A line of the lists of 2016 has a picture and a mask, one of 2017 a shot.
    first = (line.split()[0] for line in read_lines(file))
    return list(dict.fromkeys(Path(name).parent.name if "/" in name else name for name in first))


def _clip(shot: str, images: Path, masks: Path, classes: Classes, label: int) -> Clip:
    found = pictures(images / shot)
    if not found:
        raise missing(images / shot, "the pictures of a shot", WHERE)
    labels = {mask.stem: mask for mask in files(masks / shot, (".png",))}
    if not labels:
        raise missing(masks / shot, f"the masks of {shot}", WHERE)
    return Clip(
        shot,
        images / shot,
        found,
        tuple(labels.get(picture.stem) for picture in found),
        classes,
        read_labels=Mapped.of({0: 0}, others=label, read=read_index_png),
    )
