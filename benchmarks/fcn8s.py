"""The paper's network at full width: is it the same in stages and whole, and what does each stage cost here?

One frame of noise, 500x500, through FCN-8s of 21 classes with random weights (134 million of them; what they are changes
neither question), in torch and in OpenVINO. It takes about 3 GB of memory.

    python benchmarks/fcn8s.py                results/fcn8s.json and tables
    python benchmarks/fcn8s.py --docs         the same, and the tables into docs/fcn8s.md between its markers
"""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from clockseg.cli._terminal import align
from clockseg.clockwork.network import StagedNetwork
from clockseg.engines import openvino, timed
from clockseg.execution.machine import threads_or_all
from clockseg.graph.staged import staged as staged_graph
from clockseg.networks.framing import OwnSize
from clockseg.paper import fcn_staged
from clockseg.paper.export_fcn import describe, to_onnx
from clockseg.paper.fcn import FCN
from clockseg.paper.fcn_checkpoint import FCNDescription
from clockseg.paper.fcn_geometry import stage_costs
from clockseg.paper.fcn_layers import FCN8S
from clockseg.paper.fcn_trained_on import trained_on
from clockseg.types import Array, Image, Size
from page import insert, table
from provenance import HERE, provenance, write_result

SIZE: Size = (500, 500)
PAPER = {"pool3": 59, "pool4": 18, "fc7": 23}
"""Shares of a frame's time in the paper's tables, %: 59 for stage 1, 77 with stage 2; fusing is in them."""
TOLERANCE = 1e-4


class Parity(NamedTuple):
    """Staged against whole: the largest difference of the scores, as a share of the largest score; and labels.

    ``labels``: the share of pixels whose labels are equal, of those where the two best classes are further apart than
    the tolerance.
    """

    scores: float
    labels: float

    @property
    def met(self) -> bool:
        """Whether that is the same network."""
        return self.scores <= TOLERANCE and self.labels == 1


def main() -> None:
    """Measure, write, print."""
    args = _arguments()
    image = np.random.default_rng(0).integers(0, 256, (SIZE[1], SIZE[0], 3), dtype=np.uint8)
    net, said = random_net(), description()
    whole = module_scores(net, said, image)
    in_torch = replace(fcn_staged.staged(net, said), prepare=OwnSize().prepare, restore=OwnSize().restore)
    parity = {"torch, staged / torch, whole": compare(torch_scores(net, in_torch, image), whole)}
    seconds = {"torch": measured(in_torch, image, args.rounds)}
    graph = {name: value.numpy() for name, value in net.state_dict().items()}
    parts, uncut = openvino_scores(graph, said, image, args.threads)
    parity["OpenVINO, staged / OpenVINO, whole"] = compare(parts, uncut)
    parity["OpenVINO, whole / torch, whole"] = compare(uncut, whole)
    seconds["openvino"] = measured(in_openvino(graph, said, args.threads), image, args.rounds)
    facts = {"size": "500x500", "classes": 21, "rounds": args.rounds, "threads": threads_or_all(args.threads),
             "parity": {name: one._asdict() for name, one in parity.items()}, "costs": costs(), "seconds": seconds}  # fmt: skip
    path = write_result("fcn8s", facts)
    rows, checks = stage_rows(seconds), parity_rows(parity)
    print(f"{align(rows)}\n\n{align(checks)}")
    if args.docs:
        insert(HERE.parent / "docs" / "fcn8s.md", "fcn8s", markdown(rows, checks, seconds))
    print(f"{path.relative_to(HERE.parent)} written", file=sys.stderr)
    sys.exit(0 if all(one.met for one in parity.values()) else "staged and whole differ by more than they may.")


def random_net() -> FCN:
    """FCN-8s with weights that keep maps at their scale (He et al., 2015)."""
    import torch

    torch.manual_seed(0)
    net = FCN(FCN8S)
    for name, weight in net.named_parameters():
        if name.endswith("weight") and weight.requires_grad:
            torch.nn.init.kaiming_normal_(weight, nonlinearity="relu")
    return net.eval().requires_grad_(False)


def description() -> FCNDescription:
    """PASCAL VOC's."""
    known = trained_on("voc", FCN8S.classes)
    return FCNDescription(FCN8S, known.classes, known.mean)


def module_scores(net: FCN, said: FCNDescription, image: Image) -> Array:
    """The module's scores [1, 21, h, w], not staged in any way."""
    import torch

    data = image[..., ::-1].astype(np.float32) - np.array(said.mean, np.float32)
    with torch.inference_mode():
        found: Array = net(torch.from_numpy(data.transpose(2, 0, 1)[None])).score.numpy()
    return found


def torch_scores(net: FCN, staged: StagedNetwork, image: Image) -> Array:
    """The staged network's scores: its last group's map, enlarged as ``finish`` does before the argmax."""
    import torch

    with torch.inference_mode():
        fused = torch.from_numpy(last_group(staged, image)["fused"])
        found: Array = net.enlarged(fused, SIZE[::-1]).numpy()
    return found


def last_group(staged: StagedNetwork, image: Image) -> dict[str, Array]:
    """What the last group gives, every stage firing."""
    trunk, values = staged.prepare(image), {}
    for stage in staged.stages:
        trunk = stage.body(trunk)
        values[stage.name] = stage.head(trunk)
    for group in staged.groups:
        values[group.name] = group.function(*(values[name] for name in group.reads))
    found: dict[str, Array] = values[staged.last]
    return found


def in_openvino(
    state: dict[str, Array], said: FCNDescription, threads: int | None, *, scores: bool = False
) -> StagedNetwork:
    """The graph in stages, compiled; ``scores``: its output are scores, not labels."""
    sidecar = describe(said, "fcn8s")
    sidecar = replace(sidecar, classes=(), palette=()) if scores else sidecar
    graph = staged_graph(to_onnx(state, said.shape), sidecar, size=SIZE)
    return replace(openvino(graph, threads=threads, cache=False), prepare=OwnSize().prepare, restore=OwnSize().restore)


def openvino_scores(
    state: dict[str, Array], said: FCNDescription, image: Image, threads: int | None
) -> tuple[Array, Array]:
    """Scores staged, and whole."""
    net = in_openvino(state, said, threads, scores=True)
    return net.finish(last_group(net, image))["score"], net.uncut().stages[0].body(net.prepare(image))["score"]


def compare(found: Array, wanted: Array) -> Parity:
    """Two score maps [1, classes, h, w]."""
    best = np.sort(wanted[0], axis=0)
    clear = best[-1] - best[-2] > TOLERANCE * np.abs(wanted).max()
    equal = found[0].argmax(0) == wanted[0].argmax(0)
    return Parity(float(np.abs(found - wanted).max() / np.abs(wanted).max()), float(equal[clear].mean()))


def measured(net: StagedNetwork, image: Image, rounds: int) -> dict[str, float]:
    """Median seconds of each stage, of all that fuses and finishes, and of the uncut network; in turns."""
    running, times = timed(net)
    uncut, runs = running.uncut(), []
    for _ in range(rounds + 1):
        times.clear()
        running(image)
        uncut(image)
        stages = {cut: times.seconds[f"{cut}.body"] + times.seconds[f"{cut}.head"] for cut in PAPER}
        whole = times.seconds["whole"]
        runs.append({**stages, "fuse": sum(times.seconds.values()) - sum(stages.values()) - whole, "whole": whole})
        print(f"\r{net.engine}: round {len(runs) - 1} of {rounds}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return {name: round(statistics.median(run[name] for run in runs[1:]), 4) for name in runs[0]}


def costs() -> dict[str, dict[str, int]]:
    """Parameters and multiply-adds of the stages, and of what fuses."""
    found = stage_costs(FCN8S, SIZE)
    parts = {cut: found[cut] for cut in PAPER}
    parts["fuse"] = found["upscore2"] + found["upscore_pool4"] + found["upscore8"]
    return {name: {"parameters": cost.parameters, "multiply_adds": cost.multiply_adds} for name, cost in parts.items()}


def stage_rows(seconds: dict[str, dict[str, float]]) -> list[list[str]]:
    """A row a stage: what it costs by count, in the paper, and here."""
    spent = costs()
    total = sum(one["multiply_adds"] for one in spent.values())
    rows = [["stage", "parameters", "multiply-adds", "share", "time, paper", *(f"time, {name}" for name in seconds)]]
    for name, cost in spent.items():
        share = f"{100 * cost['multiply_adds'] / total:.1f} %"
        paper = f"{PAPER[name]} %" if name in PAPER else "(in these)"
        here = [f"{100 * one[name] / (sum(one.values()) - one['whole']):.0f} %" for one in seconds.values()]
        rows.append([name, f"{cost['parameters']:,}", f"{cost['multiply_adds']:,}", share, paper, *here])
    return rows


def parity_rows(parity: dict[str, Parity]) -> list[list[str]]:
    """A row a comparison."""
    rows = [["", "scores differ by", "labels equal", "met"]]
    for name, one in parity.items():
        rows.append(
            [name, f"{one.scores:.1e}" if one.scores else "0", f"{100 * one.labels:.2f} %", "yes" if one.met else "NO"]
        )
    return rows


def markdown(rows: list[list[str]], checks: list[list[str]], seconds: dict[str, dict[str, float]]) -> str:
    """What docs/fcn8s.md tells."""
    made = provenance()
    speed = "; ".join(
        f"{name} {sum(one.values()) - one['whole']:.2f} s a frame in stages, {one['whole']:.2f} s whole"
        for name, one in seconds.items()
    )
    where = (
        f"Medians on {made['machine']['cores']} cores of {made['machine']['processor']}, {made['date']}, commit "
        f"{made['commit']}: {speed}. The machine may have done other work: compare "
        "shares, not seconds. `python benchmarks/fcn8s.py --docs`"
    )
    return "\n\n".join([table(rows), table(checks), where])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", action="store_true", help="the tables into docs/fcn8s.md")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, help="of OpenVINO (default: as many as the process may use)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
