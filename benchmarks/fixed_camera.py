"""Why does a fixed camera not give 99.5 % of agreement at a fifth of the time?

    python benchmarks/fixed_camera.py [--docs]      results/fixed_camera.json and a table for docs/regions.md

Nothing is clocked here. The network runs on every frame, and its labels are compared with its own of some frames before, apart
where the picture stayed as it was (no pixel within 8 pixels differs by more than 12 grey levels) and where it changed. What
differs in the first is the network's own unrest over noise: whoever holds labels loses it, whatever the clock knows.
"""

from __future__ import annotations

import argparse
from itertools import islice
from typing import Any

import cv2
import numpy as np

from clockseg import load
from clockseg._types import Array
from clockseg.video import open_clip
from page import insert, table
from provenance import HERE, provenance, write_result
from shared_data import shared_data

VIDEO = "one-by-one-person-detection.mp4"
LEVEL, AROUND = 12, 8


def main() -> None:
    """Run, compare, write."""
    args = _arguments()
    frames = [
        frame.image for frame in islice(open_clip(shared_data("videos", VIDEO)), args.skip, args.skip + args.frames)
    ]
    rows: list[dict[str, Any]] = []
    for network in args.networks:
        net = load(network, engine="openvino")
        labels = [np.asarray(net(image)) for image in frames]
        rows += [{"network": network, **_compared(frames, labels, age)} for age in args.ages]
        print(rows[-len(args.ages) :])
    write_result("fixed_camera", {"frames": len(frames), "rows": rows})
    if args.docs:
        known = provenance()
        note = (
            f"{len(frames)} frames from frame {args.skip} on, OpenVINO f32, {known['date']}, commit {known['commit']}."
        )
        insert(HERE.parent / "docs" / "regions.md", "fixed-camera", f"{_table(rows)}\n\n{note}")


def _compared(frames: list[Array], labels: list[Array], age: int) -> dict[str, Any]:
    still = changed = still_off = changed_off = 0
    for before, now, old, new in zip(frames, frames[age:], labels, labels[age:], strict=False):
        same = ~_changed(before, now)
        off = old != new
        still, changed = still + int(same.sum()), changed + int((~same).sum())
        still_off, changed_off = still_off + int((off & same).sum()), changed_off + int((off & ~same).sum())
    all = still + changed
    return {
        "age": age,
        "agreement": round(1 - (still_off + changed_off) / all, 5),
        "still_share": round(still / all, 4),
        "lost_still": round(still_off / all, 5),
        "lost_changed": round(changed_off / all, 5),
    }


def _changed(before: Array, now: Array) -> Array:
    grey = [cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) for image in (before, now)]
    far = (cv2.absdiff(*grey) > LEVEL).astype(np.uint8)
    side = 2 * AROUND + 1
    return np.asarray(cv2.dilate(far, np.ones((side, side), np.uint8))).astype(bool)


def _table(rows: list[dict[str, Any]]) -> str:
    head = ["network", "labels of so many frames before", "agree with those of now"]
    head += ["picture still", "lost there", "lost elsewhere"]
    cells = [
        [f"`{one['network']}`", str(one["age"]), f"{one['agreement']:.2%}", f"{one['still_share']:.1%}",
         f"{one['lost_still']:.2%}", f"{one['lost_changed']:.2%}"]
        for one in rows
    ]  # fmt: skip
    return table([head, *cells])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=["street", "street-large"])
    parser.add_argument("--ages", type=int, nargs="+", default=[1, 2, 5])
    parser.add_argument("--skip", type=int, default=150, help="frames of the clip to leave out (default: 150)")
    parser.add_argument("--frames", type=int, default=200)
    parser.add_argument("--docs", action="store_true", help="put the table into docs/regions.md")
    return parser.parse_args()


if __name__ == "__main__":
    main()
