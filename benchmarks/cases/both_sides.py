"""Accuracy and time of frames made from the key frames on both sides, against those warped from the one behind.

Networks on CamVid's clip with human labels; a fixed camera and a driving video without labels, on which pixels agree with the
network's own on every frame; annotated DAVIS masks of 1 of n frames carried to the frames between, as if a network gave them;
and the time of SegFormer-B0 at 1024x512. Accuracy: all ways of a part, and the network on every frame, see each frame before
any sees the next. Time: that of ``clockseg.run`` over the whole clip in memory, over that of the network on every frame; all
take turns, with one thread of OpenCV, as in ``segment``. On recordings, key frames that are spaced evenly are compared with
those of a budget, and with those that are placed ahead, where the motion-compensated residual adds up.
"""

from __future__ import annotations

import math
import statistics
from argparse import Namespace
from collections.abc import Iterator, Sequence

import cv2
import numpy as np

from benchmarks.harness import Facts, percent, say, table, where
from benchmarks.inputs import DRIVING, FIXED_CAMERA, camvid, data, images, segformer, video
from benchmarks.measuring import compared, milliseconds, ratio, took, turns
from clockseg import Stage, StagedNetwork, budget, carried, frame_oracle, load, parse_schedule, run
from clockseg.carry.motion import Flow
from clockseg.carry.warp import Interpolate
from clockseg.clocks.threshold import FULL
from clockseg.clockwork.clock import Clock, Plain
from clockseg.datasets import Clip, read_data
from clockseg.execution.recording import Recording, needs
from clockseg.showing.window import play
from clockseg.types import Array, Image

PARTS = {
    "street-large": "CamVid val, human labels: `street-large`",
    "street": "CamVid val, human labels: `street`",
    "int8": "CamVid val, human labels: `street-large-int8` against `street-large`",
    "fixed-camera": "Fixed camera, against every-frame `street-large`",
    "driving": "Driving video, against every-frame `street-large`",
    "davis": "Annotated DAVIS masks, mean J of the frames between",
    "segformer": "Time of SegFormer-B0 at 1024x512, random weights, driving video",
    "placed": "Key frames spaced evenly, by a budget, and placed ahead: pixels that agree with every-frame `street`",
}
OPTIONS = {"threads": None, "limit": 120, "rounds": 3, "machine": "idle"}
CARRIES = {
    "warp": "warp(flow)",
    "interpolate, keys=1": "interpolate(flow, keys=1)",
    "interpolate, keys=2": "interpolate(flow)",
}
PERIODS, FEW = (1, 2, 3, 4, 6, 8, 12), (3, 6, 12)
SEGFORMER_FRAMES = 37
AROUND = (0.93, 1.0, 1.07)
"""Multiples of the period that "placed" averages, because it also matters on which frames the key frames happen to fall."""
AHEAD = {"placed, 48 frames ahead": 48, "placed, whole video": None}


def part(name: str, asked: Namespace) -> Facts:
    """Measure a part, and note how busy the machine was."""
    found = _masks(FEW) if name == "davis" else _choices(FEW[1:]) if name == "placed" else _networks(name, asked)
    return {"machine": asked.machine, **found}


def _networks(part: str, asked: Namespace) -> Facts:
    """Return the rows of a network under each carry at each period; the first is the reference on every frame."""
    options: Facts = {"engine": "openvino", "threads": asked.threads}
    videos = {"fixed-camera": FIXED_CAMERA, "driving": DRIVING, "segformer": DRIVING}
    periods: Sequence[int] = FEW if part in videos else PERIODS
    limit = min(asked.limit, SEGFORMER_FRAMES) if part == "segformer" else asked.limit
    clip = video(videos[part], limit) if part in videos else camvid(limit=limit)[0]
    file = {"street": "street", "segformer": str(segformer((1024, 512)))}.get(part, "street-large")
    net = load(file, **options)
    runs = load("street-large-int8", **options) if part == "int8" else net
    # As the sidecars recommend.
    flow = "flow(sparse=True)" if part == "int8" else "flow"
    ways = [
        (f"{name} {n}", runs, parse_schedule(f"carried(skip_frame({n}), {carry.replace('flow', flow)})"))
        for n in periods
        for name, carry in CARRIES.items()
    ]
    rows = compared(net, ways, clip)
    runs_of = {"uncut": (net.uncut(), frame_oracle)} | {name: (own, schedule) for name, own, schedule in ways}
    frames = images(clip)
    cv2.setNumThreads(1)
    seconds = turns(runs_of, lambda one: took(lambda: list(run(one[0], frames, one[1]))), asked.rounds)
    for row in rows:
        row |= {
            "time": ratio(seconds, row["name"], "uncut"),
            "milliseconds": milliseconds(seconds[row["name"]]) / len(frames),
        }
    return {"frames": limit, "periods": periods, "rounds": asked.rounds, "rows": rows}


def _masks(periods: Sequence[int]) -> Facts:
    """Return J under each carry at each period: the mean over the frames between of each clip, and over clips."""
    clips, found = read_data(data("davis")), {}
    for n in periods:
        for name, carry in {"identity": "identity", **CARRIES}.items():
            schedule = f"carried(skip_frame({n}), {carry})"
            found[f"{name} {n}"] = statistics.mean(_similarity(clip, schedule) for clip in clips)
    return {"clips": [clip.name for clip in clips], "periods": periods, "j": found}


def _similarity(clip: Clip, schedule: str) -> float:
    """Return the mean J of the frames on which the network, which is the annotation, does not run."""
    frames = list(clip.frames())
    images, masks = [frame.image for frame in frames], [np.asarray(frame.labels) == 1 for frame in frames]
    annotation = {id(image): mask for image, mask in zip(images, masks, strict=True)}
    stage = Stage("mask", lambda image: annotation[id(image)][None, None].astype(np.float32))
    net = StagedNetwork("annotation", (stage,), finish=lambda share: share[0, 0] > 0.5)
    ran = run(net, images, parse_schedule(schedule))
    shown = [(mask, output) for mask, (output, record) in zip(masks, ran, strict=True) if not any(record.fired)]
    return statistics.mean((mask & output).sum() / max(1, (mask | output).sum()) for mask, output in shown)


def _choices(periods: Sequence[int]) -> Facts:
    """Return the key frames and the agreement with every frame of each choice of key frames."""
    net, carry, rows = load("street", engine="openvino"), Interpolate(Flow()), list[Facts]()
    drive, fixed = (images(video(name), 300, (480, 270)) for name in (DRIVING, FIXED_CAMERA))
    videos = {"driving": drive, "driving with rests": list(_resting(drive[:120])), "fixed camera": fixed}
    for name, frames in (videos | {"CamVid": images(camvid()[0])}).items():
        recording = Recording(net, needs(net, [carried(budget(network_rate=0.5), carry)], outputs=True))
        for image in frames:
            recording.add(image)
        motions = (recording.motion(carry.motion, index).residual for index in range(1, len(frames)))
        # If errors grow with the distance to a key frame, the best density goes with the square root of their growth.
        costs = np.sqrt([0, *(np.minimum(residual, FULL).mean() / FULL for residual in motions)]) + 1e-3
        for n in periods:
            say(f"{name}, 1 of {n}")
            found = [_agreeing(recording, carry, costs, 1 / (n * share)) for share in AROUND]
            means = {way: np.mean([one[way] for one in found], 0).tolist() for way in found[0]}
            rows.append({"video": name, "period": n, "choices": means})
    return {"rows": rows}


def _resting(frames: Sequence[Image], each: int = 40) -> Iterator[Image]:
    """Yield the frames, and after every ``each`` as many times the last one with camera noise."""
    random = np.random.default_rng(0)
    for number, frame in enumerate(frames, start=1):
        yield frame
        for _ in range(0 if number % each else each):
            yield np.clip(frame + random.normal(0, 2, frame.shape), 0, 255).astype(np.uint8)


def _agreeing(recording: Recording, carry: Interpolate, costs: Array, rate: float) -> dict[str, tuple[int, float]]:
    """Return the number of key frames and the agreement of all pixels, by choice; all but a budget take as many."""
    choices = {"evenly": [round(index / rate) for index in range(int((len(costs) - 1) * rate) + 1)]}
    for name, ahead in AHEAD.items():
        low, high, keys = rate / 3, 3 * rate, list[int]()
        while len(keys) != len(choices["evenly"]) and high > 1.001 * low:
            tried = math.sqrt(low * high)
            keys = _placed(costs, tried, ahead, longest=round(2 / rate))
            low, high = (low, tried) if len(keys) > len(choices["evenly"]) else (tried, high)
        choices[name] = keys
    clocks: dict[str, Clock] = {"budget": budget(network_rate=rate)}
    clocks |= {name: Plain(lambda tick, keys=frozenset(keys): tick.t in keys, 0) for name, keys in choices.items()}
    found = {}
    for name, clock in clocks.items():
        right, fired = list[float](), 0
        for index, played in enumerate(play(recording, carried(clock, carry))):
            blank = np.broadcast_to(np.uint8(0), recording.frames[index].shape)
            every = recording.net.restore(recording.look("output", index), blank)
            right.append(float((every == played.output.value).mean()))
            fired += any(played.record.fired)
        found[name] = fired, statistics.mean(right)
    return found


def _placed(costs: Array, rate: float, ahead: int | None, longest: int) -> list[int]:
    """Return key frames between which the costs, over their mean in the next ``ahead`` frames, add up to 1 / ``rate``."""
    keys, saved = [0], 0.0
    for index in range(1, len(costs)):
        saved += rate * costs[index] / np.mean(costs[1:] if ahead is None else costs[index : index + ahead])
        if saved >= 1 or index - keys[-1] >= longest:
            keys.append(index)
            saved = min(max(saved - 1, 0), 0.99)
    return keys


def pages(facts: Facts) -> dict[str, str]:
    """A table for each part."""
    return {"both-sides": "\n\n".join(_block(part, one) for part, one in facts["parts"].items())}


def _block(part: str, one: Facts) -> str:
    if part == "placed":
        head = ["key frames", *(choice for choice in one["rows"][0]["choices"])]
        cells = {
            f"{row['video']}, 1 of {row['period']}": [
                f"{percent(pixels, 2)} ({keys:.0f})" for keys, pixels in row["choices"].values()
            ]
            for row in one["rows"]
        }
        text, note = (
            table(head, [[name, *row] for name, row in cells.items()]),
            "In brackets, the number of key frames.",
        )
    elif part == "davis":
        names = ["identity", *CARRIES]
        rows = [[f"1 of {n}", *(percent(one["j"][f"{name} {n}"]) for name in names)] for n in one["periods"]]
        text, note = table(["annotated", *names], rows), f"Clips: {', '.join(one['clips'])}."
    else:
        every, *ways = one["rows"]
        shown = [key for key in ("mean_iu", "pixels", "flicker", "time") if part != "segformer" or key == "time"]
        shown = [key for key in shown if every[key] is not None]
        heads = {"mean_iu": "kept", "pixels": "pixels", "flicker": "flicker", "time": "time"}
        head = ["network runs on", *(f"{name}: {heads[key]}" for key in shown for name in CARRIES)]
        found = {way["name"]: way | {"mean_iu": (way["mean_iu"] or 0) / (every["mean_iu"] or 1)} for way in ways}
        cells = {n: [percent(found[f"{name} {n}"][key]) for key in shown for name in CARRIES] for n in one["periods"]}
        rows = [[f"1 of {n}", *row] for n, row in cells.items()]
        text = table(head, rows)
        note = f"Flicker on every frame: {percent(every['flicker'])}. " if "flicker" in shown else ""
        way = "Time of the whole run by" if "rounds" in one else "Time of the network, frame by frame, by"
        note += f"{way} that of every frame, on a machine that was {one['machine']}."
    return f"### {PARTS[part]}\n\n{text}\n\n{note} {where(one)}"
