"""Trains FCNs on a data set of any layout: the nets of a recipe, one after the other."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

from clockseg.datasets import Layout
from clockseg.errors import UsageError
from clockseg.paper.fcn import FCNShape
from recipes.fcn.phase import DEFAULTS, FCNChoices, Training, checkpoint_file, state_file
from recipes.fcn.recipe import FCNRecipe
from recipes.fitting import Log
from recipes.frames import read_frames
from recipes.run import begin, check_out, device


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
    files = [file(out, phase) for phase in recipe.phases for file in (state_file, checkpoint_file)]
    check_out(files, out, resume=choices.resume)
    frames = read_frames(data, layout=layout, in_memory=False)
    test = None if validation is None else read_frames(validation, layout=validation_layout or layout, in_memory=False)
    if test is not None and test.classes.names != frames.classes.names:
        raise UsageError(f"{validation} has other classes than {data}; a net is scored on the classes it learns.")
    where, said = device(choices.device), asdict(choices)
    made = {
        "recipe": asdict(recipe),
        "shape": asdict(shape),
        "frames": len(frames.frames),
        "classes": frames.classes.names,
    }
    made["choices"] = {name: str(value) if isinstance(value, Path) else value for name, value in said.items()}
    training, found = Training(frames, test, out, recipe, shape, choices, where, say), None
    training.check_saved()
    training = replace(training, log=begin(out, where, say, seed=choices.seed, resume=choices.resume, **made))
    for phase in recipe.phases:
        found = training.run(phase, found)
    if found is None:
        raise UsageError("a recipe without phases trains nothing.")
    return found
