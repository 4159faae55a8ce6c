"""``clockseg export``: an FCN's checkpoint as an ONNX file with its sidecar."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from clockseg.cli._options import add_options, check_new_network, need, new_command, size
from clockseg.errors import UsageError

NETWORKS = ("fcn8s", "fcn16s", "fcn32s", "pool3", "pool4")
DESCRIPTION = """Write an imported or trained FCN as an ONNX file and its sidecar NAME.json.

CHECKPOINT is a NAME.safetensors from clockseg import or python -m recipes.fcn. The graph takes any height and width."""


def add_parser(commands: Any) -> None:
    """Add ``clockseg export`` and its options."""
    help = "write an imported or trained FCN as an ONNX file with its sidecar"
    parser = new_command(commands, "export", run, help=help, description=DESCRIPTION)
    parser.add_argument("network", choices=NETWORKS, metavar="NETWORK", help=", ".join(NETWORKS))
    parser.add_argument("checkpoint", metavar="CHECKPOINT", type=Path, help="NAME.safetensors")
    parser.add_argument("--out", required=True, metavar="FILE.onnx", type=Path, help="file to write")
    help = "working size for the sidecar (default: the checkpoint's)"
    parser.add_argument("--size", type=size, metavar="WIDTHxHEIGHT", help=help)
    add_options(parser, "--overwrite", help="replace existing FILE.onnx and FILE.json")


def run(args: argparse.Namespace) -> int:
    """Export, and print the paths that were written."""
    if isinstance(args.size, int):
        raise UsageError(f"--size {args.size}: give WIDTHxHEIGHT, such as 512x384.")
    check_new_network(args.out, overwrite=args.overwrite)
    need("safetensors", what="exporting")
    from clockseg.paper.export_fcn import export

    found = export(args.checkpoint, args.out, variant=args.network, size=args.size)
    print(f"{found} ({found.stat().st_size / 1e6:.1f} MB)\n{found.with_suffix('.json')}")
    return 0
