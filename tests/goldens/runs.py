"""The runs whose results are kept: each takes an empty folder and returns JSON without seconds."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

SCHEDULES = (
    "frame_oracle",
    "skip_frame(3)",
    "alternating",
    "exponential",
    "adaptive(0.15)",
    "either(adaptive(0.25), at_least_every(8))",
    "budget(network_rate=0.25)",
    "pipelined(2)",
    "carried(skip_frame(3), warp(flow))",
    "carried(skip_frame(3), warp(codec))",
)
ENGINE = ("--engine", "openvino", "--threads", "1")
SMALL = ("--size", "240x176")
KEPT_OF_A_TRACE = ("frame", "size", "fill", "fired", "signal", "carried")
TIMED = re.compile(r"^(ms|ms/frame|relative time|relative_time|share|time, est\.|seconds_per_frame)$")
DATA = Path(os.environ.get("CLOCKSEG_DATA") or Path(__file__).resolve().parents[3] / "shared") / "data"
DRIVE, CLIPS = DATA / "videos" / "solidWhiteRight.mp4", DATA / "camvid" / "val"


# What is run


def sessions(folder: Path) -> dict[str, Any]:
    """Sessions in Python over a generated video, a few schedules after each other on one network."""
    import clockseg
    from clockseg.video import open_clip

    video = made_video(folder)
    net = clockseg.load("street", engine="openvino", threads=1, size=(240, 176))
    found = {}
    for text in (*SCHEDULES[:4], "adaptive(0.086)", *SCHEDULES[5:9]):
        session = clockseg.Session(net, clockseg.parse_schedule(text))
        maps = [session(frame.image) for frame in open_clip(video)]
        found[text] = {"labels": of_maps(maps), "fire_rate": session.tally.fire_rate}
    return found


def segment_made(folder: Path) -> dict[str, Any]:
    """``segment`` of a generated video: a clock, and the codec's motion."""
    return segmented(folder, made_video(folder), "street", (SCHEDULES[5], SCHEDULES[9]), SMALL)


def evaluate_made(folder: Path) -> dict[str, Any]:
    """``evaluate`` of a generated video without labels: the printed table."""
    asked = ("--network", "street", "--schedule", "adaptive(0.086)", "--schedule", SCHEDULES[8])
    return {"table": timeless(command("evaluate", str(made_video(folder)), *asked, *ENGINE, *SMALL, "--quiet"))}


def live_made(folder: Path) -> dict[str, Any]:
    """``live`` from a pipe: all frames of a generated stream.

    Every stage fires on every frame, since a pause in the pipe, which depends on time, is followed by a full pass.
    """
    import clockseg

    stream = made_video(folder, "made.ts").read_bytes()
    asked = ("--network", "street", "--drop", "all")
    command = ("live", "-", *asked, "--schedule", "frame_oracle", "--out", str(folder / "out"), *ENGINE)
    run = [sys.executable, "-m", "clockseg", *command, *SMALL, "--write", "labels", "--quiet"]
    subprocess.run(run, input=stream, check=True, capture_output=True)
    [result] = [path for path in (folder / "out").iterdir() if path.is_dir()]
    return {"labels": of_maps(clockseg.read_labels(result)), "fired": traced(clockseg.read_trace(result))["fired"]}


def network(name: str) -> Callable[[Path], dict[str, Any]]:
    """``segment`` of the shared video with one network under every schedule."""

    def run(folder: Path) -> dict[str, Any]:
        return segmented(folder, DRIVE, name, SCHEDULES, ("--limit", "16"))

    return run


def evaluate_clips(folder: Path) -> dict[str, Any]:
    """``evaluate`` of a labelled clip."""
    return evaluated(CLIPS, ("--limit", "16"), ("frame_oracle", "alternating", "adaptive(0.15)", SCHEDULES[8]))


def planned(folder: Path) -> dict[str, Any]:
    """Of a plan, the agreement of the schedules that it tries whatever their time: every frame and every n-th."""
    import clockseg
    from clockseg.datasets import read_data
    from clockseg.planning.planner import Goal, Variant

    net = clockseg.load("street", engine="openvino", threads=1, size=(240, 176))
    plan = clockseg.plan([Variant(net, "street")], read_data(DRIVE), Goal(keep=0.95), limit=48)
    kept = [trial for trial in plan.trials if re.match(r"(carried\()?(skip_frame|frame_oracle)", trial.candidate.text)]
    sides = ("tuned", "held_back")
    figures = {trial.candidate.text: [getattr(trial, side).pixel_acc for side in sides] for trial in kept}
    return {"frames": plan.frames, "pixel_acc": figures}


def tuned(folder: Path) -> dict[str, Any]:
    """``tune``: the printed curve without times, and the schedule file."""
    out = folder / "tuned.toml"
    asked = ("tune", str(DRIVE), "--network", "street", "--limit", "24", "--fire-rate", "0.25", "--out", str(out))
    printed = command(*asked, *ENGINE, *SMALL, "--quiet")
    import tomllib

    file = tomllib.loads(out.read_text())
    file["tuned"].pop("clips")
    return {"table": timeless(printed), "file": file}


def velocity(folder: Path) -> dict[str, Any]:
    """``velocity``: the printed table."""
    return {"table": timeless(command("velocity", str(DRIVE), "--limit", "16", *ENGINE, *SMALL, "--quiet"))}


def inspected(folder: Path) -> dict[str, Any]:
    """``inspect``: the stages, cuts and groups of the bundled networks, without measured times."""
    found = {}
    for name in ("street", "street-large", "street-int8"):
        found[name] = timeless(command("inspect", name, "--repeat", "1", *ENGINE))
    return found


def cut(folder: Path) -> dict[str, Any]:
    """``cut`` of a SegFormer with random weights of a fixed seed: its sidecar, candidates, and outputs on a fixed picture."""
    import clockseg

    checkpoint, out = _segformer(folder / "tiny-segformer"), folder / "net.onnx"
    at = "segformer.stages.0,segformer.stages.1,segformer.stages.3"
    command("cut", f"hf:{checkpoint}", "--at", at, "--out", str(out), *ENGINE)
    sidecar = json.loads(out.with_suffix(".json").read_text())
    net = clockseg.load(out, engine="openvino", threads=1)
    session = clockseg.Session(net, clockseg.parse_schedule("alternating"))
    maps = [session(image) for image in pictures(4, 96, 64)]
    candidates = command("inspect", str(out), "--cuts", *ENGINE)
    return {
        "sidecar": sidecar,
        "stages": [stage.name for stage in net.stages],
        "groups": [group.name for group in net.groups],
        "candidates": [line.split()[0] for line in candidates.splitlines() if line.startswith("/")],
        "labels": of_maps(maps),
    }


RUNS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "sessions": sessions,
    "segment": segment_made,
    "evaluate": evaluate_made,
    "live": live_made,
    "street": network("street"),
    "street-large": network("street-large"),
    "street-int8": network("street-int8"),
    "evaluate-clips": evaluate_clips,
    "plan": planned,
    "tune": tuned,
    "velocity": velocity,
    "inspect": inspected,
    "cut": cut,
}
QUICK = ("sessions", "segment", "evaluate", "live")


def missing(name: str) -> str:
    """Return why a run can't be made here; empty if it can."""
    if name in QUICK or name == "inspect":
        return ""
    if name == "cut":
        absent = [one for one in ("torch", "transformers") if importlib.util.find_spec(one) is None]
        return f"{' and '.join(absent)} not installed" if absent else ""
    needed = CLIPS if name == "evaluate-clips" else DRIVE
    return "" if needed.exists() else f"{needed} is not there; set CLOCKSEG_DATA to the shared data folder"


# How


def segmented(folder: Path, video: Path, name: str, schedules: Iterable[str], options: Sequence[str]) -> dict[str, Any]:
    """Return labels, trace and counts of ``segment`` under each schedule."""
    import clockseg

    found = {}
    for number, text in enumerate(schedules):
        out = folder / str(number)
        asked = (
            "segment",
            str(video),
            "--out",
            str(out),
            "--network",
            name,
            "--schedule",
            text,
            "--write",
            "labels,trace",
        )
        command(*asked, *ENGINE, *options, "--quiet")
        result = out / video.stem
        summary = clockseg.read_summary(result)
        found[text] = {
            "labels": of_maps(clockseg.read_labels(result)),
            "trace": traced(clockseg.read_trace(result)),
            "summary": {key: summary[key] for key in ("frames", "fire_rate", "network_rate", "starts", "carry")},
        }
    return found


def evaluated(data: Path, options: Sequence[str], schedules: Iterable[str]) -> dict[str, Any]:
    """Return what ``evaluate`` prints, as a table and as JSON, without seconds."""
    asked = ["evaluate", str(data), *ENGINE, *options, "--quiet"]
    for text in schedules:
        asked += ["--schedule", text]
    found = json.loads(command(*asked, "--json"))["schedules"]
    return {
        "table": timeless(command(*asked)),
        "figures": [{key: value for key, value in one.items() if not TIMED.match(key)} for one in found],
    }


def command(*arguments: str) -> str:
    """Run ``clockseg`` in this process and return what it prints; an error of it ends the run."""
    from clockseg.__main__ import main

    printed, told, argv = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["clockseg", *arguments]
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(told):
            code = main()
    finally:
        sys.argv = argv
    if code:
        raise RuntimeError(f"clockseg {' '.join(arguments)} gave exit code {code}: {told.getvalue()}")
    return printed.getvalue()


def timeless(printed: str) -> list[str]:
    """Return the printed lines with every number that was measured in time taken out.

    >>> timeless("part  ms   gives\\na     1.5  2")
    ['part | gives', 'a | 2']
    """
    lines: list[str] = []
    timed: list[int] = []
    for line in printed.splitlines():
        cells = re.split(r"\s{2,}", line.strip())
        if (found := [index for index, cell in enumerate(cells) if TIMED.match(cell)]) or not line.strip():
            timed, columns = found, len(cells)
        if timed and len(cells) == columns:
            cells = [cell for index, cell in enumerate(cells) if index not in timed]
        elif timed:  # a row whose cells of a column are empty: its times are the last
            cells = [cell for cell in cells if not re.fullmatch(r"\d+\.\d\d", cell)]
        text = " | ".join(cells)
        if not re.search(r"\d s\b|\bms\b| times the uncut|uncut network's time|/.*\.toml", text):
            lines.append(text)
    return lines


def traced(lines: Iterable[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return a trace, key by key, without seconds and times of presentation, which in a live run are times of arrival."""
    told = list(lines)
    found = {key: [line[key] for line in told] for key in KEPT_OF_A_TRACE}
    for key in ("size", "signal", "fired"):
        found[key] = [" ".join(map(str, map(int, one) if key == "fired" else one)) for one in found[key]]
    return found


def of_maps(maps: Iterable[Any]) -> dict[str, Any]:
    """Return the SHA-256 of label maps, a short one for each frame, and the pixels of each class."""
    whole, frames, counts, shape = hashlib.sha256(), [], np.zeros(256, np.int64), (0, 0)
    for labels in maps:
        labels = np.ascontiguousarray(labels, np.uint8)
        whole.update(labels.tobytes())
        frames.append(hashlib.sha256(labels.tobytes()).hexdigest()[:8])
        counts += np.bincount(labels.ravel(), minlength=256)
        shape = labels.shape
    found = {str(index): int(counts[index]) for index in np.flatnonzero(counts)}
    return {"sha256": whole.hexdigest(), "frames": frames, "counts": found, "shape": [len(frames), *shape]}


@functools.cache
def pictures(number: int, width: int, height: int) -> list[Any]:
    """Return frames of a road, a sky and a box that move, in whole numbers alone."""
    y, x = np.mgrid[:height, :width]
    noise = np.random.default_rng(7).integers(0, 40, (height, width + 8 * number))
    found = []
    for k in range(number):
        grain = noise[:, 3 * k : 3 * k + width]
        sky, edge = y < height // 2, abs(x - width // 2) < (y - height // 2) + 8
        image = np.stack([60 + grain, 90 + grain, 50 + grain], 2)
        image[sky] = np.stack([150 + grain // 4, 180 + grain // 4, 220 + grain // 8], 2)[sky]
        image[~sky & edge] = np.stack([100 + grain // 2] * 3, 2)[~sky & edge]
        left, top = (width // 8 + 5 * k) % (width - width // 5), height // 2 - height // 10
        image[top : top + height // 4, left : left + width // 5] = (170 - 4 * k, 30, 40)
        found.append(image.clip(0, 255).astype(np.uint8))
    return found


def made_video(folder: Path, name: str = "made.mp4") -> Path:
    """Write a video of twelve generated frames without B-frames, so that it has motion vectors to read."""
    import av

    path = folder / name
    with av.open(str(path), "w") as output:
        stream = output.add_stream("libx264", rate=12, options={"bf": "0", "g": "12", "threads": "1"})
        stream.width, stream.height, stream.pix_fmt = 320, 240, "yuv420p"
        for image in pictures(12, 320, 240):
            output.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        output.mux(stream.encode())
    return path


def _segformer(folder: Path) -> Path:
    import torch
    import transformers

    classes = dict(enumerate(("road", "sky", "car", "person")))
    torch.manual_seed(0)
    config = transformers.SegformerConfig(
        hidden_sizes=[8, 16, 24, 32],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 1, 2, 2],
        decoder_hidden_size=16,
        id2label=classes,
        label2id={name: id for id, name in classes.items()},
    )
    transformers.SegformerForSemanticSegmentation(config).eval().save_pretrained(folder)
    processor = {
        "image_processor_type": "SegformerImageProcessor",
        "image_mean": [0.485, 0.456, 0.406],
        "image_std": [0.229, 0.224, 0.225],
        "size": {"height": 64, "width": 96},
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return folder
