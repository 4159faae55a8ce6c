"""Instances on key frames only: masks and identities in between, and the time of the whole command.

Two sources of instances stand in for a trained network: the annotations of the DAVIS shots in the shared data, and the network
of ``tests/blobs.py``, which finds coloured discs by real convolutions, on made videos with exact masks. J is the mean
intersection over union of true instances, identities is the share of true instances that have the identity that their object
has most often, switches are changes of an object's identity. The rival moves masks with boxes at constant velocity, as Kalman
trackers do, and matches boxes. The time is that of `clockseg segment` as a process, on one thread of OpenVINO, for the same
network with further convolutions in front, whose result hardly counts.
"""

from __future__ import annotations

import statistics
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import clockseg
from benchmarks.harness import Facts, number, percent, table, where
from benchmarks.inputs import data
from benchmarks.instance_scores import Score
from benchmarks.measuring import clockseg as clockseg_command
from benchmarks.measuring import took, turns
from clockseg.clockwork.network import StagedNetwork
from clockseg.datasets import read_data
from clockseg.instances.network import assignment
from clockseg.instances.sets import Instances, box_overlaps
from clockseg.networks.cutting import cut_network
from clockseg.video import OverlayWriter

OPTIONS = {"rounds": 2, "ballast": 16}
PARTS = ("scores", "time")
PERIODS = (1, 3, 6, 12)
WAYS = ("identity", "warp(flow)", "interpolate(flow)")
RIVAL = "boxes at constant velocity"


def part(name: str, asked: Namespace) -> Facts:
    """Score every way at every period ("scores"), or time the command ("time")."""
    from blobs import blob_model, scenes

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        if name == "time":
            return _times(folder, asked)
        davis = {name: _davis(name) for name in ("car-shadow", "cows", "parkour")}
        sources = [_scored(f"DAVIS {name}", _annotated(*shot), *shot) for name, shot in davis.items()]
        net = clockseg.load(_cut(folder, blob_model()), engine="openvino", threads=1)
        return {
            "sources": sources + [_scored(name, net, scene.images, scene.truth) for name, scene in scenes().items()]
        }


def _davis(shot: str) -> tuple[list[Any], list[dict[int, Any]]]:
    [clip] = read_data(data("davis", shot))
    frames = list(clip.frames())
    return [frame.image.copy() for frame in frames], [{1: frame.labels == 1} for frame in frames]


def _annotated(images: Sequence[Any], truth: Sequence[dict[int, Any]]) -> StagedNetwork:
    known = {image.tobytes(): masks for image, masks in zip(images, truth, strict=True)}

    def network(image: Any) -> Instances:
        masks = known[image.tobytes()]
        soft = np.stack(list(masks.values()), axis=2).astype(np.float32)
        height, width = image.shape[:2]
        return Instances.of(soft, [0] * len(masks), [1.0] * len(masks), (width, height))

    return clockseg.instance_network(network, ["object"])


def _scored(name: str, net: StagedNetwork, images: Sequence[Any], truth: Sequence[dict[int, Any]]) -> Facts:
    rows = []
    for period in PERIODS:
        for way in WAYS:
            schedule = clockseg.parse_schedule(f"carried(skip_frame({period}), {way})")
            rows.append(_row(way, period, (output for output, _ in clockseg.run(net, images, schedule)), truth))
        rows.append(_row(RIVAL, period, _constant_velocity(net, images, period), truth))
    return {"name": name, "frames": len(images), "rows": rows}


def _row(way: str, period: int, outputs: Iterator[Instances], truth: Sequence[dict[int, Any]]) -> Facts:
    found = Score()
    for output, masks in zip(outputs, truth, strict=True):
        found.see({int(output.ids[n]): output.mask(n) for n in range(len(output))}, masks)
    found.end()
    told = {"j": found.j, "identities": found.identities, "switches": found.switches, "false": found.false}
    return {"way": way, "period": period, **told}


def _constant_velocity(net: StagedNetwork, images: Sequence[Any], period: int) -> Iterator[Instances]:
    """Yield instances whose masks are shifted with their boxes, which go on as between the last two key frames."""
    last, velocity, most = Instances.of(np.zeros((1, 1, 0), np.float32), [], [], (1, 1)), dict[int, Any](), 0
    for index, image in enumerate(images):
        if index % period:
            yield _shifted(last, velocity, index % period)
            continue
        found, expected = net(image), _shifted(last, velocity, period)
        gains = box_overlaps(expected.boxes, found.boxes)
        gains = np.where(expected.classes[:, None] == found.classes[None], gains, 0)
        ids, velocity = np.zeros(len(found), np.int64), {}
        for row, column in assignment(gains):
            if gains[row, column] > 0.1:
                ids[column] = expected.ids[row]
                velocity[int(ids[column])] = (found.boxes[column] - last.boxes[row]) / period
        for column in np.flatnonzero(ids == 0).tolist():
            most += 1
            ids[column] = most
        last = Instances.of(found.soft, found.classes, found.scores, found.size, boxes=found.boxes, ids=ids)
        yield last


def _shifted(found: Instances, velocity: dict[int, Any], frames: int) -> Instances:
    import cv2

    boxes, planes = found.boxes.copy(), []
    height, width, _ = found.soft.shape
    for index, one in enumerate(found.ids):
        move = velocity.get(int(one), np.zeros(4)) * frames
        boxes[index] += move
        across, down = (move[0] + move[2]) / 2 * width / found.size[0], (move[1] + move[3]) / 2 * height / found.size[1]
        matrix = np.array([[1, 0, across], [0, 1, down]], np.float32)
        planes.append(cv2.warpAffine(np.ascontiguousarray(found.soft[..., index]), matrix, (width, height)))
    soft = np.stack(planes, axis=2) if planes else found.soft
    return Instances.of(soft, found.classes, found.scores, found.size, boxes=boxes, ids=found.ids)


def _cut(folder: Path, model: Any) -> Path:
    import onnx

    onnx.save(model, folder / "blobs.onnx")
    return cut_network(folder / "blobs.onnx", folder / "net.onnx", engine="openvino", threads=1, repeat=1).file


def _times(folder: Path, asked: Namespace) -> Facts:
    """Return the least seconds of the whole command on every frame and on key frames, by turns, and the network's time."""
    from blobs import blob_model, scenes

    file = _cut(folder, blob_model(ballast=asked.ballast))
    with OverlayWriter(folder / "clip.mp4", fps=25, options={"crf": "12"}) as writer:
        for index, image in enumerate(scenes()["apart"].images * 3):
            writer.append(image, index / 25)
    net, image = clockseg.load(file, engine="openvino", threads=1), scenes()["apart"].images[0]
    spent = [took(lambda: net(image)) for _ in range(6)][1:]
    options = ("--network", str(file), "--engine", "openvino", "--threads", "1", "--quiet", "--overwrite")
    command = ("segment", str(folder / "clip.mp4"), *options, "--out", str(folder / "out"), "--schedule")
    schedules = {"every": "frame_oracle", "keys": "carried(skip_frame(6), interpolate(flow))"}
    seconds = turns(schedules, lambda text: took(lambda: clockseg_command(*command, text)), asked.rounds)
    least = {name: min(found) for name, found in seconds.items()}
    return {"network_ms": 1000 * statistics.median(spent), **least, "frames": 3 * len(scenes()["apart"].images)}


def pages(facts: Facts) -> dict[str, str]:
    """A sentence on the time, and one table a source."""
    scores, spent = (facts["parts"][part] for part in PARTS)
    parts = [
        f"With a network of {spent['network_ms']:.0f} ms a frame, the whole command takes {number(spent['every'])} s for "
        f"{spent['frames']} frames with the network on every frame and {number(spent['keys'])} s on 1 of 6 with "
        f"`interpolate(flow)`: {spent['every'] / spent['keys']:.1f}x faster. {where(spent)}",
        f"Each cell: J, identities kept, and identity switches. {where(scores)}",
    ]
    for source in scores["sources"]:
        head = [f"{source['name']}, {source['frames']} frames", *(f"1 of {period}" for period in PERIODS)]
        cells = {(row["way"], row["period"]): _cell(row) for row in source["rows"]}
        names = {way: f"`{way}`" for way in WAYS} | {RIVAL: RIVAL}
        parts.append(table(head, [[name, *(cells[way, period] for period in PERIODS)] for way, name in names.items()]))
    return {"instances": "\n\n".join(parts)}


def _cell(row: Facts) -> str:
    return f"{percent(row['j'])}, {percent(row['identities'], 0)}, {row['switches']}"
