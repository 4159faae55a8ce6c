"""A cache of cut networks, so that a graph is read again only if a part of it has to be compiled."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, cast

import clockseg.graph
from clockseg import __version__
from clockseg.clockwork.network import StagedNetwork
from clockseg.errors import DataError
from clockseg.execution.cache import model_folder
from clockseg.files import whole
from clockseg.graph.part import Built, GraphFusion, GraphPart
from clockseg.types import Size

Cut = tuple[StagedNetwork, Size | None]
"""A network of graphs, and the size (WIDTH, HEIGHT) that its file is fixed to, None where it takes any."""
_NETWORK = "network.pickle"
_NUMPY = ("ndarray", "dtype", "_reconstruct", "scalar", "_frombuffer")


def remembered(files: Sequence[Path], setting: str, make: Callable[[], Cut]) -> Cut:
    """Return what ``make`` gives: from the cache if it was made of the same ``files``, with the same ``setting``, before.

    Parts from the cache say what their models are called, and ask ``make`` for the models themselves. Networks of
    instances are always made anew: their files hold no cuts.
    """
    digest = _digest(files, setting)
    folder = model_folder("cuts", digest)
    if folder is None:
        return make()
    source = _Source(files, setting, digest, folder, make)
    with suppress(Exception):  # none there, or damaged: unpickling raises many types
        net, fixed = _Unpickler(io.BytesIO((folder / _NETWORK).read_bytes())).load()
        return source.bound(net), fixed
    net, fixed = source.made
    if isinstance(net.executor, GraphFusion):
        with suppress(OSError), whole(folder / _NETWORK) as part:
            part.write_bytes(pickle.dumps((_with(net, lambda name: None, None), fixed)))
        net = source.bound(net)
    return net, fixed


def _digest(files: Sequence[Path], setting: str) -> str:
    """Return a digest of the files' identities, of the setting, and of the code that cuts networks."""
    told = []
    for file in (*files, *sorted(Path(clockseg.graph.__path__[0]).glob("*.py")), Path(__file__)):
        found = file.stat()
        told.append((file.name, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns))
    return hashlib.sha256(repr((__version__, setting, told)).encode(errors="surrogateescape")).hexdigest()


@dataclass(frozen=True, eq=False)
class _Source:
    """The source of the parts of one network. ``made``: the network itself, which is read when it is first needed."""

    files: Sequence[Path]
    setting: str
    digest: str
    folder: Path
    make: Callable[[], Cut]

    @cached_property
    def made(self) -> Cut:
        found = self.make()
        if _digest(self.files, self.setting) != self.digest:
            raise DataError(f"{self.files[0]} was replaced while it was being read. Run again once it stays as it is.")
        return found

    def bound(self, net: StagedNetwork) -> StagedNetwork:
        """Return ``net`` with parts that ask this source for their models."""
        return _with(net, lambda name: partial(self.build, (name,)), lambda *origin: partial(self.build, origin))

    def build(self, origin: tuple[Any, ...], size: Size) -> Built:
        """Build the part of ``origin``: its name in the network, or the arguments of ``GraphFusion.make``."""
        name = hashlib.sha256(repr((origin, size)).encode()).hexdigest()[:16]
        file = self.folder / f"{name}.json"
        with suppress(OSError, ValueError, TypeError):
            inputs, outputs, inner, told = map(tuple, json.loads(file.read_text(encoding="utf-8")))
            digest, size_bytes = told
            return Built(
                lambda: self._built(origin, size).model, inputs, outputs, inner, (str(digest), int(size_bytes))
            )
        built = self._built(origin, size)
        told = built.digest, built.size_bytes
        with suppress(OSError), whole(file) as part:
            part.write_text(json.dumps([built.inputs, built.outputs, built.inner, told]), encoding="utf-8")
        return built

    def _built(self, origin: tuple[Any, ...], size: Size) -> Built:
        net = self.made[0]
        if len(origin) > 1:
            return cast(GraphFusion, net.executor).make(*origin)(size)
        found: dict[str, Any] = {}
        net.map(lambda name, part: found.setdefault(name, part))
        return cast(GraphPart, found[origin[0]]).build(size)


def _with(net: StagedNetwork, build: Callable[[str], Any], make: Any) -> StagedNetwork:
    """Return ``net`` with ``build(name)`` as the ``build`` of each graph, and with ``make`` as that of its ``GraphFusion``."""
    fusion = cast(GraphFusion, net.executor)
    found = net.map(lambda name, part: replace(part, build=build(name)) if isinstance(part, GraphPart) else part)
    uncut = None if fusion.whole is None else cast(GraphPart, found.whole)
    return replace(found, executor=replace(fusion, make=make, whole=uncut))


class _Unpickler(pickle.Unpickler):
    """Reads nothing but networks: no other module's functions are called."""

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] == "clockseg" or (module.partition(".")[0] == "numpy" and name in _NUMPY):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} is no part of a network")
