"""Store a network's weights in half precision, and compare its mIoU on labelled clips before and after.

    python -m recipes.street.half_precision street.onnx OUT.onnx CLIPS

Weights are widened when the network is loaded, so it computes in single precision as before. Prints mIoU on the clips for
both files, and the share of pixels with the same label.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from clockseg.datasets import read_data
from clockseg.evaluation.metrics import Confusion, confusion
from clockseg.networks.load import load

SMALLEST = 256
"""Weights of fewer numbers stay as they are: shifts, sizes, scales."""


def narrowed(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of ``model`` whose float32 weights are stored as float16, each with a cast behind it.

    A weight that holds numbers beyond what float16 can (65504) stays as it is.

    >>> weight = numpy_helper.from_array(np.full(300, 0.1, np.float32), "w")
    >>> ends = [helper.make_tensor_value_info(name, 1, [300]) for name in "xy"]
    >>> graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", ends[:1], ends[1:], [weight])
    >>> [node.op_type for node in narrowed(helper.make_model(graph)).graph.node]
    ['Cast', 'Add']
    """
    made = deepcopy(model)
    casts = []
    for weight in made.graph.initializer:
        if weight.data_type != TensorProto.FLOAT or np.prod(weight.dims) < SMALLEST:
            continue
        values = numpy_helper.to_array(weight)
        if np.abs(values).max() > np.finfo(np.float16).max:
            continue
        name = weight.name
        weight.CopyFrom(numpy_helper.from_array(values.astype(np.float16), f"{name}.half"))
        casts.append(helper.make_node("Cast", [f"{name}.half"], [name], name=f"{name}.cast", to=TensorProto.FLOAT))
    nodes = [*casts, *model.graph.node]
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    onnx.checker.check_model(made)
    return made


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
    classes = len(nets[0].sidecar.classes)
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
