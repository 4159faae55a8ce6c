"""Facts about a network from the JSON files of its transformers checkpoint folder."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from clockseg.errors import DataError, NetworkError
from clockseg.instances.recognising import Triple
from clockseg.networks.source import Said, Told, names_of
from clockseg.types import Size

SCORES, DEPTH, MASKS, WORDS, INSTANCES = "scores", "depth", "masks", "words", "instances"
GIVES = {
    "VideomtForUniversalSegmentation": None,
    "ForSemanticSegmentation": SCORES,
    "ForDepthEstimation": DEPTH,
    "ForUniversalSegmentation": MASKS,
    "MaskFormerForInstanceSegmentation": MASKS,
    "DetrForSegmentation": MASKS,
    "RfDetrForInstanceSegmentation": INSTANCES,
    "CLIPSegForImageSegmentation": WORDS,
}
"""The output of an architecture, by the end of its name: class scores of pixels, depth, masks that have a class each, the same
with a box each, or a score of each pixel for each word that is given. None: it can't be used."""
CONFIG, PROCESSOR = "config.json", "preprocessor_config.json"


class Folder(NamedTuple):
    """A checkpoint: its architecture, the output that this has (see ``GIVES``), what it says, and what of it was settled."""

    path: Path
    architecture: str
    gives: str
    said: Said
    told: tuple[Told, ...]


def read_folder(path: Path) -> Folder:
    """Read the checkpoint folder at ``path``; ``NetworkError`` unless its network outputs one of ``GIVES``.

    >>> read_folder(Path("nowhere"))
    Traceback (most recent call last):
        ...
    clockseg.errors.NetworkError: nowhere/config.json can't be read (No such file or directory). hf: takes a folder as
    save_pretrained writes it, with config.json, preprocessor_config.json and the weights.
    """
    config = _json(path / CONFIG)
    architecture, gives = _architecture(config, path)
    names, told = _classes(config, path, gives)
    own_size = _size({"size": config.get("image_size")})
    processor = _json(path / PROCESSOR) if (path / PROCESSOR).exists() else None
    if processor is None:
        told.append(Told("processor", "none", f"there is no {PROCESSOR}, so nothing says how pictures are prepared"))
        return Folder(path, architecture, gives, Said(classes=names, size=own_size), tuple(told))
    if processor.get("do_reduce_labels", processor.get("reduce_labels", False)):
        told.append(
            Told("labels", "reduced", "class 0 here is 1 in the data set's files; its 0, unlabelled, is no class")
        )
    mean, std = _normalisation(processor, path)
    said = Said(
        classes=names,
        size=_size(processor) or own_size,
        mean=mean,
        std=std,
        scale=_scale(processor),
        colour="bgr" if _flips(processor) else "rgb",
    )
    return Folder(path, architecture, gives, said, tuple(told))


def no_safetensors(name: str, files: Iterable[str]) -> str:
    """Return the message on a checkpoint without safetensors files, of which these are the ``files``.

    >>> no_safetensors("hf:a/b", ["config.json"])
    'hf:a/b has no weights: there is no model.safetensors.'
    """
    pickles = sorted(file for file in files if file.endswith((".bin", ".pt", ".pth", ".ckpt")))
    if not pickles:
        return f"{name} has no weights: there is no model.safetensors."
    return (
        f"{name} has its weights in {pickles[0]}, a pickle, which can run code of its own when it is read, and no "
        "model.safetensors. Give a revision that has one (on the hub often @refs/pr/1, made by its converter), or write one in a "
        'copy of the folder: python -c "import torch; from safetensors.torch import save_file; '
        f"save_file(torch.load('{pickles[0]}', weights_only=True), 'model.safetensors', {{'format': 'pt'}})\""
    )


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise NetworkError(
            f"{path} can't be read ({reason}). hf: takes a folder as save_pretrained writes it, with {CONFIG}, {PROCESSOR} "
            "and the weights."
        ) from None
    if not isinstance(found, dict):
        raise NetworkError(f"{path} contains {type(found).__name__}, not an object.")
    return found


def _architecture(config: Mapping[str, Any], path: Path) -> tuple[str, str]:
    """Return the name of the architecture, and its output."""
    architectures = config.get("architectures")
    found = architectures[0] if isinstance(architectures, list) and architectures else None
    if not isinstance(found, str):
        raise NetworkError(f"{path / CONFIG} names no architecture, so the network's output is unknown.")
    gives = next((output for end, output in GIVES.items() if found.endswith(end)), None)
    if gives is None:
        ends = ", ".join(end for end, output in GIVES.items() if output is not None)
        raise NetworkError(
            f"{path} is a {found}, whose output can't be used: neither class scores of pixels, nor masks of a frame, nor "
            f"depth. Give a checkpoint whose architecture ends in one of {ends}."
        )
    return found, gives


def _classes(config: Mapping[str, Any], path: Path, gives: str) -> tuple[tuple[str, ...] | None, list[Told]]:
    """Return the names from id2label; those that stand there twice get a number, as label maps need one each."""
    if gives == DEPTH:
        return (), [Told("classes", "none", "it gives depth")]
    if gives == WORDS:
        return None, []
    labels = config.get("id2label")
    if not isinstance(labels, dict):
        raise NetworkError(f"{path / CONFIG} has no id2label; give --classes FILE.")
    there = [*map(str, labels.values())]
    twice = {name for name in there if there.count(name) > 1}
    named = {key: f"{name} {key}" if name in twice else name for key, name in zip(labels, there, strict=True)}
    why = f"{CONFIG}; those of the same name got their ids: {', '.join(sorted(twice)[:3])}" if twice else CONFIG
    try:
        return names_of(named, str(path / CONFIG)), [Told("classes", str(len(named)), why)]
    except DataError as error:
        raise NetworkError(str(error)) from None


def _normalisation(processor: Mapping[str, Any], path: Path) -> tuple[Triple, Triple]:
    mean, std = processor.get("image_mean"), processor.get("image_std")
    wanted = processor.get("do_normalize", mean is not None)
    if not wanted:
        return (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    if mean is None or std is None:
        raise NetworkError(
            f"{path / PROCESSOR} normalises pixels, but does not state mean and std: give --mean and --std."
        )
    return _three(mean, path), _three(std, path)


def _three(value: Any, path: Path) -> Triple:
    values = value if isinstance(value, list) else [value] * 3
    if len(values) != 3 or not all(isinstance(one, int | float) for one in values):
        raise NetworkError(f"{path / PROCESSOR}: {value!r} isn't a number for each of three channels.")
    return float(values[0]), float(values[1]), float(values[2])


def _scale(processor: Mapping[str, Any]) -> float:
    if not processor.get("do_rescale", True):
        return 1.0
    factor = processor.get("rescale_factor")
    return float(factor) if isinstance(factor, int | float) else 1 / 255


def _flips(processor: Mapping[str, Any]) -> bool:
    """Return True if the processor reverses the channels; MobileViT's do so even without saying it."""
    kind = str(processor.get("image_processor_type") or processor.get("feature_extractor_type") or "")
    return bool(processor.get("do_flip_channel_order", kind.startswith("MobileViT")))


def _size(processor: Mapping[str, Any]) -> Size | None:
    """Return the size (width, height) that pictures are brought to.

    Cropped ones to the crop; for a shortest edge n a box of 2n x n, in which pictures up to twice as wide as high fit, but no
    wider than the longest edge.

    >>> _size({"size": {"shortest_edge": 512}}), _size({"size": {"height": 480, "width": 640}}), _size({"do_resize": False})
    ((1024, 512), (640, 480), None)
    >>> _size({"size": {"shortest_edge": 800, "longest_edge": 1333}, "size_divisor": 32})
    (1312, 800)
    """
    size: Any = processor.get("crop_size") if processor.get("do_center_crop") else None
    if size is None and processor.get("do_resize", True):
        size = processor.get("size")
    if isinstance(size, int):
        return size, size
    if isinstance(size, list) and len(size) == 2:
        return int(size[1]), int(size[0])
    if isinstance(size, dict) and "height" in size and "width" in size:
        return int(size["width"]), int(size["height"])
    if isinstance(size, dict) and isinstance(size.get("shortest_edge"), int):
        edge = size["shortest_edge"]
        width, multiple = min(2 * edge, size.get("longest_edge") or 2 * edge), processor.get("size_divisor") or 1
        return max(width - width % multiple, edge), edge
    return None
