"""How far is real time from the multiply-adds' share, and where does it go?

`street`, `fcn8s-narrow` and SegFormer-B0 in OpenVINO, f32: of each part the shares of multiply-adds, bytes and seconds; of
each kind of operation the same, by OpenVINO's own profile; and of `street` the relative multiply-adds, bytes and time of
schedules, the time measured beside the uncut network on the CamVid clip.

    python benchmarks/cost.py           results/cost.json and the tables
    python benchmarks/cost.py --docs    the same, and the tables into docs/engines.md between its markers
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx

import segformer
from clockseg import Session, load, parse_schedule
from clockseg.datasets import read_clips
from clockseg.evaluation.cost import Price, Prices, priced
from clockseg.evaluation.runs import Interleaving
from clockseg.execution.machine import threads_or_all
from clockseg.graph.cost import multiply_adds
from clockseg.graph.sidecar import Input, Sidecar, write
from clockseg.graph.static import attribute, fix
from page import insert, table
from provenance import HERE, provenance, write_result
from shared_data import shared_data

PAGE = HERE.parent / "docs" / "cost.md"
SCHEDULES = ("skip_frame(2)", "alternating", "exponential", "fixed_rate((1, 2, 4))", "adaptive(0.15)", "adaptive(0.25)")
KINDS = ("1x1 convolution, product", "k x k convolution", "depthwise convolution", "enlargement", "argmax", "the rest")


class Row(NamedTuple):
    """A part or a kind of operation: shares of 1 (bytes of parts only), and billions of multiply-adds a second."""

    name: str
    multiply_adds: float
    moved: float | None
    seconds: float
    giga_a_second: float | None


def main() -> None:
    """Measure, write, print."""
    args = _arguments()
    with tempfile.TemporaryDirectory() as folder:
        files = {"street": "street", "fcn8s-narrow": "fcn8s-narrow", "segformer-b0": _segformer(Path(folder))}
        found = {name: costs(file, args) for name, file in files.items()}
    followed = schedules(args)
    path = write_result("cost", {"repeat": args.repeat, "networks": found, "schedules": followed})
    text = markdown(found, followed)
    print(text)
    if args.docs:
        insert(PAGE, "cost", text)
    print(f"{path.relative_to(HERE.parent)} written", file=sys.stderr)


def _segformer(folder: Path) -> Path:
    path = folder / "segformer-b0.onnx"
    path.write_bytes(segformer.file().read_bytes())
    given = Input(segformer.INPUT, 512, 256, "rgb", 1 / 255, segformer.MEAN, segformer.STD, 32)
    classes = tuple(f"class{index}" for index in range(segformer.CLASSES))
    cuts = tuple((cut,) for cut in segformer.CUTS)
    stages = tuple(f"stage{index + 1}" for index in range(len(cuts)))
    write(Sidecar("segformer-b0", given, segformer.OUTPUT, cuts, stages, classes=classes), path.with_suffix(".json"))
    return path


def costs(file: str | Path, args: argparse.Namespace) -> dict[str, Any]:
    """What a network's parts and its kinds of operations cost."""
    prices = priced(load(file, engine="openvino", threads=args.threads), repeat=args.repeat)
    whole = prices.whole or prices.full
    return {
        "size": prices.size,
        "whole": {"multiply_adds": whole.multiply_adds, "moved": whole.moved, "seconds": whole.seconds},
        "staged_over_uncut": {
            "multiply_adds": prices.full.multiply_adds / whole.multiply_adds,
            "seconds": (prices.full.seconds or 0) / (whole.seconds or 1),
        },
        "parts": [row._asdict() for row in parts(prices)],
        "kinds": [row._asdict() for row in kinds(load(file, engine=None).whole, prices.size or (0, 0), args)],
    }


def parts(prices: Prices) -> list[Row]:
    """Each part's shares of all parts'."""
    found = {**prices.stages, **prices.groups, "finish": prices.finish}
    return [_row(name, one, prices.full) for name, one in found.items() if one.multiply_adds or one.moved]


def _row(name: str, one: Price, full: Price) -> Row:
    seconds = one.seconds or 0.0
    giga = one.multiply_adds / seconds / 1e9 if seconds else None
    return Row(
        name, one.multiply_adds / full.multiply_adds, one.moved / full.moved, seconds / (full.seconds or 1), giga
    )


def kinds(part: Any, size: tuple[int, int], args: argparse.Namespace) -> list[Row]:
    """Each kind of operation's shares of the uncut network's (a ``GraphPart``), by OpenVINO's profile of it."""
    built = part.build(size)
    work = work_of(onnx.load_model_from_string(built.model))
    spent = profile(built.model, size, args)
    total, all_work = sum(spent.values()), sum(work.values())
    return [
        Row(kind, work[kind] / all_work, None, spent[kind] / total, work[kind] / spent[kind] / 1e9 or None)
        for kind in KINDS
        if spent[kind]
    ]


def work_of(model: onnx.ModelProto) -> dict[str, int]:
    """Multiply-adds of each kind of operation."""
    shapes = {
        value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim) for value in model.graph.input
    }
    static, work = fix(model, shapes), dict.fromkeys(KINDS, 0)
    for node in static.nodes:
        inputs = [static.shape(name) if name else () for name in node.input]
        channels = int(attribute(node, "group", 1))
        if node.op_type == "ConvTranspose":
            kind = "enlargement"
        elif node.op_type == "Conv" and channels > 1 and channels == inputs[0][1]:
            kind = "depthwise convolution"
        else:
            kind = KINDS[1] if node.op_type == "Conv" and max(inputs[1][2:]) > 1 else KINDS[0]
        work[kind] += multiply_adds(node.op_type, inputs, static.shape(node.output[0]))
    return work


def profile(model: bytes, size: tuple[int, int], args: argparse.Namespace) -> dict[str, float]:
    """Median seconds of each kind of operation over runs on noise, as OpenVINO tells them."""
    core = importlib.import_module("openvino").Core()
    options = {
        "PERF_COUNT": True,
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": threads_or_all(args.threads),
    }
    request = core.compile_model(core.read_model(model), "CPU", options).create_infer_request()
    frame = np.random.default_rng(0).integers(0, 256, (1, size[1], size[0], 3), dtype=np.uint8)
    runs = []
    for _ in range(args.repeat + 1):
        request.infer({0: frame})
        runs.append(_sums(request.get_profiling_info()))
    return {kind: float(np.median([run[kind] for run in runs[1:]])) for kind in KINDS}


def _sums(nodes: Iterable[Any]) -> dict[str, float]:
    sums = dict.fromkeys(KINDS, 0.0)
    for node in nodes:
        sums[_kind(node.node_type, node.exec_type)] += node.real_time.total_seconds()
    return sums


def _kind(operation: str, how: str) -> str:
    if operation == "Convolution":
        return KINDS[0] if "1x1" in how else KINDS[1]
    known = {
        "FullyConnected": KINDS[0],
        "MatMul": KINDS[0],
        "GroupConvolution": KINDS[2],
        "GroupConvolutionBackpropData": KINDS[3],
        "ConvolutionBackpropData": KINDS[3],
        "Deconvolution": KINDS[3],
        "Interpolate": KINDS[3],
        "TopK": KINDS[4],
    }
    return known.get(operation, KINDS[5])


def schedules(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Relative multiply-adds, bytes, and time, priced and measured, of schedules of `street` on the CamVid clip."""
    net = load("street", engine="openvino", threads=args.threads)
    prices = priced(net, repeat=args.repeat)
    runs = Interleaving(net, [Session(net, parse_schedule(text)) for text in SCHEDULES])
    records: list[list[Any]] = [[] for _ in SCHEDULES]
    for number, frame in enumerate(islice(read_clips(shared_data("camvid", "val"))[0], args.frames)):
        runs(frame.image)
        if number:
            for kept, session in zip(records, runs.sessions[1:], strict=True):
                kept.append(session.record)
    return [
        _followed(text, prices, kept) | {"time": tally.seconds / runs.tallies[0].seconds}
        for text, kept, tally in zip(SCHEDULES, records, runs.tallies[1:], strict=True)
    ]


def _followed(text: str, prices: Prices, records: list[Any]) -> dict[str, Any]:
    total, whole = prices.total(records), (prices.whole or prices.full) * len(records)
    return {
        "schedule": text,
        "multiply_adds": total.multiply_adds / whole.multiply_adds,
        "moved": total.moved / whole.moved,
        "priced_seconds": (total.seconds or 0) / (whole.seconds or 1),
    }


def markdown(found: Mapping[str, Any], followed: list[dict[str, Any]]) -> str:
    """What docs/engines.md shows."""
    made = provenance()
    where = (
        f"OpenVINO f32 on {made['machine']['cores']} cores of {made['machine']['processor']}, {made['date']}, "
        f"commit {made['commit']}; medians over interleaved runs."
    )
    sections = [_network(name, one) for name, one in found.items()]
    head = ["`street`, CamVid clip", "multiply-adds", "bytes", "time, priced by parts", "time, measured"]
    rows = [[f"`{one['schedule']}`", *(f"{one[key]:.3f}" for key in list(one)[1:])] for one in followed]
    return "\n\n".join([*sections, table([head, *rows]), where])


def _network(name: str, one: Mapping[str, Any]) -> str:
    width, height = one["size"]
    whole, staged = one["whole"], one["staged_over_uncut"]
    title = (
        f"**{name}** at {width}x{height}: {whole['multiply_adds'] / 1e9:.2f} G multiply-adds, "
        f"{whole['moved'] / 1e6:.0f} MB moved, {1000 * whole['seconds']:.1f} ms uncut; in parts "
        f"{staged['multiply_adds']:.3f} of the multiply-adds, {staged['seconds']:.2f} of the time."
    )
    head = ["part", "multiply-adds", "bytes", "seconds", "G multiply-adds/s"]
    rows = [[row["name"], *_cells(row)] for row in one["parts"]]
    kinds = [[row["name"], *_cells(row)] for row in one["kinds"]]
    operations = ["operations of the uncut network", head[1], *head[3:]]
    return "\n\n".join([title, table([head, *rows]), table([operations, *kinds])])


def _cells(row: Mapping[str, Any]) -> list[str]:
    keys = ("multiply_adds", "moved", "seconds")
    shares = [f"{100 * row[key]:.1f} %" for key in keys if row[key] is not None]
    return [*shares, "-" if row["giga_a_second"] is None else f"{row['giga_a_second']:.0f}"]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", action="store_true", help="the tables into docs/engines.md")
    parser.add_argument("--repeat", type=int, default=40, help="runs of each network")
    parser.add_argument("--frames", type=int, default=101, help="of the clip")
    parser.add_argument("--threads", type=int, help="of OpenVINO (default: as many as the process may use)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
