"""Store a network's weights in half precision, and compare its mIoU on labelled clips before and after.

    python -m recipes.street.half_precision NETWORK.onnx OUT.onnx CLIPS

Weights are widened when the network is loaded, so it computes in single precision as before. Prints mIoU on every frame of
the clips for both files, and the share of pixels with the same label.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx

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
    args = parser.parse_args(argv)
    onnx.save(narrowed(onnx.load(args.network)), args.out)
    shutil.copyfile(args.network.with_suffix(".json"), args.out.with_suffix(".json"))
    nets = [load(file, engine="openvino", threads=1) for file in (args.network, args.out)]
    classes = len(nets[0].sidecar.classes) if nets[0].sidecar else 0
    totals, same, frames = [Confusion.none(classes)] * 2, 0.0, 0
    for clip in read_data(args.clips):
        for frame in clip:
            labels = [net(frame.image).copy() for net in nets]
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
