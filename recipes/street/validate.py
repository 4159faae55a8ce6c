"""Mean IU of a network on labelled frames, each whole, at its own size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import torch

from clockseg.evaluation.metrics import Confusion, confusion
from clockseg.graph.part import IMAGE, LABELS
from clockseg.networks.framing import Framing
from clockseg.types import Image, Labels
from recipes.frames import Frames
from recipes.street.network import AnyStreet, normalise

Labeller = Callable[[Image], Labels]
"""A frame, uint8 RGB [h, w, 3] -> its labels, uint8 [h, w]."""


def score_frames(frames: Frames, labeller: Labeller) -> Confusion:
    """The confusion of all frames."""
    classes = len(frames.classes.names)
    return reduce(
        add,
        (confusion(frame.labels, labeller(frame.image), classes) for frame in frames.frames),
        Confusion.none(classes),
    )


def torch_labeller(net: AnyStreet, framing: Framing) -> Labeller:
    """The labeller of a module, as it is (put it in evaluation mode first); frames are framed as the runtime does."""
    device = next(net.parameters()).device

    def label(image: Image) -> Labels:
        batch = torch.from_numpy(framing.prepare(image)[IMAGE]).to(device)
        with torch.inference_mode(), torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            scores = net(normalise(batch)).fused
        return framing.restore({LABELS: scores.argmax(1).to(torch.uint8).cpu().numpy()}, image)

    return label


def report(scores: Confusion, classes: tuple[str, ...]) -> Mapping[str, Any]:
    """Fractions of 1, for a log: mean IU and the IU of each class (null where it is in neither truth nor answer)."""
    iu = {name: _rounded(value) for name, value in zip(classes, scores.iu)}
    return {"mean_iu": _rounded(scores.mean_iu), "pixel_acc": _rounded(scores.pixel_acc), "iu": iu}


def _rounded(share: float) -> float | None:
    """JSON has no NaN: null where nothing was scored."""
    return None if np.isnan(share) else round(float(share), 4)
