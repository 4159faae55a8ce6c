"""Checkpoints from the Hugging Face hub, through ``huggingface_hub``: its cache, its token, its offline mode.

Only safetensors files and a tokenizer's and configurations' text files are downloaded, and each is compared with the checksum that the hub states.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clockseg.errors import DataError, MissingDependency, NetworkError, first_line, install
from clockseg.networks.hf_folder import CONFIG, PROCESSOR, no_safetensors

try:
    import huggingface_hub
    from huggingface_hub import constants, errors, logging
except ImportError as error:
    raise MissingDependency(f"hf:ORG/NAME needs {error.name}: {install('transformers')}") from error

Tell = Callable[[str], None]
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json", "merges.txt")
TEXT_FILES = (CONFIG, PROCESSOR, "processor_config.json", *TOKENIZER)
_WEIGHTS = re.compile(r"model(-\d{5}-of-\d{5})?\.safetensors|model\.safetensors\.index\.json")


def download(name: str, revision: str, tell: Tell) -> Path:
    """Return the folder of the checkpoint ``name`` (ORG/NAME) at ``revision``, a branch, a tag or a commit.

    It is downloaded unless the hub's cache has it. ``tell`` gets sentences on the progress; on a terminal the hub's own bars
    are shown too. Without a connection, or in offline mode, the hub's cache is used. ``NetworkError`` if the checkpoint
    cannot be had, ``DataError`` if it cannot be written.
    """
    with _errors(name, revision):
        try:
            info = huggingface_hub.HfApi(endpoint=constants.ENDPOINT).model_info(
                name, revision=revision, files_metadata=True
            )
        except Exception as error:
            cached = _cached(name, revision) if _unreachable(error) else None
            if cached is None:
                raise
            tell(f"{constants.ENDPOINT} is not asked ({_reason(error)}): {name} comes from the hub's cache")
            return cached
        return _fetched(name, revision, info, tell)


def _fetched(name: str, revision: str, info: Any, tell: Tell) -> Path:
    there = info.siblings or []
    if not any(_WEIGHTS.fullmatch(one.rfilename) for one in there):
        raise NetworkError(no_safetensors(f"hf:{name}", [one.rfilename for one in there]))
    files = [one for one in there if one.rfilename in TEXT_FILES or _WEIGHTS.fullmatch(one.rfilename)]
    megabytes = sum(file.size or 0 for file in files) / 1e6
    tell(f"downloading {name} at {info.sha[:8]} from {constants.ENDPOINT} ({megabytes:.1f} MB)")
    for file in files:
        # By one file's revision, the hub's cache learns its commit, which it is asked for without a connection.
        at = revision if file.rfilename == CONFIG else info.sha
        path = Path(huggingface_hub.hf_hub_download(name, file.rfilename, revision=at, endpoint=constants.ENDPOINT))
        _verify(name, file, path)
    return path.parent


def _verify(name: str, file: Any, path: Path) -> None:
    """Delete ``path`` and raise ``NetworkError`` unless its content has the checksum that the hub states.

    Of large files that is their SHA-256, of others the SHA-1 that git computes.
    """
    with path.open("rb") as content:
        if file.lfs is not None:
            stated, found = file.lfs.sha256, hashlib.file_digest(content, "sha256")
        else:
            stated, found = file.blob_id, hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
            found.update(content.read())
    if stated is not None and found.hexdigest() != stated:
        path.resolve().unlink(missing_ok=True)
        path.unlink(missing_ok=True)
        raise NetworkError(
            f"hf:{name}: {file.rfilename} has the checksum {found.hexdigest()[:12]}.., and the hub states {stated[:12]}..: it "
            "was damaged on the way and has been deleted. Run again."
        )


def _cached(name: str, revision: str) -> Path | None:
    """Return the checkpoint in the hub's cache, or None if it is not complete there."""
    found = huggingface_hub.try_to_load_from_cache(name, CONFIG, revision=revision)
    if not isinstance(found, str):
        return None
    folder = Path(found).parent
    index = folder / "model.safetensors.index.json"
    parts = set(re.findall(r'"(model-[^"]*\.safetensors)"', index.read_text())) if index.exists() else set()
    return folder if all((folder / part).exists() for part in parts or {"model.safetensors"}) else None


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
    except Exception as error:  # several libraries' own, depending on the versions
        if _unreachable(error):
            raise NetworkError(
                f"{at}: its {CONFIG}, {PROCESSOR} and weights are not on this machine, and {constants.ENDPOINT} can't be asked "
                f"({_reason(error)}). Connect once, or copy the checkpoint here and give hf:DIRECTORY."
            ) from error
        if isinstance(error, OSError) and error.errno is not None:
            raise DataError(
                f"{at} can't be written to {constants.HF_HUB_CACHE} ({error.strerror}). Make room there, or set HF_HOME to another "
                "folder."
            ) from error
        raise NetworkError(f"{at} can't be downloaded: {first_line(error)}. Nothing was kept; run again.") from error
    finally:
        logging.set_verbosity(verbosity)


def _unreachable(error: BaseException) -> bool:
    """Return True if no answer came from the hub; the classes of its HTTP client differ between versions."""
    names = {kind.__name__ for kind in type(error).__mro__}
    broken = {"OfflineModeIsEnabled", "ConnectError", "ConnectionError", "TimeoutException", "ProxyError", "Timeout"}
    return bool(names & broken) or (
        isinstance(error, errors.LocalEntryNotFoundError)
        and error.__cause__ is not None
        and _unreachable(error.__cause__)
    )


def _reason(error: BaseException) -> str:
    offline = isinstance(error, errors.OfflineModeIsEnabled)
    return "HF_HUB_OFFLINE is set" if offline else first_line(error)
