"""The picture behind the numbers that a network reads: what carry looks for motion in, and clocks for change of pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clockseg.errors import UsageError
from clockseg.types import Image


@dataclass(frozen=True)
class Normalisation:
    """Preprocessing of frames: x = (pixel * ``scale`` - mean) / std, with RGB pixels 0..255.

    >>> plain = Normalisation((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    >>> plain.picture(torch.ones(1, 3, 2, 4)).tolist()[0][0]
    [255, 255, 255]
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    scale: float = 1 / 255

    @classmethod
    def of(cls, processor: Any) -> Normalisation:
        """As a processor of transformers says, or a pair (mean, std) of three numbers each, of pixels 0..1."""
        if isinstance(processor, cls):
            return processor
        try:
            mean, std = processor if isinstance(processor, tuple) else (processor.image_mean, processor.image_std)
            scale = 1 / 255
            if not isinstance(processor, tuple):
                scale = float(processor.rescale_factor) if processor.do_rescale else 1.0
                mean, std = (mean, std) if processor.do_normalize else ((0.0,) * 3, (1.0,) * 3)
            found = cls(tuple(map(float, mean)), tuple(map(float, std)), scale)
        except (AttributeError, TypeError, ValueError) as error:
            raise UsageError(_WANTED.format(processor)) from error
        if len(found.mean) != 3 or len(found.std) != 3 or 0 in found.std or not scale:
            raise UsageError(_WANTED.format(processor))
        return found

    def picture(self, frame: Tensor) -> Image:
        """The picture, uint8 RGB [h, w, 3], of a frame [1, 3, h, w]."""
        factor, offset = (
            torch.tensor(one, device=frame.device).view(3, 1, 1) / self.scale for one in (self.std, self.mean)
        )
        pixels = (frame[0].float() * factor + offset).round_().clamp_(0, 255)
        found: Image = np.ascontiguousarray(pixels.to(torch.uint8).permute(1, 2, 0).numpy(force=True))
        return found


_WANTED = (
    "processor={!r}; give the image processor that prepares your frames, with image_mean and image_std, or a pair "
    "(mean, std) of three numbers each, of pixels 0..1."
)
