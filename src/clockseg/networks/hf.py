"""Networks of transformers, from a checkpoint folder: nothing is downloaded, no code of the checkpoint's own is run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clockseg.clockwork.network import StagedNetwork
from clockseg.errors import MissingDependency, NetworkError, UsageError, first_line, install
from clockseg.libraries import silent_logs
from clockseg.networks import checkpoint
from clockseg.networks.checkpoint import PROCESSOR, Folder, no_safetensors, read_folder
from clockseg.networks.ends import normalisation
from clockseg.networks.source import NOTHING_SAID, Said, Source, Told

try:
    import torch
    import transformers
    from huggingface_hub import constants
    from torch import Tensor, nn
except ImportError as error:
    raise MissingDependency(f"hf: needs {error.name}: {install('transformers')}") from error

from clockseg.networks.onnx_export import OUTPUT, adapted, export

_QUERIES = "queries"
"""The output of a mask transformer from which instances are decoded, instead of ``checkpoint.MASKS``."""


def hf_source(
    path: Path,
    *,
    given: Said = NOTHING_SAID,
    engine: Callable[[StagedNetwork], StagedNetwork],
    name: str | None = None,
) -> Source:
    """Export the network in the checkpoint folder ``path``, as ``save_pretrained`` writes it.

    Config, classes and normalisation are read from it, as far as the user hasn't ``given`` them. The graph is exported at
    the working size and checked against transformers' own output in ``engine``. ``name``: the network's (None: the folder's);
    a mask transformer gives class scores of pixels, or, if its name contains "instance", its queries' classes and masks,
    from which instances are decoded. ``NetworkError`` says what of it can't be used, ``UsageError`` what is to be given
    because it doesn't say.
    """
    folder = read_folder(path)
    said = given.over(folder.said)
    normalisation(said)
    working = said.size
    if working is None:
        raise UsageError(f"{path} doesn't state the size of its pictures: give --size WIDTHxHEIGHT.")
    name, gives, told = name or path.resolve().name, folder.gives, [*folder.told]
    if gives == checkpoint.MASKS and "instance" in name:
        gives = _QUERIES
        told.append(Told("task", "instance", "as its name says"))
    words = gives == checkpoint.WORDS
    module, outputs = _scoring_words(folder, said.classes or ()) if words else _reading(folder, gives)
    try:
        graph, export_told = export(module, working, engine=engine, of="transformers", outputs=outputs)
    except NetworkError as error:
        if folder.said.size in (None, working):
            raise
        width, height = folder.said.size or working
        raise NetworkError(f"{error} The checkpoint's own size is {width}x{height}.") from error
    by = PROCESSOR if (path / PROCESSOR).exists() else "config.json"
    return Source(graph, name, Said(classes=said.classes).over(folder.said), by=by, told=(*told, export_told))


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
    checkpoint.SCORES: ("SemanticSegmentation", (OUTPUT,), lambda made: made.logits),  # [1, classes, h, w]
    checkpoint.DEPTH: ("DepthEstimation", (OUTPUT,), lambda made: made.predicted_depth.unsqueeze(1)),  # [1, 1, h, w]
    checkpoint.INSTANCES: (
        "InstanceSegmentation",
        ("dets", "labels", "masks"),
        lambda made: (made.pred_boxes, made.logits, made.pred_masks),  # [1, n, 4], [1, n, classes], [1, n, h, w]
    ),
    checkpoint.MASKS: ("UniversalSegmentation", (OUTPUT,), _masks),
    _QUERIES: ("UniversalSegmentation", ("logits", "masks"), _queries),
}
"""By a network's output: the class AutoModelFor.. of transformers that loads it, the names and the tensors to export."""


def _reading(folder: Folder, gives: str) -> tuple[nn.Module, tuple[str, ...]]:
    """Return the checkpoint's network as a module from a frame to the tensors that ``_READ`` tells, and their names."""
    loader, outputs, read = _READ[gives]
    model = _loaded(folder, f"AutoModelFor{loader}")
    given: dict[str, Tensor] = {}
    if folder.architecture.startswith("OneFormer"):
        task = "instance" if gives == _QUERIES else "semantic"
        tokens, there = _tokens(folder.path, [f"the task is {task}"], length=model.config.task_seq_len)
        given = {"task_inputs": tokens * there}
    return adapted(model, lambda call, image: read(call(pixel_values=image, return_dict=True, **given))), outputs


def _scoring_words(folder: Folder, words: Sequence[str]) -> tuple[nn.Module, tuple[str, ...]]:
    """Return CLIPSeg as a module from a frame to the score of each pixel for each of ``words``, [1, words, h, w].

    The frame is encoded once, the words beforehand. As ``_reading``.
    """
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
    with _alone():
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(path, local_files_only=True, trust_remote_code=False)
        except Exception as error:  # transformers raises what it likes
            raise NetworkError(f"{path} has no tokenizer that transformers can load: {first_line(error)}") from error
    padded = "max_length" if length else "longest"
    made = tokenizer(texts, padding=padded, max_length=length, truncation=True, return_tensors="pt")
    return made["input_ids"], made["attention_mask"]


def _loaded(folder: Folder, loader: str) -> Any:
    """Load the network with all its weights, in f32; ``loader``: the name of transformers' class that does."""
    if not any(folder.path.glob("*.safetensors")):
        raise NetworkError(no_safetensors(str(folder.path), [file.name for file in folder.path.iterdir()]))
    try:
        with _alone():
            model, info = getattr(transformers, loader).from_pretrained(
                folder.path,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                dtype=torch.float32,
                output_loading_info=True,
            )
    except Exception as error:  # transformers raises what it likes
        first = first_line(error)
        raise NetworkError(f"transformers can't load {folder.path}, a {folder.architecture}: {first}") from error
    missing = sorted(info["missing_keys"])
    if missing:
        raise NetworkError(
            f"{folder.path} lacks {len(missing)} weights of a {folder.architecture} ({', '.join(missing[:3])}, ..): they "
            "would be random. Give a checkpoint that was trained for this."
        )
    return model.eval()


@contextmanager
def _alone() -> Iterator[None]:
    """Let transformers fetch nothing that a checkpoint names, such as a backbone, and print nothing."""
    offline, bar = constants.HF_HUB_OFFLINE, transformers.logging.is_progress_bar_enabled()
    constants.HF_HUB_OFFLINE = True
    transformers.logging.disable_progress_bar()
    try:
        with silent_logs():
            yield
    finally:
        constants.HF_HUB_OFFLINE = offline
        if bar:
            transformers.logging.enable_progress_bar()
