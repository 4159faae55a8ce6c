"""Accuracy and time of schedules with `street` on CamVid's dense clip, and together with fewer bits.

If the speed-up of a clock and that of fewer bits were independent, together they would give their product, which stands
beside the time measured.
"""

from __future__ import annotations

from argparse import Namespace

from benchmarks.harness import Facts, code, percent, table
from benchmarks.inputs import camvid
from benchmarks.measuring import compared
from clockseg import load, parse_schedule

OPTIONS = {"engine": "openvino", "threads": None, "limit": None, "passes": 3}
EVERY, SKIP = "frame_oracle", "skip_frame(2)"
SCHEDULES = (
    *(EVERY, "alternating", "fixed_rate((1, 2, 2))", SKIP, "skip_frame(4)", "exponential"),
    *("adaptive(0.1)", "adaptive(0.15)", "adaptive(0.2)", "pipelined(2)", "pipelined(3)"),
    *(f"carried(skip_frame({n}), warp(flow))" for n in (2, 4, 8)),
)


def measure(asked: Namespace) -> Facts:
    """Run every schedule in f32, and some in bf16 and int8, beside the uncut network in f32."""
    options = {"engine": asked.engine, "threads": asked.threads}
    net, int8 = load("street", **options), load("street-int8", **options)
    bf16 = load("street", precision="bf16", **options)
    few = (EVERY, net.sidecar.schedule or EVERY, SKIP)
    texts = {"f32": (net, dict.fromkeys((*SCHEDULES, *few))), "bf16": (bf16, few), "int8": (int8, few)}
    ways = [(f"{name} {text}", one, parse_schedule(text)) for name, (one, found) in texts.items() for text in found]
    return {
        "engine": net.engine,
        "few": few,
        "rows": compared(net, ways, camvid(limit=asked.limit)[0], passes=asked.passes),
    }


def pages(facts: Facts) -> dict[str, str]:
    """A page of schedules in f32, and one of fewer bits."""
    uncut, *rows = facts["rows"]
    times = {row["name"]: row["time"] for row in rows}
    single, bits = [], []
    for row in rows:
        network, _, text = row["name"].partition(" ")
        scores = [percent(row["mean_iu"]), percent(row["mean_iu"] / uncut["mean_iu"]), percent(row["agreement"])]
        if network == "f32":
            fires = [percent(rate, 0) for rate in row["fire_rate"].values()]
            spent = [f"{row['milliseconds']:.1f}", f"{row['time']:.2f}", f"{row['multiply_adds'] or 1:.2f}"]
            single.append([code(text), *scores, *fires, *spent])
        if text in facts["few"]:
            alone = [times[f"{network} {EVERY}"], times[f"f32 {text}"]]
            product = alone[0] * alone[1] / times[f"f32 {EVERY}"]
            both = network != "f32" and text != EVERY
            factors = [f"{value:.2f}" if both else "" for value in (*alone, product)]
            bits.append([network, code(text), *scores, f"{row['time']:.2f}", *factors])
    fires_head = [f"fires: {stage}" for stage in rows[0]["fire_rate"]]
    scores_head = ["mean IU", "kept", "agreement"]
    head = ["schedule", *scores_head, *fires_head, "ms a frame", "time", "multiply-adds"]
    bits_head = ["network", "schedule", *scores_head, "time", "network alone", "clock alone", "product"]
    note = (
        f"`street` in {facts['engine']} on CamVid val at 15 Hz, 480x360. Kept: share of the uncut network's mean IU; agreement: "
        "mean IU against its labels; time and multiply-adds: relative to it in f32, all interleaved."
    )
    return {"schedules": f"{table(head, single)}\n\n{note}", "quantized": f"{table(bits_head, bits)}\n\n{note}"}
