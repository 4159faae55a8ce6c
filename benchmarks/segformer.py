"""SegFormer-B0 with random weights, as an ONNX file that benchmarks cut: what it costs doesn't depend on its weights."""

from __future__ import annotations

import tempfile
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import torch

CLASSES = 19
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
INPUT, OUTPUT = "image", "scores"
CUTS = tuple(f"/model/segformer/stages.{stage}/Transpose_output_0" for stage in range(4))
"""Where the encoder's four stages end, as maps [1, channels, h, w]."""


@cache
def module() -> torch.nn.Module:
    """The network in transformers, random weights of seed 0, giving scores [1, 19, h / 4, w / 4]."""
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    torch.manual_seed(0)
    return _Scores(SegformerForSemanticSegmentation(SegformerConfig(num_labels=CLASSES))).eval()


class _Scores(torch.nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.model(pixel_values=image).logits
        return scores


@cache
def file() -> Path:
    """The network as NAME.onnx in a folder of its own, height and width free; without a sidecar."""
    path = Path(tempfile.mkdtemp(prefix="segformer-")) / "segformer-b0.onnx"
    free = {INPUT: {2: "height", 3: "width"}, OUTPUT: {2: "low_height", 3: "low_width"}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module(),
            (torch.zeros(1, 3, 128, 160),),
            str(path),
            dynamo=False,
            opset_version=17,
            input_names=[INPUT],
            output_names=[OUTPUT],
            dynamic_axes=free,
        )
    return path
