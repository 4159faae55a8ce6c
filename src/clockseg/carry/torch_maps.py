"""Warping of maps that are torch tensors, on their own device."""

from __future__ import annotations

import torch

from clockseg.types import Array


def moved(value: torch.Tensor, places: Array, *, nearest: bool) -> torch.Tensor:
    """Sample ``value`` [1, channels, h, w] at ``places`` [h, w, 2] in cells; beyond its edge, the value at the edge.

    >>> import numpy as np
    >>> row = torch.tensor([[[[0.0, 1.0, 2.0]]]])
    >>> moved(row, np.float32([[[0.5, 0], [9, 0], [1, 0]]]), nearest=False).tolist()
    [[[[0.5, 2.0, 1.0]]]]
    """
    height, width = value.shape[-2:]
    sides = torch.tensor([max(width - 1, 1), max(height - 1, 1)], device=value.device)
    grid = torch.from_numpy(places).to(value.device) * 2 / sides - 1
    found = torch.nn.functional.grid_sample(
        value.double() if nearest else value.float(),
        (grid.double() if nearest else grid)[None],
        mode="nearest" if nearest else "bilinear",
        padding_mode="border",
        align_corners=True,
    )
    return found.round().to(value.dtype) if value.dtype == torch.uint8 else found.to(value.dtype)
