"""A network on disk: NAME.onnx and, beside it, the sidecar NAME.json that says how to use it."""

from __future__ import annotations

from pathlib import Path

import onnx

from clockseg.errors import DataError
from clockseg.files import whole_together
from clockseg.graph import sidecar
from clockseg.graph.sidecar import Sidecar


def write_network(model: onnx.ModelProto, said: Sidecar, out: Path) -> None:
    """Write ``model`` as ``out`` (NAME.onnx) and ``said`` as NAME.json: both or neither, in place of what was there.

    ``DataError`` where they can't be written.

    >>> write_network(onnx.ModelProto(), Sidecar("x", sidecar.Input("x", 8, 8), "y", (("y",),)), Path("nowhere/x.onnx"))
    Traceback (most recent call last):
        ...
    clockseg.errors.DataError: nowhere/x.onnx can't be written: No such file or directory. Give a folder that can be.
    """
    try:
        with whole_together(out.with_suffix(".json"), out) as (text, graph):
            sidecar.write(said, text)
            onnx.save(model, graph)
    except (OSError, ValueError) as error:  # a ValueError is protobuf's, of more than 2 GB
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise DataError(f"{out} can't be written: {reason}. Give a folder that can be.") from error
