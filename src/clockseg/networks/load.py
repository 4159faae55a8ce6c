"""From a network's name or file to a staged network that runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import TypeAlias

from clockseg._errors import NetworkError, UsageError
from clockseg._types import Size
from clockseg.engines import engine as engine_by_name
from clockseg.graph import onnx_reader, sidecar
from clockseg.graph.staged import input_size, staged
from clockseg.networks.framing import Framing
from clockseg.stages import StagedNetwork

Engine: TypeAlias = Callable[[StagedNetwork], StagedNetwork]
BUNDLED = ("street",)
"""Networks that come with clockseg."""


def load(
    network: str | Path,
    *,
    engine: str | Engine | None = "auto",
    precision: str = "f32",
    threads: int | None = None,
    size: int | Size | None = None,
) -> StagedNetwork:
    """A bundled network by name, or an ONNX file with its sidecar beside it, cut and compiled by ``engine``.

    ``engine``: "auto", "openvino", "onnxruntime", a function over staged networks, or None for the uncompiled network.
    ``size``: the working size, as the longer side or (WIDTH, HEIGHT); default: the sidecar's.
    """
    path = _path(network)
    said = sidecar.read(path.with_suffix(".json"))
    model = onnx_reader.read(path)
    framing = _framing(said.input, input_size(model, said.input.name), size)
    net = staged(model, said, size=framing.padded((framing.width, framing.height)))
    net = replace(net, prepare=framing.prepare, restore=framing.restore)
    if engine is None:
        return net
    compile = engine_by_name(engine, precision=precision, threads=threads) if isinstance(engine, str) else engine
    return compile(net)


def _path(network: str | Path) -> Path:
    if network in BUNDLED:
        return Path(str(resources.files("clockseg.networks"))) / "weights" / f"{network}.onnx"
    path = Path(network)
    if path.suffix != ".onnx":
        raise UsageError(f"network {str(network)!r}: give {' or '.join(BUNDLED)}, or a file NAME.onnx.")
    if not path.is_file():
        raise NetworkError(f"there is no file {path}; give {' or '.join(BUNDLED)}, or an existing NAME.onnx.")
    return path


def _framing(said: sidecar.Input, fixed: Size | None, size: int | Size | None) -> Framing:
    width, height = fixed or (said.width, said.height)
    if size is not None:
        wanted = (size, size) if isinstance(size, int) else size
        if fixed and wanted != fixed:
            raise UsageError(f"size {wanted[0]}x{wanted[1]}: this network's file is fixed to {width}x{height}.")
        width, height = wanted
    if min(width, height) < 1:
        raise UsageError(f"size {width}x{height}: both sides must be at least 1.")
    return Framing(width, height, 1 if fixed else said.pad_multiple, said.pad_value, fixed is not None)
