"""Inputs of the measurements: the shared data, its clips as H.264, noise, and SegFormer-B0 with random weights."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np

from clockseg.clockwork.network import StagedNetwork
from clockseg.datasets import Clip, read_data
from clockseg.graph.sidecar import Input, Sidecar, write
from clockseg.types import Image, Size
from clockseg.video.clip import Frame

DRIVING, FIXED_CAMERA = "solidWhiteRight.mp4", "one-by-one-person-detection.mp4"
VIDEOS = (DRIVING, FIXED_CAMERA)
RECIPES = Path(__file__).resolve().parents[1] / "recipes"
FCN8S_NARROW = RECIPES / "fcn" / "weights" / "fcn8s-narrow.onnx"


def data(*parts: str) -> Path:
    """Return a path in the shared data; end the program with what to do if it isn't there."""
    root = Path(os.environ.get("CLOCKSEG_DATA") or Path(__file__).resolve().parents[2] / "shared")
    path = root.joinpath("data", *parts)
    if not path.exists():
        raise SystemExit(f"{path} is not there: set CLOCKSEG_DATA to the shared data folder.")
    return path


def camvid(split: str = "val", limit: int | None = None) -> list[Clip]:
    """Return the clips of CamVid with human labels; ``val`` is one clip at 15 frames a second."""
    return read_data(data("camvid", split), limit=limit)


def video(name: str, limit: int | None = None) -> Clip:
    """Return one of the shared videos, without labels."""
    return read_data(data("videos", name), limit=limit)[0]


def images(clip: Clip, count: int | None = None, size: Size | None = None) -> list[Image]:
    """Return the first frames of a clip, scaled to ``size`` if it is given."""
    found = (frame.image for frame in islice(clip.frames(), count))
    return [image.copy() if size is None else cv2.resize(image, size, interpolation=cv2.INTER_AREA) for image in found]


def noise(net: StagedNetwork, count: int) -> list[Image]:
    """Return frames of noise at a network's working size."""
    given, random = net.sidecar.input, np.random.default_rng(0)
    return [random.integers(0, 256, (given.height, given.width, 3), dtype=np.uint8) for _ in range(count)]


def networks() -> dict[str, str | Path]:
    """Return the files of the three networks that engines are compared on."""
    return {"street": "street", "segformer-b0": segformer(), "fcn8s-narrow": FCN8S_NARROW}


SEGFORMER_CLASSES = tuple(f"class{index}" for index in range(19))
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@cache
def segformer_module() -> Any:
    """Return SegFormer-B0 of transformers with random weights, a torch module giving scores [1, 19, h / 4, w / 4].

    What it costs doesn't depend on its weights.
    """
    import torch
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    class Scores(torch.nn.Module):
        def __init__(self, model: Any) -> None:
            super().__init__()
            self.model = model

        def forward(self, image: Any) -> Any:
            return self.model(pixel_values=image).logits

    torch.manual_seed(0)
    return Scores(SegformerForSemanticSegmentation(SegformerConfig(num_labels=len(SEGFORMER_CLASSES)))).eval()


@cache
def segformer(size: Size = (512, 256)) -> Path:
    """Return the same as an ONNX file with a sidecar that cuts it where its encoder's four stages end."""
    import torch

    path = Path(tempfile.mkdtemp(prefix="segformer-")) / "segformer-b0.onnx"
    free = {"image": {2: "height", 3: "width"}, "scores": {2: "low_height", 3: "low_width"}}
    names: dict[str, Any] = {"input_names": ["image"], "output_names": ["scores"], "dynamic_axes": free}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        example = (torch.zeros(1, 3, 128, 160),)
        torch.onnx.export(segformer_module(), example, str(path), dynamo=False, opset_version=17, **names)
    cuts = tuple((f"/model/segformer/stages.{stage}/Transpose_output_0",) for stage in range(4))
    given = Input("image", *size, "rgb", 1 / 255, MEAN, STD, 32)
    stages = tuple(f"stage{index + 1}" for index in range(len(cuts)))
    said = Sidecar("segformer-b0", given, "scores", cuts, stages, classes=SEGFORMER_CLASSES)
    write(said, path.with_suffix(".json"))
    return path


@dataclass(frozen=True)
class Reencoded:
    """A clip of labelled pictures as H.264, for ``evaluate``: the frames of ``video``, the labels of ``pictures``."""

    video: Clip
    pictures: Clip

    def __getattr__(self, name: str) -> Any:
        return getattr(self.video if name == "path" else self.pictures, name)

    def frames(self, **options: Any) -> Iterator[Frame]:
        """Yield the frames; a lost one would shift all labels after it, so a count that differs is an error."""
        pairs = zip(self.video.frames(**options), self.pictures.taken or (), strict=True)
        for frame, index in pairs:
            yield replace(frame, index=index, labels=self.pictures.frame(index).labels)


def reencoded(clip: Clip, path: Path, options: Mapping[str, str]) -> Reencoded:
    """Write ``clip`` as H.264 of 15 frames a second to ``path``."""
    write_video(path, (frame.image for frame in clip), 15, options)
    return Reencoded(Clip(clip.name, path), clip)


def write_video(path: Path, frames: Iterable[Image], fps: int, options: Mapping[str, str]) -> None:
    """Write a video of libx264 with these options."""
    with av.open(str(path), "w") as out:
        stream = out.add_stream("libx264", rate=fps, options=dict(options))
        stream.pix_fmt = "yuv420p"
        for number, image in enumerate(frames):
            if not number:
                stream.height, stream.width = image.shape[:2]
            out.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        out.mux(stream.encode(None))
