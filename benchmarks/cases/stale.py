"""Accuracy that a correction of moved scores gives at one key frame in 2, 4, 8 and 12, and what it costs.

CamVid's dense clip with human labels. Where a correction reads a stage, the stages up to that run on every frame; where it
reads the picture, none does.
"""

from __future__ import annotations

from argparse import Namespace

from benchmarks.harness import Facts, percent, table
from benchmarks.inputs import camvid, without_correction
from benchmarks.measuring import compared
from clockseg import load, parse_schedule
from clockseg.clockwork.network import StagedNetwork

OPTIONS = {"networks": ["street-stale", "street-large"], "threads": None, "limit": None}
PERIODS = (2, 4, 8, 12)
FLOWS = ("flow", "flow, scale=0.75")


def measure(asked: Namespace) -> Facts:
    """Run every network moved alone and corrected."""
    return {"networks": [one for name in asked.networks for one in _network(name, asked)]}


def _network(name: str, asked: Namespace) -> list[Facts]:
    net = load(name, engine="openvino", threads=asked.threads)
    if net.correction is None:
        raise SystemExit(f"{name} has no correction; train one: clockseg train stale {name} DATA --out DIR")
    plain = without_correction(name, engine="openvino", threads=asked.threads)
    ways = [
        (f"{kind} {flow} {n}", one, parse_schedule(f'carried({_schedule(net, n)}, warp({flow}, of="fused"))'))
        for flow in FLOWS
        for kind, one in (("moved", plain), ("corrected", net))
        for n in PERIODS
    ]
    [clip] = camvid(limit=asked.limit)
    uncut, *rows = compared(plain, ways, clip)
    reads = net.correction.reads or "frame"
    return [{"network": net.name, "reads": reads, "mean_iu": uncut["mean_iu"], "rows": rows}]


def _schedule(net: StagedNetwork, n: int) -> str:
    """Return every n-th frame; where the correction reads a stage, the stages up to it on every frame."""
    names = [stage.name for stage in net.stages]
    fresh = 0 if net.correction is None or net.correction.reads is None else names.index(net.correction.reads) + 1
    periods = ", ".join(str(1 if index < fresh else n) for index in range(len(names)))
    return f"fixed_rate(({periods}))" if fresh else f"skip_frame({n})"


def pages(facts: Facts) -> dict[str, str]:
    """One row a network, flow, and way of making the output; kept, mean IU, and time."""
    head = ["network", "flow", "output", "every frame", *(f"1/{n}: kept (mean IU), time" for n in PERIODS)]
    cells = []
    for one in facts["networks"]:
        for start in range(0, len(one["rows"]), len(PERIODS)):
            rows = one["rows"][start : start + len(PERIODS)]
            kind, flow = rows[0]["name"].split(" ", 1)[0], rows[0]["name"].split(" ", 1)[1].rsplit(" ", 1)[0]
            kind = f"{kind}, reads {one['reads']}" if kind == "corrected" else kind
            shares = [f"{percent(row['mean_iu'] / one['mean_iu'])} ({percent(row['mean_iu'])})" for row in rows]
            told = [f"{share}, {row['time']:.2f}" for share, row in zip(shares, rows, strict=True)]
            cells.append([one["network"], flow, kind, percent(one["mean_iu"]), *told])
    return {"stale": f"{table(head, cells)}\n\nTime: relative to the uncut network. OpenVINO."}
