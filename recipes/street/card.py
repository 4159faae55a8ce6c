"""The figures of its model card, measured through the engine as users run it.

python -m recipes.street.card                            results/street_card.json and the tables
python -m recipes.street.card --card                     the same, the figures into the card (weights/street.md) and,
                                                            with the logs' scores, beside it (weights/street-metrics.json)
    --log LOG.jsonl                                         the log of the training of the bundled weights
    --held-out LOG.jsonl [LOG.jsonl ..]                     logs of trainings with --hold-out CLIP
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from benchmarks.harness import provenance
from benchmarks.inputs import data
from benchmarks.measuring import took
from clockseg import load
from clockseg.clocks import maps
from clockseg.clockwork.network import StagedNetwork
from clockseg.datasets import read_data
from clockseg.evaluation.metrics import Confusion, confusion
from clockseg.networks.inspection import Inspection, inspect
from clockseg.types import Array, Image, Labels
from recipes.cards import WEIGHTS, arguments, facts, finish, percent, read_log, table, trained, write_metrics


def main() -> None:
    """Measure, write, print."""
    args = _arguments()
    net = load(args.network, threads=args.threads)
    scores = validation(net)
    costs = {precision: inspect(args.network, precision=precision, threads=args.threads, repeat=args.repeat)
             for precision in ("f32", "bf16")}  # fmt: skip
    held_out = [entry for log in args.held_out for entry in held_out_scores(log)]
    figures: dict[str, Any] = {
        "validation": {name: facts(found, net.sidecar.classes) for name, found in scores.items()},
        "held_out": held_out,
        "time": time_facts(costs) | {"frame": frame_times(args.network, args.threads, args.repeat)},
    }
    if args.log:
        figures["training"] = training(args.log)
    card, name = WEIGHTS / f"{args.network}.md", args.network.replace("-", "_")
    finish(args, f"{name}_card", figures, card, "figures", markdown(figures, net))
    if args.card:
        write_metrics("street", args.network, figures)


def validation(net: StagedNetwork) -> dict[str, Confusion]:
    """The val clip: of the fused labels at the frame's own size, and of each stage's own scores enlarged to it."""
    names = ("fused", *(stage.name for stage in net.stages))
    total = dict.fromkeys(names, Confusion.none(len(net.sidecar.classes)))
    for clip in read_data(data("camvid", "val")):
        for frame in map(clip.frame, clip.labelled_indices()):
            found = {"fused": net(frame.image), **own_labels(net, frame.image)}
            truth = np.asarray(frame.labels)
            total = {name: total[name] + confusion(truth, found[name], len(net.sidecar.classes)) for name in names}
    return total


def own_labels(net: StagedNetwork, image: Image) -> dict[str, Labels]:
    """Each stage's own class scores at the frame's size, bilinear, and their labels."""
    found, trunk = {}, net.prepare(image)
    for stage in net.stages:
        trunk = stage.body(trunk)
        scores = stage.scores
        assert scores is not None, stage.name
        found[stage.name] = maps.labels(enlarged(scores(stage.head(trunk)), net, image))[0]
    return found


def enlarged(scores: Array, net: StagedNetwork, image: Image) -> Array:
    """Scores [1, k, h, w] of the padded frame as scores of the frame, at its size."""
    height, width = net.prepare(image)["image"].shape[1:3]
    full = np.stack([cv2.resize(channel, (width, height), interpolation=cv2.INTER_LINEAR) for channel in scores[0]])
    return net.restore({"scores": full[None]}, image)[None]


def time_facts(costs: Mapping[str, Inspection]) -> dict[str, Any]:
    """Of the uncut network, and what share of its time each part takes."""
    f32 = costs["f32"]
    return {
        "size": list(f32.size),
        "engine": f32.engine,
        "threads": f32.threads,
        "milliseconds": {name: round(1e3 * cost.whole.seconds, 2) for name, cost in costs.items()},
        "staged": round(f32.staged_seconds / f32.whole.seconds, 3),
        "multiply_adds": f32.whole.multiply_adds,
        "parameters": f32.whole.parameters,
        "shares": {part.name: round(part.share or 0.0, 3) for part in f32.parts},
        "part_multiply_adds": {part.name: part.multiply_adds for part in f32.parts},
    }


def frame_times(network: str, threads: int, repeat: int) -> dict[str, float]:
    """Milliseconds of the uncut network on one frame, framing and labels included: the fastest and the median run.

    The fastest is what the processor can do; on a machine that others use too, the median says more of them.
    """
    net = load(network, threads=threads).uncut()
    image = next(iter(read_data(data("camvid", "val"))[0])).image
    net(image)
    seconds = [took(lambda: net(image)) for _ in range(repeat)]
    return {"fastest": round(1e3 * min(seconds), 2), "median": round(1e3 * statistics.median(seconds), 2)}


def held_out_scores(log: Path) -> list[dict[str, Any]]:
    """The scores on held-out clips that a training's log ends with."""
    entries = read_log(log)
    start = entries[0]
    flattered = next((entry["mean_iu"] for entry in entries if entry.get("of") == "validation"), None)
    rest = {"trained_on": start["clips"], "frames": start["frames"], "validation": flattered}
    return [rest | {key: entry[key] for key in ("step", "clips", "mean_iu", "pixel_acc", "iu")}
            for entry in entries if entry.get("of") == "held out"]  # fmt: skip


def training(log: Path) -> dict[str, Any]:
    """Return the length of the training."""
    found = trained(log)
    epochs = round(found["views"] / found["frames"], 1)
    return {key: found[key] for key in ("steps", "minutes", "device", "frames")} | {"epochs": epochs}


def markdown(figures: Mapping[str, Any], net: StagedNetwork) -> str:
    """The tables of the card."""
    fused = figures["validation"]["fused"]
    columns = {"val clip": fused} | {f"held out {'+'.join(one['clips'])}": one for one in figures["held_out"]}
    rows = [["class", *columns]]
    rows += [[name, *(percent(column["iu"][name]) for column in columns.values())] for name in net.sidecar.classes]
    rows += [["**mean IU**", *(f"**{percent(column['mean_iu'])}**" for column in columns.values())]]
    rows += [["pixel accuracy", *(percent(column["pixel_acc"]) for column in columns.values())]]
    own = ", ".join(f"{stage.name} {percent(figures['validation'][stage.name]['mean_iu'])}" for stage in net.stages)
    alone = f"Each stage's own scores alone, val clip, mean IU: {own}."
    return "\n".join([table(rows), "", alone, *story(figures), "", *time_lines(figures["time"])])


def story(figures: Mapping[str, Any]) -> list[str]:
    """Return the lengths of the trainings behind the columns."""
    lines = []
    if "training" in figures:
        run = figures["training"]
        lines.append(f"The bundled weights: {run['steps']} steps, {run['epochs']} epochs of {run['frames']} frames, "
                     f"{run['minutes']:.0f} minutes on {run['device']}.")  # fmt: skip
    lines += [f"Held out {'+'.join(one['clips'])}: {one['step']} steps on {one['frames']} frames of "
              f"{', '.join(one['trained_on'])}; the same network scores {percent(one['validation'])} on the val clip."
              for one in figures["held_out"]]  # fmt: skip
    return lines


def time_lines(found: Mapping[str, Any]) -> list[str]:
    """Time and multiply-adds in a few sentences."""
    width, height = found["size"]
    machine, ms = provenance()["machine"], found["milliseconds"]
    shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in found["shares"].items())
    return [
        f"At {width}x{height}: {found['parameters'] / 1e6:.2f} M parameters, {found['multiply_adds'] / 1e9:.2f} G "
        f"multiply-adds. A 480x360 frame to its labels in {found['engine']} f32 with {found['threads']} threads "
        f"({machine['processor']}, {machine['cores']} cores): {found['frame']['fastest']:.1f} ms at best, "
        f"median {found['frame']['median']:.1f}. bf16 takes {ms['bf16'] / ms['f32']:.2f} of the time of f32; cut in stages "
        f"that all fire, {found['staged']:.2f} of the uncut network's.",
        f"Shares of the time: {shares}.",
    ]


def _arguments() -> argparse.Namespace:
    return arguments(
        __doc__,
        threads=2,
        network={"default": "street", "help": "street, or an ONNX file with its sidecar"},
        repeat={"type": int, "default": 100, "help": "runs to time"},
        log={"type": Path},
        held_out={"type": Path, "nargs": "*", "default": []},
    )


if __name__ == "__main__":
    main()
