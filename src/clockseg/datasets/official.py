"""Readers of data sets in their official layouts (docs/datasets.md says where to get them, and what goes where).

pascal: still pictures, each a clip of one frame. A palette's index is the class id, 255 the void line.
    JPEGImages/ID.jpg, SegmentationClass/ID.png, ImageSets/Segmentation/SPLIT.txt in VOCdevkit/VOC2012 or VOC2011
nyud: indoor scenes; clips of raw frames around a labelled one. Which frame a label belongs to is in the labelled data set.
    raw/SCENE/r-TIMESTAMP-NUMBER.ppm (640x480), labels/NAME.png (560x425), SPLIT.txt (NAME SCENE/r-TIMESTAMP-NUMBER.ppm)
youtube_objects: shots of ten PASCAL classes; every tenth frame, from number 1 on, has a mask of the shot's class.
    CLASS/data/VIDEO/shots/SHOT/images/frameNNNN.jpg and ../labels/NNNNN.jpg
cityscapes: street scenes; each labelled frame is the 20th of a snippet of 30 at 17 Hz.
    leftImg8bit_sequence or leftImg8bit/SPLIT/CITY/CITY_SEQUENCE_FRAME_leftImg8bit.png,
    gtFine/SPLIT/CITY/CITY_SEQUENCE_FRAME_gtFine_labelIds.png (or _labelTrainIds.png)
camvid: drives of labelled frames up to a second apart, 480x360.
    SPLIT/DRIVE_FRAME.png, SPLITannot/DRIVE_FRAME.png
davis: densely labelled shots of moving objects, one class per shot; also data sets with the layout of DAVIS.
    JPEGImages/480p/SHOT/NNNNN.jpg, Annotations/480p/SHOT/NNNNN.png (grey 0 and 255, or a palette that numbers the objects),
    ImageSets/480p/val.txt or ImageSets/2017/val.txt
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import groupby
from pathlib import Path

import numpy as np

from clockseg.datasets.classes import Classes
from clockseg.datasets.clips import Clip, read_picture
from clockseg.datasets.folders import SEE_DOCS, files, folders, missing, read_lines, required
from clockseg.datasets.labels import Mapped, read_index_png, read_labels_png
from clockseg.errors import DataError, UsageError, nearest, whole_number
from clockseg.types import Array, Image, Labels


def voc_palette(count: int) -> tuple[tuple[int, int, int], ...]:
    """Return the first ``count`` colours of PASCAL's palette, RGB: bit 3k + c of an id is bit 7 - k of channel c.

    >>> voc_palette(3)
    ((0, 0, 0), (128, 0, 0), (0, 128, 0))
    """

    def channel(id: int, c: int) -> int:
        return sum((id >> 3 * k + c & 1) << 7 - k for k in range(3))

    return tuple((channel(id, 0), channel(id, 1), channel(id, 2)) for id in range(count))


PASCAL_NAMES = (
    "background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow",
    "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
PASCAL = Classes(PASCAL_NAMES, voc_palette(len(PASCAL_NAMES)))

_YOUTUBE = ("background", "aeroplane", "bird", "boat", "car", "cat", "cow", "dog", "horse", "motorbike", "train")
YOUTUBE_OBJECTS = Classes(_YOUTUBE, tuple(PASCAL.palette[PASCAL_NAMES.index(name)] for name in _YOUTUBE), others=0)
"""Ten classes of PASCAL; a network's other classes count as background."""

DAVIS_FPS = 24
DAVIS = Classes(("background", "object"), voc_palette(2), fps=DAVIS_FPS)

_NYUD = (
    "wall", "floor", "cabinet", "bed", "chair", "sofa", "table", "door", "window", "bookshelf", "picture",
    "counter", "blinds", "desk", "shelves", "curtain", "dresser", "pillow", "mirror", "floor mat", "clothes",
    "ceiling", "books", "refrigerator", "television", "paper", "towel", "shower curtain", "box", "whiteboard",
    "person", "night stand", "toilet", "sink", "lamp", "bathtub", "bag", "other structure", "other furniture",
    "other prop",
)  # fmt: skip
NYUD = Classes(_NYUD, voc_palette(len(_NYUD) + 1)[1:])
NYUD_LABELS = Mapped({id: (id - 1) % 256 for id in range(256)})
"""Stored ids start at 1; 0 means no label and becomes 255."""

CITYSCAPES = Classes(
    (
        "road", "sidewalk", "building", "wall", "fence", "pole", "traffic light", "traffic sign", "vegetation",
        "terrain", "sky", "person", "rider", "car", "truck", "bus", "train", "motorcycle", "bicycle",
    ),
    (
        (128, 64, 128), (244, 35, 232), (70, 70, 70), (102, 102, 156), (190, 153, 153), (153, 153, 153),
        (250, 170, 30), (220, 220, 0), (107, 142, 35), (152, 251, 152), (70, 130, 180), (220, 20, 60), (255, 0, 0),
        (0, 0, 142), (0, 0, 70), (0, 60, 100), (0, 80, 100), (0, 0, 230), (119, 11, 32),
    ),
    fps=17,
)  # fmt: skip
_CITYSCAPES_IDS = (7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33)
CITYSCAPES_LABELS = Mapped({id: train for train, id in enumerate(_CITYSCAPES_IDS)}, others=CITYSCAPES.ignore)
"""Reads labelIds files, whose ids are not the 19 training ids; all other ids are ignored."""

CAMVID = Classes(
    ("sky", "building", "pole", "road", "pavement", "tree", "sign", "fence", "car", "pedestrian", "bicyclist"),
    (
        (128, 128, 128), (128, 0, 0), (192, 192, 128), (128, 64, 128), (60, 40, 222), (128, 128, 0), (192, 128, 128),
        (64, 64, 128), (64, 0, 128), (64, 64, 0), (0, 128, 192),
    ),
)  # fmt: skip
CAMVID_LABELS = Mapped({11: CAMVID.ignore})
"""The stored id 11 is void."""


def pascal(path: Path, *, split: str = "val", labels: str = "SegmentationClass") -> list[Clip]:
    """Return a clip of one labelled frame for each id in the list ``split``, in its order.

    ``labels``: the folder of the label maps, such as ``SegmentationClassAug`` for SBD's, converted to PNG. The paper scores
    on ``seg11valid``: the 736 ids of VOC2011's val that are not in SBD's train list. It is read from ``seg11valid.txt``, or
    in VOC2011 made of ``val.txt`` and SBD's ``train.txt``, stored beside it as ``sbd-train.txt``.
    """
    root = _pascal_root(path) or path
    images = required(root / "JPEGImages", "the pictures, ID.jpg")
    maps = required(root / labels, "the label maps, ID.png")
    clips = []
    for name in _pascal_list(root / "ImageSets" / "Segmentation", split):
        what = f"a file of {name}, which is in the list"
        picture, label = required(images / f"{name}.jpg", what), required(maps / f"{name}.png", what)
        clips.append(Clip(name, picture, (picture,), (label,), PASCAL, read_labels=read_index_png))
    return clips


def _pascal_root(path: Path) -> Path | None:
    """Return the folder of one year, the newer one if there are two."""
    years = ("", "VOC2012", "VOC2011", "VOCdevkit/VOC2012", "VOCdevkit/VOC2011")
    return next((path / year for year in years if (path / year / "ImageSets" / "Segmentation").is_dir()), None)


def _pascal_list(folder: Path, split: str) -> list[str]:
    file = folder / f"{split}.txt"
    if file.is_file():
        return read_lines(file)
    if split != "seg11valid":
        there = ", ".join(found.stem for found in files(folder, (".txt",))) or "none"
        raise missing(file, f"the list of the pictures of {split!r}; the lists there are: {there}")
    val, train = folder / "val.txt", folder / "sbd-train.txt"
    if folder.parents[1].name != "VOC2011" or not (val.is_file() and train.is_file()):  # VOC2012's val is another list
        what = "the 736 ids the paper scores; VOC2011 makes it of val.txt and SBD's train.txt (as sbd-train.txt) too"
        raise missing(file, what)
    trained = set(read_lines(train))
    return [name for name in read_lines(val) if name not in trained]


def nyud(path: Path, *, split: str = "test", skip: int = 10, before: int = 2, after: int = 0) -> list[Clip]:
    """Return a clip for each labelled frame in the list ``split``: every ``skip``-th raw frame around it, in order of time.

    ``before``, ``after``: the number of these before and after the labelled frame, as far as the scene reaches. The paper
    walks backwards for fixed rates and pipelines, and both ways for adaptive clocks.
    """
    whole_number(skip, "skip")
    around = range(-whole_number(before, "before", least=0), whole_number(after, "after", least=0) + 1)
    what = "the list of labelled frames, lines of NAME SCENE/r-TIMESTAMP-NUMBER.ppm"
    file = required(path / f"{split}.txt", what)
    scenes: dict[Path, list[Path]] = {}
    clips = []
    for line in read_lines(file):
        if len(pair := line.split()) != 2:
            raise DataError(f"{file}: {' '.join(pair)!r} is not NAME SCENE/r-TIMESTAMP-NUMBER.ppm. {SEE_DOCS}")
        label = required(path / "labels" / f"{pair[0]}.png", "a label map that the list names")
        picture = path / "raw" / pair[1]
        folder = picture.parent
        if folder not in scenes:  # the order of time differs from that of the names
            scenes[folder] = sorted(files(folder, (".ppm",)), key=_nyud_timestamp)
        scene = scenes[folder]
        if picture not in scene:
            raise missing(picture, f"the raw frame of {label.stem}")
        at = scene.index(picture)
        indices = [at + skip * step for step in around if 0 <= at + skip * step < len(scene)]
        images = tuple(scene[index] for index in indices)
        labels = tuple(label if index == at else None for index in indices)
        clips.append(
            Clip(label.stem, folder, images, labels, NYUD, read_image=read_nyud_frame, read_labels=NYUD_LABELS)
        )
    return clips


def read_nyud_frame(path: Path) -> Image:
    """Read a raw frame, cropped to the labelled window: uint8 RGB [425, 560, 3]."""
    image = read_picture(path)
    if image.shape[:2] != (480, 640):
        raise DataError(f"picture {path} is {image.shape[1]}x{image.shape[0]}; raw frames are 640x480. {SEE_DOCS}")
    return np.ascontiguousarray(image[44:469, 40:600])


def _nyud_timestamp(frame: Path) -> float:
    found = re.fullmatch(r"r-(\d+(?:\.\d+)?)-\d+", frame.stem)
    if found is None:
        raise DataError(f"{frame} is not named r-TIMESTAMP-NUMBER.ppm. {SEE_DOCS}")
    return float(found[1])


FIRST_SCORED = 21
"""The number of the first frame of YouTube-Objects that is scored: it has two predecessors ten frames apart."""


def youtube_objects(path: Path) -> list[Clip]:
    """Return a clip for each shot with masks, from its first mask on; ``every=10`` takes the labelled frames.

    Labels start at frame number ``FIRST_SCORED``. As in the authors' evaluation, frames and masks are scaled to a longer side
    of 500 pixels, and no pixel is ignored.
    """
    names = YOUTUBE_OBJECTS.names
    shots = [
        (label, shot)
        for label, name in enumerate(names)
        for video in folders(path / name / "data")
        for shot in folders(video / "shots")
        if (shot / "labels").is_dir()
    ]
    if not shots:
        raise missing(path / names[1] / "data", "folders VIDEO/shots/SHOT, here or of another class")
    return [_youtube_clip(shot, label) for label, shot in shots]


def _youtube_clip(shot: Path, label: int) -> Clip:
    masks = _numbered(shot / "labels", "the masks of the shot, NNNNN.jpg")
    frames = _numbered(shot / "images", "the frames of the shot, frameNNNN.jpg")
    numbers = range(min(masks), max(frames) + 1)  # without gaps, so that every tenth frame is labelled
    for number in (*numbers, *masks):
        if number not in frames:
            raise missing(shot / "images" / f"frame{number:04}.jpg", f"frame {number} of the shot")
    video = shot.parents[1]
    name = f"{video.parents[1].name}/{video.name}/{shot.name}"
    images = tuple(frames[number] for number in numbers)
    labels = tuple(masks.get(number) if number >= FIRST_SCORED else None for number in numbers)
    read_labels = Mapped({1: label}, read=read_youtube_mask)
    return Clip(name, shot, images, labels, YOUTUBE_OBJECTS, read_image=read_youtube_frame, read_labels=read_labels)


def _numbered(folder: Path, what: str) -> dict[int, Path]:
    """Return the files by the number at the end of their names."""
    found = {}
    for file in files(folder, (".jpg", ".jpeg", ".png"), what=what):
        if (number := re.search(r"\d+$", file.stem)) is None:
            raise DataError(f"{file}: its name does not end with a number. {SEE_DOCS}")
        found[int(number[0])] = file
    return found


def read_youtube_frame(path: Path) -> Image:
    """Read a picture and scale it: uint8 RGB [h, w, 3]."""
    return scaled(read_picture(path), nearest=False)


def read_youtube_mask(path: Path) -> Labels:
    """Read a mask, a JPEG, and scale it: 1 where it is brighter than 15, else 0; uint8 [h, w]."""
    return scaled((read_picture(path).max(axis=2) > 15).astype(np.uint8), nearest=True)


def scaled(array: Array, *, nearest: bool) -> Array:
    """Scale to a longer side of 500 pixels, each side rounded down; bilinear, or nearest neighbour."""
    import cv2

    height, width = array.shape[:2]
    longer = max(height, width)
    size = max(1, width * 500 // longer), max(1, height * 500 // longer)
    return np.asarray(cv2.resize(array, size, interpolation=cv2.INTER_NEAREST_EXACT if nearest else cv2.INTER_LINEAR))


def cityscapes(path: Path, *, split: str = "val", before: int = 19, after: int = 10) -> list[Clip]:
    """Return a clip for each labelled frame of ``split``: its snippet, or the frame alone where there are no snippets.

    ``before``, ``after``: the number of frames around the labelled one, at most 19 and 10; the paper takes 19 and 0.
    """
    if whole_number(before, "before", least=0) > 19 or whole_number(after, "after", least=0) > 10:
        raise UsageError(f"before={before}, after={after}; a snippet has 19 frames before the labelled one, 10 after.")
    sequences = (path / "leftImg8bit_sequence" / split).is_dir()
    images = path / ("leftImg8bit_sequence" if sequences else "leftImg8bit") / split
    around = range(-before, after + 1) if sequences else range(1)
    maps = [file for city in folders(path / "gtFine" / split) for file in files(city, (".png",))]
    # labelIds, as downloaded, else labelTrainIds, as made by the scripts of Cityscapes.
    ids, train_ids = (
        [file for file in maps if file.stem.endswith(f"_gtFine_label{kind}")] for kind in ("Ids", "TrainIds")
    )
    if not ids and not train_ids:
        what = "label maps, CITY/CITY_SEQUENCE_FRAME_gtFine_labelIds.png"
        raise missing(path / "gtFine" / split, what)
    read_labels = CITYSCAPES_LABELS if ids else read_labels_png
    return [_cityscapes_clip(label, images / label.parent.name, around, read_labels) for label in ids or train_ids]


def _cityscapes_clip(label: Path, folder: Path, around: range, read_labels: Callable[[Path], Labels]) -> Clip:
    stem = label.name.partition("_gtFine_")[0]
    start, _, number = stem.rpartition("_")
    if not number.isdigit():
        raise DataError(f"label {label} is not named CITY_SEQUENCE_FRAME_gtFine_labelIds.png. {SEE_DOCS}")
    names = (f"{start}_{int(number) + offset:0{len(number)}}_leftImg8bit.png" for offset in around)
    what = f"a frame of the snippet around {label.name}"
    images = tuple(required(folder / name, what) for name in names)
    labels = tuple(label if offset == 0 else None for offset in around)
    return Clip(stem, folder, images, labels, CITYSCAPES, read_labels=read_labels)


def camvid(path: Path, *, split: str = "val") -> list[Clip]:
    """Return a clip for each drive of ``split``, with labels for every frame."""
    found = files(path / split, what=f"the pictures of the split {split!r}")
    clips = []
    for drive, group in groupby(found, key=lambda picture: picture.stem.rpartition("_")[0] or split):
        images = tuple(group)
        maps = (path / f"{split}annot" / f"{image.stem}.png" for image in images)
        labels = tuple(required(label, "the label map of a picture") for label in maps)
        clips.append(Clip(drive, path / split, images, labels, CAMVID, read_labels=CAMVID_LABELS))
    return clips


def davis(path: Path, *, split: str | None = None, shots: Mapping[str, str] | None = None) -> list[Clip]:
    """Return a clip for each shot, for those in the list ``split`` ("480p/val", "2017/val"), or for those in ``shots``.

    ``shots``: the class that each shot shows, such as ``{"dog": "dog", "dog-agility": "dog"}``; a network's other classes
    then count as background. Without it everything that is not background is the class "object".
    """
    resolution = "480p" if (path / "JPEGImages" / "480p").is_dir() else ""
    images, masks = path / "JPEGImages" / resolution, path / "Annotations" / resolution
    there = [folder.name for folder in folders(images)]
    if not there:
        raise missing(images, "a folder of pictures for each shot")
    wanted = there if split is None else _davis_list(path / "ImageSets" / f"{split}.txt")
    if shots is None:
        return [_davis_clip(images / shot, masks / shot, DAVIS, 1) for shot in wanted]
    if not isinstance(shots, Mapping):
        raise UsageError(f"shots is {shots!r}; give the class that each shot shows, such as {{'dog': 'dog'}}.")
    for shot in shots:
        if shot not in there:
            raise UsageError(f"there is no shot {shot!r} in {images}. {nearest(shot, there)}")
    names = ("background", *sorted(set(shots.values())))
    classes = Classes(names, voc_palette(len(names)), fps=DAVIS_FPS, others=0)
    shown = [(shot, names.index(shots[shot])) for shot in wanted if shot in shots]
    return [_davis_clip(images / shot, masks / shot, classes, label) for shot, label in shown]


def _davis_list(file: Path) -> list[str]:
    if not file.is_file():
        lists = [f"{one.name}/{found.stem}" for one in folders(file.parents[1]) for found in files(one, (".txt",))]
        raise missing(file, f"a list of shots; the lists there are: {', '.join(lists) or 'none'}")
    # A line of the lists of 2016 has a picture and a mask, one of 2017 a shot.
    first = (line.split()[0] for line in read_lines(file))
    return list(dict.fromkeys(Path(name).parent.name if "/" in name else name for name in first))


def _davis_clip(images: Path, masks: Path, classes: Classes, label: int) -> Clip:
    found = files(images, what="the pictures of a shot")
    labels = {mask.stem: mask for mask in files(masks, (".png",), what=f"the masks of {images.name}")}
    read_labels = Mapped({0: 0}, others=label, read=read_index_png)
    shown = tuple(labels.get(picture.stem) for picture in found)
    return Clip(images.name, images, found, shown, classes, read_labels=read_labels)


OFFICIAL: Mapping[str, tuple[Callable[..., list[Clip]], Callable[[Path], bool]]] = {
    "pascal": (pascal, lambda path: _pascal_root(path) is not None),
    "nyud": (nyud, lambda path: (path / "raw").is_dir() and (path / "labels").is_dir()),
    "youtube_objects": (
        youtube_objects,
        lambda path: any((path / name / "data").is_dir() for name in YOUTUBE_OBJECTS.names[1:]),
    ),
    "cityscapes": (
        cityscapes,
        lambda path: (path / "leftImg8bit_sequence").is_dir() or (path / "leftImg8bit").is_dir(),
    ),
    "camvid": (
        camvid,
        lambda path: any((path / s).is_dir() and (path / f"{s}annot").is_dir() for s in ("train", "val", "test")),
    ),
    "davis": (davis, lambda path: (path / "Annotations").is_dir() and bool(folders(path / "JPEGImages"))),
}
"""The reader of each data set, and a test of a folder for its layout."""
