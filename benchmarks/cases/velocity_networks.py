"""Change of each stage's features from frame to frame in networks with trained weights, bundled ones and others' files.

``--files`` names ONNX networks without a sidecar; each is cut where ``clockseg cut --at auto`` would by multiply-adds. All
run in full on consecutive frames of two videos.
"""

from __future__ import annotations

import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Facts, number, percent, table
from benchmarks.inputs import MEAN, STD, VIDEOS, images, networks, video
from clockseg import load
from clockseg.clocks.maps import change, relative_difference
from clockseg.clockwork.network import StagedNetwork
from clockseg.networks.cutting import cut_network
from clockseg.networks.settling import Cutting
from clockseg.networks.source import Said

OPTIONS: Facts = {"networks": ["street", "fcn8s-narrow"], "files": [], "frames": 40}


def measure(asked: Namespace) -> Facts:
    """Measure the bundled networks and the files."""
    nets = {name: load(networks()[name], engine="openvino") for name in asked.networks}
    with tempfile.TemporaryDirectory() as scratch:
        nets |= {file.stem: _cut(file, Path(scratch)) for file in map(Path, asked.files)}
        found = {name: {one: _velocities(net, one, asked.frames) for one in VIDEOS} for name, net in nets.items()}
    return {"frames": asked.frames, "networks": {name: {"videos": one} for name, one in found.items()}}


def _cut(file: Path, folder: Path) -> StagedNetwork:
    """Cut into three stages; of one channel two classes are made."""
    said, out = Said(size=(480, 288), mean=MEAN, std=STD), folder / f"{file.stem}-cut.onnx"
    cutting = Cutting(measured=False)
    try:
        cut_network(file, out, said=said, cutting=cutting, repeat=1)
    except ValueError:  # one channel, or a fixed size
        cut_network(file, out, said=Said(classes=("below", "above")).over(said), cutting=cutting, repeat=1)
    return load(out, engine="openvino")


def _velocities(net: StagedNetwork, name: str, frames: int) -> Facts:
    """Return means over pairs of frames: relative difference of features and picture, share of labels that change."""
    rows: list[list[float]] = []
    before: tuple[Any, list[Any], Any] | None = None
    for image in images(video(name), frames):
        value, features = net.prepare(image), []
        for stage in net.stages:
            value = stage.body(value)
            features.append(np.array(stage.features(value), np.float32))
        now = (image, features, np.array(net(image)))
        if before is not None:
            pairs = [relative_difference(a, b) for a, b in zip(now[1], before[1], strict=True)]
            rows.append([relative_difference(now[0], before[0]), *pairs, change(now[2], before[2])])
        before = now
    means = np.mean(rows, axis=0).tolist()
    return {"pixels": means[0], "stages": means[1:-1], "output": means[-1]}


def pages(facts: Facts) -> dict[str, str]:
    """One row a network and video."""
    head = ["network", "video", "picture", "stage 1", "stage 2", "stage 3", "labels of the output", "stage 3 : stage 1"]
    cells = []
    for name, one in facts["networks"].items():
        for clip, seen in one["videos"].items():
            stages = seen["stages"]
            shares = [*map(percent, stages), *["-"] * (3 - len(stages)), percent(seen["output"])]
            over = number(stages[-1] / stages[0] if stages[0] else None)
            cells.append([name, Path(clip).stem, percent(seen["pixels"]), *shares, over])
    return {"velocity-networks": table(head, cells)}
