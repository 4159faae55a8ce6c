"""Folders of clips: what is found, in which order, and what each error names."""

from __future__ import annotations

import json
import os
import struct
import zlib
from pathlib import Path

import cv2
import numpy as np
import pytest

from clockseg.datasets import Clip, read_data, read_labels_png
from clockseg.errors import ClocksegError, DataError, UsageError, VideoError

CLASSES = {"classes": ["sky", "road"], "palette": [[1, 2, 3], [4, 5, 6]], "ignore": 255, "fps": 15}


def write(path: Path, picture: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    assert cv2.imwrite(str(path), picture)


def frame(value: int, size: tuple[int, int] = (8, 6)) -> np.ndarray:
    return np.full((size[1], size[0], 3), value, np.uint8)


def labels(*values: int) -> np.ndarray:
    return np.resize(np.array(values, np.uint8), (6, 8))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two clips, b10 and b9, of three frames; the middle one of each is labelled."""
    for name in ("b10", "b9"):
        for index in (1, 2, 10):
            write(tmp_path / name / "images" / f"f{index}.png", frame(index))
        write(tmp_path / name / "labels" / "f2.png", labels(0, 1, 255))
    (tmp_path / "classes.json").write_text(json.dumps(CLASSES))
    return tmp_path


def contents(clip: Clip) -> list[tuple[int, int, bool]]:
    return [(one.index, int(one.image[0, 0, 0]), one.labels is not None) for one in clip]


def test_a_folder_of_clips_in_natural_order_with_labels_for_some(data):
    clips = read_data(data)
    assert [clip.name for clip in clips] == ["b9", "b10"]
    assert contents(clips[0]) == [(0, 1, False), (1, 2, True), (2, 10, False)]
    assert clips[0].labelled == 1
    assert clips[0].classes is not None
    assert clips[0].classes.names == ("sky", "road")
    assert clips[0].classes.fps == 15


def test_labels_are_the_grey_values(data):
    found = next(one for one in read_data(data)[0] if one.labels is not None)
    assert found.labels is not None
    assert found.labels.dtype == np.uint8
    assert np.array_equal(found.labels, labels(0, 1, 255))


def test_every_value_of_a_byte_is_read_as_it_is(tmp_path):
    write(tmp_path / "all.png", np.arange(256, dtype=np.uint8).reshape(16, 16))
    assert np.array_equal(read_labels_png(tmp_path / "all.png").ravel(), np.arange(256))


def test_one_clip_finds_the_classes_beside_or_in_it(data):
    (clip,) = read_data(data / "b9")
    assert clip.classes is not None
    (data / "classes.json").rename(data / "b9" / "classes.json")
    (clip,) = read_data(data / "b9")
    assert clip.classes is not None
    assert clip.labelled == 1


def test_a_folder_of_pictures_is_a_clip_without_labels(data):
    (clip,) = read_data(data / "b9" / "images")
    assert contents(clip) == [(0, 1, False), (1, 2, False), (2, 10, False)]
    assert clip.labelled == 0


def video(path: Path, frames: int) -> Path:
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), 10, (32, 16))
    for value in range(frames):
        writer.write(frame(4 * value, (32, 16)))
    writer.release()
    return path


def test_stopping_at_the_limit_is_no_problem(tmp_path):
    told: list[str] = []
    (clip,) = read_data(video(tmp_path / "long.avi", 50), limit=3)
    assert len(list(clip.frames(problem=told.append))) == 3
    assert told == []


def test_a_video_is_a_clip_without_labels(tmp_path):
    (clip,) = read_data(video(tmp_path / "five.avi", 5), every=2)
    assert clip.taken is None
    assert [one.index for one in clip] == [0, 2, 4]


def test_every_and_limit_take_frames_before_anything_else(data):
    assert [one.index for one in read_data(data, every=2)[0]] == [0, 2]
    assert [one.index for one in read_data(data, every=2, limit=1)[0]] == [0]
    assert read_data(data, every=2)[0].labelled == 0
    with pytest.raises(UsageError, match="at least 1"):
        read_data(data, every=0)


def test_hidden_files_are_passed_over(data):
    (data / "b9" / "images" / ".f3.png").write_bytes(b"")
    (data / "b9" / "labels" / ".f3.png").write_bytes(b"")
    assert len(contents(read_data(data)[0])) == 3


# What is missing


def test_no_such_folder(tmp_path):
    with pytest.raises(DataError, match=r"nowhere: no such file or folder\. DATA is"):
        read_data(tmp_path / "nowhere")


def test_no_clip_in_the_folder(tmp_path):
    with pytest.raises(DataError, match=r"contains no clip and no picture\. DATA is"):
        read_data(tmp_path)


def test_no_images_in_a_clip(data):
    for picture in (data / "b9" / "images").iterdir():
        picture.unlink()
    with pytest.raises(DataError, match=r"b9: no pictures in .*images"):
        read_data(data)


def test_no_images_folder_beside_labels(data):
    write(data / "b11" / "labels" / "f1.png", labels(0))
    with pytest.raises(DataError, match="b11: no pictures"):
        read_data(data)


def test_label_without_image(data):
    write(data / "b9" / "labels" / "f7.png", labels(0))
    with pytest.raises(DataError, match=r"label .*f7\.png has no picture f7\.\*"):
        read_data(data)


def test_two_pictures_of_one_name(data):
    write(data / "b9" / "images" / "f1.jpg", frame(1))
    with pytest.raises(DataError, match="two pictures have the name f1"):
        read_data(data)


def test_labels_in_another_format(data):
    write(data / "b9" / "labels" / "f1.jpg", labels(0))
    with pytest.raises(DataError, match=r"f1\.jpg is not a PNG; lossy formats change ids"):
        read_data(data)


def test_empty_labels_folder(data):
    (data / "b9" / "labels" / "f2.png").unlink()
    with pytest.raises(DataError, match="contains no labels"):
        read_data(data)


# classes.json


def test_classes_missing(data):
    (data / "classes.json").unlink()
    with pytest.raises(DataError, match=r"classes\.json is missing; it states the meaning of label ids"):
        read_data(data)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("{", "can't be read"),
        ("[1]", "contains a list, not an object"),
        ({"classes": None}, "classes is None"),
        ({"classes": ["sky", 3]}, "3 is not the name of a class"),
        ({"classes": []}, "0 classes"),
        ({"classes": ["sky", "sky"]}, "sky is there twice"),
        ({"classes": [str(n) for n in range(256)], "palette": []}, "256 classes"),
        ({"palette": [[1, 2, 3]]}, "1 colours for 2 classes"),
        ({"palette": [[1, 2, 3], [1, 2, 256]]}, "has a colour that is not"),
        ({"ignore": 1}, "ignore is 1; give an id that is not a class, 2 to 255"),
        ({"ignore": 256}, "ignore is 256"),
        ({"ignore": True}, "ignore is True"),
        ({"fps": 0}, "fps is 0"),
        ({"fps": "15"}, "fps is '15'"),
    ],
)
def test_classes_invalid(data, change, message):
    text = change if isinstance(change, str) else json.dumps(CLASSES | change)
    (data / "classes.json").write_text(text)
    with pytest.raises(DataError, match=message):
        read_data(data)


def test_palette_ignore_and_fps_may_be_left_out(data):
    (data / "classes.json").write_text('{"classes": ["sky", "road"]}')
    classes = read_data(data)[0].classes
    assert classes is not None
    assert (classes.palette, classes.ignore, classes.fps) == ((), 255, None)


# Labels that don't fit


def failing(data: Path, error: type[ClocksegError], message: str) -> None:
    """The clip is found; its frames fail when they are read."""
    clip = read_data(data)[0]
    with pytest.raises(error, match=message):
        list(clip)


def test_label_of_another_size(data):
    write(data / "b9" / "labels" / "f2.png", np.zeros((8, 6), np.uint8))
    failing(data, DataError, r"f2\.png is 6x8, its picture 8x6")


def test_label_ids_outside_the_classes(data):
    write(data / "b9" / "labels" / "f2.png", labels(0, 2, 7, 255))
    failing(data, DataError, r"holds 2, 7; there are 2 classes \(0 to 1\) and 255")


def test_colour_coded_labels(data):
    write(data / "b9" / "labels" / "f2.png", frame(3))
    failing(data, DataError, "holds colours, from which ids")


def test_sixteen_bit_labels(data):
    write(data / "b9" / "labels" / "f2.png", labels(0).astype(np.uint16))
    failing(data, DataError, "has 16 bits per pixel")


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(colour: int, depth: int, rows: bytes, *, size: tuple[int, int] = (8, 6), extra: bytes = b"") -> bytes:
    header = struct.pack(">IIBBBBB", *size, depth, colour, 0, 0, 0)
    ends = chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + ends


def test_palette_labels(data):
    palette = chunk(b"PLTE", bytes(range(6)))
    (data / "b9" / "labels" / "f2.png").write_bytes(png(3, 8, bytes(9) * 6, extra=palette))
    failing(data, DataError, "holds a palette, from which ids")


def test_labels_of_one_bit(data):
    (data / "b9" / "labels" / "f2.png").write_bytes(png(0, 1, bytes(2) * 6))
    failing(data, DataError, "has 1 bits per pixel")


def test_sizes_in_a_header_are_not_trusted(data):
    (data / "b9" / "labels" / "f2.png").write_bytes(png(0, 8, b"", size=(2**31 - 1, 2**31 - 1)))
    failing(data, DataError, "at most 64000000 pixels")


@pytest.mark.parametrize("cut", [0, 4, 20, 40, -6])
def test_label_cut_off(data, cut):
    label = data / "b9" / "labels" / "f2.png"
    label.write_bytes(label.read_bytes()[:cut])
    failing(data, DataError, r"f2\.png is (cut off or damaged|not a PNG)")


def test_label_with_a_changed_byte(data):
    label = data / "b9" / "labels" / "f2.png"
    changed = bytearray(label.read_bytes())
    changed[-20] ^= 1
    label.write_bytes(changed)
    failing(data, DataError, "cut off or damaged")


def test_interlaced_label(data):
    passes = b"".join(
        bytes(1 + width) * rows for width, rows in [(1, 1), (1, 1), (2, 1), (2, 2), (4, 1), (4, 3), (8, 3)]
    )
    label = bytearray(png(0, 8, passes))
    label[28] = 1
    label[29:33] = struct.pack(">I", zlib.crc32(label[12:29]))
    (data / "b9" / "labels" / "f2.png").write_bytes(label)
    assert sum(one.labels is not None for one in read_data(data)[0]) == 1


def test_broken_image_is_named_and_moves_no_other_frame(data):
    (data / "b9" / "images" / "f1.png").write_bytes(b"no picture")
    failing(data, VideoError, r"f1\.png")


def test_image_cut_off(data):
    image = data / "b9" / "images" / "f1.png"
    noise = np.random.default_rng(0).integers(0, 255, (60, 80, 3)).astype(np.uint8)
    write(image, noise)
    image.write_bytes(image.read_bytes()[:4000])
    failing(data, ClocksegError, r"f1\.png")


# The shared data


def test_camvid_val():
    camvid = Path(os.environ.get("CLOCKSEG_DATA") or Path(__file__).parents[2] / "shared") / "data" / "camvid"
    if not camvid.is_dir():
        pytest.skip("the shared CamVid clips are not here: set CLOCKSEG_DATA")
    (clip,) = read_data(camvid / "val", limit=3)
    assert clip.classes is not None
    assert len(clip.classes.names) == 11
    assert [one.image.shape for one in clip] == [(360, 480, 3)] * 3
    assert clip.labelled == 3
