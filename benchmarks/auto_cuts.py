"""What runs on every frame after `--at auto`, as a share of time? And how much would the best cut spare, found by trying all?

python benchmarks/auto_cuts.py                   results/auto_cuts.json and the table
python benchmarks/auto_cuts.py --docs            the same, the table into docs/cut-your-network.md too
python benchmarks/auto_cuts.py --only street     one network, printed
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx

import segformer
from clockseg import Session, fixed_rate
from clockseg.engines import openvino
from clockseg.errors import NetworkError
from clockseg.graph import onnx_reader
from clockseg.graph.candidates import candidates
from clockseg.graph.choice import Choice, choose
from clockseg.graph.cost import node_work
from clockseg.graph.load import Cut, Load
from clockseg.graph.neutral import Graph
from clockseg.graph.sidecar import Input, Sidecar
from clockseg.graph.staged import staged
from clockseg.graph.static import fix
from clockseg.networks.framing import Framing
from clockseg.networks.load import framing, read
from page import insert, table
from provenance import HERE, provenance, write_result

NEVER = 1_000_000
"""A period at which a stage fires on the first frame and never again."""
WARM = 4
"""Frames before it is timed: the first fires all stages, and parts are joined on those after it."""
STAGES = 3
SEGFORMER = "SegFormer-B0"


class Network(NamedTuple):
    """A graph and its sidecar, at the working size (WIDTH, HEIGHT)."""

    model: onnx.ModelProto
    said: Sidecar
    size: tuple[int, int]


@dataclass(frozen=True)
class Tried:
    """Cuts, and the median seconds of a frame on which only stage 1 fires over those of the uncut network."""

    cuts: tuple[Cut, ...]
    share: float


def main() -> None:
    """Measure, write, print."""
    args = _arguments()
    found = {name: measured(network, name, args) for name, network in networks(args.only)}
    text = markdown(found)
    print(text)
    if args.only:
        return
    print(f"{write_result('auto_cuts', {'threads': args.threads, 'networks': found}).relative_to(HERE.parent)} written")
    if args.docs:
        insert(HERE.parent / "docs" / "the-cut-rule.md", "auto-cuts", text)


def networks(only: str | None) -> Iterator[tuple[str, Network]]:
    """The three, or one of them."""
    for name in ("street", SEGFORMER, "fcn8s-narrow"):
        if only in (None, name):
            yield name, _segformer() if name == SEGFORMER else _bundled(name)


def _bundled(name: str) -> Network:
    model, said = read(name)
    fitted = framing(model, said)
    return Network(model, said, fitted.padded((said.input.width, said.input.height)))


def _segformer() -> Network:
    given = Input(segformer.INPUT, 1024, 512, mean=segformer.MEAN, std=segformer.STD)
    classes = tuple(f"class {index}" for index in range(segformer.CLASSES))
    cuts = tuple((name,) for name in segformer.CUTS)
    said = Sidecar(SEGFORMER, given, segformer.OUTPUT, cuts, classes=classes)
    return Network(onnx_reader.read(Path(segformer.file())), said, (given.width, given.height))


def measured(network: Network, name: str, args: argparse.Namespace) -> dict[str, Any]:
    """What is chosen, what it spares, and the best of all first cuts with the same end."""
    width, height = network.size
    static = fix(network.model, {network.said.input.name: (1, 3, height, width)})
    graph = onnx_reader.neutral(static, network.said.input.name)
    shapes = {tensor: shape for tensor, (_, shape) in static.types.items()}
    output = network.said.output
    chosen = choose(graph, shapes, node_work(static), output=output, stages=STAGES)
    auto = tried(network, chosen.cuts, args)
    end = chosen.cuts[-1]
    firsts = [one.tensors for one in candidates(graph, shapes, node_work(static), output=output) if one.skip]
    others = [found for first in firsts if (found := tried_or_none(network, (first, end), args)) is not None]
    best = min([auto, *others], key=lambda found: found.share)
    whole = tried(network, chosen.cuts, args, split=False) if name == SEGFORMER else None
    return {
        "size": list(network.size),
        "auto": list(chosen.cuts),
        "share_of_multiply_adds": round(chosen.every_frame, 3),
        "share_of_time": round(auto.share, 3),
        "share_of_time_unsplit": whole and round(whole.share, 3),
        "share_of_multiply_adds_unsplit": whole and round(unsplit_share(chosen, graph, node_work(static), output), 3),
        "tried": len(others),
        "best": list(best.cuts),
        "best_share_of_time": round(best.share, 3),
        "all": [{"first": list(found.cuts[0]), "share_of_time": round(found.share, 3)} for found in others],
    }


def unsplit_share(chosen: Choice, graph: Graph, work: dict[str, float], output: str) -> float:
    """Of multiply-adds, as the network is without splits."""
    return Load(graph, work, output).running(chosen.cuts, fired=1) or 0.0


def tried_or_none(network: Network, cuts: tuple[Cut, ...], args: argparse.Namespace) -> Tried | None:
    """As ``tried``; None where the cuts don't follow each other."""
    try:
        return tried(network, cuts, args)
    except NetworkError:
        return None


def tried(network: Network, cuts: tuple[Cut, ...], args: argparse.Namespace, *, split: bool = True) -> Tried:
    """Frames on which only stage 1 fires, and the uncut network, by turns."""
    width, height = network.size
    said = replace(network.said, cuts=cuts, stages=(), scores=())
    framed = Framing(width, height, 1, said.input.pad_value, True)
    net = staged(network.model, said, size=network.size, split=split)
    net = openvino(replace(net, prepare=framed.prepare, restore=framed.restore), threads=args.threads)
    image = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    fresh = Session(net, fixed_rate((1, *[NEVER] * (len(cuts) - 1))))
    whole = net.uncut()
    ratios = []
    for turn in range(args.rounds + WARM):
        one, other = seconds(fresh, image), seconds(whole, image)
        if turn >= WARM:
            ratios.append((one, other))
    share = statistics.median(one for one, _ in ratios) / statistics.median(other for _, other in ratios)
    print(f"  {', '.join('+'.join(cut) for cut in cuts)}{'' if split else ', not split'}: {share:.3f}", flush=True)
    return Tried(cuts, share)


def seconds(run: Any, image: np.ndarray) -> float:
    """Of one call."""
    start = time.perf_counter()
    run(image)
    return time.perf_counter() - start


def markdown(found: dict[str, dict[str, Any]]) -> str:
    """A row a network, SegFormer's without the split of its concatenation below it."""
    rows = [["network", "size", "cut by itself at", "multiply-adds", "time", "best of", "time"]]
    for name, one in found.items():
        size = "x".join(map(str, one["size"]))
        rows.append([name, size, _cuts(one["auto"]), _percent(one["share_of_multiply_adds"]),
                     _percent(one["share_of_time"]), f"{one['tried']}: {_cuts(one['best'][:1])}",
                     _percent(one["best_share_of_time"])])  # fmt: skip
        if one["share_of_time_unsplit"] is not None:
            rows.append([f"{name}, not split", size, "the same", _percent(one["share_of_multiply_adds_unsplit"]),
                         _percent(one["share_of_time_unsplit"]), "", ""])  # fmt: skip
    made = provenance()
    return (
        f"{table(rows)}\n\nWhat runs on a frame on which only stage 1 fires, as shares of the network's multiply-adds, as it "
        "runs, and of the uncut network's time in OpenVINO, f32, by turns; beside it the best of all first cuts with a skip, "
        f"each tried. {made['date']}, {made['machine']['processor']}, {made['machine']['cores']} cores."
    )


def _cuts(cuts: Sequence[Sequence[str]]) -> str:
    return ", ".join("`" + "+".join(_short(tensor) for tensor in cut) + "`" for cut in cuts)


def _short(tensor: str) -> str:
    """Without what exporters put round a module's path."""
    return tensor.removesuffix("_output_0").removeprefix("/").replace("model/segformer/", "")


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15, help="frames timed for each cut")
    parser.add_argument("--only", choices=("street", SEGFORMER, "fcn8s-narrow"), help="one network, nothing written")
    parser.add_argument("--docs", action="store_true", help="write the page's table")
    return parser.parse_args()


if __name__ == "__main__":
    main()
