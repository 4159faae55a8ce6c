"""Measure the mean confidence of a network on its own validation data, and state it in the network's sidecar.

    python -m recipes.confidence src/clockseg/networks/weights/street.json DATA/camvid/val/*/images/*.jpg
    python -m recipes.confidence NAME.json PICTURES --write

Confidence is the largest class probability of a pixel; the mean is over all pixels of all pictures.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import cv2

from clockseg.clockwork.network import same
from clockseg.errors import DataError
from clockseg.graph import sidecar
from clockseg.networks.load import load
from clockseg.segmenting.figures import confidence_of


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and with ``--write`` write the sidecar."""
    parser = argparse.ArgumentParser(prog="python -m recipes.confidence", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("sidecar", type=Path, metavar="NAME.json")
    parser.add_argument("pictures", type=Path, nargs="+", metavar="PICTURE")
    parser.add_argument("--write", action="store_true", help="write the mean into the sidecar")
    args = parser.parse_args(argv)
    net = load(args.sidecar.with_suffix(".onnx"), engine="openvino")
    scores = replace(net, finish=net.fused, restore=same)
    found = []
    for path in args.pictures:
        image = cv2.imread(str(path))
        if image is None:
            raise DataError(f"{path} can't be decoded; give pictures.")
        found.append(confidence_of(scores(cv2.cvtColor(image, cv2.COLOR_BGR2RGB))))
    mean = round(sum(found) / len(found), 3)
    print(f"{net.name}: mean confidence {mean} on {len(found)} pictures, {min(found):.3f} to {max(found):.3f}")
    if args.write:
        sidecar.write(replace(sidecar.read(args.sidecar), confidence=mean), args.sidecar)
    return 0


if __name__ == "__main__":
    sys.exit(main())
