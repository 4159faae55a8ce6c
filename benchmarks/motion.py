"""How much accuracy is left when labels move with the picture, by optical flow or by the codec's own vectors, and at what cost?

python benchmarks/motion.py            the CamVid val clip as H.264 without and with B-frames (results/motion.json); 2 minutes
python benchmarks/motion.py --docs     after that: the table in docs/motion.md
    --limit N                          a smoke run on so many frames; writes nothing

Kept: mean IU (human labels) over that of the same network on every frame of the same decoded video. Costs are over those of
flow at the default scale, on one thread, each frame through all ways before the next.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2

from clockseg.carry import Codec, Flow, Warp, identity
from clockseg.clockwork.schedule import carried, skip_frame
from clockseg.datasets import read_data
from clockseg.evaluation.labels import evaluate
from clockseg.networks.load import load
from clockseg.video import Frame, open_clip
from page import insert, table
from provenance import HERE, RESULTS, write_result
from reencoded import P_ONLY, reencoded
from shared_data import shared_data

PAGE = HERE.parent / "docs" / "motion.md"
STREAMS: Mapping[str, Mapping[str, str]] = {"P-frames only": P_ONLY, "x264's defaults, B-frames": {"crf": "23"}}
CARRIES = [identity, *(Warp(kind) for kind in (Flow(), Flow(0.25), Flow(fine=True), Codec(), Codec(0.25)))]
PERIODS = (2, 4, 8)
GOALS = {"P-frames only": {2: 0.996, 4: 0.989, 8: 0.965}}
WITHIN = 0.01
"""Of flow, with B-frames."""
ROUNDS = 3


def main() -> None:
    """Measure and write, or fill in the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", action="store_true")
    parser.add_argument("--limit", type=int)
    args = parser.parse_args()
    if args.docs:
        insert(PAGE, "motion", text(json.loads((RESULTS / "motion.json").read_text())))
        return
    facts = {"streams": [measured(name, args.limit) for name in STREAMS]}
    print(text(facts))
    print("\n".join(goals(facts)))
    if args.limit is None:
        write_result("motion", facts)


def measured(name: str, limit: int | None) -> dict[str, Any]:
    """Every carry on one stream."""
    cv2.setNumThreads(1)
    net = load("street", engine="openvino")
    [clip] = read_data(shared_data("camvid", "val"), limit=limit)
    ways = {f"{carry} {n}": carried(skip_frame(n), carry) for carry in CARRIES for n in PERIODS}
    with tempfile.TemporaryDirectory() as folder:
        video = reencoded(clip, Path(folder) / "clip.mp4", options=STREAMS[name])
        found = evaluate(net, ways, [video], boundary=False)  # type: ignore[list-item]
        decoding, motion = _decoding(video.path), _motion(video.path)
    rows = [
        {"carry": str(carry), "kept": {n: found[index * len(PERIODS) + i].kept for i, n in enumerate(PERIODS)}}
        for index, carry in enumerate(CARRIES)
    ]
    whole = found[0].uncut.seconds_per_frame or 0.0
    for row in rows:
        row |= {"ms": motion.get(row["carry"]), "over_network": motion.get(row["carry"], 0.0) / (1000 * whole)}
    return {"stream": name, "mean_iu": found[0].oracle.mean_iu, "decoding_ms": decoding, "ways": rows}


def _motion(path: Path) -> dict[str, float]:
    """Milliseconds a frame of finding motion and composing it, the least of some rounds."""
    frames = list(open_clip(path, vectors=True))
    warps = [carry for carry in CARRIES if isinstance(carry, Warp)]
    best = dict.fromkeys(map(str, warps), float("inf"))
    for _ in range(ROUNDS):
        for name, seconds in _once(frames, warps).items():
            best[name] = min(best[name], 1000 * seconds / (len(frames) - 1))
    return best


def _once(frames: Sequence[Frame], warps: Sequence[Warp]) -> dict[str, float]:
    took = dict.fromkeys(map(str, warps), 0.0)
    sights: dict[str, Any] = {}
    travels: dict[str, Any] = {}
    for frame in frames:
        for warp in warps:
            name, start = str(warp), time.perf_counter()
            now = warp.see(None, frame.image, frame.vectors)
            if name in sights:
                travels[name] = warp.compose(travels.get(name), warp.observe(sights[name], now))
                took[name] += time.perf_counter() - start
            sights[name] = now
            if frame.index % PERIODS[-1] == 0:
                travels.pop(name, None)
    return took


def _decoding(path: Path) -> dict[str, float]:
    """Milliseconds a frame without and with vectors asked for, the least of some rounds."""
    best = {"without": float("inf"), "with": float("inf")}
    for _ in range(ROUNDS):
        for name in best:
            seconds = [frame.decode_seconds for frame in open_clip(path, vectors=name == "with")]
            best[name] = min(best[name], 1000 * sum(seconds) / len(seconds))
    return best


def text(facts: Mapping[str, Any]) -> str:
    """A table for each stream."""
    return "\n\n".join(_text(stream) for stream in facts["streams"])


def _text(stream: Mapping[str, Any]) -> str:
    flow = next(row["ms"] for row in stream["ways"] if row["carry"] == "warp(flow)")
    head = ["carry", *(f"1/{n}" for n in PERIODS), "motion, over flow's", "over the network's time"]
    rows = [head]
    for row in stream["ways"]:
        kept = [f"{100 * share:.1f} %" for share in row["kept"].values()]
        cost = ["0", "0"] if row["ms"] is None else [f"{row['ms'] / flow:.2f}", f"{100 * row['over_network']:.0f} %"]
        rows.append([f"`{row['carry']}`", *kept, *cost])
    decoding = stream["decoding_ms"]["with"] / stream["decoding_ms"]["without"]
    title = (
        f"**{stream['stream']}** (every frame: mean IU {100 * stream['mean_iu']:.1f} %; decoding with vectors takes "
    )
    return f"{title}{decoding:.2f} times as long as without)\n\n{table(rows)}"


def goals(facts: Mapping[str, Any]) -> list[str]:
    """Whether what was aimed at was reached, a line each."""
    told = []
    for stream in facts["streams"]:
        kept = {row["carry"]: row["kept"] for row in stream["ways"]}
        for n, share in kept["warp(codec)"].items():
            least = GOALS.get(stream["stream"], {}).get(n, kept["warp(flow)"][n] - WITHIN)
            told.append(
                f"{stream['stream']}, 1/{n}: {100 * share:.2f} %, aimed at {100 * least:.2f}: "
                f"{'reached' if share >= least else 'missed'}"
            )
    return told


if __name__ == "__main__":
    main()
