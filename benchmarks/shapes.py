"""Do parts give what the whole gives, at every place that a real-sized network can be cut?

`street`, the narrow FCN-8s and SegFormer-B0 (transformers, random weights, two sizes), in each engine that is installed, and
SegFormer-B0 by the torch reader as well. Smaller networks of every shape are in tests/test_shapes.py.

    python benchmarks/shapes.py            results/shapes.json and a table
    python benchmarks/shapes.py --docs     the same, and the table into docs/cut-your-network.md between its markers
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import segformer
from clockseg import candidates, cut
from clockseg.engines import contenders
from clockseg.graph import onnx_reader
from clockseg.graph.candidates import Candidate
from clockseg.graph.sidecar import Input, Sidecar
from clockseg.graph.staged import staged
from clockseg.networks.load import path_of
from clockseg.types import Array, Size
from page import insert, table
from provenance import HERE, provenance, write_result

PAGE = HERE.parent / "docs" / "shapes.md"


class Row(NamedTuple):
    """A network at a size in one engine: how many cuts were tried, and the largest difference as a share."""

    network: str
    size: str
    engine: str
    cuts: int
    worst: float


def main() -> None:
    """Measure, write, print."""
    args = _arguments()
    rows = [row for maker in (from_files, in_torch) for row in maker()]
    write_result("shapes", {"rows": [row._asdict() for row in rows]})
    text = markdown(rows)
    print(text)
    if args.docs:
        insert(PAGE, "shapes", text)


def from_files() -> Iterator[Row]:
    """The networks that are files, in each engine."""
    for name, file, sizes in (
        ("street", path_of("street"), [(480, 384)]),
        ("fcn8s-narrow", path_of("fcn8s-narrow"), [(320, 240)]),
        ("segformer-b0", segformer.file(), [(512, 256), (640, 480)]),
    ):
        for size in sizes:
            found = candidates(file, size=size)
            for engine, compile in contenders("f32", None).items():
                worst = max(apart(file, one, size, compile) for one in cuts(found))
                yield Row(name, f"{size[0]}x{size[1]}", engine, len(cuts(found)), worst)


def cuts(found: Sequence[Candidate]) -> list[tuple[tuple[str, ...], ...]]:
    """Each candidate with the cut that goes with it."""
    return [(one.tensors, one.then) if one.then else (one.tensors,) for one in found]


def apart(file: Path, at: tuple[tuple[str, ...], ...], size: Size, compile: Any) -> float:
    """How far parts and whole are apart on noise, as a share of the largest score."""
    model = onnx_reader.read(file)
    frame, output = model.graph.input[0].name, model.graph.output[0].name
    net = staged(model, Sidecar("one", Input(frame, *size), output, at), size=size)
    net = compile(net)
    image = np.random.default_rng(0).integers(0, 256, (1, size[1], size[0], 3), dtype=np.uint8)
    net = replace(net, prepare=lambda image: {"image": image})
    [by_parts] = _arrays(net(image))
    [whole] = _arrays(net.uncut()(image))
    return float(np.abs(by_parts - whole).max() / np.abs(whole).max())


def _arrays(value: dict[str, Array]) -> list[Array]:
    return [array for name, array in value.items() if name != "frame size"]


def in_torch() -> Iterator[Row]:
    """SegFormer-B0 cut as a module."""
    module = segformer.module()
    for size in ((512, 256), (640, 480)):
        example = torch.rand(1, 3, size[1], size[0], generator=torch.Generator().manual_seed(0))
        with torch.inference_mode():
            whole = module(example)
        found = cuts(candidates(module, example))
        worst = 0.0
        for at in found:
            with torch.inference_mode():
                by_parts = cut(module, example, at=at)(example)
            worst = max(worst, float((by_parts - whole).abs().max() / whole.abs().max()))
        yield Row("segformer-b0", f"{size[0]}x{size[1]}", "torch reader", len(found), worst)


def markdown(rows: Sequence[Row]) -> str:
    """A table for people, and where it comes from."""
    cells = [[row.network, row.size, row.engine, str(row.cuts), f"{row.worst:.1e}"] for row in rows]
    made = provenance()
    where = (
        "Every candidate as a cut, with the second that goes with it; largest difference on noise, over the largest score. "
        f"{made['date']}, commit {made['commit']}."
    )
    return f"{table([['network', 'size', 'by', 'cuts', 'parts - whole'], *cells])}\n\n{where}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", action="store_true", help="the table into docs/cut-your-network.md")
    return parser.parse_args()


if __name__ == "__main__":
    main()
