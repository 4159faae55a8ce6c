"""Networks by name, hf:ORG/NAME and torchvision:NAME: cut on first use, and kept cut in clockseg's cache.

The cache holds, for each name and revision, the ONNX file and the sidecar that ``clockseg cut`` would write. Later runs read
these, ask no server, and import neither torch nor transformers.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from clockseg import __version__
from clockseg.engines import engine as by_name
from clockseg.engines.auto import first_able
from clockseg.errors import DataError, MissingDependency, NetworkError, UsageError, first_line, install
from clockseg.execution.cache import NAMED, cache_directory
from clockseg.files import SourceFiles, folder_beside
from clockseg.networks.source import NOTHING_SAID, Said, Source

Tell = Callable[[str], None]
KINDS = {"hf": ("torch", "transformers", "huggingface_hub"), "torchvision": ("torch",)}
"""The kinds of names, with the libraries that export such a network."""
_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*")


def silent(text: str) -> None:
    """Tell nobody."""


def is_named(network: str | Path) -> bool:
    """Return True for hf:.. and torchvision:...

    >>> is_named("hf:nvidia/segformer-b0"), is_named("street"), is_named(Path("net.onnx"))
    (True, False, False)
    """
    return isinstance(network, str) and network.partition(":")[0] in KINDS and ":" in network


class Name(NamedTuple):
    """A network's name: its ``kind``, and either a local ``folder`` or a ``name`` with a ``revision`` ("" for the default)."""

    kind: str
    name: str
    revision: str = ""
    folder: Path | None = None


def parse(network: str) -> Name:
    """Parse hf:DIRECTORY, hf:ORG/NAME[@REVISION] or torchvision:NAME; a local folder comes before a name on the hub.

    >>> parse("hf:nvidia/segformer-b0@v2")
    Name(kind='hf', name='nvidia/segformer-b0', revision='v2', folder=None)
    >>> parse("torchvision:fcn_resnet50").name
    'fcn_resnet50'
    """
    kind, _, rest = network.partition(":")
    if kind == "torchvision":
        return Name(kind, rest)
    if Path(rest).is_dir() and rest:
        return Name(kind, Path(rest).resolve().name, "", Path(rest))
    name, at, revision = rest.partition("@")
    if not _NAME.fullmatch(name) or (at and not re.fullmatch(r"[\w./-]+", revision)) or ".." in revision:
        raise NetworkError(
            f"{network}: there is no folder {rest}, and it is not a name on the hub. hf: takes a folder as save_pretrained "
            "writes it, or ORG/NAME, or ORG/NAME@REVISION."
        )
    return Name(kind, name, revision)


def source(
    network: str, *, given: Said = NOTHING_SAID, engine: str = "auto", threads: int | None = None, tell: Tell = silent
) -> Source:
    """Export the network that ``network`` names as a graph to be cut; what isn't here is downloaded.

    ``given``: what the user says of it. ``engine``, ``threads``: of the check that the graph gives what the network gives.
    ``tell``: gets sentences on the progress. ``MissingDependency`` before anything is downloaded, ``NetworkError`` or
    ``DataError``.
    """
    asked = parse(network)
    missing = [name for name in KINDS[asked.kind] if find_spec(name) is None]
    if missing:
        extra = install("transformers" if asked.kind == "hf" else "torch")
        raise MissingDependency(f"{asked.kind}: needs {' and '.join(missing)} to export the network, once: {extra}")
    export: Callable[..., Source]
    if asked.kind == "torchvision":
        from clockseg.networks.torchvision_zoo import torchvision_source

        export = partial(torchvision_source, asked.name, tell=tell)
    else:
        from clockseg.networks.checkpoint import download
        from clockseg.networks.hf import hf_source

        folder = asked.folder or download(asked.name, asked.revision or "main", tell)
        export = partial(hf_source, folder, name=asked.name.rpartition("/")[2])
    return first_able(engine, lambda name: export(given=given, engine=by_name(name, threads=threads)))


def file_of(network: str, *, tell: Tell = silent) -> Path:
    """Return the ONNX file of the network that ``network`` names, with its sidecar beside it.

    On first use the network is downloaded, exported, cut by ``--at auto``, checked, and put into the cache when it is
    complete. ``tell``: gets sentences on the progress. A branch is looked up once: later runs use what was found then.
    Raises ``MissingDependency``, ``NetworkError`` or ``DataError``.
    """
    asked = parse(network)
    place = _place(asked)
    if place.is_dir() and not any(place.glob("*.onnx")):
        shutil.rmtree(place, ignore_errors=True)  # the file alone was deleted
    if not place.is_dir():
        from clockseg.networks.cutting import cut_network  # which imports ``load``, which imports this module

        tell(f"exporting and cutting {asked.name}, once; it is kept in {place}")
        with folder_beside(place, "Set CLOCKSEG_CACHE to another folder.") as part:
            try:
                found = source(network, tell=tell)
                for what, value, why in found.told:
                    if what in ("task", "export"):
                        tell(f"{what}: {value}, {why}")
                cut_network(found, part / f"{found.name}.onnx")
                part.rename(place)
            except UsageError as error:
                raise NetworkError(
                    f"{error} Options are given to clockseg cut, whose --out NET.onnx then is the --network."
                ) from error
            except OSError as error:
                if not place.is_dir():  # another process may have been quicker
                    raise DataError(
                        f"{place}: the network can't be written there ({error.strerror or first_line(error)}). Make room there, "
                        "or set CLOCKSEG_CACHE to another folder."
                    ) from error
    return next(place.glob("*.onnx"))


def _place(asked: Name) -> Path:
    """Return the folder of a cut network in the cache; that of a local checkpoint is another one whenever its files change."""
    revision = asked.revision.replace("/", "--") or "default"
    if asked.folder is not None:
        revision = SourceFiles(path for path in sorted(asked.folder.iterdir()) if path.is_file()).digest
    name = "--".join((asked.kind, *asked.name.split("/")))
    return cache_directory() / NAMED / __version__ / name / revision
