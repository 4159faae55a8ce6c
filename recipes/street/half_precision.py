"""Store a network's weights in half precision, and compare its mIoU on labelled clips before and after.

    python -m recipes.street.half_precision street.onnx OUT.onnx CLIPS
    python -m recipes.street.half_precision street-large-int8.onnx OUT.onnx CLIPS --prefix stale. \
        --schedule "carried(skip_frame(4), warp(flow))"

Weights are widened when the network is loaded, so it computes in single precision as before. Prints mIoU on the clips for
both files, and the share of pixels with the same label. With --prefix only the weights of that name are converted, such as
those of a correction.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx

from clockseg.clocks.spec import parse_schedule
from clockseg.clockwork.session import Session
from clockseg.datasets import read_data
from clockseg.evaluation.metrics import Confusion, confusion
from clockseg.graph.folding import narrowed
from clockseg.networks.load import load


def main(argv: Sequence[str] | None = None) -> int:
    """Convert the network, print the comparison, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m recipes.street.half_precision", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("network", type=Path, metavar="NETWORK.onnx")
    parser.add_argument("out", type=Path, metavar="OUT.onnx")
    parser.add_argument("clips", type=Path, metavar="CLIPS", help="labelled clips, such as CamVid's val split")
    parser.add_argument("--prefix", default="", metavar="TEXT", help="convert weights whose names begin with this")
    parser.add_argument(
        "--schedule", default="frame_oracle", metavar="SPEC", help="default: every stage on every frame"
    )
    args = parser.parse_args(argv)
    onnx.save(narrowed(onnx.load(args.network), prefix=args.prefix), args.out)
    shutil.copyfile(args.network.with_suffix(".json"), args.out.with_suffix(".json"))
    nets = [load(file, engine="openvino", threads=1) for file in (args.network, args.out)]
    classes, schedule = len(nets[0].sidecar.classes), parse_schedule(args.schedule)
    totals, same, frames = [Confusion.none(classes)] * 2, 0.0, 0
    for clip in read_data(args.clips):
        sessions = [Session(net, schedule) for net in nets]
        for frame in clip:
            labels = [session(frame.image).copy() for session in sessions]
            same, frames = same + float(np.mean(labels[0] == labels[1])), frames + 1
            if frame.labels is not None:
                totals = [
                    total + confusion(frame.labels, found, classes) for total, found in zip(totals, labels, strict=True)
                ]
    before, after = (100 * total.mean_iu for total in totals)
    print(f"{args.network.name}: mIoU {before:.2f}, in half precision {after:.2f} ({after - before:+.2f}); ", end="")
    print(f"{100 * same / frames:.2f} % of pixels have the same label; {frames} frames")
    print(f"{args.network.stat().st_size / 1e6:.1f} MB, now {args.out.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
