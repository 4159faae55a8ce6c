"""Do deep maps move slower in networks of others too? Features of each stage, from frame to frame, with trained weights.

    python benchmarks/velocity_networks.py [--docs] [NAME.onnx ...]

The bundled networks, PP-OCRv3's text detector from a wheel of PyPI, and files given: networks of one frame that give class
scores, or one channel. Each is cut where ``clockseg cut --at auto`` would by multiply-adds, and run in full on consecutive
frames of two videos. ``--docs`` puts the table into docs/cut-your-network.md.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from clockseg.clocks.maps import change, relative_difference
from clockseg.clockwork.network import StagedNetwork
from clockseg.datasets import read_clips
from clockseg.networks.cut_settling import Cutting
from clockseg.networks.cut_source import Said
from clockseg.networks.cutting import cut_network
from clockseg.networks.load import load
from page import insert, table
from provenance import HERE, write_result
from shared_data import shared_data

FRAMES = 40
"""Consecutive ones of each video."""
SIZE = (480, 288)
"""WIDTH, HEIGHT of networks that are cut here, unless their file fixes another."""
VIDEOS = ("solidWhiteRight.mp4", "one-by-one-person-detection.mp4")
BUNDLED = ("street", "fcn8s-narrow")
WHEEL = "rapidocr-onnxruntime==1.2.3"
MEMBER = "rapidocr_onnxruntime/models/ch_PP-OCRv3_det_infer.onnx"


def from_wheel(folder: Path) -> Path:
    """The text detector's file, from PyPI."""
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    subprocess.run([*download, "--dest", str(folder), WHEEL], check=True)
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(MEMBER, folder))


def cut_here(file: Path, folder: Path) -> StagedNetwork:
    """``file`` in three stages, ImageNet's normalisation; one channel becomes two classes."""
    said = Said(size=SIZE, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
    cutting = Cutting(measured=False)
    try:
        found = cut_network(file, folder / f"{file.stem}-cut.onnx", said=said, cutting=cutting, repeat=1)
    except ValueError:  # one channel, or a fixed size
        two = Said(classes=("below", "above")).over(said)
        found = cut_network(file, folder / f"{file.stem}-cut.onnx", said=two, cutting=cutting, repeat=1)
    return load(found.file, engine="openvino")


def frames(video: str) -> Iterator[Any]:
    """The first of a video."""
    [clip] = read_clips(shared_data("videos", video))
    for frame in itertools.islice(clip.frames(), FRAMES):
        yield frame.image.copy()


def maps(net: StagedNetwork, image: Any) -> tuple[list[Any], Any]:
    """The features of each stage, and the output."""
    value, found = net.prepare(image), []
    for stage in net.stages:
        value = stage.body(value)
        found.append(np.array(stage.features(value), np.float32))
    return found, np.array(net(image))


def velocities(net: StagedNetwork, video: str) -> dict[str, Any]:
    """Means over pairs of frames: relative difference of features and picture, share of the output's labels."""
    rows, before = [], None
    for image in frames(video):
        now = (image, *maps(net, image))
        if before is not None:
            features = [relative_difference(a, b) for a, b in zip(now[1], before[1], strict=True)]
            rows.append([relative_difference(now[0], before[0]), *features, change(now[2], before[2])])
        before = now
    means = np.mean(rows, axis=0).tolist()
    return {"pixels": means[0], "stages": means[1:-1], "output": means[-1]}


def measured(net: StagedNetwork) -> dict[str, Any]:
    """Of one network, for each video."""
    return {
        "stages": [stage.name for stage in net.stages],
        "videos": {video: velocities(net, video) for video in VIDEOS},
    }


def rows(found: dict[str, Any]) -> list[list[str]]:
    """A row for each network and video."""
    head = ["network", "video", "picture", "stage 1", "stage 2", "stage 3", "labels of the output", "stage 3 : stage 1"]
    lines = [head]
    for name, one in found.items():
        for video, seen in one["videos"].items():
            stages = seen["stages"]
            cells = [f"{100 * value:.1f} %" for value in stages] + ["-"] * (3 - len(stages))
            picture, output = (f"{100 * seen[what]:.1f} %" for what in ("pixels", "output"))
            lines.append(
                [name, Path(video).stem, picture, *cells, output, f"{stages[-1] / stages[0]:.2f}" if stages[0] else "-"]
            )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="NAME.onnx", help="networks of others, without a sidecar"
    )
    parser.add_argument("--docs", action="store_true", help="put the table into docs/cut-your-network.md")
    args = parser.parse_args()
    found = {name: measured(load(name, engine="openvino")) for name in BUNDLED}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for file in (from_wheel(folder), *args.files):
            found[file.stem] = measured(cut_here(file, folder))
    write_result("velocity_networks", {"frames": FRAMES, "wheel": WHEEL, "networks": found})
    text = table(rows(found))
    print(text)
    if args.docs:
        insert(HERE.parent / "docs" / "cut-your-network.md", "velocity-networks", text)


if __name__ == "__main__":
    main()
