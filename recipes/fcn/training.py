"""Trains FCNs on a data set of any layout: the nets of a recipe, one after the other."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import torch

from clockseg.datasets import Layout
from clockseg.errors import UsageError
from clockseg.paper.fcn_layers import FCNShape
from clockseg.training.fitting import Log, log_to
from recipes.fcn.phase import DEFAULTS, FCNChoices, Training, checkpoint_file, state_file
from recipes.fcn.recipe import FCNRecipe
from recipes.frames import Frames, read_frames
from recipes.run import device, device_name


def train_fcn(
    data: Path,
    out: Path,
    *,
    recipe: FCNRecipe,
    shape: FCNShape,
    choices: FCNChoices = DEFAULTS,
    layout: str | Layout | None = None,
    validation: Path | None = None,
    validation_layout: str | Layout | None = None,
    say: Log = lambda entry: None,
) -> Path:
    """Trains the recipe's nets, each from the one before; returns the checkpoint of the last.

    `shape` says how wide they are; its variant is the recipe's and its classes are the data's. `out` gets
    NET.safetensors and NET.state.pt for each net, and log.jsonl, whose entries `say` is told as well. `validation`, in
    `layout` unless it has one of its own, is scored whenever a state is saved.
    """
    _check_out(out, recipe, resume=choices.resume)
    frames = read_frames(data, layout=layout, in_memory=False)
    test = None if validation is None else read_frames(validation, layout=validation_layout or layout, in_memory=False)
    if test is not None and test.classes.names != frames.classes.names:
        raise UsageError(f"{validation} has other classes than {data}; a net is scored on the classes it learns.")
    where = device(choices.device)
    out.mkdir(parents=True, exist_ok=True)
    log = log_to(out / "log.jsonl", say, fresh=not choices.resume)
    training, found = Training(frames, test, out, recipe, shape, choices, where, log), None
    training.check_saved()
    log(_start_entry(recipe, shape, choices, frames, where))
    for phase in recipe.phases:
        found = training.run(phase, found)
    if found is None:
        raise UsageError("a recipe without phases trains nothing.")
    return found


def _check_out(out: Path, recipe: FCNRecipe, *, resume: bool) -> None:
    """Days of training are not to be overwritten by one that was started without --resume."""
    files = [file(out, phase) for phase in recipe.phases for file in (state_file, checkpoint_file)]
    there = [file.name for file in files if file.exists()]
    if there and not resume:
        raise UsageError(
            f"{out} holds a training already ({', '.join(there)}): go on with it by --resume, or give another --out."
        )


def _start_entry(
    recipe: FCNRecipe, shape: FCNShape, choices: FCNChoices, frames: Frames, where: torch.device
) -> dict[str, object]:
    return {
        "event": "start",
        "recipe": asdict(recipe),
        "shape": asdict(shape),
        "choices": {name: str(value) if isinstance(value, Path) else value for name, value in asdict(choices).items()},
        "frames": len(frames.frames),
        "classes": frames.classes.names,
        "torch": torch.__version__,
        "device": device_name(where),
    }
