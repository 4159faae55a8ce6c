"""From a network's name or file to a staged network that runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from clockseg._errors import MissingDependency, NetworkError, UsageError
from clockseg._types import Size
from clockseg.engines import engine as engine_by_name
from clockseg.graph import onnx_reader, sidecar
from clockseg.graph.staged import input_size, staged
from clockseg.networks.framing import Framing, OwnSize
from clockseg.stages import StagedNetwork

if TYPE_CHECKING:
    import onnx

Engine: TypeAlias = Callable[[StagedNetwork], StagedNetwork]
WorkingSize: TypeAlias = int | Size | Literal["own"]
IN_TORCH = ("torch", "cuda")
BUNDLED = ("street", "street-stride8", "street-stride16", "fcn8s-narrow")
"""Networks that come with clockseg: one, and what it is compared with, cut off behind its first and its second stage."""


def load(
    network: str | Path,
    *,
    engine: str | Engine | None = "auto",
    precision: str = "f32",
    threads: int | None = None,
    size: WorkingSize | None = None,
) -> StagedNetwork:
    """A bundled network by name, an ONNX file with its sidecar beside it, or an FCN's checkpoint NAME.safetensors.

    ``engine``: "openvino", "onnxruntime" and its kin (``clockseg.engines.ENGINES``), a function over staged networks, or
    None for the uncompiled network; checkpoints also run in "torch", on a GPU in "cuda". "auto" is the fastest of those
    installed, measured once for this network, size and machine and remembered; for checkpoints torch.
    ``size``: the working size, as the longer side or (WIDTH, HEIGHT), or "own": each frame at its own; default: the
    sidecar's or the checkpoint's. ``threads``: of the engine; of torch, they are the whole process's.
    """
    path = _path(network)
    checkpoint = path.suffix == ".safetensors"
    if engine in IN_TORCH or (checkpoint and engine == "auto"):
        return _in_torch(path, str(engine), precision, threads, size)
    model, said = _checkpoint(path) if checkpoint else (onnx_reader.read(path), sidecar.read(path.with_suffix(".json")))
    fixed = input_size(model, said.input.name)
    working = _working(said.input, fixed, size)
    net = staged(model, said, size=working.padded((working.width, working.height)))
    net = _framed(net, working, size)
    if engine is None:
        return net
    compile = engine_by_name(engine, precision=precision, threads=threads) if isinstance(engine, str) else engine
    return compile(net)


def _path(network: str | Path) -> Path:
    if network in BUNDLED:
        return Path(str(resources.files("clockseg.networks"))) / "weights" / f"{network}.onnx"
    path = Path(network)
    if path.suffix not in (".onnx", ".safetensors"):
        raise UsageError(
            f"network {str(network)!r}: give {', '.join(BUNDLED)}, or a file NAME.onnx or NAME.safetensors."
        )
    if not path.is_file():
        raise NetworkError(f"there is no file {path}; give {', '.join(BUNDLED)}, or a file that exists.")
    return path


def _checkpoint(path: Path) -> tuple[onnx.ModelProto, sidecar.Sidecar]:
    from clockseg.networks.export_fcn import describe, to_onnx
    from clockseg.networks.fcn_checkpoint import read_state

    state, description = read_state(path)
    return to_onnx(state, description.shape), describe(description, path.stem)


def _in_torch(path: Path, engine: str, precision: str, threads: int | None, size: WorkingSize | None) -> StagedNetwork:
    if path.suffix != ".safetensors":
        raise UsageError(f"engine {engine!r} runs checkpoints, NAME.safetensors, not {path.name}; give another engine.")
    if precision != "f32":
        raise UsageError(f"precision {precision!r}: torch runs here in f32; use the engine 'openvino' for bf16.")
    try:
        from clockseg.networks.fcn_staged import load_staged
    except ImportError as error:
        raise MissingDependency("running a checkpoint needs torch: pip install 'clockseg[torch]'") from error

    net = load_staged(path, device="cuda" if engine == "cuda" else "cpu", threads=threads)
    return _framed(net, _working(net.sidecar.input, None, size), size)


def _framed(net: StagedNetwork, working: Framing, size: WorkingSize | None) -> StagedNetwork:
    if size != "own":
        return replace(net, prepare=working.prepare, restore=working.restore)
    if working.fixed:
        raise UsageError(f'size "own": this network\'s file is fixed to {working.width}x{working.height}.')
    own = OwnSize(working.pad_multiple, working.pad_value)
    return replace(net, prepare=own.prepare, restore=own.restore)


def _working(said: sidecar.Input, fixed: Size | None, size: WorkingSize | None) -> Framing:
    width, height = fixed or (said.width, said.height)
    if size is not None and size != "own":
        wanted = tuple(size) if isinstance(size, tuple | list) else (size, size)
        if len(wanted) != 2 or not all(isinstance(side, int) for side in wanted):
            raise UsageError(f'size {size!r}: give the longer side, (WIDTH, HEIGHT), or "own".')
        if fixed and wanted != fixed:
            raise UsageError(f"size {wanted[0]}x{wanted[1]}: this network's file is fixed to {width}x{height}.")
        width, height = wanted
    if min(width, height) < 1:
        raise UsageError(f"size {width}x{height}: both sides must be at least 1.")
    return Framing(width, height, 1 if fixed else said.pad_multiple, said.pad_value, fixed is not None)
