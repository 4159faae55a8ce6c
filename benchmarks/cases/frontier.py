"""Accuracy that a video can be segmented with in which time: a big network on a clock against a small one on every frame.

Six parts: `street-large` and `street` on CamVid's clip with human labels, the same clip as H.264 without and with B-frames, a
driving video and one of a fixed camera. All ways of a part and every-frame `street-large`, to which time is relative, see each frame
before any sees the next.
"""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.frontier_figure import EVERY, draw, frontier, score
from benchmarks.harness import ROOT, Facts, code, percent, table, where
from benchmarks.inputs import DRIVING, FIXED_CAMERA, camvid, reencoded, video
from benchmarks.measuring import compared
from clockseg import load, parse_schedule
from clockseg.clockwork.network import StagedNetwork

PARTS = {
    "large": "CamVid val, human labels: `street-large`",
    "street": "CamVid val, human labels: `street`",
    "codec": "CamVid val as P-only H.264 (x264, CRF 23): the codec's vectors beside flow",
    "b-frames": "CamVid val in x264's default settings, with B-frames",
    "driving": "Driving video: agreement with every-frame `street-large`",
    "fixed-camera": "Fixed-camera video: agreement with every-frame `street-large`",
}
OPTIONS = {"threads": None, "limit": 120}
LARGE, LARGE_INT8, STREET, INT8 = "street-large", "street-large-int8", "street", "street-int8"
BF16 = "bf16"
PAPER, HELD = "the paper's schedules", "held as it was"
MOVED, BOTH = "moved along", "both sides"
STREAMS = {"codec": {"crf": "23", "bf": "0"}, "b-frames": {"crf": "23"}}
"""Options of libx264: without B-frames, as cameras and drones write, and as it is."""
CARRIES = {MOVED: "warp(flow)", BOTH: "interpolate(flow)"}
PAPERS = ("alternating", "adaptive(0.15)")
CLOCKS = (
    "either(motion_residual(0.10), at_least_every(12))",
    "either(motion_residual(0.13), at_least_every(12))",
    "budget(motion_residual, network_rate=0.25, cap=12)",
)


class Way(NamedTuple):
    """One point: a family, a network ("street-large 3/4", "street bf16"), and a schedule as text."""

    family: str
    network: str
    schedule: str = "frame_oracle"

    @property
    def base(self) -> str:
        """The network that "kept" is relative to, on every frame and at its own size."""
        return self.network.split()[0].removesuffix("-int8")


def some(family: str, network: str, *schedules: int | str, carry: str | None = None) -> list[Way]:
    """Return ways of a family; a number n stands for the whole network on every n-th frame."""
    texts = [f"skip_frame({one})" if isinstance(one, int) else one for one in schedules]
    carry = carry or CARRIES.get(family)
    return [Way(family, network, f"carried({text}, {carry})" if carry else text) for text in texts]


def whole(*networks: str) -> list[Way]:
    """Return networks on every frame."""
    return [Way(EVERY, network) for network in networks]


def ways(part: str) -> list[Way]:
    """Return the ways of a part."""
    if part == "large":
        found = [*some(HELD, LARGE, 2, 3, 4, 8), *some(MOVED, LARGE, 2, 3, 4, 6, 8, 12, *CLOCKS)]
        found += [*some(MOVED, f"{LARGE} 3/4", 2, 4), *some(BOTH, LARGE, 1, 2, 3, 4, 6, 8, 12)]
        for name in (f"{LARGE} {BF16}", LARGE_INT8):
            found += [Way(EVERY, name), *some(MOVED, name, 2, 3, 4, 8), *some(BOTH, name, 2, 3, 4, 6, 8, 12)]
        return [*whole(f"{LARGE} 3/4", f"{LARGE} 1/2"), *some(PAPER, LARGE, *PAPERS), *found]
    if part == "street":
        found = [*some(HELD, STREET, 2, 4), *some(MOVED, STREET, 2, 4, 8, *CLOCKS[1:])]
        found += some(BOTH, STREET, 1, 2, 4, 6, 12)
        found += [Way(EVERY, INT8), *some(HELD, INT8, 2), *some(MOVED, INT8, 2, 4), *some(BOTH, INT8, 2, 4, 6, 12)]
        return [*whole(STREET, f"{STREET} 3/4", f"{STREET} 1/2"), *some(PAPER, STREET, *PAPERS), *found]
    if part in ("codec", "b-frames"):
        found = [Way(EVERY, STREET)]
        for motion in ("codec", "flow"):
            found += some(MOVED, LARGE, 2, 4, 8, carry=f"warp({motion})")
            found += some(BOTH, LARGE, 6, 12, carry=f"interpolate({motion})")
        for finer in ("flow, scale=0.25", "flow, sparse=True", "codec, scale=0.25"):
            found += some(MOVED, LARGE, 2, 4, 8, carry=f"warp({finer})")
        return found
    found = [*some(HELD, LARGE, 2, 4), *some(MOVED, LARGE, 2, 4, 8, *CLOCKS), *some(BOTH, LARGE, 3, 6, 12)]
    return [*whole(f"{LARGE} 1/2", STREET, INT8), *some(PAPER, LARGE, *PAPERS), *found]


def part(name: str, asked: Namespace) -> Facts:
    """Run all ways of a part."""
    asked_ways = ways(name)
    nets = {network: _network(network, asked.threads) for network in {LARGE, *(way.network for way in asked_ways)}}
    uncut = {network: net.uncut() for network, net in nets.items()}
    runs = [
        (way.schedule, (uncut if way.family == EVERY else nets)[way.network], parse_schedule(way.schedule))
        for way in asked_ways
    ]
    with tempfile.TemporaryDirectory() as folder:
        clip = _clip(name, Path(folder), asked.limit)
        first, *rows = compared(nets[LARGE], runs, clip)
    found = [_facts(Way(EVERY, LARGE), first | {"time": 1.0})]
    found += [_facts(way, row) for way, row in zip(asked_ways, rows, strict=True)]
    return {"clip": clip.name, "frames": asked.limit, "ways": _kept(found)}


def _clip(part: str, folder: Path, limit: int) -> Any:
    if part in ("driving", "fixed-camera"):
        return video(DRIVING if part == "driving" else FIXED_CAMERA, limit)
    [clip] = camvid(limit=limit)
    return reencoded(clip, folder / "clip.mp4", STREAMS[part]) if part in STREAMS else clip


def _network(name: str, threads: int | None) -> StagedNetwork:
    """Load a network by its name here, such as "street-large 3/4" or "street bf16"."""
    base, *kinds = name.split()
    share = next((kind for kind in kinds if "/" in kind), "1/1")
    given, (over, under) = load(base, engine=None).sidecar.input, map(int, share.split("/"))
    options: Facts = {"engine": "openvino", "threads": threads, "precision": BF16 if BF16 in kinds else "f32"}
    options["size"] = (given.width * over // under, given.height * over // under)
    return load(base, **options)


def _facts(way: Way, row: Facts) -> Facts:
    keys = ("mean_iu", "flicker", "network_rate", "milliseconds")
    agreement = {"mean_iu": row["agreement"], "pixel_acc": row["pixels"]}
    told = {"base": way.base, "agreement": agreement, "relative_time": row["time"]}
    return {**way._asdict(), **told, **{key: row[key] for key in keys}}


def _kept(found: Sequence[Mapping[str, Any]]) -> list[Facts]:
    """Add the share of the same network's every-frame mean IU that is left; None without labels."""
    whole = {way["network"]: way["mean_iu"] for way in found if way["family"] == EVERY}
    return [
        {**way, "kept": way["mean_iu"] / whole[way["base"]] if way["mean_iu"] and whole.get(way["base"]) else None}
        for way in found
    ]


def sentences(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return, for each version of street-large, the cheapest way that keeps 99 % and the best in a third of the time."""
    told = []
    for name in (LARGE, f"{LARGE} {BF16}", LARGE_INT8):
        own = [way for way in found if way["network"] == name and way["family"] != EVERY]
        if good := [way for way in own if (way["kept"] or 0) >= 0.99]:
            told.append(f"{name}, cheapest that keeps 99 %: {_one(min(good, key=lambda way: way['relative_time']))}.")
        if cheap := [way for way in own if way["relative_time"] <= 0.33]:
            told.append(f"{name}, best in a third of the time: {_one(max(cheap, key=score))}.")
    return told


def _one(way: Mapping[str, Any]) -> str:
    kept = f", {percent(way['kept'])} kept" if way["kept"] else ""
    time = percent(way["relative_time"])
    return f"{way['network']} under `{way['schedule']}`, {time} of the time, {percent(score(way))}{kept}"


def pages(facts: Facts) -> dict[str, str]:
    """All parts on one page."""
    found = facts["parts"]
    blocks = ["\n".join(f"* {line}" for line in sentences(found["large"]["ways"]))] if "large" in found else []
    for part, one in found.items():
        best = frontier(one["ways"])
        head = ["network", "schedule", "network rate", "time", "mean IU", "kept", "agreement", "pixels", "flicker"]
        rows = [_cells(way, way in best) for way in one["ways"]]
        note = f"{one['frames']} frames, OpenVINO. Bold: on this table's frontier. {where(one)}"
        blocks += [f"### {PARTS[part]}", table(head, rows), note]
    return {"frontier": "\n\n".join(blocks)}


def write(facts: Facts) -> None:
    """Draw docs/figures/frontier."""
    found = facts["parts"]
    if {"large", "street"} <= found.keys():
        both = [way for part in ("large", "street") for way in found[part]["ways"]]
        draw(both, ROOT / "docs" / "figures" / "frontier.png")


def _cells(way: Mapping[str, Any], best: bool) -> list[str]:
    shares = [way["network_rate"], way["relative_time"], way["mean_iu"], way["kept"]]
    shares += [way["agreement"]["mean_iu"], way["agreement"]["pixel_acc"], way["flicker"]]
    cells = [f"**{percent(share)}**" if best else percent(share) for share in shares]
    return [way["network"], code(way["schedule"]), *cells]
