"""Small data sets in exactly the layouts of the real ones, built with Pillow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from clockseg.datasets.official import voc_palette


def scene(width: int, height: int, seed: int = 0) -> np.ndarray:
    """A picture of noise, uint8 RGB [h, w, 3]."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3)).astype(np.uint8)


def labels(width: int, height: int, ids: Sequence[int], seed: int = 0) -> np.ndarray:
    """A label map of some of these ids, in blocks of 4x4."""
    coarse = np.random.default_rng(seed).choice(np.array(ids, np.uint8), (-(-height // 4), -(-width // 4)))
    return np.kron(coarse, np.ones((4, 4), np.uint8))[:height, :width]


def save(path: Path, array: np.ndarray, *, palette: bool = False, **options: int) -> Path:
    """A picture or grey label map; with ``palette``, PASCAL's colours for the ids."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(array)
    if palette:
        image = Image.fromarray(array)
        image.putpalette([channel for colour in voc_palette(256) for channel in colour])
    image.save(path, **options)
    return path


def write_list(path: Path, lines: Iterable[str]) -> None:
    """A text file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))


def voc(root: Path, ids: Iterable[str], *, split: str = "val", size: tuple[int, int] = (50, 36)) -> Path:
    """VOCdevkit/VOC2011 with pictures, palette labels and one list."""
    ids, year = list(ids), root / "VOCdevkit" / "VOC2011"
    for seed, name in enumerate(ids):
        save(year / "JPEGImages" / f"{name}.jpg", scene(*size, seed))
        save(year / "SegmentationClass" / f"{name}.png", labels(*size, [0, 1, 20, 255], seed), palette=True)
    write_list(year / "ImageSets" / "Segmentation" / f"{split}.txt", ids)
    return year


def youtube(root: Path, *, frames: int = 42, size: tuple[int, int] = (64, 48)) -> Path:
    """One shot of a cat and one of a train; the mask is the left half."""
    for name, seed in (("cat", 1), ("train", 2)):
        shot = root / name / "data" / "0003" / "shots" / "001"
        for number in range(1, frames + 1):
            save(shot / "images" / f"frame{number:04}.jpg", scene(*size, 100 * seed + number))
            if number % 10 == 1:
                mask = np.zeros(size[::-1], np.uint8)
                mask[:, : size[0] // 2] = 255
                save(shot / "labels" / f"{number:05}.jpg", mask, quality=95)
    return root


def nyud(root: Path, *, frames: int = 45) -> Path:
    """One scene whose names and whose times have different orders; frame 40 and frame 5 are labelled."""
    scene_folder = root / "raw" / "kitchen_0004"
    names = [nyud_name(number) for number in range(frames)]
    for number, name in enumerate(names):
        save(scene_folder / name, np.full((480, 640, 3), number, np.uint8))
    for name in ("5001", "5007"):
        save(root / "labels" / f"{name}.png", labels(560, 425, range(41)))
    write_list(root / "test.txt", [f"5001 kitchen_0004/{names[40]}", f"5007 kitchen_0004/{names[5]}  # at the start"])
    return root


def nyud_name(number: int) -> str:
    """Raw frame ``number``: the digits before and after the point vary in length, the last number falls."""
    return f"r-{999_999_998 + number / 8:.3f}".rstrip("0").rstrip(".") + f"-{9_000_000 - 7919 * number}.ppm"


def cityscapes(root: Path, *, sequences: bool = True, kind: str = "labelIds") -> Path:
    """Two labelled frames: one of a city of short sequences, one within a long one."""
    for city, sequence, number in (("aachen", 0, 19), ("bochum", 0, 313)):
        stem = f"{city}_{sequence:06}_"
        around = range(-19, 11) if sequences else range(1)
        kind_folder = root / ("leftImg8bit_sequence" if sequences else "leftImg8bit") / "val" / city
        for offset in around:
            name = f"{stem}{number + offset:06}_leftImg8bit.png"
            save(kind_folder / name, np.full((16, 32, 3), 100 + offset, np.uint8))
        ids = range(34) if kind == "labelIds" else (*range(19), 255)
        save(root / "gtFine" / "val" / city / f"{stem}{number:06}_gtFine_{kind}.png", labels(32, 16, list(ids)))
    return root


def camvid(root: Path) -> Path:
    """Two drives in val, one in train."""
    for split, stems in (("val", ("0016E5_07959", "0016E5_07961", "Seq05VD_f00000")), ("train", ("0001TP_006690",))):
        for seed, stem in enumerate(stems):
            save(root / split / f"{stem}.png", scene(48, 36, seed))
            save(root / f"{split}annot" / f"{stem}.png", labels(48, 36, range(12), seed))
    return root


def davis(root: Path, *, resolution: str = "480p", palette: bool = False) -> Path:
    """Two shots of three frames; objects 1 and 2 in a palette, or grey 255."""
    for shot in ("dog", "goat"):
        for number in range(3):
            ids = [0, 1, 2] if palette else [0, 255]
            save(root / "JPEGImages" / resolution / shot / f"{number:05}.jpg", scene(32, 24, number))
            file = root / "Annotations" / resolution / shot / f"{number:05}.png"
            save(file, labels(32, 24, ids, number), palette=palette)
    line = "/JPEGImages/480p/{0}/{1:05}.jpg /Annotations/480p/{0}/{1:05}.png"
    write_list(root / "ImageSets" / "480p" / "val.txt", [line.format("goat", number) for number in range(3)])
    write_list(root / "ImageSets" / "2017" / "val.txt", ["dog"])
    return root
