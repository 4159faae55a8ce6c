"""Look and size of the overlay against the way it was made before: blended in RGB, and encoded by x264's preset veryfast.

`segment` draws masks on the planes that the decoder gave and encodes them in x264's fastest preset. Labels are those of
`labels.mkv`; what stands below the picture is taken from the overlay itself. PSNR is of all pixels of the picture, in RGB.
"""

from __future__ import annotations

import tempfile
from argparse import Namespace
from pathlib import Path

import numpy as np

from benchmarks.harness import Facts, figure, listing, say, share
from benchmarks.inputs import DRIVING, FIXED_CAMERA, data
from clockseg import load, parse_schedule, segment
from clockseg.types import Array
from clockseg.video import OverlayWriter, open_clip, overlay, read_labels

OPTIONS = {"limit": 120}
RUNS = (("scene", DRIVING), ("scene", FIXED_CAMERA), ("street", DRIVING))
SCHEDULE = "carried(skip_frame(6), interpolate(flow))"
BEFORE = {"preset": "veryfast", "crf": "23"}
LEAST_PSNR, MOST_SIZE = 38.0, 1.15


def measure(asked: Namespace) -> Facts:
    """Measure each network on the videos that it is for."""
    rows: list[Facts] = []
    for network, name in RUNS:
        say(f"{network}, {name}")
        with tempfile.TemporaryDirectory() as folder:
            found = _compared(network, data("videos", name), Path(folder), asked.limit)
            rows.append({"network": network, "video": name} | found)
    passed = all(row["psnr"] >= LEAST_PSNR and row["size"] <= MOST_SIZE for row in rows)
    return {"rows": rows, "passed": passed}


def _compared(network: str, video: Path, folder: Path, limit: int) -> Facts:
    """Return the PSNR between both overlays, that of each against the picture that was to be drawn, and the share of bytes."""
    net = load(network, engine="openvino")
    segment(video, folder / "new", net, parse_schedule(SCHEDULE), limit=limit, write=("labels", "overlay"))
    new, old = folder / "new" / "overlay.mp4", folder / "old.mp4"
    labels = read_labels(folder / "new" / "labels.mkv")
    with OverlayWriter(old, fps=open_clip(video).fps, options=BEFORE) as writer:
        for frame, ids, shown in zip(open_clip(video), labels, open_clip(new), strict=False):
            below = shown.image[frame.size[1] :]
            drawn = overlay(frame.image, ids, net.sidecar.palette)
            writer.append(np.concatenate([drawn, below]), frame.pts_seconds)
    errors: list[tuple[float, ...]] = []
    labels = read_labels(folder / "new" / "labels.mkv")
    for frame, ids, one, other in zip(open_clip(video), labels, open_clip(new), open_clip(old), strict=False):
        wanted = overlay(frame.image, ids, net.sidecar.palette)
        now, before = (shown.image[: frame.size[1]] for shown in (one, other))
        errors.append((_error(now, before), _error(now, wanted), _error(before, wanted)))
    found = dict(zip(("psnr", "now", "before"), 10 * np.log10(255**2 / np.mean(errors, axis=0)), strict=True))
    found["size"] = new.stat().st_size / old.stat().st_size
    return {"frames": len(errors), **{name: round(float(value), 3) for name, value in found.items()}}


def _error(one: Array, other: Array) -> float:
    return float(np.square(one.astype(np.float32) - other).mean())


def pages(facts: Facts) -> dict[str, str]:
    """One table."""
    columns: Facts = {
        "network": lambda row: f"`{row['network']}`",
        "video": "video",
        "PSNR, both ways, dB": figure("psnr"),
    }
    columns |= {"now, against what was to be drawn": figure("now"), "before": figure("before")}
    return {"overlay": listing(facts["rows"], columns | {"bytes of before": share("size")})}
