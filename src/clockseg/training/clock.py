"""Trains a clock on unlabelled video: the target is the share of the network's labels that a firing would change."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.optim.lr_scheduler import LambdaLR
from torch.optim.swa_utils import AveragedModel

from clockseg.carry import Carry, Flow, Warp
from clockseg.clocks import Clock, difference, learned, motion_residual
from clockseg.clocks.learned import Input
from clockseg.clocks.rates import carried, skip_frame
from clockseg.clockwork.schedule import ScheduleLike
from clockseg.datasets.clips import Clip
from clockseg.errors import TrainingError, UsageError
from clockseg.files import whole
from clockseg.networks.load import load
from clockseg.networks.onnx_export import traced
from clockseg.training import Trained
from clockseg.training.clock_samples import Samples, Take, samples, takes

Log = Callable[[dict[str, Any]], None]
BATCH, RATE, WARM_UP, DECAY, AVERAGE = 64, 3e-3, 50, 1e-3, 0.99
"""Samples of a step; the learning rate, which rises for ``WARM_UP`` steps and then falls to 0 in half a cosine; the weight
decay; the share that the running average of the weights, which is the result, keeps at each step."""
PERIODS = (4, 8)
"""The fixed rates that a clock is compared at: one frame in so many."""


def train_clock(
    network: str | Path,
    clips: Sequence[Clip],
    out: Path,
    *,
    carry: Carry = Warp(Flow()),  # noqa: B008 - frozen
    frames: int = 600,
    passes: int = 4,
    steps: int = 1500,
    seed: int = 0,
    say: Log = lambda entry: None,
    progress: Callable[[str, int, int], None] = lambda what, done, of: None,
    warn: Callable[[str], None] = lambda sentence: None,
    **options: Any,
) -> Trained:
    """Write ``out`` (NAME.onnx), a clock for ``network`` under ``carry``, and NAME.json, its inputs and scores.

    ``frames``: about how many frames of video to run the network on; ``passes``: replays of these, at other random ages each.
    ``options``: engine, precision, threads and size, as of ``load``. Labels of ``clips`` are not read. ``UsageError`` for a
    network that gives no labels, ``DataError`` if there are too few frames.
    """
    if min(frames, passes, steps) < 1:
        raise UsageError("a clock learns from at least 1 frame, 1 pass and 1 step.")
    net = load(network, **options)
    inputs = inputs_of(motion=carry.estimates_motion)
    learn, held = takes(net, clips, carry, frames=frames, warn=warn, progress=progress)
    found = samples(learn, carry, inputs, passes=passes, seed=seed)
    say({"event": "start", "samples": len(found.change), "change": round(float(found.change.mean()), 5)})
    trained = {
        "network": net.name,
        "size": options.get("size"),
        "clips": [clip.name for clip in clips],
        "carry": str(carry),
        "frames": len(learn.recording),
        "passes": passes,
        "seed": seed,
        "samples": len(found.change),
        "steps": steps,
    }
    told: dict[str, Any] = {"inputs": [one.name for one in inputs], "trained": trained}
    model = exported(fitted(found, steps, seed, say), inputs)
    _write(model, told, out)
    told["held_out"] = score(str(out), held, carry)
    _write(model, told, out)
    return Trained(out, {"clock": str(out), **told})


def fitted(found: Samples, steps: int, seed: int, say: Log = lambda entry: None) -> ClockNet:
    """Return a network trained on samples; ``TrainingError`` if the loss is not finite. ``say`` gets twenty entries."""
    torch.manual_seed(seed)
    values = {name: torch.from_numpy(value) for name, value in found.values.items()}
    change = torch.from_numpy(found.change)
    net = ClockNet.for_samples(values, change)
    average = AveragedModel(
        net, avg_fn=lambda kept, now, count: torch.lerp(now, kept, min(AVERAGE, count / (count + 20)))
    )
    optimiser = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=DECAY)
    rate = LambdaLR(optimiser, lambda step: min(1, (step + 1) / WARM_UP) * (1 + math.cos(math.pi * step / steps)) / 2)
    losses: list[float] = []
    for step in range(1, steps + 1):
        random = np.random.default_rng([seed, step])
        chosen = torch.from_numpy(random.integers(0, len(change), BATCH))
        picked = {name: value[chosen] for name, value in values.items()}
        if random.random() < 0.5:  # a mirrored picture changes as much
            picked = {name: value.flip(-1) if value.ndim == 4 else value for name, value in picked.items()}
        loss = binary_cross_entropy_with_logits(net(picked), change[chosen])
        losses.append(float(loss.detach()))
        if not math.isfinite(losses[-1]):
            raise TrainingError(f"the loss is {losses[-1]} at step {step}; check the data.")
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        rate.step()
        average.update_parameters(net)
        if step % max(1, steps // 20) == 0:
            say({"event": "step", "step": step, "of": steps, "loss": round(float(np.mean(losses)), 4)})
            losses.clear()
    trained: ClockNet = average.module.eval()
    return trained


def _write(model: onnx.ModelProto, told: dict[str, Any], out: Path) -> None:
    with whole(out) as first, whole(out.with_suffix(".json")) as second:
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
    for _ in range(9):
        middle = (low + high) / 2
        found = _played(take, carry, clock(middle))
        if found[0] > most:
            low = middle
            continue
        high, best = middle, found
        if found[0] == most:
            break
    return best


def _played(take: Take, carry: Carry, schedule: ScheduleLike) -> tuple[int, float]:
    """Return the number of firings, and the share of labels that are the network's own."""
    told = list(take.changes(carried(schedule, carry)))
    return sum(fired for fired, _ in told), 1 - float(np.mean([changed for _, changed in told]))


HEIGHT, WIDTH = 36, 48
"""Size of the pictures that the clock reads."""
CHANNELS, HIDDEN = (8, 16, 16), 16


def inputs_of(*, motion: bool) -> tuple[Input, ...]:
    """Return the inputs of a clock; ``motion``: True if the carry estimates motion."""
    pictures = ("now", "fired", "residual") if motion else ("now", "fired")
    return (*(Input(name, (1, 1, HEIGHT, WIDTH)) for name in pictures), Input("since", (1, 1)))


class ClockNet(nn.Module):
    """Three convolutions over small pictures, and two linear layers on their mean.

    The linear layers also read the mean of the pictures themselves, so that a clock on the residual alone is within reach
    from the start. ``mean``, ``scale``: of the planes that the convolutions read, [channels].
    """

    def __init__(self, names: Sequence[str], mean: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.names = tuple(names)
        self.register_buffer("mean", mean)
        self.register_buffer("scale", scale)
        widths = (len(mean), *CHANNELS)
        self.convs = nn.ModuleList(nn.Conv2d(a, b, 3, 2, 1) for a, b in pairwise(widths))
        self.hidden = nn.Linear(CHANNELS[-1] + len(mean) + 1, HIDDEN)
        self.last = nn.Linear(HIDDEN, 1)

    @classmethod
    def for_samples(cls, values: Mapping[str, Tensor], change: Tensor) -> ClockNet:
        """Return an untrained network that normalizes ``values`` and answers with about the mean ``change``."""
        planes = stacked(values)
        net = cls(tuple(values), planes.mean((0, 2, 3)), planes.std((0, 2, 3)).clamp_min(1e-4))
        mean = float(change.mean().clamp(1e-4, 1 - 1e-4))
        nn.init.constant_(net.last.bias, math.log(mean / (1 - mean)))
        return net

    def forward(self, values: Mapping[str, Tensor]) -> Tensor:
        """Return the logit of the predicted change, [n]; ``values``: a batch of every input, by name."""
        planes = (stacked(values) - self.mean.reshape(1, -1, 1, 1)) / self.scale.reshape(1, -1, 1, 1)
        found = planes
        for conv in self.convs:
            found = torch.relu(conv(found))
        features = torch.cat([found.mean((2, 3)), planes.mean((2, 3)), values["since"]], 1)
        answer: Tensor = self.last(torch.relu(self.hidden(features)))[:, 0]
        return answer


def stacked(values: Mapping[str, Tensor]) -> Tensor:
    """Return the planes that the convolutions read, [n, channels, h, w]: the pictures and their absolute difference."""
    planes = [values[name] for name in ("now", "fired", "residual") if name in values]
    return torch.cat([*planes, (values["now"] - values["fired"]).abs()], 1)


class _Positional(nn.Module):
    """The network with its inputs in order, and a sigmoid at its end: [1, 1], 0..1."""

    def __init__(self, net: ClockNet) -> None:
        super().__init__()
        self.net = net

    def forward(self, *values: Tensor) -> Tensor:
        return torch.sigmoid(self.net(dict(zip(self.net.names, values, strict=True))))[:, None]


def exported(net: ClockNet, inputs: Sequence[Input]) -> onnx.ModelProto:
    """Return ``net`` as a graph with these inputs and one output ``change``, [1, 1], 0..1."""
    given = {one.name: torch.zeros([side or 1 for side in one.shape]) for one in inputs}
    return traced(_Positional(net).eval(), given, ["change"], axes={})
