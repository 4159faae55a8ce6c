"""How near is an imported FCN-8s to an independent importer's outputs? Per size and tensor, for docs/fcn8s.md.

The shared golden is a narrow FCN-8s in Caffe's formats with what another program computes with it. Here it is read by
``clockseg import``'s reader, and run in torch and, as the exported graph, in ONNX Runtime.

    python benchmarks/golden.py               results/golden.json and the table
    python benchmarks/golden.py --docs        the same, and the table into docs/fcn8s.md between its markers
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
import torch
from onnxruntime import InferenceSession

from clockseg.paper.export_fcn import to_onnx
from clockseg.paper.fcn import FCN
from clockseg.paper.import_caffe import Imported, import_caffe
from clockseg.types import Array
from page import insert, table
from provenance import HERE, provenance, write_result
from shared_data import shared_data

TENSORS = ("score", "score_pool4", "score_pool3", "upscore2")
WANTED = 1e-4


def main() -> None:
    """Compare, write, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", action="store_true", help="put the table into docs/fcn8s.md")
    args = parser.parse_args()
    folder = shared_data().parent / "goldens" / "fcn8s-tiny"
    imported, wanted = import_caffe(folder / "fcn8s-tiny.caffemodel"), dict(np.load(folder / "outputs.npz"))
    sizes = [name.removesuffix("/data") for name in wanted if name.endswith("/data")]
    errors = {engine: {size: compared(run(imported, wanted[f"{size}/data"]), wanted, size) for size in sizes}
              for engine, run in (("torch", in_torch), ("onnxruntime", in_onnxruntime))}  # fmt: skip
    path = write_result("golden", {"wanted": WANTED, "errors": errors})
    rows = [
        [engine, size, *(f"{errors[engine][size][name]:.1e}" for name in TENSORS)]
        for engine in errors
        for size in sizes
    ]
    made = provenance()
    where = f"{made['date']}, commit {made['commit']}. `python benchmarks/golden.py --docs`"
    text = f"{table([['run in', 'picture', *TENSORS], *rows])}\n\n{where}"
    print(text)
    if args.docs:
        insert(HERE.parent / "docs" / "fcn8s.md", "golden", text)
    print(f"{path.relative_to(HERE.parent)} written", file=sys.stderr)


def in_torch(imported: Imported, data: Array) -> dict[str, Array]:
    """The module's maps, by name."""
    net = FCN(imported.description.shape).eval()
    net.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in imported.state.items()})
    with torch.inference_mode():
        return {name: value.numpy() for name, value in net(torch.from_numpy(data))._asdict().items()}


def in_onnxruntime(imported: Imported, data: Array) -> dict[str, Array]:
    """The exported file's maps, by name."""
    model = to_onnx(imported.state, imported.description.shape)
    model.graph.output.extend([type(model.graph.output[0])(name=name) for name in TENSORS[1:]])
    session = InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip(TENSORS, session.run(list(TENSORS), {session.get_inputs()[0].name: data}), strict=True))


def compared(found: dict[str, Array], wanted: dict[str, Array], size: str) -> dict[str, float]:
    """Per tensor, the largest difference as a share of the largest value."""
    pairs = {name: (found[name], wanted[f"{size}/{name}"]) for name in TENSORS}
    return {name: float(np.abs(here - there).max() / np.abs(there).max()) for name, (here, there) in pairs.items()}


if __name__ == "__main__":
    main()
