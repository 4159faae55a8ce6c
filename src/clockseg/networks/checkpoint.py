"""Checkpoints of transformers: downloaded from the Hugging Face hub, and what their JSON files say of the network.

The hub is reached through ``huggingface_hub``: its cache, its token, its offline mode. Only safetensors files and a tokenizer's
and configurations' text files are downloaded, and each is compared with the checksum that the hub states.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from clockseg.errors import DataError, MissingDependency, NetworkError, first_line, install
from clockseg.instances.recognising import Triple
from clockseg.libraries import silent_logs
from clockseg.networks.source import Said, Told, names_of
from clockseg.types import Size

try:
    import huggingface_hub
    from huggingface_hub import constants, errors, utils
except ImportError as error:
    raise MissingDependency(f"hf: needs {error.name}: {install('transformers')}") from error

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
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json", "merges.txt")
WEIGHTS = ("model.safetensors", "model-*.safetensors", "model.safetensors.index.json")
FILES = (CONFIG, PROCESSOR, "processor_config.json", *TOKENIZER, *WEIGHTS)


def download(name: str, revision: str, tell: Callable[[str], None]) -> Path:
    """Return the folder of the checkpoint ``name`` (ORG/NAME) at ``revision``, a branch, a tag or a commit.

    It is downloaded unless the hub's cache has it; on a terminal the hub's own bars show the progress. Without a connection,
    or in offline mode, the hub's cache is used. ``NetworkError`` if the checkpoint cannot be had, ``DataError`` if it cannot
    be written.
    """
    tell(f"downloading {name} at {revision} from {constants.ENDPOINT}, unless the hub's cache has it")
    with _errors(name, revision):
        if not sys.stderr.isatty():
            utils.disable_progress_bars()
        endpoint, patterns = constants.ENDPOINT, [*FILES]
        folder = Path(
            huggingface_hub.snapshot_download(name, revision=revision, endpoint=endpoint, allow_patterns=patterns)
        )
        for file in folder.iterdir():
            _verify(name, file)
        if not any(folder.glob("*.safetensors")):
            files = huggingface_hub.HfApi(endpoint=endpoint).list_repo_files(name, revision=revision)
            raise NetworkError(no_safetensors(f"hf:{name}", files))
    return folder


def _verify(name: str, file: Path) -> None:
    """Delete ``file`` and raise ``NetworkError`` unless its content has the checksum that the hub states.

    The hub's cache names the content by it: large files by their SHA-256, others by the SHA-1 that git computes.
    """
    blob = file.resolve()
    with blob.open("rb") as content:
        if len(blob.name) == 64:
            found = hashlib.file_digest(content, "sha256")
        elif len(blob.name) == 40:
            found = hashlib.sha1(f"blob {blob.stat().st_size}\0".encode() + content.read(), usedforsecurity=False)
        else:
            return  # without symbolic links, the cache keeps files by their own names
    if found.hexdigest() != blob.name:
        blob.unlink()
        file.unlink()
        raise NetworkError(
            f"hf:{name}: {file.name} has the checksum {found.hexdigest()[:12]}.., and the hub states {blob.name[:12]}..: it was "
            "damaged on the way and has been deleted. Run again."
        )


@contextmanager
def _errors(name: str, revision: str) -> Iterator[None]:
    """Turn what ``huggingface_hub`` and its HTTP client raise into one sentence that says what to do."""
    at = f"hf:{name}@{revision}"
    try:
        with silent_logs():  # of each attempt
            yield
    except NetworkError:
        raise
    except errors.GatedRepoError as error:
        raise NetworkError(
            f"{at}: its owners ask you to accept conditions: do so on {constants.ENDPOINT}/{name}, then log in with: hf auth login"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise NetworkError(f"{at}: {name} has no revision {revision!r}; give a branch, a tag or a commit.") from error
    except errors.RepositoryNotFoundError as error:
        raise NetworkError(
            f"hf:{name}: there is neither a folder {name} here nor a model of that name on {constants.ENDPOINT}; if it is a "
            "private one, log in with: hf auth login"
        ) from error
    except errors.LocalEntryNotFoundError as error:
        raise NetworkError(
            f"{at}: its {CONFIG}, {PROCESSOR} and weights are not on this machine, and {constants.ENDPOINT} can't be asked "
            f"({first_line(error.__cause__ or error)}). Connect once, or copy the checkpoint here and give hf:DIRECTORY."
        ) from error
    except Exception as error:  # several libraries' own, depending on the versions
        if isinstance(error, OSError) and error.errno is not None:
            raise DataError(
                f"{at} can't be written to {constants.HF_HUB_CACHE} ({error.strerror}). Make room there, or set HF_HOME to another "
                "folder."
            ) from error
        raise NetworkError(f"{at} can't be downloaded: {first_line(error)}. Nothing was kept; run again.") from error


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
    said = Said(classes=names, size=_size({"size": config.get("image_size")}))
    if not (path / PROCESSOR).exists():
        told.append(Told("processor", "none", f"there is no {PROCESSOR}, so nothing says how pictures are prepared"))
        return Folder(path, architecture, gives, said, tuple(told))
    processor = _json(path / PROCESSOR)
    if processor.get("do_reduce_labels", processor.get("reduce_labels", False)):
        told.append(
            Told("labels", "reduced", "class 0 here is 1 in the data set's files; its 0, unlabelled, is no class")
        )
    return Folder(path, architecture, gives, _frames(processor, path).over(said), tuple(told))


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
    return names_of(named, str(path / CONFIG)), [Told("classes", str(len(named)), why)]


def _frames(processor: Mapping[str, Any], path: Path) -> Said:
    """Return how the processor prepares frames; MobileViT's reverse the channels even without saying it."""
    mean, std = processor.get("image_mean"), processor.get("image_std")
    if not processor.get("do_normalize", mean is not None):
        mean, std = 0.0, 1.0
    if mean is None or std is None:
        raise NetworkError(
            f"{path / PROCESSOR} normalises pixels, but does not state mean and std: give --mean and --std."
        )
    factor = processor.get("rescale_factor") if processor.get("do_rescale", True) else 1.0
    kind = str(processor.get("image_processor_type") or processor.get("feature_extractor_type") or "")
    return Said(
        size=_size(processor),
        mean=_three(mean, path),
        std=_three(std, path),
        scale=float(factor) if isinstance(factor, int | float) else 1 / 255,
        colour="bgr" if processor.get("do_flip_channel_order", kind.startswith("MobileViT")) else "rgb",
    )


def _three(value: Any, path: Path) -> Triple:
    values = value if isinstance(value, list) else [value] * 3
    if len(values) != 3 or not all(isinstance(one, int | float) for one in values):
        raise NetworkError(f"{path / PROCESSOR}: {value!r} isn't a number for each of three channels.")
    return float(values[0]), float(values[1]), float(values[2])


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
