"""Share of time that runs on every frame after `--at auto`, beside the best of all first cuts, each tried.

A frame on which only stage 1 fires and the uncut network take turns, in OpenVINO in f32.
"""

from __future__ import annotations

import statistics
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from benchmarks.harness import Facts, percent, say, table
from benchmarks.inputs import networks, noise, segformer
from benchmarks.measuring import took
from clockseg import NetworkError, Session, fixed_rate
from clockseg.engines import openvino
from clockseg.graph import onnx_reader
from clockseg.graph.candidates import candidates
from clockseg.graph.choice import choose
from clockseg.graph.cost import node_work
from clockseg.graph.staged import staged
from clockseg.graph.static import fix
from clockseg.networks.framing import Framing
from clockseg.networks.load import framing, read

OPTIONS = {"networks": ["street", "segformer-b0", "fcn8s-narrow"], "threads": 2, "rounds": 15}
NEVER, WARM, STAGES = 1_000_000, 4, 3
"""A period after which a stage doesn't fire again; frames before timing, in which parts are joined; stages of a cut."""


def measure(asked: Namespace) -> Facts:
    """Choose, time the choice, and time every other first cut with the same end."""
    return {"networks": {name: _network(name, asked) for name in asked.networks}}


def _network(name: str, asked: Namespace) -> Facts:
    model, said = read(segformer((1024, 512)) if name == "segformer-b0" else networks()[name])
    width, height = framing(model, said).padded((said.input.width, said.input.height))
    static = fix(model, {said.input.name: (1, 3, height, width)})
    graph, work = onnx_reader.neutral(static, said.input.name), node_work(static)
    shapes = {tensor: shape for tensor, (_, shape) in static.types.items()}
    chosen = choose(graph, shapes, work, output=said.output, stages=STAGES)

    def tried(cuts: Sequence[Any]) -> float | None:
        try:
            return _share(model, replace(said, cuts=tuple(cuts), stages=(), scores=()), (width, height), asked)
        except NetworkError:  # the cuts don't follow each other
            return None

    auto = tried(chosen.cuts)
    firsts = [one.tensors for one in candidates(graph, shapes, work, output=said.output) if one.skip]
    shares = {first: tried((first, chosen.cuts[-1])) for first in firsts}
    shares = {first: share for first, share in shares.items() if share is not None} | {chosen.cuts[0]: auto}
    best = min(shares, key=lambda first: shares[first] or 1.0)
    return {
        "size": [width, height],
        "auto": list(chosen.cuts),
        "share_of_multiply_adds": round(chosen.every_frame, 3),
        "share_of_time": auto,
        "tried": len(shares),
        "best": list(best),
        "best_share_of_time": shares[best],
    }


def _share(model: Any, said: Any, size: tuple[int, int], asked: Namespace) -> float:
    net = staged(model, said, size=size)
    framed = Framing(*size, 1, said.input.pad_value, True)
    net = openvino(replace(net, prepare=framed.prepare, restore=framed.restore), threads=asked.threads)
    [image] = noise(replace(net, sidecar=replace(said, input=replace(said.input, width=size[0], height=size[1]))), 1)
    fresh = Session(net, fixed_rate((1, *[NEVER] * (len(said.cuts) - 1))))
    whole = net.uncut()
    pairs = [(took(lambda: fresh(image)), took(lambda: whole(image))) for _ in range(asked.rounds + WARM)][WARM:]
    share = statistics.median(one for one, _ in pairs) / statistics.median(other for _, other in pairs)
    say(f"  {', '.join('+'.join(cut) for cut in said.cuts)}: {share:.3f}")
    return round(share, 3)


def pages(facts: Facts) -> dict[str, str]:
    """One row a network."""
    head = ["network", "size", "cut by itself at", "multiply-adds", "time", "best of", "time"]
    cells = [
        [
            name,
            "x".join(map(str, one["size"])),
            ", ".join(f"`{'+'.join(cut)}`" for cut in one["auto"]),
            percent(one["share_of_multiply_adds"], 0),
            percent(one["share_of_time"], 0),
            f"{one['tried']}: `{'+'.join(one['best'])}`",
            percent(one["best_share_of_time"], 0),
        ]
        for name, one in facts["networks"].items()
    ]
    note = "Work of a frame on which only stage 1 fires, as shares of the uncut network's multiply-adds and time."
    return {"auto-cuts": f"{table(head, cells)}\n\n{note}"}
