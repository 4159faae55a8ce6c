"""Networks of transformers, from a checkpoint folder: nothing is downloaded, no code of the checkpoint's own is run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clockseg.clockwork.network import StagedNetwork
from clockseg.errors import MissingDependency, NetworkError, UsageError, first_line, install
from clockseg.networks.cut_input import normalisation
from clockseg.networks.hf_folder import (
    DEPTH,
    INSTANCES,
    MASKS,
    PROCESSOR,
    SCORES,
    WORDS,
    Folder,
    no_safetensors,
    read_folder,
)
from clockseg.networks.named import TASKS
from clockseg.networks.source import NOTHING_SAID, Said, Source, Told

try:
    import torch
    import transformers
    from huggingface_hub import constants
    from torch import Tensor
except ImportError as error:
    raise MissingDependency(f"hf: needs {error.name}: {install('transformers')}") from error

from clockseg.networks.onnx_export import OUTPUT, Adapter, export


def hf_source(
    path: Path,
    *,
    given: Said = NOTHING_SAID,
    engine: Callable[[StagedNetwork], StagedNetwork],
    name: str | None = None,
    task: str | None = None,
) -> Source:
    """Export the network in the checkpoint folder ``path``, as ``save_pretrained`` writes it.

    Config, classes and normalisation are read from it, as far as the user hasn't ``given`` them. The graph is exported at
    the working size and checked against transformers' own output in ``engine``. ``name``: the network's (None: the folder's).
    ``task``: of ``TASKS``, for a network that gives masks: class scores of pixels, or its queries' classes and masks, from
    which instances are decoded (None: as its name says). ``NetworkError`` says what of it can't be used, ``UsageError`` what
    is to be given because it doesn't say.
    """
    folder = read_folder(path)
    said = given.over(folder.said)
    normalisation(said)
    working = said.size
    if working is None:
        raise UsageError(f"{path} doesn't state the size of its pictures: give --size WIDTHxHEIGHT.")
    name = name or path.resolve().name
    task, task_told = _task(folder, name, task)
    adapter = _adapter(folder, said.classes or (), task)
    outputs: tuple[str, ...] = ("logits", "masks") if task == "instance" else (OUTPUT,)
    if folder.gives == INSTANCES:
        outputs = ("dets", "labels", "masks")
    try:
        graph, export_told = export(adapter, working, engine=engine, of="transformers", outputs=outputs)
    except NetworkError as error:
        if folder.said.size in (None, working):
            raise
        width, height = folder.said.size or working
        raise NetworkError(f"{error} The checkpoint's own size is {width}x{height}.") from error
    return Source(
        graph,
        name,
        Said(classes=said.classes).over(folder.said),
        by=PROCESSOR if (path / PROCESSOR).exists() else "config.json",
        told=(*folder.told, *task_told, export_told),
    )


def _task(folder: Folder, name: str, task: str | None) -> tuple[str | None, tuple[Told, ...]]:
    """Return the task of a network that gives masks, by default the one that its name says; None for other networks."""
    if folder.gives != MASKS:
        if task is not None:
            raise UsageError(f"task={task} is for networks that output masks; {name} is a {folder.architecture}.")
        return None, ()
    if task is not None:
        return task, ()
    task = "instance" if "instance" in name else "semantic"
    why = "as its name says" if task == "instance" else "class scores of pixels"
    others = " or ".join(other for other in TASKS if other != task)
    return task, (Told("task", task, f"{why}; for another one give {name}?task={others}"),)


def _adapter(folder: Folder, classes: Sequence[str], task: str | None) -> Adapter:
    """Return the checkpoint's network as a module from a frame to the output that is exported."""
    if folder.gives == WORDS:
        if not classes:
            raise UsageError(
                f"{folder.path.name} is a {folder.architecture}, whose classes are words that you choose: give them as "
                "hf:ORG/NAME?words=road,car,sky, or to clockseg cut also by --classes FILE."
            )
        tokens, there = _tokens(folder.path, list(classes))
        return _scoring_words(_loaded(folder, transformers.CLIPSegForImageSegmentation), tokens, there)
    loader, read = _READ[folder.gives]
    model = _loaded(folder, getattr(transformers, loader))
    given: dict[str, Tensor] = {}
    if folder.architecture.startswith("OneFormer"):
        tokens, there = _tokens(folder.path, [f"the task is {task}"], length=model.config.task_seq_len)
        given = {"task_inputs": tokens * there}
    chosen = _queries if task == "instance" else read
    return Adapter(model, lambda net, image: chosen(net(pixel_values=image, return_dict=True, **given)))


def _queries(made: Any) -> tuple[Tensor, Tensor]:
    """Return logits [1, n, classes + 1] of a mask transformer's queries, the last for no object, and mask logits [1, n, h, w]."""
    return (
        (made.logits, made.pred_masks)
        if "pred_masks" in made
        else (made.class_queries_logits, made.masks_queries_logits)
    )


def _masks(made: Any) -> Tensor:
    """Return class scores of pixels, [1, classes, h, w]: the sum over queries of softmax(logits) x sigmoid(masks)."""
    logits, masks = _queries(made)
    return torch.einsum("bqc,bqhw->bchw", logits.softmax(2)[..., :-1], masks.sigmoid())


_READ: dict[str, tuple[str, Callable[[Any], Any]]] = {
    SCORES: ("AutoModelForSemanticSegmentation", lambda made: made.logits),  # [1, classes, h, w]
    DEPTH: ("AutoModelForDepthEstimation", lambda made: made.predicted_depth.unsqueeze(1)),  # [1, 1, h, w]
    # [1, n, 4], [1, n, classes], [1, n, h, w]
    INSTANCES: ("AutoModelForInstanceSegmentation", lambda made: (made.pred_boxes, made.logits, made.pred_masks)),
    MASKS: ("AutoModelForUniversalSegmentation", _masks),
}
"""The class of transformers that loads a network, and what is read of what it gives, by its output."""


def _scoring_words(model: Any, tokens: Tensor, there: Tensor) -> Adapter:
    """Return CLIPSeg's score of each pixel for each word, [1, words, h, w]; the frame is encoded once, the words beforehand."""
    with torch.no_grad():
        words = model.get_conditional_embeddings(len(tokens), tokens, attention_mask=there)

    def call(net: Any, image: Tensor) -> Any:
        seen = net.clip.get_image_features(image, interpolate_pos_encoding=True, output_hidden_states=True)
        read = [seen.hidden_states[layer + 1] for layer in net.extract_layers]
        return net.decoder([one.expand(len(words), -1, -1) for one in read], words).logits.unsqueeze(0)

    return Adapter(model, call)


def _tokens(path: Path, texts: list[str], length: int | None = None) -> tuple[Tensor, Tensor]:
    """Return the tokens of ``texts``, [n, length], and 1 where there is a token, 0 behind a text's end."""
    with _offline():
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(path, local_files_only=True, trust_remote_code=False)
        except Exception as error:  # transformers raises what it likes
            raise NetworkError(f"{path} has no tokenizer that transformers can load: {first_line(error)}") from error
    padded = "max_length" if length else "longest"
    made = tokenizer(texts, padding=padded, max_length=length, truncation=True, return_tensors="pt")
    return made["input_ids"], made["attention_mask"]


def _loaded(folder: Folder, auto: Any) -> Any:
    """Load the network with all its weights, in f32; ``auto``: transformers' class that does."""
    if not any(folder.path.glob("*.safetensors")):
        raise NetworkError(no_safetensors(str(folder.path), [file.name for file in folder.path.iterdir()]))
    verbosity = transformers.logging.get_verbosity()
    bar = transformers.logging.is_progress_bar_enabled()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        with _offline():
            model, info = auto.from_pretrained(
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
    finally:
        transformers.logging.set_verbosity(verbosity)
        if bar:
            transformers.logging.enable_progress_bar()
    missing = sorted(info["missing_keys"])
    if missing:
        raise NetworkError(
            f"{folder.path} lacks {len(missing)} weights of a {folder.architecture} ({', '.join(missing[:3])}, ..): they "
            "would be random. Give a checkpoint that was trained for this."
        )
    return model.eval()


@contextmanager
def _offline() -> Iterator[None]:
    """Let nothing be fetched that a checkpoint names, such as a backbone."""
    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before
