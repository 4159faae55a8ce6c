"""The scores of a narrow FCN-8s that is trained on CamVid alone, without VGG-16.

python -m recipes.fcn.narrow RUN            RUN: the --out of the training (docs/fcn8s.md has the command);
                                                 results/fcn8s-narrow/{log.jsonl,metrics.json} and the page's figures
    --weights                                    the network as well, with weights of 16 bits (recipes/fcn/weights)
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import RESULTS, provenance
from benchmarks.inputs import data
from clockseg import load
from clockseg.clockwork.network import StagedNetwork
from clockseg.datasets import Clip, read_data
from clockseg.evaluation.metrics import Confusion, confusion
from clockseg.paper.fcn import write_fcn
from recipes.cards import RECIPES, facts, insert, percent, read_log, table, trained
from recipes.fcn.checkpoint import read_state

NAME = "fcn8s-narrow"
PAGE = RESULTS / "fcn8s-narrow.md"


def main() -> None:
    """Export, score, write, print."""
    args = _arguments()
    log = args.run / "log.jsonl"
    with tempfile.TemporaryDirectory() as scratch:
        checkpoint = args.run / "fcn8s.safetensors"
        networks = {bits: exported(checkpoint, Path(scratch) / f"{bits}", half=bits == 16) for bits in (32, 16)}
        figures = {
            "training": training(log),
            "validation": {
                f"weights of {bits} bits": scored(load(file), clips("val")) for bits, file in networks.items()
            },
            "every tenth training frame": scored(
                load(networks[32]), [replace(clip, every=10) for clip in clips("train")]
            ),
            "bytes": {str(bits): file.stat().st_size for bits, file in networks.items()},
        }
        if args.weights:
            for file in (networks[16], networks[16].with_suffix(".json")):
                shutil.copyfile(file, RECIPES / "fcn" / "weights" / file.name)
    folder = RESULTS / NAME
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(log, folder / "log.jsonl")
    metrics = json.dumps({"provenance": provenance(), **figures}, indent=1, allow_nan=False)
    (folder / "metrics.json").write_text(metrics + "\n")
    insert(PAGE, NAME, page(figures))
    print(page(figures))


def exported(checkpoint: Path, folder: Path, *, half: bool) -> Path:
    """The checkpoint as an ONNX file with its sidecar, its weights in 32 or 16 bits."""
    folder.mkdir()
    return write_fcn(*read_state(checkpoint), folder / f"{NAME}.onnx", half=half)


def clips(split: str) -> list[Clip]:
    """The shared CamVid clips."""
    return read_data(data("camvid", split))


def scored(net: StagedNetwork, clips: Sequence[Clip]) -> dict[str, Any]:
    """Fractions of 1, of labels at the frames' own size, over the labelled frames."""
    classes = net.sidecar.classes
    frames = (clip.frame(index) for clip in clips for index in clip.labelled_indices())
    each = (confusion(np.asarray(frame.labels), net(frame.image), len(classes)) for frame in frames)
    return facts(reduce(add, each, Confusion.none(len(classes))), classes)


def training(log: Path) -> dict[str, Any]:
    """Return the length of the training, and the mean IU on the val clip along the way."""
    entries, run = read_log(log), trained(log)
    steps = [entry for entry in entries if entry["event"] == "step"]
    minutes = {entry["step"]: entry["minutes"] for entry in steps}
    curve = [
        {
            "step": entry["step"],
            "minutes": minutes.get(entry["step"], steps[-1]["minutes"]),
            "mean_iu": entry["mean_iu"],
        }
        for entry in entries
        if entry["event"] == "score"
    ]
    epochs = round(curve[-1]["step"] * run["recipe"]["batch"] / run["frames"], 1)
    told = {"steps": curve[-1]["step"], "minutes": run["minutes"], "epochs": epochs, "frames": run["frames"]}
    told |= {"widths": run["shape"]["widths"], "fc": run["shape"]["fc"], "device": run["device"]}
    return told | {"loss": {"first": steps[0]["loss"], "last": steps[-1]["loss"]}, "curve": curve}


def page(figures: Mapping[str, Any]) -> str:
    """The page's figures."""
    run, scores = figures["training"], figures["validation"]
    train, where = figures["every tenth training frame"], provenance()
    curve = [point for point in run["curve"] if point["step"] % 1000 == 0 or point is run["curve"][-1]]
    rows = [["step", *(str(point["step"]) for point in curve)]]
    rows += [["minutes", *(f"{point['minutes']:.0f}" for point in curve)]]
    rows += [["mean IU, val clip", *(percent(point["mean_iu"]) for point in curve)]]
    full, half = scores["weights of 32 bits"], scores["weights of 16 bits"]
    classes = [["class", *full["iu"]], ["val clip", *map(percent, full["iu"].values())]]
    classes += [["training frames", *map(percent, train["iu"].values())]]
    return "\n".join(
        [
            table(rows),
            "",
            f"{run['steps']} steps, {run['epochs']} epochs of {run['frames']} frames, {run['minutes']:.0f} minutes of "
            f"one thread ({where['machine']['processor']}, {where['machine']['cores']} cores, shared with other programs; "
            f"{where['date']}); loss a pixel {run['loss']['first']:.2f} at first, {run['loss']['last']:.2f} at last.",
            "",
            table(classes),
            "",
            f"Val clip: mean IU **{percent(full['mean_iu'])}**, pixel accuracy {percent(full['pixel_acc'])} "
            f"(weights of 16 bits: {percent(half['mean_iu'])}, {figures['bytes']['16'] / 1e6:.1f} MB). "
            f"Every tenth training frame: {percent(train['mean_iu'])}, {percent(train['pixel_acc'])}.",
        ]
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", metavar="RUN", type=Path, help="the --out of the training")
    parser.add_argument("--weights", action="store_true", help="write the network too")
    return parser.parse_args()


if __name__ == "__main__":
    main()
