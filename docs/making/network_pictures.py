"""The pictures of the page *Which network?* and of the README: bundled networks on several kinds of video.

python docs/making/network_pictures.py     docs/figures/which-network.webp and docs/figures/demo-overlay.webp

It needs the shared data folder (CLOCKSEG_DATA) and the clip of `make demo`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

import clockseg
from clockseg.video import Legend, open_clip, overlay

NETWORKS = ("scene", "street")
WIDTH, GAP = 480, 8
DEMO_FRAMES = (120, 195)
VIDEOS = {
    "videos/solidWhiteRight.mp4": 100,
    "videos/one-by-one-person-detection.mp4": 120,
    "davis/cows/images": 30,
    "davis/parkour/images": 40,
}
"""Videos and clips in the shared data folder, and the number of the frame to draw."""


def drawn(net: clockseg.StagedNetwork, image: np.ndarray) -> np.ndarray:
    """Return a picture of `WIDTH` pixels with the network's classes over it and their legend below."""
    height = round(image.shape[0] * WIDTH / image.shape[1])
    small = np.asarray(Image.fromarray(image).resize((WIDTH, height), Image.Resampling.BOX))
    labels, palette = np.asarray(net(small)), net.sidecar.palette
    return np.concatenate([overlay(small, labels, palette), Legend((WIDTH, height), net.classes, palette).draw(labels)])


def frames(video: Path, wanted: Sequence[int]) -> list[np.ndarray]:
    """Return these frames of a video or folder of images."""
    found = {}
    for frame in open_clip(video):
        if frame.index in wanted:
            found[frame.index] = frame.image.copy()
        if frame.index >= max(wanted):
            break
    return [found[number] for number in wanted]


def beside(pictures: Sequence[np.ndarray]) -> np.ndarray:
    """Return pictures of one height in a row, on white."""
    gap = np.full((pictures[0].shape[0], GAP, 3), 255, np.uint8)
    parts = [part for picture in pictures for part in (gap, picture)]
    return np.concatenate(parts[1:], axis=1)


def main() -> None:
    """Draw both pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demo", type=Path, default=Path("demo/bikes.mp4"), help="default: demo/bikes.mp4")
    parser.add_argument("--out", type=Path, default=Path("docs/figures"))
    args = parser.parse_args()
    data = Path(os.environ.get("CLOCKSEG_DATA", "../shared"), "data")
    nets = [clockseg.load(name, engine="openvino") for name in NETWORKS]
    demo = frames(args.demo, DEMO_FRAMES)
    shown = [image for name, number in VIDEOS.items() for image in frames(data / name, [number])]
    rows = [beside([drawn(net, image) for net in nets]) for image in (*shown, demo[-1])]
    gap = np.full((GAP, rows[0].shape[1], 3), 255, np.uint8)
    page = np.concatenate([part for row in rows for part in (gap, row)][1:])
    Image.fromarray(page).save(args.out / "which-network.webp", quality=80)
    Image.fromarray(beside([drawn(nets[0], image) for image in demo])).save(args.out / "demo-overlay.webp", quality=85)


if __name__ == "__main__":
    main()
