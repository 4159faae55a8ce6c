"""Trains the bundled network `street` on a folder of labelled clips: teachers first, then the network itself.

The teachers are the same design on a larger encoder; the network learns from the labels and from the teachers'
mean answer on the same random views (Hinton et al., 2015). One call does all of it; each part resumes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch

from clockseg.errors import DataError, UsageError
from recipes.batches import Batches
from recipes.fitting import Log
from recipes.frames import Frames, read_frames
from recipes.run import DEFAULTS, Choices, begin, check_out, device
from recipes.street.augment import Views
from recipes.street.checkpoint import Description, load_network, save_network
from recipes.street.fit import fit, loss_on_labels, start
from recipes.street.network import AnyStreet, build, framing, load_imagenet
from recipes.street.recipe import STREET, TEACHER, Recipe, shortened
from recipes.street.validate import report, score_frames, torch_labeller


def train(
    data: Path,
    out: Path,
    *,
    choices: Choices = DEFAULTS,
    recipe: Recipe = STREET,
    teacher_recipe: Recipe = TEACHER,
    teachers: int = 0,
    hold_out: Sequence[str] = (),
    validation: Path | None = None,
    say: Log = lambda entry: None,
) -> Path:
    """Trains on `data` and returns the checkpoint `out/street.safetensors`; `out/log.jsonl` tells how it went.

    `teachers` are trained first, each into `out/teacher-K`; one that is there whole already is used as it is.
    Clips named in `hold_out` are left out of training and scored at the end; so is the folder `validation`.
    """
    check_out([out / "state.pt", out / "street.safetensors"], out, resume=choices.resume)
    frames = read_frames(data)
    tests = {"held out": frames.of(hold_out)} if hold_out else {}
    if validation is not None:
        tests["validation"] = read_frames(validation)
    clips = {frame.clip for frame in frames.frames}
    if unknown := sorted(set(hold_out) - clips):
        raise DataError(f"no clip {', '.join(unknown)} to hold out; the clips are {', '.join(sorted(clips))}.")
    known = frames.without(hold_out)
    for number in range(1, teachers + 1):
        folder = out / f"teacher-{number}"
        if not (folder / "street.safetensors").exists():
            train_one(known, folder, teacher_recipe, _seeded(choices, number), (), tests, say)
    nets = [load_network(out / f"teacher-{number}" / "street.safetensors")[0] for number in range(1, teachers + 1)]
    return train_one(known, out, recipe, choices, nets, tests, say)


def _seeded(choices: Choices, number: int) -> Choices:
    return replace(choices, seed=choices.seed + 100 * number)


def train_one(
    frames: Frames,
    out: Path,
    recipe: Recipe,
    choices: Choices,
    teachers: Sequence[AnyStreet],
    tests: dict[str, Frames],
    say: Log,
) -> Path:
    """Train one network, and score it on `tests` by name."""
    recipe = shortened(recipe, choices.iterations, choices.batch, choices.view)
    where = device(choices.device)
    made = {"recipe": asdict(recipe), "choices": asdict(choices), "teachers": len(teachers)}
    made |= {"frames": len(frames.frames), "clips": sorted({frame.clip for frame in frames.frames})}
    log = begin(out, where, say, seed=choices.seed, resume=choices.resume, **made)
    torch.backends.cudnn.benchmark = True
    batches = _batches(frames, recipe, choices)
    net = build(replace(recipe.shape, classes=len(frames.classes.names)), recipe.drop)
    if not choices.goes_on(out) and choices.imagenet:
        load_imagenet(net.encoder)
    run = start(net, recipe, where)
    teachers = [teacher.to(where, memory_format=torch.channels_last) for teacher in teachers]
    bf16 = choices.in_bf16(where)
    shares = torch.tensor(frames.shares(), dtype=torch.float32)
    loss = loss_on_labels(shares, recipe, frames.classes.ignore, teachers, bf16=bf16)
    best = fit(run, recipe, batches, loss, out, log, minutes=choices.minutes, resume=choices.resume, bf16=bf16)
    description = Description(net.shape, recipe.working, frames.classes)
    save_network(best, description, out / "street.safetensors")
    for name, test in tests.items():
        scores = score_frames(test, torch_labeller(best, framing(recipe.working)))
        clips = sorted({frame.clip for frame in test.frames})
        log({"event": "score", "of": name, "clips": clips, "step": run.step, **report(scores, frames.classes.names)})
    return out / "street.safetensors"


def _batches(frames: Frames, recipe: Recipe, choices: Choices) -> Batches:
    if any(side % 32 for side in recipe.view) or min(recipe.view) < 64:
        raise UsageError(
            f"views of {recipe.view[0]}x{recipe.view[1]}; both sides must be multiples of 32, at least 64."
        )
    height, width = frames.frames[0].labels.shape
    base = framing(recipe.working).scaled((width, height))[0] / width
    views = Views(frames, recipe.view, base, recipe.augmentation)
    return Batches(views, recipe.batch, choices.seed, choices.workers)
