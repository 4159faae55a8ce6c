"""Networks of transformers: downloaded from the Hugging Face hub or in a folder, read, and exported.

The hub is reached through ``huggingface_hub``: its cache, its token, its offline mode. Only safetensors files and text files of a
configuration and a tokenizer are downloaded, each is compared with the checksum that the hub states, and no code of a
checkpoint's own is run.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from clockseg.engines.auto import Engine
from clockseg.errors import DataError, MissingDependency, NetworkError, UsageError, first_line, install
from clockseg.instances.recognising import Triple
from clockseg.libraries import silent_logs
from clockseg.networks.ends import normalisation
from clockseg.networks.source import NOTHING_SAID, Said, Source, Told, names_of
from clockseg.types import Size

try:
    import huggingface_hub
    import torch
    import transformers
    from huggingface_hub import constants, errors, utils
    from torch import Tensor, nn
except ImportError as error:
    raise MissingDependency(f"hf: needs {error.name}: {install('transformers')}") from error

from clockseg.networks.onnx_export import OUTPUT, adapted, export

SCORES, DEPTH, MASKS, QUERIES, WORDS, INSTANCES = "scores", "depth", "masks", "queries", "words", "instances"
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
with a box each, or a score of each pixel for each word that is given. None: it can't be used. ``QUERIES``: of masks, where
instances are decoded from them."""
CONFIG, PROCESSOR = "config.json", "preprocessor_config.json"
_TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json", "merges.txt")
_WEIGHTS = ("model.safetensors", "model-*.safetensors", "model.safetensors.index.json")
_FILES = [CONFIG, PROCESSOR, "processor_config.json", *_TOKENIZER, *_WEIGHTS]


def hf_source(path: Path, *, given: Said = NOTHING_SAID, engine: Engine, name: str | None = None) -> Source:
    """Export the network in the checkpoint folder ``path``, as ``save_pretrained`` writes it.

    Config, classes and normalisation are read from it, as far as the user hasn't ``given`` them. The graph is exported at
    the working size and checked against transformers' own output in ``engine``. ``name``: the network's (None: the folder's);
    a mask transformer gives class scores of pixels, or, if its name contains "instance", its queries' classes and masks,
    from which instances are decoded. ``NetworkError`` if it can't be used, ``UsageError`` if something must be given.
    """
    folder = read_folder(path)
    said = given.over(folder.said)
    normalisation(said)
    working, own = said.size, folder.said.size
    if working is None:
        raise UsageError(f"{path} doesn't state the size of its pictures: give --size WIDTHxHEIGHT.")
    name, gives, told = name or path.resolve().name, folder.gives, [*folder.told]
    if gives == MASKS and "instance" in name:
        gives = QUERIES
        told.append(Told("task", "instance", "as its name says"))
    module, outputs = _scoring_words(folder, said.classes or ()) if gives == WORDS else _reading(folder, gives)
    try:
        graph, export_told = export(module, working, engine=engine, of="transformers", outputs=outputs)
    except NetworkError as error:
        if own is None or own == working:
            raise
        raise NetworkError(f"{error} The checkpoint's own size is {own[0]}x{own[1]}.") from error
    by = PROCESSOR if (path / PROCESSOR).exists() else CONFIG
    return Source(graph, name, Said(classes=said.classes).over(folder.said), by=by, told=(*told, export_told))


def download(name: str, revision: str, tell: Callable[[str], None]) -> Path:
    """Return the folder of the checkpoint ``name`` (ORG/NAME) at ``revision``, a branch, a tag or a commit.

    It is downloaded unless the hub's cache has it, which is also used without a connection or in offline mode.
    ``NetworkError`` if the checkpoint cannot be had, ``DataError`` if it cannot be written.
    """
    tell(f"downloading {name} at {revision} from {constants.ENDPOINT}, unless the hub's cache has it")
    with _errors(name, revision):
        if not sys.stderr.isatty():
            utils.disable_progress_bars()
        hub = huggingface_hub.HfApi(endpoint=constants.ENDPOINT)
        folder = Path(hub.snapshot_download(name, revision=revision, allow_patterns=_FILES))
        for file in folder.iterdir():
            _verify(name, file)
        if not any(folder.glob("*.safetensors")):
            raise NetworkError(_no_safetensors(f"hf:{name}", hub.list_repo_files(name, revision=revision)))
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


def _no_safetensors(name: str, files: Iterable[str]) -> str:
    """Return the message on a checkpoint without safetensors files, of which these are the ``files``."""
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
    """Read the checkpoint folder at ``path``; ``NetworkError`` unless its network outputs one of ``GIVES``."""
    config = _json(path / CONFIG)
    architecture, gives = _architecture(config, path)
    names, told = _classes(config, path, gives)
    said = Said(classes=names, size=_size({"size": config.get("image_size")}))
    if not (path / PROCESSOR).exists():
        told.append(Told("processor", "none", f"there is no {PROCESSOR}, so nothing says how pictures are prepared"))
        return Folder(path, architecture, gives, said, tuple(told))
    processor = _json(path / PROCESSOR)
    if processor.get("do_reduce_labels", processor.get("reduce_labels", False)):
        why = "class 0 here is 1 in the data set's files; its 0, unlabelled, is no class"
        told.append(Told("labels", "reduced", why))
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
        raise NetworkError(f"{path / PROCESSOR} normalises pixels, but states no mean and std: give --mean and --std.")
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
    red, green, blue = value if isinstance(value, list) and len(value) == 3 else [value] * 3
    if not all(isinstance(one, int | float) for one in (red, green, blue)):
        raise NetworkError(f"{path / PROCESSOR}: {value!r} isn't a number for each of three channels.")
    return float(red), float(green), float(blue)


def _size(processor: Mapping[str, Any]) -> Size | None:
    """Return the size (width, height) that pictures are brought to.

    Cropped ones to the crop; for a shortest edge n a box of 2n x n, in which pictures up to twice as wide as high fit, but no
    wider than the longest edge.
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


def _queries(made: Any) -> tuple[Tensor, Tensor]:
    """Return logits [1, n, classes + 1] of a mask transformer's queries, the last for no object, and mask logits [1, n, h, w]."""
    if "pred_masks" in made:
        return made.logits, made.pred_masks
    return made.class_queries_logits, made.masks_queries_logits


def _masks(made: Any) -> Tensor:
    """Return class scores of pixels, [1, classes, h, w]: the sum over queries of softmax(logits) x sigmoid(masks)."""
    logits, masks = _queries(made)
    return torch.einsum("bqc,bqhw->bchw", logits.softmax(2)[..., :-1], masks.sigmoid())


_READ: dict[str, tuple[str, tuple[str, ...], Callable[[Any], Any]]] = {
    SCORES: ("SemanticSegmentation", (OUTPUT,), lambda made: made.logits),  # [1, classes, h, w]
    DEPTH: ("DepthEstimation", (OUTPUT,), lambda made: made.predicted_depth.unsqueeze(1)),  # [1, 1, h, w]
    INSTANCES: (
        "InstanceSegmentation",
        ("dets", "labels", "masks"),
        lambda made: (made.pred_boxes, made.logits, made.pred_masks),  # [1, n, 4], [1, n, classes], [1, n, h, w]
    ),
    MASKS: ("UniversalSegmentation", (OUTPUT,), _masks),
    QUERIES: ("UniversalSegmentation", ("logits", "masks"), _queries),
}
"""By a network's output: the class AutoModelFor.. of transformers that loads it, the names and the tensors to export."""


def _reading(folder: Folder, gives: str) -> tuple[nn.Module, tuple[str, ...]]:
    """Return the checkpoint's network as a module from a frame to the tensors that ``_READ`` tells, and their names."""
    loader, outputs, read = _READ[gives]
    model = _loaded(folder, f"AutoModelFor{loader}")
    given: dict[str, Tensor] = {}
    if folder.architecture.startswith("OneFormer"):
        task = "instance" if gives == QUERIES else "semantic"
        tokens, there = _tokens(folder.path, [f"the task is {task}"], length=model.config.task_seq_len)
        given = {"task_inputs": tokens * there}
    return adapted(model, lambda call, image: read(call(pixel_values=image, return_dict=True, **given))), outputs


def _scoring_words(folder: Folder, words: Sequence[str]) -> tuple[nn.Module, tuple[str, ...]]:
    """Return CLIPSeg as a module from a frame to the score of each pixel for each of ``words``, [1, words, h, w], and its name."""
    if not words:
        raise UsageError(
            f"{folder.path.name} is a {folder.architecture}, whose classes are words that you choose: give them to clockseg cut "
            "as --classes road,car,sky."
        )
    tokens, there = _tokens(folder.path, list(words))
    model = _loaded(folder, "CLIPSegForImageSegmentation")
    with torch.no_grad():
        embedded = model.get_conditional_embeddings(len(tokens), tokens, attention_mask=there)

    def call(_: Any, image: Tensor) -> Any:
        seen = model.clip.get_image_features(image, interpolate_pos_encoding=True, output_hidden_states=True)
        read = [seen.hidden_states[layer + 1] for layer in model.extract_layers]
        return model.decoder([one.expand(len(embedded), -1, -1) for one in read], embedded).logits.unsqueeze(0)

    return adapted(model, call), (OUTPUT,)


def _tokens(path: Path, texts: list[str], length: int | None = None) -> tuple[Tensor, Tensor]:
    """Return the tokens of ``texts``, [n, length], and 1 where there is a token, 0 behind a text's end."""
    with _alone(f"{path} has no tokenizer that transformers can load"):
        tokenizer = transformers.AutoTokenizer.from_pretrained(path, local_files_only=True, trust_remote_code=False)
    padded = "max_length" if length else "longest"
    made = tokenizer(texts, padding=padded, max_length=length, truncation=True, return_tensors="pt")
    return made["input_ids"], made["attention_mask"]


def _loaded(folder: Folder, loader: str) -> Any:
    """Load the network with all its weights, in f32; ``loader``: the name of transformers' class that does."""
    if not any(folder.path.glob("*.safetensors")):
        raise NetworkError(_no_safetensors(str(folder.path), [file.name for file in folder.path.iterdir()]))
    with _alone(f"transformers can't load {folder.path}, a {folder.architecture}"):
        model, info = getattr(transformers, loader).from_pretrained(
            folder.path,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            dtype=torch.float32,
            output_loading_info=True,
        )
    missing = sorted(info["missing_keys"])
    if missing:
        raise NetworkError(
            f"{folder.path} lacks {len(missing)} weights of a {folder.architecture} ({', '.join(missing[:3])}, ..): they "
            "would be random. Give a checkpoint that was trained for this."
        )
    return model.eval()


@contextmanager
def _alone(failure: str) -> Iterator[None]:
    """Let transformers fetch nothing, such as a backbone, and print nothing; ``failure`` begins the error for what it raises."""
    offline, bar = constants.HF_HUB_OFFLINE, transformers.logging.is_progress_bar_enabled()
    constants.HF_HUB_OFFLINE = True
    transformers.logging.disable_progress_bar()
    try:
        with silent_logs():
            yield
    except Exception as error:  # transformers raises what it likes
        raise NetworkError(f"{failure}: {first_line(error)}") from error
    finally:
        constants.HF_HUB_OFFLINE = offline
        if bar:
            transformers.logging.enable_progress_bar()
