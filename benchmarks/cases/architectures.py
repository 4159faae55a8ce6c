"""Architectures with random weights, exported and cut: taken or refused, in parts as whole, and the cost of a held frame.

Networks of transformers go through ``hf:``; the others are modules that torch's two exporters write as ONNX files. All are
small, so that times are mostly those of starting operators: the share of multiply-adds is nearer to what a network of usual
size shows. A held frame is one on which stage 1 fires alone.
"""

from __future__ import annotations

import sys
import tempfile
from argparse import Namespace
from pathlib import Path

from benchmarks.harness import ROOT, Facts, percent, say, table
from clockseg.engines import engine
from clockseg.errors import ClocksegError
from clockseg.networks.cutting import CutNetwork, cut_network
from clockseg.networks.source import Said, Source, onnx_source

OPTIONS: Facts = {"only": []}
MODULES = {
    "unet": "U-Net",
    "enet": "ENet",
    "bisenet": "BiSeNet",
    "bisenetv2": "BiSeNetV2",
    "ddrnet": "DDRNet",
    "hrnet": "HRNet",
    "pspnet": "PSPNet",
    "fast-scnn": "Fast-SCNN",
}
"""Modules of tests/shapes.py and tests/shape_branches.py."""
GIVEN = Said(mean=(0.5,) * 3, std=(0.25,) * 3, scale=1 / 255, size=(128, 64))


def measure(asked: Namespace) -> Facts:
    """Export and cut all architectures, or those that are asked for."""
    sys.path.insert(0, str(ROOT / "tests"))
    from architectures import ARCHITECTURES

    names = [name for name in (*ARCHITECTURES, *MODULES.values()) if not asked.only or name in asked.only]
    rows = []
    for name in names:
        say(name)
        rows.append(_row(name))
    return {"architectures": rows}


def _row(name: str) -> Facts:
    with tempfile.TemporaryDirectory() as scratch:
        exporter, task = "transformers, tracing", None
        try:
            if name in MODULES.values():
                exporter = "dynamo" if name in ("U-Net", "BiSeNetV2", "HRNet") else "tracing"
                source = _module(name, Path(scratch), dynamo=exporter == "dynamo")
            else:
                source = _checkpoint(name, Path(scratch))
            said = GIVEN if name in MODULES.values() else Said()
            found = cut_network(source, Path(scratch) / "net.onnx", said=said, engine="openvino", threads=1, repeat=20)
        except ClocksegError as error:
            return {"name": name, "exporter": exporter, "task": task, "refused": str(error)}
    return {"name": name, "exporter": exporter, "refused": None, **_facts(found)}


def _checkpoint(name: str, folder: Path) -> Source:
    from architectures import NAMES, write_checkpoint
    from clockseg.networks.hf import hf_source

    given = Said(classes=NAMES) if name == "CLIPSeg" else Said()
    return hf_source(write_checkpoint(name, folder), given=given, engine=engine("openvino", threads=1))


def _module(name: str, folder: Path, *, dynamo: bool) -> Source:
    from shape_making import FIXED, SIZE, export, module

    [key] = [key for key, shown in MODULES.items() if shown == name]
    free, opset = key not in FIXED, 18 if dynamo else 17
    file = export(module(key), folder / "exported.onnx", dynamo=dynamo, opset=opset, free=free, size=SIZE)
    return onnx_source(file)


def _facts(found: CutNetwork) -> Facts:
    inspection = found.inspection
    stages = [part for part in inspection.parts if part.kind == "stage"]
    return {
        "parameters": inspection.whole.parameters,
        "size": list(inspection.size),
        "stages": len(stages),
        "classes": len(inspection.classes),
        "apart": found.apart.difference,
        "labels_apart": found.apart.labels,
        "held_share": inspection.held_share,
        "held_work": inspection.held_work,
    }


def pages(facts: Facts) -> dict[str, str]:
    """One table: a row an architecture."""
    head = ["architecture", "exporter", "stages", "in parts as whole", "held frame: time", "held frame: multiply-adds"]
    rows = []
    for one in facts["architectures"]:
        if one["refused"]:
            rows.append([one["name"], one["exporter"], f"refused: {one['refused']}", "-", "-", "-"])
            continue
        apart = "same numbers" if not one["apart"] else f"{one['apart']:.0e} apart"
        shares = (percent(one["held_share"], 0), percent(one["held_work"], 0))
        rows.append([one["name"], one["exporter"], str(one["stages"]), apart, *shares])
    taken = sum(1 for one in facts["architectures"] if not one["refused"])
    return {"architectures": f"{table(head, rows)}\n\n{taken} of {len(rows)} are taken."}
