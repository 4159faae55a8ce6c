"""Trains a clock on unlabelled video: the network's own answers say what a firing would have changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx

from clockseg.carry import Carry, Flow, Warp
from clockseg.clocks.learned import Input
from clockseg.datasets.clips import Clip
from clockseg.errors import UsageError
from clockseg.files import whole_together
from clockseg.networks.load import Engine, WorkingSize, load
from clockseg.training.clock_fit import Recipe, fit, keep_samples, kept_samples
from clockseg.training.clock_net import Form, exported, inputs_of
from clockseg.training.clock_samples import Samples, Take, samples, takes
from clockseg.training.clock_score import score
from clockseg.training.state import Log, log_to


@dataclass(frozen=True)
class Choices:
    """``form``: what the clock reads. ``carry``: that it will run under. ``frames``: of video, about, the network runs on;
    ``passes``: over them with what is shown at other random ages. ``resume``: from the state beside the file."""

    form: Form = "frames"
    carry: Carry = field(default_factory=lambda: Warp(Flow()))
    frames: int = 600
    passes: int = 4
    seed: int = 0
    resume: bool = False
    recipe: Recipe = field(default_factory=Recipe)

    def __post_init__(self) -> None:
        if self.form not in ("frames", "history"):
            raise UsageError(f"form {self.form!r}; give frames or history.")
        if self.form == "history" and not self.carry.looks:
            raise UsageError(
                f"the form history is made of motion, and the carry {self.carry} finds none; give the form frames, or "
                'a carry such as "warp(flow)".'
            )
        if self.frames < 1 or self.passes < 1 or self.recipe.steps < 1:
            raise UsageError("a clock learns from at least 1 frame, 1 pass and 1 step.")


@dataclass(frozen=True)
class TrainedClock:
    """The file that was written, and ``facts``: plain values, as in its sidecar."""

    path: Path
    facts: dict[str, Any]


def train_clock(
    network: str | Path,
    clips: Sequence[Clip],
    out: Path,
    *,
    choices: Choices = Choices(),
    engine: str | Engine = "auto",
    precision: str = "f32",
    threads: int | None = None,
    size: WorkingSize | None = None,
    say: Log = lambda entry: None,
    progress: Callable[[str, int, int], None] = lambda what, done, of: None,
    warn: Callable[[str], None] = lambda sentence: None,
) -> TrainedClock:
    """Write ``out`` (NAME.onnx), a clock for ``network`` under ``choices.carry``, and NAME.json, what it is and how good.

    Beside it: NAME.log.jsonl, and NAME.state.pt to resume from. ``engine`` to ``size``: as of ``load``. Labels aren't read.
    ``UsageError`` for a network that gives no labels, ``DataError`` where there are too few frames.
    """
    net = load(network, engine=engine, precision=precision, threads=threads, size=size)
    inputs = inputs_of(choices.form, motion=choices.carry.looks)
    state, logged = (out.with_name(f"{out.stem}.{end}") for end in ("state.pt", "log.jsonl"))
    resumes = choices.resume and state.is_file()
    settings = _settings(net.name, clips, choices, size)
    kept = kept_samples(settings, state) if resumes else None
    log = log_to(logged, say, fresh=not resumes)
    learn, held = takes(net, clips, choices.carry, frames=choices.frames, warn=warn, say=progress)
    found = kept or _gathered(learn, choices, inputs, settings, state)
    log({"event": "start", "samples": len(found.change), "change": round(float(found.change.mean()), 5)})
    fitted = fit(found, state, recipe=choices.recipe, seed=choices.seed, log=log)
    trained = {
        "network": net.name,
        "form": choices.form,
        "carry": str(choices.carry),
        "frames": len(learn.tape),
        "samples": len(found.change),
        "steps": choices.recipe.steps,
        "seed": choices.seed,
    }
    told: dict[str, Any] = {"inputs": [one.name for one in inputs], "trained": trained}
    _write(exported(fitted, inputs), told, out)
    told["held_out"] = score(str(out), held, choices.carry, seed=choices.seed)
    log({"event": "score", **told["held_out"]})
    _write(exported(fitted, inputs), told, out)
    return TrainedClock(out, {"clock": str(out), **told})


def _gathered(learn: Take, choices: Choices, inputs: tuple[Input, ...], settings: str, state: Path) -> Samples:
    found = samples(learn, choices.carry, inputs, passes=choices.passes, seed=choices.seed)
    keep_samples(found, settings, state)
    return found


def _settings(name: str, clips: Sequence[Clip], choices: Choices, size: WorkingSize | None) -> str:
    """Return the settings that a state must have been made with to be resumed from."""
    said = {
        "network": name,
        "clips": [clip.name for clip in clips],
        "form": choices.form,
        "carry": str(choices.carry),
        "frames": choices.frames,
        "passes": choices.passes,
        "seed": choices.seed,
        "size": size,
        "recipe": list(choices.recipe),
    }
    return json.dumps(said)


def _write(model: onnx.ModelProto, told: dict[str, Any], out: Path) -> None:
    sidecar = out.with_suffix(".json")
    with whole_together(out, sidecar) as (first, second):
        first.write_bytes(model.SerializeToString())
        second.write_text(json.dumps(told, indent=2, allow_nan=False) + "\n", encoding="utf-8")
