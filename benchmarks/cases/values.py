"""Flicker and error of maps of numbers whose network runs on key frames only.

No trained network of depth or mattes is at hand, so that two maps of `street` stand in for them: the probability of road, a
matte of one channel, and the largest probability of any class, which varies everywhere. Flicker is the mean change that motion
does not explain over the mean number, the error is that against the network on every frame. The overlay's scale of colours is
the same for the whole video.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import cv2
import numpy as np

import clockseg
from benchmarks.harness import Facts, percent, table
from benchmarks.inputs import DRIVING, images, video
from clockseg.clockwork.network import Stage, StagedNetwork, same
from clockseg.evaluation.flicker import Flickers, flicker_facts
from clockseg.evaluation.metrics import Deviation, deviation
from clockseg.types import Array, Image

OPTIONS = {"limit": 90}
MAPS: dict[str, Callable[[Array, int], Array]] = {
    "probability of road": lambda shares, road: shares[..., road],
    "largest probability": lambda shares, road: shares.max(axis=2),
}
CARRIED = tuple(f"carried(skip_frame(6), {carry}(flow))" for carry in ("warp", "interpolate"))
SCHEDULES = ("frame_oracle", "skip_frame(6)", *CARRIED)


def measure(asked: Namespace) -> Facts:
    """Run both maps under every schedule on one video."""
    frames = images(video(DRIVING), asked.limit)
    return {"maps": [{"map": name, "rows": list(_rows(numbers(name), frames))} for name in MAPS], "frames": len(frames)}


def numbers(name: str) -> StagedNetwork:
    """Return `street` as a network of one stage that gives a map of numbers, float32 [h, w] at the frame's size."""
    street = clockseg.load("street", engine="openvino", threads=1)
    road, made = street.classes.index("road"), MAPS[name]

    def stage(image: Image) -> Array:
        value = replace(street, finish=street.fused, restore=same)(image)
        [scores] = [array for array in value.values() if array.ndim == 4]
        powers = np.exp(scores[0] - scores[0].max(axis=0)).transpose(1, 2, 0)
        plane = np.ascontiguousarray(made(powers / powers.sum(axis=2, keepdims=True), road), np.float32)
        framing, size = street.restore.__self__, (image.shape[1], image.shape[0])  # type: ignore[attr-defined]
        width, height = framing.scaled(size)
        return np.asarray(cv2.resize(cv2.resize(plane, framing.padded(size))[:height, :width], size))

    return StagedNetwork(name, (Stage("map", stage, scores=None),))


def _rows(net: StagedNetwork, frames: list[Image]) -> Iterator[Facts]:
    truth: list[Any] = []
    for schedule in SCHEDULES:
        calm, apart = Flickers(1, None), Deviation()
        outputs = clockseg.run(net, frames, clockseg.parse_schedule(schedule))
        for number, (output, _) in enumerate(outputs):
            values = np.asarray(output)
            if schedule == SCHEDULES[0]:
                truth.append(values)
            apart += deviation(values, truth[number])
            calm.see(frames[number], [values])
        yield {"schedule": schedule, **flicker_facts(calm.counted[0]), "error": apart.relative_error}


def pages(facts: Facts) -> dict[str, str]:
    """One table: a row a schedule, both maps beside each other."""
    head = ["schedule", *(f"{one['map']}: {what}" for one in facts["maps"] for what in ("flicker", "error"))]
    rows = zip(*(one["rows"] for one in facts["maps"]), strict=True)
    each = [(row[0]["schedule"], [percent(one[key]) for one in row for key in ("flicker", "error")]) for row in rows]
    cells = [[f"`{schedule}`", *shares] for schedule, shares in each]
    return {"values": f"{table(head, cells)}\n\n{facts['frames']} frames of a drive."}
