"""Checkpoints from the Hugging Face hub, through ``huggingface_hub``: its cache, its token, its offline mode.

Only safetensors files and a tokenizer's and configurations' text files are downloaded, and each is compared with the checksum that the hub states.
"""

from __future__ import annotations

import hashlib
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

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
_SECONDS = 10.0
"""Seconds between two lines on the progress of a download."""


class Checkpoint(NamedTuple):
    """A checkpoint's folder on disk, and the full hash of the commit that it belongs to."""

    folder: Path
    commit: str


class _File(NamedTuple):
    """A file of a checkpoint; ``sha256`` of its content, or ``sha1`` as git computes it, where the hub states one."""

    name: str
    size: int
    sha256: str | None
    sha1: str | None


def download(name: str, revision: str, tell: Tell) -> Checkpoint:
    """Download the checkpoint ``name`` (ORG/NAME) at ``revision``, a branch, a tag or a commit, unless the hub's cache has it.

    ``tell`` gets sentences on the progress; on a terminal the hub's own bars are shown too. Without a connection, or in
    offline mode, the hub's cache is used. ``NetworkError`` if the checkpoint cannot be had, ``DataError`` if it cannot be
    written.
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
        return _fetched(name, revision, str(info.sha), _wanted(name, info.siblings or []), tell)


def _wanted(name: str, there: Sequence[Any]) -> list[_File]:
    names = [one.rfilename for one in there]
    if not any(_WEIGHTS.fullmatch(one) for one in names):
        raise NetworkError(no_safetensors(f"hf:{name}", names))
    return [
        _File(one.rfilename, one.size or 0, None if one.lfs is None else one.lfs.sha256, one.blob_id)
        for one in there
        if one.rfilename in TEXT_FILES or _WEIGHTS.fullmatch(one.rfilename)
    ]


def _fetched(name: str, revision: str, commit: str, files: Sequence[_File], tell: Tell) -> Checkpoint:
    megabytes = sum(file.size for file in files) / 1e6
    tell(f"downloading {name} at {commit[:8]} from {constants.ENDPOINT} ({megabytes:.1f} MB)")
    paths = []
    for file in files:
        path = Path(
            huggingface_hub.hf_hub_download(
                name,
                file.name,
                # By one file's revision, the hub's cache learns its commit, which it is asked for without a connection.
                revision=revision if file.name == CONFIG else commit,
                endpoint=constants.ENDPOINT,
                tqdm_class=None if sys.stderr.isatty() else _lines(f"{name}: {file.name}", tell),
            )
        )
        _verify(name, file, path)
        paths.append(path)
    return Checkpoint(paths[0].parent, commit)


def _verify(name: str, file: _File, path: Path) -> None:
    """Delete ``path`` and raise ``NetworkError`` unless its content has the checksum that the hub states."""
    if file.sha256 is not None:
        digest, stated = hashlib.sha256(), file.sha256
    elif file.sha1 is not None:
        digest, stated = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False), file.sha1
    else:
        return
    with path.open("rb") as content:
        while block := content.read(1 << 20):
            digest.update(block)
    if digest.hexdigest() != stated:
        path.resolve().unlink(missing_ok=True)
        path.unlink(missing_ok=True)
        raise NetworkError(
            f"hf:{name}: {file.name} has the checksum {digest.hexdigest()[:12]}.., and the hub states {stated[:12]}..: it was "
            "damaged on the way and has been deleted. Run again."
        )


def _cached(name: str, revision: str) -> Checkpoint | None:
    """Return the checkpoint in the hub's cache, or None if it is not complete there."""
    found = huggingface_hub.try_to_load_from_cache(name, CONFIG, revision=revision)
    if not isinstance(found, str):
        return None
    folder = Path(found).parent
    index = folder / "model.safetensors.index.json"
    parts = set(re.findall(r'"(model-[^"]*\.safetensors)"', index.read_text())) if index.exists() else set()
    complete = all((folder / part).exists() for part in parts or {"model.safetensors"})
    return Checkpoint(folder, folder.name) if complete else None


def _lines(what: str, tell: Tell) -> type:
    """Return the class of a progress bar, as the hub makes them, that tells a line every ten seconds."""

    class Lines:
        def __init__(self, *, total: int | None = None, initial: int = 0, **_: Any) -> None:
            self.total, self.done, self.last = total, initial, time.monotonic()

        def __enter__(self) -> Lines:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def close(self) -> None:
            pass

        def update(self, bytes: float | None = 1) -> None:
            self.done += int(bytes or 0)
            if time.monotonic() - self.last >= _SECONDS:
                self.last = time.monotonic()
                of = f" of {self.total / 1e6:.1f}" if self.total else ""
                tell(f"{what}: {self.done / 1e6:.1f}{of} MB")

    return Lines


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
