"""``clockseg export``: from a checkpoint to the ONNX file and sidecar that everything else reads."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clockseg.cli._options import check_new_network, need, need_torch, size
from clockseg.cli.train_fcn import NETWORKS
from clockseg.errors import UsageError

if TYPE_CHECKING:
    from clockseg.types import Size

DESCRIPTION = """Write a trained or imported network as one ONNX file and its sidecar NAME.json.

CHECKPOINT is what `clockseg train` or `clockseg import` wrote, NAME.safetensors. A `street` is traced, and the graph
checked against it before it is written; an FCN's graph is written layer by layer, at any height and width."""


def add_parser(subparsers: Any) -> None:
    """``clockseg export`` and its options."""
    parser = subparsers.add_parser(
        "export",
        help="write a trained network as ONNX and sidecar",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "network", choices=("street", *NETWORKS), metavar="NETWORK", help=f"street, {', '.join(NETWORKS)}"
    )
    parser.add_argument(
        "checkpoint", metavar="CHECKPOINT", type=Path, help="NAME.safetensors of a training or an import"
    )
    parser.add_argument("--out", required=True, metavar="FILE.onnx", type=Path, help="the file to write")
    parser.add_argument(
        "--size", type=size, metavar="WIDTHxHEIGHT", help="working size to state (default: the one it was trained for)"
    )
    parser.add_argument("--half", action="store_true", help="of street: weights in 16 bits, in half the bytes")
    parser.add_argument("--overwrite", action="store_true", help="replace FILE.onnx and FILE.json if they are there")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Export, and print what was written."""
    if isinstance(args.size, int):
        raise UsageError(f"--size {args.size}: give WIDTHxHEIGHT, such as 512x384.")
    check_new_network(args.out, overwrite=args.overwrite)
    export = _street if args.network == "street" else _fcn
    if args.half and args.network != "street":
        raise UsageError(f"--half of {args.network}; only street is exported in half: leave it out.")
    found = export(args.network, args.checkpoint, args.out, args.size, args.half)
    print(f"{found} ({found.stat().st_size / 1e6:.1f} MB)\n{found.with_suffix('.json')}")
    return 0


def _street(network: str, checkpoint: Path, out: Path, size: Size | None, half: bool) -> Path:
    need_torch("exporting")
    from clockseg.networks.export_street import export

    return export(checkpoint, out, size=size, half=half)


def _fcn(network: str, checkpoint: Path, out: Path, size: Size | None, half: bool) -> Path:
    need("safetensors", what="exporting")
    from clockseg.paper.export_fcn import export

    return export(checkpoint, out, variant=network, size=size)
