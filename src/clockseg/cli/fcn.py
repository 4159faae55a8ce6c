"""``clockseg import``: the paper's networks, from Caffe's weights to ONNX."""

from __future__ import annotations

import argparse
from pathlib import Path

from clockseg.cli.options import add_new_network_options, check_new_network, size, three
from clockseg.cli.terminal import say

HELP = "convert the paper's weights from Caffe's format"
DESCRIPTION = """Read an FCN's weights from CAFFEMODEL, without Caffe, and write NAME.onnx and its sidecar NAME.json.

The architecture, its width and its classes are recognized from the layers, and each name and shape is checked. Layer names
of 2014 and full interpolation matrices are converted, and the meaningless 20th class of older networks for Cityscapes is
dropped. Networks trained at once scale pool4 and pool3 by constant factors, which are folded into the weights. If the file does
not have them as layers, give --at-once. The network takes frames of any height and width."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``clockseg import``."""
    parser.add_argument("source", metavar="CAFFEMODEL", type=Path, help="weights as Caffe saved them, NAME.caffemodel")
    add_new_network_options(parser)
    help = "names of the classes; FILE.json is a data set's classes.json (default: by the number of classes)"
    parser.add_argument("--labels", metavar="voc|nyud|cityscapes|FILE.json", help=help)
    help = "mean of the training images (default: that of --labels)"
    parser.add_argument("--mean", type=_mean, metavar="B,G,R", help=help)
    help = "the network was trained with factors .01 and .0001 on pool4 and pool3, which are not in the file"
    parser.add_argument("--at-once", action="store_true", help=help)
    parser.add_argument("--half", action="store_true", help="write 16-bit weights, half the size")
    help = "working size for the sidecar (default: that of the data set, or 500x500)"
    parser.add_argument("--size", type=size, metavar="WIDTHxHEIGHT", help=help)


def run(args: argparse.Namespace) -> int:
    """Import, and print the findings and repairs."""
    from clockseg.paper.caffe import import_caffe
    from clockseg.paper.fcn import write_fcn

    check_new_network(args.out, overwrite=args.overwrite)
    found = import_caffe(args.source, labels=args.labels, mean=args.mean, at_once=args.at_once)
    for note in found.notes:
        say(f"note: {note}")
    write_fcn(found.state, found.description, args.out, half=args.half, size=args.size)
    shape, classes = found.description.shape, found.description.classes.names
    weights = sum(value.size for value in found.state.values())
    print(f"{args.out} ({args.out.stat().st_size / 1e6:.1f} MB)\n{args.out.with_suffix('.json')}")
    print(f"{shape.variant}, {len(classes)} classes ({classes[0]} .. {classes[-1]}), {weights:,} weights")
    return 0


def _mean(text: str) -> tuple[float, float, float]:
    mean = three(text)
    if not all(0 <= value <= 255 for value in mean):
        raise argparse.ArgumentTypeError(f"{text!r}: a mean of pixels is 0 to 255, for blue, green and red")
    return mean
