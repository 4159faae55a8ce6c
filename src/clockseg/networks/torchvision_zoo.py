"""The segmentation networks of torchvision, with weights from a file: DeepLabV3, FCN and LR-ASPP."""

from __future__ import annotations

import pickle
import sys
import urllib.error
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from clockseg.clockwork.network import StagedNetwork
from clockseg.datasets.known_classes import PASCAL
from clockseg.errors import MissingDependency, NetworkError, UsageError, first_line, install, nearest
from clockseg.instances.recognising import IMAGENET
from clockseg.networks.onnx_export import Adapter, export
from clockseg.networks.source import NOTHING_SAID, Said, Source, Told

NAMES = (
    "deeplabv3_resnet50",
    "deeplabv3_resnet101",
    "deeplabv3_mobilenet_v3_large",
    "fcn_resnet50",
    "fcn_resnet101",
    "lraspp_mobilenet_v3_large",
)
SIZE = (1040, 520)
"""torchvision scales pictures to a shorter side of 520; up to twice as wide as high they fit in this box."""
_LAST = ("classifier.4.weight", "classifier.low_classifier.weight")
"""The layer that scores classes: of DeepLabV3 and FCN, of LR-ASPP."""

Constructor = Callable[..., nn.Module]


def torchvision_source(
    name: str,
    weights: Path,
    *,
    given: Said = NOTHING_SAID,
    engine: Callable[[StagedNetwork], StagedNetwork],
    constructor: Constructor | None = None,
) -> Source:
    """Load torchvision's network ``name`` with the weights in a file: .pth, .pt or .safetensors, a state dict.

    The weights determine the number of classes; as many as PASCAL VOC has are its classes, as of torchvision's own weights.
    ``constructor`` makes the module (None: torchvision's of that name). The graph is exported at the size ``given`` and
    compared with the module in ``engine``. Raises ``UsageError`` or ``NetworkError``.
    """
    if name not in NAMES:
        raise UsageError(f"torchvision:{name}: there is no such network. {nearest(name, NAMES)}")
    state = read_state(weights)
    classes = _classes(state, weights)
    # Weights may have an auxiliary head, which only training reads.
    auxiliary = {"aux_loss": any(key.startswith("aux_classifier") for key in state)}
    options = {} if name.startswith("lraspp") else auxiliary
    make: Constructor = constructor or vars(_torchvision(name).segmentation)[name]
    made = make(weights=None, weights_backbone=None, num_classes=classes, **options)
    _fill(made, state, name, weights)
    graph, export_told = export(
        Adapter(made, lambda net, image: net(image)["out"]), given.size or SIZE, engine=engine, of="torchvision"
    )
    told = [export_told]
    said = Said(size=SIZE, mean=IMAGENET[0], std=IMAGENET[1], scale=1 / 255, colour="rgb")
    if classes == len(PASCAL.names):
        said = Said(classes=PASCAL.names, palette=PASCAL.palette, ignore=255).over(said)
        told.append(Told("classes", str(classes), "PASCAL VOC's, as of torchvision's own weights"))
    return Source(graph, name, said, by="torchvision's own presets", told=told)


def published(name: str, tell: Callable[[str], None]) -> Path:
    """Return the file of the weights that torchvision publishes for its network ``name``, downloaded unless torch has it.

    It is kept in torch's own folder (``torch.hub.get_dir()``), and its checksum is compared with the one in its name.
    """
    if name not in NAMES:
        raise UsageError(f"torchvision:{name}: there is no such network. {nearest(name, NAMES)}")
    url = str(_torchvision(name).get_model_weights(name).DEFAULT.url)
    file = Path(torch.hub.get_dir()) / "checkpoints" / url.rpartition("/")[2]
    if file.is_file():
        return file
    tell(f"downloading {url}")
    digest = file.stem.rpartition("-")[2]
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        torch.hub.download_url_to_file(url, str(file), hash_prefix=digest, progress=sys.stderr.isatty())
    except urllib.error.URLError as error:
        raise NetworkError(
            f"torchvision:{name}: its weights are not in {file.parent}, and {url} can't be downloaded ({error.reason}). Connect "
            f"once, put the file there, or give it to: clockseg cut torchvision:{name} --weights FILE --out NET.onnx"
        ) from error
    except (OSError, RuntimeError) as error:
        raise NetworkError(f"torchvision:{name}: {url} can't be downloaded to {file}: {first_line(error)}") from error
    return file


def read_state(file: Path) -> dict[str, Tensor]:
    """Read the weights in ``file``, which may lie under "model" or "state_dict", as training scripts leave them."""
    try:
        if file.suffix == ".safetensors":
            from safetensors.torch import load_file

            read: dict[str, Tensor] = load_file(file)
            return read
        found: Any = torch.load(file, map_location="cpu", weights_only=True)
    except ImportError as error:
        raise MissingDependency(f"reading .safetensors needs safetensors: {install('torch')}") from error
    except Exception as error:  # the readers raise what they like
        first = first_line(error)
        if isinstance(error, pickle.UnpicklingError):  # torch's own text says how to run what is in the file
            first = "it holds other things than tensors"
        raise NetworkError(
            f"{file} can't be read as weights ({first}). Give a state dict: .pth or .safetensors."
        ) from error
    for key in ("model", "state_dict"):
        found = found[key] if isinstance(found, Mapping) and isinstance(found.get(key), Mapping) else found
    if not isinstance(found, Mapping) or not all(isinstance(value, Tensor) for value in found.values()):
        raise NetworkError(f"{file} contains {type(found).__name__}, not a state dict of names and tensors.")
    return {name.removeprefix("module."): value for name, value in found.items()}


def _torchvision(name: str) -> Any:
    """Import ``torchvision.models``."""
    try:
        from torchvision import models
    except (ImportError, RuntimeError) as error:  # beside a torch of another build it fails with RuntimeError
        raise MissingDependency(
            f"torchvision:{name} needs torchvision, of the release that fits your torch: pip install torchvision ({error})"
        ) from error
    return models


def _classes(state: Mapping[str, Tensor], file: Path) -> int:
    last = next((state[key] for key in _LAST if key in state), None)
    if last is None:
        raise NetworkError(
            f"{file} has no {' or '.join(_LAST)}, so it does not belong to a segmentation network of torchvision; "
            "a backbone alone can't be cut."
        )
    return int(last.shape[0])


def _fill(module: nn.Module, state: Mapping[str, Tensor], name: str, file: Path) -> None:
    try:
        module.load_state_dict(state)
    except RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines()[1:3]]
        raise NetworkError(f"the weights in {file} aren't of {name}: {' '.join(lines)[:300]}") from error
