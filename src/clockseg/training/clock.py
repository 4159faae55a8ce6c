"""Trains a clock on unlabelled video.

A sample is the clock's inputs at a random age of the cached values, and the share of the network's labels that a firing changes.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.optim.lr_scheduler import LambdaLR
from torch.optim.swa_utils import AveragedModel

from clockseg.carry import Carry, Flow, Warp
from clockseg.clocks import Clock, Decision, Tick, Watch, difference, learned, motion_residual
from clockseg.clocks.learned import Inputs, values, watched
from clockseg.clocks.maps import change
from clockseg.clocks.rates import carried, skip_frame
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import ScheduleLike
from clockseg.datasets.clips import Clip
from clockseg.errors import DataError, TrainingError, UsageError, VideoError
from clockseg.evaluation.labels import checked_labels
from clockseg.execution.recording import Recording, needs
from clockseg.files import whole
from clockseg.networks.load import load
from clockseg.networks.onnx_export import traced
from clockseg.types import Array
from clockseg.video.clip import Frame

Say = Callable[[str], None]
BATCH, RATE, WARM_UP, DECAY, AVERAGE = 64, 3e-3, 50, 1e-3, 0.99
"""Samples of a step; the learning rate, which rises for ``WARM_UP`` steps and then falls to 0 in half a cosine; the weight
decay; the share that the running average of the weights, which is the result, keeps at each step."""
PERIODS = (4, 8)
"""The fixed rates that a clock is compared at: one frame in so many."""
HEIGHT, WIDTH = 36, 48
"""Size of the pictures that the clock reads."""
CHANNELS, HIDDEN = (8, 16, 16), 16
EVERY = 4
"""Labels are compared in every fourth row and column."""
OLDEST = 24
"""Largest age of cached values, in frames."""
SHORTEST = 10
"""Frames that a clip needs."""


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
    say: Say = lambda line: None,
    progress: Callable[[str, int, int], None] = lambda what, done, of: None,
    warn: Say = lambda sentence: None,
    **options: Any,
) -> dict[str, Any]:
    """Write ``out`` (NAME.onnx), a clock for ``network`` under ``carry``, and NAME.json, its inputs and scores; return these.

    ``frames``: about how many frames of video to run the network on; ``passes``: replays of these, at other random ages each.
    ``options``: engine, precision, threads and size, as of ``load``. Labels of ``clips`` are not read. ``UsageError`` for a
    network that gives no labels, ``DataError`` if there are too few frames.
    """
    if min(frames, passes, steps) < 1:
        raise UsageError("a clock learns from at least 1 frame, 1 pass and 1 step.")
    net = load(network, **options)
    inputs = inputs_of(motion=carry.estimates_motion)
    learn, held = takes(net, clips, carry, frames=frames, warn=warn, progress=progress)
    given, target = samples(learn, carry, inputs, passes=passes, seed=seed)
    say(f"{len(target)} samples; a firing would change {100 * target.mean():.1f} % of their labels")
    trained = {
        "network": net.name,
        "size": options.get("size"),
        "clips": [clip.name for clip in clips],
        "carry": str(carry),
        "frames": len(learn.recording),
        "passes": passes,
        "seed": seed,
        "samples": len(target),
        "steps": steps,
    }
    model = exported(fitted([*given.values()], target, steps, seed, say), inputs)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "clock.onnx"
        onnx.save(model, file)
        told = {"inputs": list(inputs), "trained": trained, "held_out": score(str(file), held, carry)}
    with whole(out) as first, whole(out.with_suffix(".json")) as second:
        onnx.save(model, first)
        second.write_text(json.dumps(told, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    return {"clock": str(out), **told}


@dataclass(frozen=True)
class Take:
    """Recorded frames, and the labels that the uncut network gives for each."""

    recording: Recording
    truth: list[Array] = field(default_factory=list)

    def changes(self, schedule: ScheduleLike) -> Iterator[tuple[bool, float]]:
        """Yield for each frame under ``schedule`` if it fires, and the share of labels that are not the network's own."""
        for index, played in enumerate(self.recording.play(schedule)):
            if not self.recording.frames[index].first:
                shown = played.output.value[::EVERY, ::EVERY]
                yield any(played.record.fired), change(shown, self.truth[index])


@dataclass(frozen=True)
class _Asker:
    """A clock that notes the inputs it is given, and fires at random ages."""

    inputs: Inputs
    seed: int
    noted: list[dict[str, Array]] = field(default_factory=list, compare=False)
    gates_after: ClassVar[int] = 0

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """Decide; ``state``: the age at which to fire next, and the number of firings."""
        age, fires = state or (0, -1)
        if tick.fires != fires:
            age = int(np.random.default_rng((self.seed, len(self.noted))).integers(2, OLDEST + 1))
        self.noted.append(values(self.inputs, tick))
        return Decision(tick.since > age), (age, tick.fires)

    def watches(self, stage: int) -> frozenset[Watch]:
        """Return the maps that the clock in training reads."""
        return watched(self.inputs)


def samples(take: Take, carry: Carry, inputs: Inputs, *, passes: int, seed: int) -> tuple[dict[str, Array], Array]:
    """Return the values of every input, [n, ..], and the target, [n], 0..1: a sample per frame without a firing.

    They are from ``passes`` replays of ``take`` that fire at other random ages each.
    """
    found: list[tuple[dict[str, Array], float]] = []
    for index in range(passes):
        asker = _Asker(inputs, 1000 * seed + index)
        told = list(take.changes(carried(asker, carry)))
        found += [(noted, changed) for noted, (fired, changed) in zip(asker.noted, told, strict=True) if not fired]
    if not found:
        raise DataError("there are no frames to learn from; give videos of at least a second or two.")
    together = {name: np.concatenate([noted[name] for noted, _ in found]) for name in inputs}
    return together, np.array([changed for _, changed in found], np.float32)


def takes(
    net: StagedNetwork,
    clips: Sequence[Clip],
    carry: Carry,
    *,
    frames: int,
    warn: Say,
    progress: Callable[[str, int, int], None] = lambda what, done, of: None,
) -> tuple[Take, Take]:
    """Run the network once over the first frames of each clip, about ``frames`` in all: a take to learn from, one to score on.

    The last fifth of what is taken of each clip is held out. Clips under ``SHORTEST`` frames are left out. ``DataError`` if
    no frames are left, ``UsageError`` if the network gives no labels.
    """
    keep = needs(net, [carried(difference(0, of="pixels"), carry), carried(skip_frame(2), carry)], outputs=True)
    learn, score = Take(Recording(net, keep)), Take(Recording(net, keep))
    share = max(SHORTEST, -(-frames // max(1, len(clips))))
    for clip in clips:
        for frame, first, held in _decoded(clip, share, warn, vectors=carry.reads_vectors):
            take = score if held else learn
            output = take.recording.add(frame.picture, vectors=frame.vectors, first=first)
            take.truth.append(checked_labels(output, net)[::EVERY, ::EVERY].copy())
            done = len(learn.truth) + len(score.truth)
            progress("running the network on every frame", done, min(frames, share * len(clips)))
    if not learn.truth or not score.truth:
        raise DataError("there are no frames to learn from; give videos, clips or folders of at least 10 frames.")
    return learn, score


def _decoded(clip: Clip, most: int, warn: Say, *, vectors: bool) -> Iterator[tuple[Frame, bool, bool]]:
    """Yield up to ``most`` frames of ``clip``; for each, True if it is the first to learn from or to score on, and if it is held out.

    ``warn`` is told of the first frame that can't be decoded, after which there are no others, and of a clip that is too short.
    """
    try:
        # A video without a number of frames in its header is decoded twice.
        count = min(most, clip.expected() or sum(1 for _ in clip))
        if count < SHORTEST:
            warn(f"clip {clip.name} has {count} frames; {SHORTEST} are needed. It is left out.")
            return
        end = count - max(2, count // 5)
        frames = replace(clip, labels=(None,) * len(clip.images)).frames(problem=warn, vectors=vectors)
        for index, frame in enumerate(islice(frames, count)):
            yield frame, index in (0, end), index >= end
    except (DataError, VideoError) as error:
        warn(f"{error} The rest of clip {clip.name} is left out.")


def inputs_of(*, motion: bool) -> Inputs:
    """Return the inputs of a clock; ``motion``: True if the carry estimates motion."""
    pictures = ("now", "fired", "residual") if motion else ("now", "fired")
    return {**dict.fromkeys(pictures, (1, 1, HEIGHT, WIDTH)), "since": (1, 1)}


class ClockNet(nn.Module):
    """Three convolutions over small pictures, and two linear layers on their mean.

    The linear layers also read the mean of the pictures themselves, so that a clock on the residual alone is within reach
    from the start. ``mean``, ``scale``: of the planes that the convolutions read (``stacked``), [channels].
    """

    def __init__(self, mean: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean.reshape(1, -1, 1, 1))
        self.register_buffer("scale", scale.reshape(1, -1, 1, 1))
        widths = (len(mean), *CHANNELS)
        self.convs = nn.ModuleList(nn.Conv2d(a, b, 3, 2, 1) for a, b in pairwise(widths))
        self.hidden = nn.Linear(CHANNELS[-1] + len(mean) + 1, HIDDEN)
        self.last = nn.Linear(HIDDEN, 1)

    def forward(self, *values: Tensor) -> Tensor:
        """Return the predicted change, [n, 1], 0..1, in training its logit; ``values``: a batch of every input, in order."""
        found = planes = (stacked(*values[:-1]) - self.mean) / self.scale
        for conv in self.convs:
            found = torch.relu(conv(found))
        features = torch.cat([found.mean((2, 3)), planes.mean((2, 3)), values[-1]], 1)
        answer: Tensor = self.last(torch.relu(self.hidden(features)))
        return answer if self.training else torch.sigmoid(answer)


def stacked(now: Tensor, fired: Tensor, *residual: Tensor) -> Tensor:
    """Return the planes that the convolutions read, [n, channels, h, w]: the pictures and their absolute difference."""
    return torch.cat([now, fired, *residual, (now - fired).abs()], 1)


def fitted(inputs: Sequence[Array], target: Array, steps: int, seed: int, say: Say) -> ClockNet:
    """Return a network trained on ``samples``; ``TrainingError`` if the loss is not finite. ``say`` gets twenty lines."""
    torch.manual_seed(seed)
    given, changed = [torch.from_numpy(value) for value in inputs], torch.from_numpy(target)[:, None]
    planes = stacked(*given[:-1])
    net = ClockNet(planes.mean((0, 2, 3)), planes.std((0, 2, 3)).clamp_min(1e-4))
    # Untrained, it answers with about the mean change.
    nn.init.constant_(net.last.bias, float(torch.logit(changed.mean(), eps=1e-4)))
    average = AveragedModel(
        net, avg_fn=lambda kept, now, count: torch.lerp(now, kept, min(AVERAGE, count / (count + 20)))
    )
    optimiser = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=DECAY)
    rate = LambdaLR(optimiser, lambda step: min(1, (step + 1) / WARM_UP) * (1 + math.cos(math.pi * step / steps)) / 2)
    losses: list[float] = []
    for step in range(1, steps + 1):
        random = np.random.default_rng([seed, step])
        chosen = torch.from_numpy(random.integers(0, len(changed), BATCH))
        picked = [value[chosen] for value in given]
        if random.random() < 0.5:  # a mirrored picture changes as much
            picked = [value.flip(-1) if value.ndim == 4 else value for value in picked]
        loss = binary_cross_entropy_with_logits(net(*picked), changed[chosen])
        losses.append(float(loss.detach()))
        if not math.isfinite(losses[-1]):
            raise TrainingError(f"the loss is {losses[-1]} at step {step}; check the data.")
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        rate.step()
        average.update_parameters(net)
        if step % max(1, steps // 20) == 0:
            say(f"step {step} of {steps}  loss {np.mean(losses):.4f}")
            losses.clear()
    trained: ClockNet = average.module.eval()
    return trained


def exported(net: ClockNet, inputs: Inputs) -> onnx.ModelProto:
    """Return ``net`` as a graph with these inputs and one output ``change``, [1, 1], 0..1."""
    given = {name: torch.zeros(shape) for name, shape in inputs.items()}
    return traced(net.eval(), given, ["change"], axes={})


def score(file: str, take: Take, carry: Carry) -> dict[str, Any]:
    """Return the scores of the clock in ``file`` on held-out frames beside those of simpler clocks, as plain values.

    ``agreement``: for each fixed rate, the number of firings and the share of labels that are the network's own, over the
    frames after each clip's first. The thresholds of the clocks are those at which they fire as often as the fixed rate on
    these very frames, or just less often.
    """
    ways: dict[str, Callable[[float], Clock]] = {"learned": partial(learned, file)}
    if carry.estimates_motion:
        ways["motion_residual"] = motion_residual
    else:
        ways["difference of pixels"] = partial(difference, of="pixels")
    agreement = []
    for period in PERIODS:
        fixed = _played(take, carry, skip_frame(period))
        found = {name: _matched(take, carry, clock, fixed[0]) for name, clock in ways.items()} | {"fixed rate": fixed}
        firings = {name: fired for name, (fired, _) in found.items()}
        pixels = {name: round(same, 5) for name, (_, same) in found.items()}
        agreement.append({"period": period, "firings": firings, "pixels": pixels})
    return {"frames": len(take.recording), "agreement": agreement}


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
