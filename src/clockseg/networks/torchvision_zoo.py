"""The segmentation networks of torchvision, with the weights that it publishes: DeepLabV3, FCN and LR-ASPP."""

from __future__ import annotations

import sys
import urllib.error
from collections.abc import Callable
from dataclasses import replace

import torch

from clockseg.datasets.official import PASCAL
from clockseg.engines.auto import Engine
from clockseg.errors import MissingDependency, NetworkError, UsageError, first_line, nearest
from clockseg.instances.recognising import IMAGENET
from clockseg.networks.onnx_export import adapted, export
from clockseg.networks.source import NOTHING_SAID, Said, Source, Told

SIZE = (1040, 520)
"""torchvision scales pictures to a shorter side of 520; up to twice as wide as high they fit in this box."""


def torchvision_source(name: str, *, given: Said = NOTHING_SAID, engine: Engine, tell: Callable[[str], None]) -> Source:
    """Export torchvision's network ``name`` with the weights that torchvision publishes, of PASCAL VOC's classes.

    torchvision compares what it downloads with the checksum in the file's name; ``tell`` gets the address. The graph is exported at
    the size ``given`` and compared with the module in ``engine``. ``UsageError`` for another name, ``NetworkError`` if the weights
    can't be had.
    """
    try:
        from torchvision import models
    except (ImportError, RuntimeError) as error:  # beside a torch of another build it fails with RuntimeError
        raise MissingDependency(
            f"torchvision:{name} needs torchvision, of the release that fits your torch: pip install torchvision ({error})"
        ) from error
    if name not in (names := models.list_models(module=models.segmentation)):
        raise UsageError(f"torchvision:{name}: there is no such network. {nearest(name, names)}")
    weights = models.get_model_weights(name).DEFAULT
    tell(f"downloading {weights.url}, unless {torch.hub.get_dir()} has it")
    try:
        state = weights.get_state_dict(progress=sys.stderr.isatty(), check_hash=True, weights_only=True)
    except (OSError, RuntimeError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else first_line(error)
        raise NetworkError(
            f"torchvision:{name}: its weights are not in {torch.hub.get_dir()}/checkpoints, and {weights.url} can't be downloaded "
            f"({reason}). Connect once, or put the file there."
        ) from error
    made = models.get_model(name, weights=None, weights_backbone=None)
    # The auxiliary head is for training alone.
    made.load_state_dict({key: value for key, value in state.items() if not key.startswith("aux_classifier")})
    module = adapted(made, lambda call, image: call(image)["out"])
    graph, export_told = export(module, given.size or SIZE, engine=engine, of="torchvision")
    said = Said(size=SIZE, mean=IMAGENET[0], std=IMAGENET[1], scale=1 / 255, colour="rgb")
    said = replace(said, classes=PASCAL.names, palette=PASCAL.palette, ignore=255)
    told = (export_told, Told("classes", str(len(PASCAL.names)), "PASCAL VOC's, as of torchvision's own weights"))
    return Source(graph, name, said, by="torchvision's own presets", told=told)
