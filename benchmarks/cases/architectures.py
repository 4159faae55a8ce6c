"""Architectures with random weights, exported and cut: taken or refused, in parts as whole, and the cost of a held frame.

Networks of transformers go through ``hf:``; the others are modules that torch's two exporters write as ONNX files. All are
small, so that times are mostly those of starting operators: the share of multiply-adds is nearer to what a network of usual
size shows. A held frame is one on which stage 1 fires alone; a network of one stage, such as one of instances, has none.
"""

from __future__ import annotations

import tempfile
from argparse import Namespace
from pathlib import Path

from benchmarks.harness import Facts, percent, say, table
from clockseg.engines import engine
from clockseg.errors import ClocksegError
from clockseg.graph import onnx_reader
from clockseg.networks.cutting import CutNetwork, cut_network
from clockseg.networks.source import Said, Source

OPTIONS: Facts = {"only": []}
MODULES = ("U-Net", "ENet", "BiSeNet", "BiSeNetV2", "DDRNet", "HRNet", "PSPNet", "Fast-SCNN")
"""Modules of tests/shapes.py and tests/shape_branches.py, there in lower case."""
GIVEN = Said(mean=(0.5,) * 3, std=(0.25,) * 3, scale=1 / 255, size=(128, 64))


def measure(asked: Namespace) -> Facts:
    """Export and cut all architectures, or those that are asked for."""
    from architectures import ARCHITECTURES

    names = [name for name in (*ARCHITECTURES, *MODULES) if not asked.only or name in asked.only]
    rows = []
    for name in names:
        say(name)
        rows.append(_row(name))
    return {"architectures": rows}


def _row(name: str) -> Facts:
    exporter, size = "transformers, tracing", Said()
    with tempfile.TemporaryDirectory() as scratch:
        try:
            if name in MODULES:
                exporter, size = "dynamo" if name in ("U-Net", "BiSeNetV2", "HRNet") else "tracing", GIVEN
                source = _module(name, Path(scratch), dynamo=exporter == "dynamo")
            else:
                source = _checkpoint(name, Path(scratch))
            found = cut_network(source, Path(scratch) / "net.onnx", said=size, engine="openvino", threads=1, repeat=20)
        except ClocksegError as error:
            return {"name": name, "exporter": exporter, "refused": str(error)}
    return {"name": name, "exporter": exporter, "refused": None, **_facts(found)}


def _checkpoint(name: str, folder: Path) -> Source:
    from architectures import NAMES, write_checkpoint
    from clockseg.networks.hf import hf_source

    given = Said(classes=NAMES) if name == "CLIPSeg" else Said()
    return hf_source(write_checkpoint(name, folder), given=given, engine=engine("openvino", threads=1))


def _module(name: str, folder: Path, *, dynamo: bool) -> Source:
    from shape_making import FIXED, SIZE, export, module

    key = "unet" if name == "U-Net" else name.lower()
    free, opset = key not in FIXED, 18 if dynamo else 17
    file = export(module(key), folder / "exported.onnx", dynamo=dynamo, opset=opset, free=free, size=SIZE)
    return Source(onnx_reader.read(file), file.stem)


def _facts(found: CutNetwork) -> Facts:
    inspection = found.inspection
    stages = sum(part.kind == "stage" for part in inspection.parts)
    told = {"parameters": inspection.whole.parameters, "size": list(inspection.size), "stages": stages}
    told |= {"classes": len(inspection.classes), "apart": found.apart}
    held = sum(part.multiply_adds for part in inspection.held) / max(1, inspection.whole.multiply_adds)
    return told | {"held_share": inspection.held_share, "held_work": held if inspection.held else None}


def pages(facts: Facts) -> dict[str, str]:
    """One table: a row an architecture."""
    head = ["architecture", "exporter", "stages", "in parts as whole", "held frame: time", "held frame: multiply-adds"]
    rows = [_cells(one) for one in facts["architectures"]]
    taken = sum(not one["refused"] for one in facts["architectures"])
    return {"architectures": f"{table(head, rows)}\n\n{taken} of {len(rows)} are taken."}


def _cells(one: Facts) -> list[str]:
    if one["refused"]:
        return [one["name"], one["exporter"], f"refused: {one['refused']}", "-", "-", "-"]
    apart = f"{one['apart']:.0e} apart" if one["apart"] else "same numbers"
    shares = (percent(one["held_share"], 0), percent(one["held_work"], 0))
    return [one["name"], one["exporter"], str(one["stages"]), apart, *shares]
