"""Networks by name, hf:ORG/NAME and torchvision:NAME: cut on first use, and kept cut in clockseg's cache.

The cache holds, for each name and revision, the ONNX file and the sidecar that ``clockseg cut`` would write. Later runs read
these, ask no server, and import neither torch nor transformers.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from clockseg import __version__
from clockseg.engines import engine as by_name
from clockseg.engines.auto import first_able
from clockseg.errors import DataError, MissingDependency, NetworkError, UsageError, first_line, install
from clockseg.execution.cache import NAMED, cache_directory
from clockseg.files import file_identity, folder_beside
from clockseg.networks.source import NOTHING_SAID, Said, Source, checked

Tell = Callable[[str], None]
KINDS = ("hf", "torchvision")
TASKS = ("semantic", "panoptic", "instance")
"""The tasks of a network that gives masks: class scores of pixels (asked for by either of two names), or instances."""
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
    """A network's name: its ``kind``, and either a local ``folder`` or a ``name`` with a ``revision`` ("" for the default).

    ``words``: the classes of a network that finds what words name; ``task``: of one that gives masks ("" for the default).
    """

    kind: str
    name: str
    revision: str = ""
    folder: Path | None = None
    words: tuple[str, ...] = ()
    task: str = ""


def parse(network: str) -> Name:
    """Parse hf:DIRECTORY, hf:ORG/NAME[@REVISION] or torchvision:NAME; a local folder comes before a name on the hub.

    Behind hf:.. may stand ?words=WORD,WORD or ?task=semantic, panoptic or instance.

    >>> parse("hf:nvidia/segformer-b0@v2")
    Name(kind='hf', name='nvidia/segformer-b0', revision='v2', folder=None, words=(), task='')
    >>> parse("hf:CIDAS/clipseg?words=a road,sky").words
    ('a road', 'sky')
    >>> parse("torchvision:fcn_resnet50").name
    'fcn_resnet50'
    """
    kind, _, rest = network.partition(":")
    if kind == "torchvision":
        return Name(kind, rest)
    rest, asked, option = rest.partition("?")
    words, task = _option(network, option) if asked else ((), "")
    if Path(rest).is_dir() and rest:
        return Name(kind, Path(rest).resolve().name, "", Path(rest), words, task)
    name, at, revision = rest.partition("@")
    if not _NAME.fullmatch(name) or (at and not re.fullmatch(r"[\w./-]+", revision)) or ".." in revision:
        raise NetworkError(
            f"{network}: there is no folder {rest}, and it is not a name on the hub. hf: takes a folder as save_pretrained "
            "writes it, or ORG/NAME, or ORG/NAME@REVISION."
        )
    return Name(kind, name, revision, None, words, task)


def _option(network: str, text: str) -> tuple[tuple[str, ...], str]:
    key, _, value = text.partition("=")
    if key == "task" and value in TASKS:
        return (), value
    words = [word.strip() for word in value.split(",")] if key == "words" else []
    if not words or not all(words):
        raise UsageError(
            f"{network}: after the ?, give words=WORD,WORD (the classes of a network that finds what words name), or "
            f"task={' or '.join(TASKS)} (of a network that outputs masks)."
        )
    return checked(words, network), ""


def fetch(network: str, *, weights: Path | None = None, tell: Tell = silent) -> Path:
    """Return the folder of the checkpoint, or the file of weights, that ``network`` names; it is downloaded if need be.

    ``weights``: a file of weights of torchvision's network (None: those that torchvision publishes). ``tell``: gets
    sentences on the progress. Raises ``MissingDependency``, ``NetworkError`` or ``DataError``.
    """
    asked = parse(network)
    _check_libraries(asked.kind)
    if asked.kind == "torchvision":
        from clockseg.networks import torchvision_zoo

        return weights or torchvision_zoo.published(asked.name, tell)
    if asked.folder is not None:
        return asked.folder
    from clockseg.networks import hub

    return hub.download(asked.name, asked.revision or "main", tell)


def _check_libraries(kind: str) -> None:
    """Raise ``MissingDependency`` before anything is downloaded if a library that exports the network is missing."""
    needed = ("torch", "transformers", "huggingface_hub") if kind == "hf" else ("torch",)
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        extra = install("transformers" if kind == "hf" else "torch")
        raise MissingDependency(f"{kind}: needs {' and '.join(missing)} to export the network, once: {extra}")


def source(
    network: str, path: Path, *, given: Said = NOTHING_SAID, engine: str = "auto", threads: int | None = None
) -> Source:
    """Export the network at ``path``, which ``fetch`` gives, as a graph to be cut.

    ``given``: what the user says of it. ``engine``, ``threads``: of the check that the graph gives what the network gives.
    """
    asked = parse(network)

    def exported(name: str) -> Source:
        compile = by_name(name, threads=threads)
        if asked.kind == "torchvision":
            from clockseg.networks.torchvision_zoo import torchvision_source

            return torchvision_source(asked.name, path, given=given, engine=compile)
        from clockseg.networks.hf import hf_source

        said, title = given.over(Said(classes=asked.words or None)), asked.name.rpartition("/")[2]
        return hf_source(path, given=said, name=title, task=asked.task or None, engine=compile)

    return first_able(engine, exported)


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
        path = fetch(network, tell=tell)
        tell(f"exporting and cutting {asked.name}, once; it is kept in {place}")
        with folder_beside(place, "Set CLOCKSEG_CACHE to another folder.") as part:
            try:
                _cut(network, path, part, tell)
                part.rename(place)
            except OSError as error:
                if not place.is_dir():  # another process may have been quicker
                    raise DataError(
                        f"{place}: the network can't be written there ({error.strerror or first_line(error)}). Make room there, "
                        "or set CLOCKSEG_CACHE to another folder."
                    ) from error
    return next(place.glob("*.onnx"))


def _cut(network: str, path: Path, folder: Path, tell: Tell) -> None:
    from clockseg.networks import cutting  # it imports ``load``, which imports this module

    try:
        found = source(network, path)
        for what, value, why in found.told:
            if what in ("task", "export"):
                tell(f"{what}: {value}, {why}")
        cutting.cut_network(found, folder / f"{found.name}.onnx")
    except UsageError as error:
        raise NetworkError(
            f"{error} Options are given to clockseg cut, whose --out NET.onnx then is the --network."
        ) from error


def _place(asked: Name) -> Path:
    """Return the folder of a cut network in the cache; that of a local checkpoint is another one whenever its files change."""
    text = "--".join((asked.kind, *asked.name.split("/"), *filter(None, [asked.task])))
    revision = asked.revision.replace("/", "--") or "default"
    if asked.words or asked.folder is not None:
        text += f"--{_digest((asked.words, asked.folder and asked.folder.resolve()))}"
    if asked.folder is not None:
        files = (path for path in sorted(asked.folder.iterdir()) if path.is_file())
        revision = _digest([(path.name, *file_identity(path)) for path in files])
    return cache_directory() / NAMED / __version__ / text / revision


def _digest(facts: object) -> str:
    return hashlib.sha256(repr(facts).encode(errors="surrogateescape")).hexdigest()[:16]
