"""Accuracy that a video can be segmented with in which time: a big network on a clock against a small one on every frame.

Five parts: `street-large` and `street` on CamVid's clip with human labels, the same clip as P-only H.264, a driving video
and one of a fixed camera. All ways of a part and every-frame `street-large`, to which time is relative, see each frame
before any sees the next. ``--parts large --write`` measures one part
and keeps the others' stored figures.
"""

from __future__ import annotations

import json
import tempfile
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.frontier_figure import draw
from benchmarks.harness import RESULTS, ROOT, Facts, code, percent, provenance, say, table, where
from benchmarks.inputs import DRIVING, FIXED_CAMERA, camvid, reencoded, video, without_correction
from benchmarks.measuring import compared
from clockseg import UsageError, load, parse_schedule
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import check, schedule_for

PARTS = ["large", "street", "codec", "driving", "fixed-camera"]
OPTIONS = {"parts": PARTS, "threads": None, "limit": 120}
LARGE, LARGE_INT8, STREET, INT8 = "street-large", "street-large-int8", "street", "street-int8"
BF16, CORRECTED = "bf16", "corrected"
EVERY, PAPER, HELD, MOVED, MENDED, BOTH = (
    *("every frame", "the paper's schedules", "held as it was", "moved along", "moved and corrected", "both sides"),
)
CORRECTED_FILES = {STREET: "street-stale"}
"""Networks whose correction ships in another file."""
CLOCKS = (
    "either(motion_residual(0.10), at_least_every(12))",
    "either(motion_residual(0.13), at_least_every(12))",
    "budget(motion_residual, network_rate=0.25, cap=12)",
)
TITLES = {
    "large": "CamVid val, human labels: `street-large`",
    "street": "CamVid val, human labels: `street`",
    "codec": "CamVid val as P-only H.264 (x264, CRF 23): the codec's vectors beside flow",
    "driving": "Driving video: agreement with every-frame `street-large`",
    "fixed-camera": "Fixed-camera video: agreement with every-frame `street-large`",
}


class Way(NamedTuple):
    """One point: a family, a network ("street-large 3/4", "street bf16 corrected"), and a schedule as text."""

    family: str
    network: str
    schedule: str = "frame_oracle"

    @property
    def base(self) -> str:
        """The network that "kept" is relative to, on every frame and at its own size."""
        return self.network.split()[0].removesuffix("-int8")


def rates(*periods: int) -> list[str]:
    """Return the whole network on every n-th frame."""
    return [f"skip_frame({n})" for n in periods]


def moved(network: str, schedules: Sequence[str], carry: str = "warp(flow)", family: str = MOVED) -> list[Way]:
    """Return each schedule under a carry."""
    return [Way(family, network, f"carried({schedule}, {carry})") for schedule in schedules]


def mended(network: str, *periods: int, clocks: Sequence[str] = (), carry: str = "warp(flow)") -> list[Way]:
    """Return the network with its correction at these periods and on these clocks."""
    return moved(f"{network} {CORRECTED}", [*rates(*periods), *clocks], carry, MENDED)


def both(network: str, *periods: int, motion: str = "flow") -> list[Way]:
    """Return the network at these periods, with the frames between made from the key frames on both sides."""
    return moved(network, rates(*periods), f"interpolate({motion})", BOTH)


def ways(part: str) -> list[Way]:
    """Return the ways of a part."""
    paper = ("alternating", "adaptive(0.15)")
    if part == "large":
        fewer_bits = [
            way
            for name in (f"{LARGE} {BF16}", LARGE_INT8)
            for way in (
                Way(EVERY, name),
                *moved(name, rates(2, 3, 4, 8)),
                *mended(name, 2, 4, 8),
                *both(name, 2, 3, 4, 6, 8, 12),
            )
        ]
        return [
            *(Way(EVERY, f"{LARGE} {share}") for share in ("3/4", "1/2")),
            *(Way(PAPER, LARGE, schedule) for schedule in paper),
            *(Way(HELD, LARGE, schedule) for schedule in rates(2, 3, 4, 8)),
            *moved(LARGE, [*rates(2, 3, 4, 6, 8, 12), *CLOCKS]),
            *moved(f"{LARGE} 3/4", rates(2, 4)),
            *both(LARGE, 1, 2, 3, 4, 6, 8, 12),
            *mended(LARGE, 2, 3, 4, 6, 8, 12, clocks=CLOCKS),
            *mended(LARGE, 4, 8, 12, carry="warp(flow, scale=0.75)"),
            *fewer_bits,
        ]
    if part == "street":
        return [
            *(Way(EVERY, f"{STREET}{share}") for share in ("", " 3/4", " 1/2")),
            *(Way(PAPER, STREET, schedule) for schedule in paper),
            *(Way(HELD, STREET, schedule) for schedule in rates(2, 4)),
            *moved(STREET, [*rates(2, 4, 8), *CLOCKS[1:]]),
            *mended(STREET, 2, 4, 8, 12, clocks=CLOCKS[1:]),
            *both(STREET, 1, 2, 4, 6, 12),
            Way(EVERY, INT8),
            Way(HELD, INT8, "skip_frame(2)"),
            *moved(INT8, rates(2, 4)),
            *both(INT8, 2, 4, 6, 12),
        ]
    if part == "codec":
        warps = ("warp(codec)", "warp(flow)")
        carried = [way for carry in warps for way in moved(LARGE, rates(2, 4, 8), carry)]
        corrected = [way for carry in warps for way in mended(LARGE, 4, 8, carry=carry)]
        from_both = [way for motion in ("codec", "flow") for way in both(LARGE, 6, 12, motion=motion)]
        return [Way(EVERY, STREET), *carried, *corrected, *from_both]
    return [
        *(Way(EVERY, name) for name in (f"{LARGE} 1/2", STREET, INT8)),
        *(Way(PAPER, LARGE, schedule) for schedule in paper),
        *(Way(HELD, LARGE, schedule) for schedule in rates(2, 4)),
        *moved(LARGE, [*rates(2, 4, 8), *CLOCKS]),
        *mended(LARGE, 4, 8, clocks=CLOCKS[1:]),
        *both(LARGE, 3, 6, 12),
    ]


def measure(asked: Namespace) -> Facts:
    """Measure the parts asked for; the stored figures of the others stay."""
    stored = RESULTS / "frontier.json"
    known = json.loads(stored.read_text())["parts"] if stored.exists() else {}
    for part in asked.parts:
        say(part)
        known[part] = {"provenance": provenance(), "part": part, **_measured(part, asked)}
    return {"parts": {part: known[part] for part in PARTS if part in known}}


def _measured(part: str, asked: Namespace) -> Facts:
    named = _networks(asked.threads)
    runnable, left_out = _runnable(ways(part), named)
    for sentence in left_out:
        say(f"left out: {sentence}")
    with tempfile.TemporaryDirectory() as folder:
        clip = _clip(part, Path(folder), asked.limit)
        first, *rows = compared(named(LARGE), [(way.schedule, net, one) for way, net, one in runnable], clip)
    found = [_facts(Way(EVERY, LARGE), first | {"time": 1.0})]
    found += [_facts(way, row) for (way, _, _), row in zip(runnable, rows, strict=True)]
    return {"clip": clip.name, "frames": asked.limit, "left_out": left_out, "ways": _kept(found)}


def _clip(part: str, folder: Path, limit: int) -> Any:
    if part in ("driving", "fixed-camera"):
        return video(DRIVING if part == "driving" else FIXED_CAMERA, limit)
    [clip] = camvid(limit=limit)
    return reencoded(clip, folder / "p-only.mp4") if part == "codec" else clip


def _networks(threads: int | None) -> Callable[[str], StagedNetwork]:
    """Return what loads a network by its name here, each once."""

    @cache
    def named(name: str) -> StagedNetwork:
        base, *kinds = name.split()
        file = CORRECTED_FILES.get(base, base) if CORRECTED in kinds else base
        share = next((kind for kind in kinds if "/" in kind), "1/1")
        given, (over, under) = load(file, engine=None).sidecar.input, map(int, share.split("/"))
        size = (given.width * over // under, given.height * over // under)
        options: Facts = {"engine": "openvino", "threads": threads, "size": size}
        options["precision"] = BF16 if BF16 in kinds else "f32"
        if CORRECTED not in kinds:
            return without_correction(file, **options)
        net = load(file, **options)
        if net.correction is None:
            raise UsageError(f"network {file} has no correction.")
        return net

    return named


def _runnable(asked: Sequence[Way], named: Callable[[str], StagedNetwork]) -> tuple[list[Any], list[str]]:
    """Return (way, network, schedule) of those that can run, and of the others the reason."""
    rows, left_out = [], []
    for way in asked:
        try:
            net = named(way.network)
            net = net.uncut() if way.family == EVERY else net
            schedule = schedule_for(parse_schedule(way.schedule), len(net))
            check(net, schedule)
            rows.append((way, net, schedule))
        except UsageError as error:
            left_out.append(f"{way.network}, {way.schedule}: {error}")
    return rows, left_out


def _facts(way: Way, row: Facts) -> Facts:
    keys = ("mean_iu", "flicker", "network_rate", "milliseconds")
    return {
        **way._asdict(),
        "base": way.base,
        "agreement": {"mean_iu": row["agreement"], "pixel_acc": row["pixels"]},
        "relative_time": row["time"],
        **{key: row[key] for key in keys},
    }


def _kept(found: Sequence[Mapping[str, Any]]) -> list[Facts]:
    """Add the share of the same network's every-frame mean IU that is left; None without labels."""
    whole = {way["network"]: way["mean_iu"] for way in found if way["family"] == EVERY}
    return [
        {**way, "kept": way["mean_iu"] / whole[way["base"]] if way["mean_iu"] and whole.get(way["base"]) else None}
        for way in found
    ]


def score(way: Mapping[str, Any]) -> float:
    """Return the mean IU against human labels where there are any, else against every-frame street-large."""
    found: float = way["agreement"]["mean_iu"] if way["mean_iu"] is None else way["mean_iu"]
    return found


def frontier(found: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return those that no other beats in both, by time."""
    best: list[Mapping[str, Any]] = []
    for way in sorted(found, key=lambda one: (one["relative_time"], -score(one))):
        if not best or score(way) > score(best[-1]):
            best.append(way)
    return best


def sentences(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return, for each version of street-large, the cheapest way that keeps 99 % and the best in a third of the time."""
    told = []
    for name in (LARGE, f"{LARGE} {BF16}", LARGE_INT8):
        own = [way for way in found if way["network"] in (name, f"{name} {CORRECTED}") and way["family"] != EVERY]
        good = [way for way in own if (way["kept"] or 0) >= 0.99]
        cheap = [way for way in own if way["relative_time"] <= 0.33]
        if good:
            told.append(f"{name}, cheapest that keeps 99 %: {_one(min(good, key=lambda way: way['relative_time']))}.")
        if cheap:
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
        blocks += [f"### {TITLES[part]}", table(head, rows), note]
    return {"frontier": "\n\n".join(blocks)}


def write(facts: Facts) -> None:
    """Draw docs/figures/frontier."""
    found = facts["parts"]
    if {"large", "street"} <= found.keys():
        draw(
            [way for part in ("large", "street") for way in found[part]["ways"]], ROOT / "docs" / "figures" / "frontier"
        )


def _cells(way: Mapping[str, Any], best: bool) -> list[str]:
    shares = [way["network_rate"], way["relative_time"], way["mean_iu"], way["kept"]]
    shares += [way["agreement"]["mean_iu"], way["agreement"]["pixel_acc"], way["flicker"]]
    cells = [f"**{percent(share)}**" if best else percent(share) for share in shares]
    return [way["network"], code(way["schedule"]), *cells]
