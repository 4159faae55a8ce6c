"""From a network's name or file to a staged network that runs.

hf:ORG/NAME and torchvision:NAME are cut on first use. The cache holds, for each name and revision, the ONNX file and the sidecar
that ``clockseg cut`` would write; later runs read these, ask no server, and import neither torch nor transformers.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped,unused-ignore]

from clockseg import __version__
from clockseg.clockwork.network import StagedNetwork
from clockseg.engines import engine as engine_by_name
from clockseg.engines.auto import Engine, first_able
from clockseg.engines.openvino_file import SUFFIXES as UNCUT
from clockseg.errors import DataError, MissingDependency, NetworkError, UsageError, first_line, install, nearest
from clockseg.execution.cache import NAMED, cache_directory
from clockseg.files import SourceFiles, folder_beside
from clockseg.graph import onnx_reader, sidecar
from clockseg.graph.staged import input_size, staged, staged_whole
from clockseg.instances.heads import Head
from clockseg.instances.network import Decoding
from clockseg.networks import BUNDLED, INSTALLED, WEIGHTS
from clockseg.networks.framing import Framing
from clockseg.networks.source import NOTHING_SAID, Said, Source
from clockseg.types import Size

WorkingSize: TypeAlias = int | Size | Literal["own"]
Tell: TypeAlias = Callable[[str], None]
LIBRARIES = {"hf": ("torch", "transformers", "huggingface_hub"), "torchvision": ("torch",)}
"""The kinds of names, with the libraries that export such a network."""
_ON_HUB = re.compile(r"\w[\w.-]*/\w[\w.-]*")


def silent(text: str) -> None:
    """Tell nobody."""


def load(
    network: str | Path,
    *,
    engine: str | Engine | None = "auto",
    precision: str = "f32",
    threads: int | None = None,
    size: WorkingSize | None = None,
) -> StagedNetwork:
    """Load a bundled network by name, or an ONNX file with its sidecar beside it.

    NAME.xml of OpenVINO, NAME.tflite, and an ONNX file that was not cut run as they are, as one stage
    (``clockseg.networks.settling.read_uncut``).
    "hf:ORG/NAME[@REVISION]", "hf:DIRECTORY" and "torchvision:NAME" are downloaded and cut on first use, which needs torch,
    and come from the cache after that.
    ``engine``: a name of ``clockseg.engines.ENGINES``, such as "openvino"; a function from a staged network to a compiled
    one; or None for the uncompiled network. "auto" is the fastest engine installed, measured once for this network, size
    and machine.
    ``size``: the working size, as the longer side or (WIDTH, HEIGHT), or "own": each frame at its own; default: the
    sidecar's. ``threads``: of the engine.

    >>> net = load("street", engine=None)
    >>> net.name, [stage.name for stage in net.stages]
    ('street', ['stride8', 'stride16', 'context'])
    """
    path = path_of(network)
    if path.suffix in UNCUT and isinstance(engine, str):
        if engine not in ("auto", "openvino"):
            raise UsageError(f"engine {engine!r}: {path.name} runs uncut in openvino; give that one, or auto.")
        engine = "openvino"
    if whole := _is_uncut(path):
        from clockseg.networks.settling import read_uncut

        model, said = read_uncut(path, size if isinstance(size, tuple) else None)
    else:
        model, said = read_graph(path), sidecar.read(path.with_suffix(".json"))
    return assemble(model, said, engine=engine, precision=precision, threads=threads, size=size, whole=whole)


def _is_uncut(path: Path) -> bool:
    """Return True for a file that runs uncut: no ONNX file, or one whose sidecar is absent or names no cuts."""
    if path.suffix != ".onnx":
        return path.suffix in UNCUT
    data = sidecar.beside(path)
    return path.is_file() and data is not None and "cuts" not in data


def read(network: str | Path) -> tuple[onnx.ModelProto, sidecar.Sidecar]:
    """Read the graph and the sidecar of a bundled network or an ONNX file of maps; ``NetworkError`` says what is wrong."""
    path = path_of(network)
    model, said = read_graph(path), sidecar.read(path.with_suffix(".json"))
    if said.instances is not None:
        raise UsageError(f"network {said.name!r} gives instances, and this takes networks of class scores or numbers.")
    return model, said


def read_graph(path: Path) -> onnx.ModelProto:
    """Read an ONNX file; ``UsageError`` for a file that runs uncut."""
    if path.suffix in UNCUT:
        raise UsageError(
            f"{path} runs uncut (clockseg segment VIDEO --network {path} --out DIR), and this needs a graph in stages: give the "
            "ONNX file that it was made from."
        )
    return onnx_reader.read(path)


def assemble(
    model: onnx.ModelProto,
    said: sidecar.Sidecar,
    *,
    engine: str | Engine | None = "auto",
    precision: str = "f32",
    threads: int | None = None,
    size: WorkingSize | None = None,
    whole: bool = False,
) -> StagedNetwork:
    """Make a staged network of a graph and a sidecar in memory; arguments as for ``load``.

    ``whole``: the network runs as one stage, as those of instances always do, and not in the stages that the sidecar names.
    """
    head = None if said.instances is None else Head.read(said.instances)
    fit = framing(model, said, size=size)
    if whole or head is not None:
        net = staged_whole(model, said, (said.output,) if head is None else head.outputs)
    else:
        own = framing(model, said) if size == "own" else fit
        net = staged(model, said, size=own.padded((own.width, own.height)))
    restore = fit.restore if head is None else Decoding(head, fit.scaled)
    net = replace(net, prepare=fit.prepare, restore=restore)
    if engine is None:
        return net
    compile = engine_by_name(engine, precision=precision, threads=threads) if isinstance(engine, str) else engine
    return compile(net)


def framing(model: onnx.ModelProto, said: sidecar.Sidecar, *, size: WorkingSize | None = None) -> Framing:
    """Return the framing of this network at a working size, or, if ``size`` is "own", that of each frame at its own size.

    >>> framing(*read("street")).padded((960, 540))
    (480, 288)
    """
    fixed = input_size(model, said.input.name)
    multiple, value = said.input.pad_multiple, said.input.pad_value
    if size == "own":
        if fixed:
            raise UsageError(f'size "own": this network\'s file is fixed to {fixed[0]}x{fixed[1]}.')
        return Framing(pad_multiple=multiple, pad_value=value)
    own = fixed or (said.input.width, said.input.height)
    wanted = own if size is None else tuple(size) if isinstance(size, tuple | list) else (size, size)
    if len(wanted) != 2 or not all(isinstance(side, int) and side > 0 for side in wanted):
        raise UsageError(f'size {size!r}: give the longer side, (WIDTH, HEIGHT), or "own"; sides are at least 1.')
    if fixed and wanted != fixed:
        raise UsageError(f"size {wanted[0]}x{wanted[1]}: this network's file is fixed to {fixed[0]}x{fixed[1]}.")
    return Framing(*wanted, 1 if fixed else multiple, value, fixed is not None)


def path_of(network: str | Path, *, tell: Tell = silent) -> Path:
    """Return the file of a bundled network, or of one named hf:.. or torchvision:.., or the given file.

    ``tell``: gets sentences on the progress of the first use of a name. ``UsageError`` for anything else.
    """
    if network in BUNDLED:
        bundled = WEIGHTS / f"{network}.onnx"
        if not bundled.is_file():
            raise NetworkError(
                f"{network} is too large for the wheel; give the path of src/clockseg/networks/weights/{network}.onnx in a "
                f"clone, or take {network}-int8."
            )
        return bundled
    if is_named(network):
        return _cut_once(str(network), tell)
    path = Path(network)
    if path.suffix not in (".onnx", *UNCUT):
        raise UsageError(
            f"network {str(network)!r}: give a bundled network, hf:ORG/NAME, torchvision:NAME, or a file "
            f"{' or '.join(f'NAME{end}' for end in ('.onnx', *UNCUT))}. "
            f"{nearest(str(network), INSTALLED)}"
        )
    if not path.is_file():
        there = [one.name for one in path.parent.glob("*.*") if one.suffix in (".onnx", *UNCUT)]
        raise UsageError(
            f"there is no file {path}; give a file that exists, or a bundled network. "
            f"{nearest(path.name, (*there, *INSTALLED))}"
        )
    return path


def files_of(network: str | Path) -> tuple[Path, ...]:
    """Return the files that ``load`` reads: the network's, its sidecar, and those that weights are kept in."""
    path = path_of(network)
    outside: tuple[Path, ...] = ()
    if path.suffix == ".onnx":
        with suppress(OSError, DecodeError):  # a damaged file is told of when it is loaded
            outside = onnx_reader.weight_files(path)
    weights = [path.with_suffix(".bin")] if path.suffix == ".xml" else []
    files = (path, path.with_suffix(".json"), *outside, *weights)
    return tuple(file for file in files if file.is_file())


class Name(NamedTuple):
    """A network's name: its ``kind``, and either a local ``folder`` or a ``name`` with a ``revision`` ("" for the default)."""

    kind: str
    name: str
    revision: str = ""
    folder: Path | None = None

    def place(self) -> Path:
        """Return the folder of the cut network in the cache; that of a local checkpoint is another one whenever its files change."""
        revision = self.revision.replace("/", "--") or "default"
        if self.folder is not None:
            revision = SourceFiles(path for path in sorted(self.folder.iterdir()) if path.is_file()).digest
        return cache_directory() / NAMED / __version__ / f"{self.kind}--{self.name.replace('/', '--')}" / revision


def is_named(network: str | Path) -> bool:
    """Return True for hf:.. and torchvision:..."""
    return isinstance(network, str) and network.partition(":")[0] in LIBRARIES and ":" in network


def parse(network: str) -> Name:
    """Parse hf:DIRECTORY, hf:ORG/NAME[@REVISION] or torchvision:NAME; a local folder comes before a name on the hub."""
    kind, _, rest = network.partition(":")
    if kind == "torchvision":
        return Name(kind, rest)
    if Path(rest).is_dir() and rest:
        return Name(kind, Path(rest).resolve().name, "", Path(rest))
    name, at, revision = rest.partition("@")
    if not _ON_HUB.fullmatch(name) or (at and not re.fullmatch(r"[\w./-]+", revision)) or ".." in revision:
        raise NetworkError(
            f"{network}: there is no folder {rest}, and it is not a name on the hub. hf: takes a folder as save_pretrained "
            "writes it, or ORG/NAME, or ORG/NAME@REVISION."
        )
    return Name(kind, name, revision)


def named_source(
    network: str, *, given: Said = NOTHING_SAID, engine: str = "auto", threads: int | None = None, tell: Tell = silent
) -> Source:
    """Export the network that hf:.. or torchvision:.. names as a graph to be cut; what isn't here is downloaded.

    ``given``: what the user says of it. ``engine``, ``threads``: of the check that the graph gives what the network gives.
    ``MissingDependency`` before anything is downloaded, ``NetworkError`` or ``DataError``.
    """
    asked = parse(network)
    missing = [name for name in LIBRARIES[asked.kind] if find_spec(name) is None]
    if missing:
        extra = install("transformers" if asked.kind == "hf" else "torch")
        raise MissingDependency(f"{asked.kind}: needs {' and '.join(missing)} to export the network, once: {extra}")
    export: Callable[..., Source]
    if asked.kind == "torchvision":
        from clockseg.networks.torchvision_zoo import torchvision_source

        export = partial(torchvision_source, asked.name, tell=tell)
    else:
        from clockseg.networks.hf import download, hf_source

        folder = asked.folder or download(asked.name, asked.revision or "main", tell)
        export = partial(hf_source, folder, name=asked.name.rpartition("/")[2])
    return first_able(engine, lambda name: export(given=given, engine=engine_by_name(name, threads=threads)))


def _cut_once(network: str, tell: Tell) -> Path:
    """Return the ONNX file of the network that ``network`` names, with its sidecar beside it.

    On first use the network is downloaded, exported, cut by ``--at auto``, checked, and put into the cache when it is
    complete. A branch is looked up once: later runs use what was found then. The errors of ``named_source``.
    """
    asked = parse(network)
    place = asked.place()
    if place.is_dir() and not any(place.glob("*.onnx")):
        shutil.rmtree(place, ignore_errors=True)  # the file alone was deleted
    if not place.is_dir():
        from clockseg.networks.cutting import cut_network  # which imports this module

        tell(f"exporting and cutting {asked.name}, once; it is kept in {place}")
        with folder_beside(place, "Set CLOCKSEG_CACHE to another folder.") as part:
            try:
                found = named_source(network, tell=tell)
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
