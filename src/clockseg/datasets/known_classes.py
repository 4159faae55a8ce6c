"""The classes of the official data sets: their names in the order of their ids, their colours, and how ids are stored."""

from __future__ import annotations

from clockseg.datasets.classes import Classes
from clockseg.datasets.labels import Mapped


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
"""Ten classes of PASCAL; a network's other classes count as background.

>>> table = YOUTUBE_OBJECTS.lookup(PASCAL_NAMES)
>>> [YOUTUBE_OBJECTS.names[table[PASCAL_NAMES.index(name)]] for name in ("cat", "person", "train")]
['cat', 'background', 'train']
"""

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
