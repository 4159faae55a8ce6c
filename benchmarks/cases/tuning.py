"""Fire rates of tuned schedules on video they were not tuned on: alternate blocks of five seconds of two videos.

A schedule is tuned on the even blocks and tried on the odd ones, and the other way round. The fixed threshold is the one
found; `paced` is what `clockseg tune` writes, whose threshold adapts.
"""

from __future__ import annotations

import statistics
from argparse import Namespace
from collections.abc import Sequence
from itertools import islice
from typing import Any

from benchmarks.harness import Facts, code, percent, table
from benchmarks.inputs import VIDEOS, data
from clockseg import adaptive, load, paced, record
from clockseg.planning.tuning import tried, tune, tune_near
from clockseg.video import open_clip

OPTIONS = {"network": "street", "engine": "auto", "threads": None, "limit": None}
RATES, BLOCK_SECONDS = (0.25, 0.5), 5


def measure(asked: Namespace) -> Facts:
    """Record each video once, and tune on its halves."""
    net = load(asked.network, engine=asked.engine, threads=asked.threads)
    rows = []
    for name in VIDEOS:
        with open_clip(data("videos", name)) as clip:
            recording = record(net, (frame.image for frame in islice(clip, asked.limit)))
            length = round(BLOCK_SECONDS * (clip.fps or 25))
        blocks = [recording[start : start + length] for start in range(0, len(recording), length)]
        halves = (("even", blocks[::2], blocks[1::2]), ("odd", blocks[1::2], blocks[::2]))
        for rate in RATES:
            for half, on, others in halves:
                told = {"video": name, "asked": rate, "tuned_on": half}
                rows += [told | found for found in _tuned(on, others, rate)]
    return {"network": net.name, "engine": net.engine, "block_seconds": BLOCK_SECONDS, "tries": rows}


def _tuned(on: Sequence[Any], others: Sequence[Any], rate: float) -> list[Facts]:
    fixed = tune(on, adaptive, rate).point.threshold
    start = tune_near(on, lambda threshold: paced(adaptive(threshold), rate), rate, fixed).point.threshold
    schedules = {f"adaptive({fixed:g})": adaptive(fixed)}
    schedules[f"paced(adaptive({start:g}), {rate:g})"] = paced(adaptive(start), rate)
    found = []
    for name, schedule in schedules.items():
        there, blocks = tried(others, schedule), [tried([one], schedule).fire_rate for one in others if len(one) > 1]
        rates = {"fire_rate_where_tuned": tried(on, schedule).fire_rate, "fire_rate": there.fire_rate}
        deviation = statistics.pstdev(blocks) if len(blocks) > 1 else None
        found.append(
            {"schedule": name, **rates, "deviation_over_blocks": deviation, "held_agreement": there.held_agreement}
        )
    return found


def pages(facts: Facts) -> dict[str, str]:
    """One row a video, half and schedule."""
    head = [
        "video",
        "tuned on",
        "schedule",
        "there",
        "on the other blocks",
        "off by",
        "one block deviates",
        "agreement",
    ]
    cells = []
    for row in facts["tries"]:
        off = f"{100 * (row['fire_rate'] - row['asked']):+.1f} points"
        shares = [percent(row[key]) for key in ("fire_rate_where_tuned", "fire_rate")]
        rest = [percent(row[key]) for key in ("deviation_over_blocks", "held_agreement")]
        cells.append([row["video"], f"{row['tuned_on']} blocks", code(row["schedule"]), *shares, off, *rest])
    return {"tuning": table(head, cells)}
