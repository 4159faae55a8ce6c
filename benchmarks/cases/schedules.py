"""Accuracy and time of schedules with `street` on CamVid's dense clip, and together with fewer bits.

If the speed-up of a clock and that of fewer bits were independent, together they would give their product, which stands
beside the time measured.
"""

from __future__ import annotations

import math
from argparse import Namespace

from benchmarks.harness import Facts, code, figure, listing, percent, share
from benchmarks.inputs import camvid
from benchmarks.measuring import compared
from clockseg import load, parse_schedule

OPTIONS = {"engine": "openvino", "threads": None, "limit": None}
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
    rows = compared(net, ways, camvid(limit=asked.limit)[0])
    return {"engine": net.engine, "few": few, "rows": rows}


def pages(facts: Facts) -> dict[str, str]:
    """A page of schedules in f32, and one of fewer bits."""
    uncut, *rows = facts["rows"]
    times = {row["name"]: row["time"] for row in rows}
    for row in rows:
        row["network"], _, text = row["name"].partition(" ")
        row |= {"text": text, "schedule": code(text), "kept": row["mean_iu"] / uncut["mean_iu"]}
        row["alone"] = times[f"{row['network']} {EVERY}"], times[f"f32 {text}"]
        row["both"] = row["network"] != "f32" and text != EVERY
    scores: Facts = {
        "schedule": "schedule",
        "mean IU": share("mean_iu"),
        "kept": share("kept"),
        "agreement": share("agreement"),
    }
    fires = {f"fires: {one}": lambda row, one=one: percent(row["fire_rate"][one], 0) for one in rows[0]["fire_rate"]}
    spent = {"ms a frame": figure("milliseconds", ".1f"), "time": figure("time")}
    spent["multiply-adds"] = lambda row: f"{row['multiply_adds'] or 1:.2f}"
    bits: Facts = {"network": "network", **scores, "time": figure("time")}
    for at, head in enumerate(("network alone", "clock alone")):
        bits[head] = lambda row, at=at: f"{row['alone'][at]:.2f}" if row["both"] else ""
    bits["product"] = lambda row: f"{math.prod(row['alone']) / times[f'f32 {EVERY}']:.2f}" if row["both"] else ""
    note = (
        f"`street` in {facts['engine']} on CamVid val at 15 Hz, 480x360. Kept: share of the uncut network's mean IU; agreement: "
        "mean IU against its labels; time and multiply-adds: relative to it in f32, all interleaved."
    )
    single = listing([row for row in rows if row["network"] == "f32"], scores | fires | spent)
    few = listing([row for row in rows if row["text"] in facts["few"]], bits)
    return {"schedules": f"{single}\n\n{note}", "quantized": f"{few}\n\n{note}"}
