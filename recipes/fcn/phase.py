"""One net of a recipe: built, started, trained, scored along the way, written."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from clockseg.errors import TrainingError, UsageError
from clockseg.graph.part import IMAGE, LABELS
from clockseg.networks.framing import Framing
from clockseg.paper.fcn import FCNDescription, FCNShape
from clockseg.types import Image, Labels, Size
from recipes.batches import Batches
from recipes.fcn.checkpoint import write_state
from recipes.fcn.fit import fit, prepared, start
from recipes.fcn.net import FCN
from recipes.fcn.recipe import FCNRecipe, Phase
from recipes.fcn.scales import attach, folded, unfolded
from recipes.fcn.start import fcn_state, pixel_mean, random_start, take_over
from recipes.fcn.vgg16 import Mean, vgg16_state
from recipes.fcn.whole_frames import WholeFrames, halved
from recipes.fitting import Log, load_state, save_state
from recipes.frames import Frames
from recipes.street.augment import Views
from recipes.street.validate import Labeller, report, score_frames


@dataclass(frozen=True)
class FCNChoices:
    """Options of the training besides the recipe.

    `vgg16`, `initial`: a file with VGG-16's weights, or an FCN trained before, to start from; else random weights.
    `halves`: train on both halves of each picture. `minutes`: a limit for each net. `workers`: processes that read
    pictures ahead, 0: none.
    """

    device: str = "cpu"
    seed: int = 1337
    workers: int = 0
    resume: bool = False
    minutes: float | None = None
    vgg16: Path | None = None
    initial: Path | None = None
    halves: bool = False

    def __post_init__(self) -> None:
        if self.vgg16 is not None and self.initial is not None:
            raise UsageError("a net starts from VGG-16's weights or from an FCN's, not from both.")


DEFAULTS = FCNChoices()


def state_file(out: Path, phase: Phase) -> Path:
    """Return the file that a training of this net is resumed from."""
    return out / f"{phase.variant}.state.pt"


def checkpoint_file(out: Path, phase: Phase) -> Path:
    """Return the file of the trained net."""
    return out / f"{phase.variant}.safetensors"


@dataclass(frozen=True)
class Training:
    """The settings that all nets of a recipe share; `test`: data to score on along the way."""

    frames: Frames
    test: Frames | None
    out: Path
    recipe: FCNRecipe
    shape: FCNShape
    choices: FCNChoices
    device: torch.device
    log: Log

    def run(self, phase: Phase, before: Path | None) -> Path:
        """Trains one net, from the checkpoint of the phase `before`, and returns its own."""
        torch.manual_seed(self.choices.seed)
        net = self.build(phase, before)
        attach(net, phase.scales)
        run = start(net.to(self.device, memory_format=torch.channels_last), phase, self.recipe)
        if self.choices.resume and state_file(self.out, phase).exists():
            run.restore(load_state(state_file(self.out, phase), self.device))

        def check() -> None:
            check_finite(net)
            save_state({**run.state(), "made": self.made(phase)}, state_file(self.out, phase))
            self.score(net, phase, run.step)

        batches, ignore = self.batches(), self.frames.classes.ignore
        minutes = self.choices.minutes
        fit(run, phase, self.recipe, batches, self.mean, self.log, ignore=ignore, minutes=minutes, check=check)
        return self.save(net, phase)

    def build(self, phase: Phase, before: Path | None) -> FCN:
        """The net at the start of a phase, with the weights that it needs under the phase's scales."""
        classes = self.frames.classes
        net = FCN(replace(self.shape, variant=phase.variant, classes=len(classes.names)))
        random_start(net, self.choices.seed)
        vgg16 = self.choices.vgg16
        if source := before or self.choices.initial or vgg16:
            state = vgg16_state(source, net.shape, mean=self.mean) if source == vgg16 else fcn_state(source, classes)
            take_over(net, unfolded(state, phase.scales), source=source)
        return net

    @property
    def mean(self) -> Mean:
        """The mean that is subtracted from pixels: blue, green, red."""
        return pixel_mean(self.frames.classes)

    @property
    def working(self) -> Size:
        """The size (width, height) that frames are to be fitted into: the recipe's, else any of the pictures' long side."""
        longest = max(self.frames.frames[0].labels.shape)
        return self.recipe.working or (longest, longest)

    def batches(self) -> Batches:
        """Return the batches to train on."""
        frames = halved(self.frames) if self.choices.halves else self.frames
        seed, workers, size = self.choices.seed, self.choices.workers, self.recipe.batch
        if self.recipe.augmentation is None:
            return Batches(WholeFrames(frames, self.recipe.working), size, seed, workers, replacement=True)
        height, width = frames.frames[0].labels.shape
        view = self.recipe.working or (width, height)
        base = Framing(*view).scaled((width, height))[0] / width
        return Batches(Views(frames, view, base, self.recipe.augmentation), size, seed, workers)

    def made(self, phase: Phase) -> dict[str, Any]:
        """Return the settings that must be equal to resume a training; rates, lengths and paths may change."""
        recipe = {name: value for name, value in asdict(self.recipe).items() if name not in ("phases", "every")}
        found = {
            "net": asdict(replace(self.shape, variant=phase.variant)),
            "scales": asdict(phase.scales),
            "classes": self.frames.classes.names,
            "seed": self.choices.seed,
            "halves": self.choices.halves,
            **recipe,
        }
        plain: dict[str, Any] = json.loads(json.dumps(found))  # tuples become lists, as they do when they are saved
        return plain

    def check_saved(self) -> None:
        """`UsageError` if a state to resume from is of a training with other choices; before anything is begun."""
        for phase in self.recipe.phases if self.choices.resume else ():
            file, made = state_file(self.out, phase), self.made(phase)
            if not file.exists():
                continue
            before = load_state(file, torch.device("meta"))["made"]  # without reading the weights
            other = [
                f"{name} {was!r} (now {made.get(name)!r})" for name, was in before.items() if was != made.get(name)
            ]
            if other:
                raise UsageError(f"{file} is of a training with {'; '.join(other)}. Give the same, or another --out.")

    def save(self, net: FCN, phase: Phase) -> Path:
        """Writes the checkpoint, scales folded."""
        state = folded({name: value.detach().cpu() for name, value in net.state_dict().items()}, phase.scales)
        description = FCNDescription(net.shape, self.frames.classes, mean=self.mean, working=self.working)
        file = checkpoint_file(self.out, phase)
        write_state({name: value.numpy() for name, value in state.items()}, description, file)
        return file

    def score(self, net: FCN, phase: Phase, step: int) -> None:
        """Logs how the net does on the validation data, if there are any."""
        if self.test is not None:
            net.eval()
            found = report(score_frames(self.test, self.labeller(net)), self.test.classes.names)
            self.log({"event": "score", "of": "validation", "net": phase.variant, "step": step, **found})

    def labeller(self, net: FCN) -> Labeller:
        """Labels pictures as the runtime does: fitted into the working size, labels back at the picture's."""

        def label(image: Image) -> Labels:
            framing = Framing(*(self.recipe.working or (image.shape[1], image.shape[0])))
            data = prepared(torch.from_numpy(framing.prepare(image)[IMAGE]).to(self.device), self.mean)
            with torch.inference_mode():
                labels = net(data).score.argmax(1).to(torch.uint8).cpu().numpy()
            return framing.restore({LABELS: labels}, image)

        return label


def check_finite(net: FCN) -> None:
    """`TrainingError` for weights that can neither be gone on from nor used."""
    if bad := [name for name, value in net.named_parameters() if not bool(torch.isfinite(value).all())]:
        raise TrainingError(f"after this step {', '.join(bad)} aren't finite: train again with a lower --rate.")
