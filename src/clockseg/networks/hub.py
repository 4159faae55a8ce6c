"""Checkpoints from the Hugging Face hub, through ``huggingface_hub``: its cache, its token, its offline mode.

Only safetensors files and a tokenizer's and configurations' text files are downloaded, and each is compared with the checksum
that the hub states.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clockseg.errors import DataError, MissingDependency, NetworkError, first_line, install
from clockseg.networks.hf_folder import CONFIG, PROCESSOR, no_safetensors

try:
    import huggingface_hub
    from huggingface_hub import constants, errors, logging, utils
except ImportError as error:
    raise MissingDependency(f"hf:ORG/NAME needs {error.name}: {install('transformers')}") from error

Tell = Callable[[str], None]
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json", "merges.txt")
WEIGHTS = ("model.safetensors", "model-*.safetensors", "model.safetensors.index.json")
FILES = (CONFIG, PROCESSOR, "processor_config.json", *TOKENIZER, *WEIGHTS)


def download(name: str, revision: str, tell: Tell) -> Path:
    """Return the folder of the checkpoint ``name`` (ORG/NAME) at ``revision``, a branch, a tag or a commit.

    It is downloaded unless the hub's cache has it; on a terminal the hub's own bars show the progress. Without a connection,
    or in offline mode, the hub's cache is used. ``NetworkError`` if the checkpoint cannot be had, ``DataError`` if it cannot
    be written.
    """
    tell(f"downloading {name} at {revision} from {constants.ENDPOINT}, unless the hub's cache has it")
    with _errors(name, revision):
        folder = Path(
            huggingface_hub.snapshot_download(
                name,
                revision=revision,
                endpoint=constants.ENDPOINT,
                allow_patterns=list(FILES),
                tqdm_class=_TerminalBar,
            )
        )
        for file in folder.iterdir():
            _verify(name, file)
        if not any(folder.glob("*.safetensors")):
            files = huggingface_hub.HfApi(endpoint=constants.ENDPOINT).list_repo_files(name, revision=revision)
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


class _TerminalBar(utils.tqdm):  # type: ignore[misc]
    """The hub's progress bar, shown on a terminal only."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options | {"disable": not sys.stderr.isatty()})


@contextmanager
def _errors(name: str, revision: str) -> Iterator[None]:
    """Turn what ``huggingface_hub`` and its HTTP client raise into one sentence that says what to do."""
    at = f"hf:{name}@{revision}"
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # it warns of each attempt
    try:
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
    finally:
        logging.set_verbosity(verbosity)
