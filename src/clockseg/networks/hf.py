"""Networks of transformers, from a checkpoint folder: nothing is downloaded, no code of the checkpoint's own is run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clockseg.clockwork.network import StagedNetwork
from clockseg.errors import MissingDependency, NetworkError, UsageError, first_line, install
from clockseg.networks.cut_input import normalisation
from clockseg.networks.cut_source import NOTHING_SAID, Said, Source
from clockseg.networks.hf_folder import PROCESSOR, Folder, no_safetensors, read_folder

try:
    import torch
    import transformers
    from huggingface_hub import constants
    from torch import Tensor, nn
except ImportError as error:
    raise MissingDependency(f"hf: needs {error.name}: {install('transformers')}") from error

from clockseg.networks.onnx_export import export


def hf_source(
    path: Path,
    *,
    given: Said = NOTHING_SAID,
    engine: Callable[[StagedNetwork], StagedNetwork],
    name: str | None = None,
) -> Source:
    """Export the network in the checkpoint folder ``path``, as ``save_pretrained`` writes it.

    Config, classes and normalisation are read from it, as far as the user hasn't ``given`` them. The graph is exported at
    the working size and checked against transformers' own output in ``engine``. ``NetworkError`` says what of it can't be
    used, ``UsageError`` what is to be given because it doesn't say. ``name``: the network's (None: the folder's).
    """
    folder = read_folder(path)
    said = given.over(folder.said)
    normalisation(said)
    working = said.size
    if working is None:
        raise UsageError(f"{path} doesn't say what size its pictures have: give --size WIDTHxHEIGHT.")
    exported = export(_Adapter(_loaded(folder), folder.depth), working, engine=engine, of="transformers")
    return Source(
        exported.model,
        name or path.resolve().name,
        folder.said,
        by=PROCESSOR if (path / PROCESSOR).exists() else "config.json",
        told=(*folder.told, *exported.told),
    )


class _Adapter(nn.Module):
    """Return the network's output as one tensor [1, c, h, w]: its ``logits`` or its ``predicted_depth``."""

    def __init__(self, model: Any, depth: bool) -> None:
        super().__init__()
        self.clockseg, self.depth = model, depth

    def forward(self, image: Tensor) -> Tensor:
        made = self.clockseg(pixel_values=image, return_dict=True)
        found: Tensor = made.predicted_depth.unsqueeze(1) if self.depth else made.logits
        return found


def _loaded(folder: Folder) -> Any:
    """Load the network with all its weights, in f32."""
    if not any(folder.path.glob("*.safetensors")):
        raise NetworkError(no_safetensors(str(folder.path), [file.name for file in folder.path.iterdir()]))
    auto = transformers.AutoModelForDepthEstimation if folder.depth else transformers.AutoModelForSemanticSegmentation
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
