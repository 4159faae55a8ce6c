"""Trains a clock on unlabelled video: the target is the share of the network's labels that a firing would change."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from clockseg.carry import Carry, Flow, Warp
from clockseg.clocks import Clock, difference, learned, motion_residual
from clockseg.clockwork.schedule import Named, carried, skip_frame
from clockseg.datasets.clips import Clip
from clockseg.errors import UsageError
from clockseg.files import whole_together
from clockseg.networks.load import load
from clockseg.training import Trained
from clockseg.training.clock_net import ClockNet, exported, inputs_of
from clockseg.training.clock_samples import Samples, Take, samples, takes
from clockseg.training.fitting import Log, Recipe, check_resumed, fit, log_to

RECIPE = Recipe(steps=1500, batch=64, decay=1e-3)
PERIODS = (4, 8)
"""The fixed rates that a clock is compared at: one frame in so many."""
_HALVINGS = 9


@dataclass(frozen=True)
class Choices:
    """Options of the training.

    ``carry``: the one that the clock will run under. ``frames``: about how many frames of video to run the network on;
    ``passes``: replays of these, at other random ages each. ``resume``: continue from the state beside the file.
    """

    carry: Carry = field(default_factory=lambda: Warp(Flow()))
    frames: int = 600
    passes: int = 4
    seed: int = 0
    resume: bool = False
    recipe: Recipe = RECIPE

    def __post_init__(self) -> None:
        if self.frames < 1 or self.passes < 1 or self.recipe.steps < 1:
            raise UsageError("a clock learns from at least 1 frame, 1 pass and 1 step.")


def train_clock(
    network: str | Path,
    clips: Sequence[Clip],
    out: Path,
    *,
    choices: Choices = Choices(),
    say: Log = lambda entry: None,
    progress: Callable[[str, int, int], None] = lambda what, done, of: None,
    warn: Callable[[str], None] = lambda sentence: None,
    **options: Any,
) -> Trained:
    """Write ``out`` (NAME.onnx), a clock for ``network`` under ``choices.carry``, and NAME.json, its inputs and scores.

    Beside it stand NAME.log.jsonl and NAME.state.pt, to resume from. ``options``: engine, precision, threads and size, as of
    ``load``. Labels of ``clips`` are not read. ``UsageError`` for a network that gives no labels, ``DataError`` if there are
    too few frames.
    """
    net = load(network, **options)
    inputs = inputs_of(motion=choices.carry.estimates_motion)
    state = out.with_name(f"{out.stem}.state.pt")
    settings = {
        "network": net.name,
        "size": options.get("size"),
        "clips": [clip.name for clip in clips],
        "carry": str(choices.carry),
        **{name: getattr(choices, name) for name in ("frames", "passes", "seed")},
    }
    if choices.resume:
        check_resumed(state, settings)
    log = log_to(out.with_name(f"{out.stem}.log.jsonl"), say, fresh=not choices.resume)
    learn, held = takes(net, clips, choices.carry, frames=choices.frames, warn=warn, progress=progress)
    found = samples(learn, choices.carry, inputs, passes=choices.passes, seed=choices.seed)
    log({"event": "start", "samples": len(found.change), "change": round(float(found.change.mean()), 5)})
    fitted = _fitted(found, choices, state, settings, log)
    trained = settings | {"frames": len(learn.recording), "samples": len(found.change), "steps": choices.recipe.steps}
    told: dict[str, Any] = {"inputs": [one.name for one in inputs], "trained": trained}
    model = exported(fitted, inputs)
    _write(model, told, out)
    told["held_out"] = score(str(out), held, choices.carry)
    log({"event": "score", **told["held_out"]})
    _write(model, told, out)
    return Trained(out, {"clock": str(out), **told})


def _fitted(found: Samples, choices: Choices, state: Path, settings: dict[str, Any], log: Log) -> ClockNet:
    torch.manual_seed(choices.seed)
    values = {name: torch.from_numpy(value) for name, value in found.values.items()}
    change = torch.from_numpy(found.change)

    def loss(net: ClockNet, random: np.random.Generator) -> Tensor:
        chosen = torch.from_numpy(random.integers(0, len(change), choices.recipe.batch))
        picked = {name: value[chosen] for name, value in values.items()}
        if random.random() < 0.5:  # a mirrored picture changes as much
            picked = {name: value.flip(-1) if value.ndim == 4 else value for name, value in picked.items()}
        return binary_cross_entropy_with_logits(net(picked), change[chosen])

    net = ClockNet.for_samples(values, change)
    return fit(net, loss, choices.recipe, state, settings=settings, seed=choices.seed, resume=choices.resume, log=log)


def _write(model: onnx.ModelProto, told: dict[str, Any], out: Path) -> None:
    with whole_together(out, out.with_suffix(".json")) as (first, second):
        first.write_bytes(model.SerializeToString())
        second.write_text(json.dumps(told, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def score(file: str, take: Take, carry: Carry) -> dict[str, Any]:
    """Return the scores of the clock in ``file`` on held-out frames beside those of simpler clocks, as plain values.

    ``agreement``: for each fixed rate, the number of firings and the share of labels that are the network's own, over the
    frames after each clip's first. The thresholds of the clocks are those at which they fire as often as the fixed rate on
    these very frames, or just less often.
    """
    return {"frames": len(take.recording), "agreement": [_at_rate(file, take, carry, period) for period in PERIODS]}


def _at_rate(file: str, take: Take, carry: Carry, period: int) -> dict[str, Any]:
    fixed = _played(take, carry, skip_frame(period))

    def plain(threshold: float) -> Clock:
        return motion_residual(threshold) if carry.estimates_motion else difference(threshold, of="pixels")

    ways = {
        "learned": _matched(take, carry, lambda threshold: learned(file, threshold), fixed[0]),
        "motion_residual" if carry.estimates_motion else "difference of pixels": _matched(take, carry, plain, fixed[0]),
        "fixed rate": fixed,
    }
    return {
        "period": period,
        "firings": {name: fired for name, (fired, _) in ways.items()},
        "pixels": {name: round(same, 5) for name, (_, same) in ways.items()},
    }


def _matched(take: Take, carry: Carry, clock: Callable[[float], Clock], most: int) -> tuple[int, float]:
    """Return firings and agreement at the threshold at which the clock fires most often, but at most ``most`` times."""
    low, high = 0.0, 1.0
    best = _played(take, carry, clock(high))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        found = _played(take, carry, clock(middle))
        if found[0] > most:
            low = middle
            continue
        high, best = middle, found
        if found[0] == most:
            break
    return best


def _played(take: Take, carry: Carry, schedule: Named) -> tuple[int, float]:
    """Return the number of firings, and the share of labels that are the network's own."""
    told = list(take.changes(carried(schedule, carry)))
    return sum(fired for fired, _ in told), 1 - float(np.mean([changed for _, changed in told]))
