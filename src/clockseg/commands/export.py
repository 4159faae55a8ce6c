"""``clockseg export street``: from a training's checkpoint to the ONNX file and sidecar that everything else reads."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from clockseg._errors import UsageError
from clockseg.commands._options import need_torch, size

DESCRIPTION = """Write a trained network as one ONNX file and its sidecar NAME.json.

CHECKPOINT is DIR/street.safetensors of `clockseg train street`. The graph is checked against the module it came from
before it is written."""


def add_parser(subparsers: Any) -> None:
    """``clockseg export`` and its options."""
    parser = subparsers.add_parser(
        "export",
        help="write a trained network as ONNX and sidecar",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("network", choices=("street",), help="which network")
    parser.add_argument("checkpoint", metavar="CHECKPOINT", type=Path, help="street.safetensors of a training")
    parser.add_argument("--out", required=True, metavar="FILE.onnx", type=Path, help="the file to write")
    parser.add_argument(
        "--size", type=size, metavar="WIDTHxHEIGHT", help="working size to state (default: the one it was trained for)"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace FILE.onnx and FILE.json if they are there")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Export, and print what was written."""
    need_torch("exporting")
    from clockseg.networks.export_street import export

    if args.out.suffix != ".onnx":
        raise UsageError(f"--out {args.out}: give a name that ends in .onnx.")
    if isinstance(args.size, int):
        raise UsageError(f"--size {args.size}: give WIDTHxHEIGHT, such as 512x384.")
    there = [file for file in (args.out, args.out.with_suffix(".json")) if file.exists()]
    if there and not args.overwrite:
        raise UsageError(f"{there[0]} is there already; give --overwrite to replace it, or another name.")
    found = export(args.checkpoint, args.out, size=args.size)
    print(f"{found} ({found.stat().st_size / 1e6:.1f} MB)\n{found.with_suffix('.json')}")
    return 0
