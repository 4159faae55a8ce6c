"""``clockseg inspect``: what a network is made of, and what each part costs here."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from clockseg.cli._options import add_engine_options, positive
from clockseg.cli._table import align
from clockseg.cli._units import count, in_bytes, sides
from clockseg.errors import UsageError

if TYPE_CHECKING:
    from clockseg.networks.inspection import Inspected, Inspection


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``inspect`` and its options."""
    parser = commands.add_parser(
        "inspect",
        help="show a network's stages, cuts and groups, and what each costs here",
        description="Show a network's stages, cuts and fuse groups: parameters, multiply-adds, what is held, and the "
        "time of each part measured on this machine, beside the uncut network. With --cuts, or of an ONNX file without a "
        "sidecar: where it can be cut.",
    )
    parser.add_argument(
        "network",
        nargs="?",
        default="street",
        metavar="NETWORK",
        help="a bundled network (street, street-stride8, street-stride16, fcn8s-narrow, street-int8), an ONNX file with its "
        "sidecar beside it, or an FCN checkpoint .safetensors (default: street)",
    )
    add_engine_options(parser.add_argument_group("network"))
    parser.add_argument("--repeat", type=positive, default=30, metavar="N", help="runs to time (default: 30)")
    group = parser.add_argument_group("where it can be cut")
    group.add_argument("--cuts", action="store_true", help="list the candidates, and which --at auto would choose")
    group.add_argument("--output", metavar="NAME", help="of --cuts: the tensor that all is for (default: its output)")
    group.add_argument("--stages", type=positive, metavar="N", help="of --cuts: how many to choose (default: 3)")
    parser.add_argument("--json", action="store_true", help="print JSON, nothing else")
    parser.add_argument(
        "--clear-cache",
        action="store_true",
        help="first delete all compiled networks from the cache on disk, which CLOCKSEG_CACHE_BYTES limits (default: 1 GB)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Inspect the network and print what was found."""
    from clockseg.networks.inspection import inspect

    if args.clear_cache:
        _clear(quiet=args.json)
    if args.cuts or _is_bare(args.network):
        return _run_cuts(args)
    if args.output or args.stages:
        raise UsageError("--output and --stages are for --cuts; add it.")
    found = inspect(
        args.network,
        engine=args.engine,
        precision=args.precision,
        threads=args.threads,
        size=args.size,
        repeat=args.repeat,
    )
    print(json.dumps(found.to_json(), indent=1) if args.json else text(found))
    return 0


def _is_bare(network: str) -> bool:
    """Whether it is an ONNX file that has no sidecar: then there is nothing to show but where it can be cut."""
    path = Path(network)
    return path.suffix == ".onnx" and path.is_file() and not path.with_suffix(".json").exists()


def _run_cuts(args: argparse.Namespace) -> int:
    from clockseg.cli._candidates import text as told
    from clockseg.networks.cut_candidates import inspect_cuts

    found = inspect_cuts(
        args.network,
        output=args.output,
        size=args.size,
        stages=args.stages or 3,
        precision=args.precision,
        threads=args.threads,
        repeat=args.repeat,
    )
    print(json.dumps(found.to_json(), indent=1) if args.json else told(found))
    return 0


def _clear(*, quiet: bool) -> None:
    from clockseg.engines import clear_cache

    freed = clear_cache()
    if not quiet:
        print(f"cleared the cache of compiled networks: {in_bytes(freed)}\n")


def text(found: Inspection) -> str:
    """What was found as a table to read."""
    width, height = found.size
    head = (
        f"{found.network}: {sum(part.kind == 'stage' for part in found.parts)} stages, {len(found.classes)} classes; "
        f"{width}x{height}, {found.engine} {found.precision}, threads: {found.threads}"
    )
    rows: list[tuple[str, ...]] = [("part", "reads", "parameters", "multiply-adds", "held", "ms", "share")]
    more = () if found.correction is None else (found.correction,)
    rows += [_row(part) for part in (*found.parts, found.whole, *more)]
    ratio = found.staged_seconds / found.whole.seconds
    return "\n".join(
        [
            head,
            "",
            align(rows, left=2),
            "",
            f"every stage firing: {1e3 * found.staged_seconds:.2f} ms, {ratio:.2f} times the uncut network",
            *_corrects(found),
            *_tensors(found),
            f"recommended schedule: {found.schedule or 'none'}",
            *([] if found.warning is None else [f"warning: {found.warning}"]),
        ]
    )


def _row(part: Inspected) -> tuple[str, ...]:
    share = "" if part.share is None else f"{100 * part.share:.1f} %"
    return (
        part.name,
        ", ".join(part.reads),
        f"{part.parameters:,}",
        count(part.multiply_adds),
        in_bytes(part.held_bytes) if part.held else "",
        f"{1e3 * part.seconds:.2f}",
        share,
    )


def _corrects(found: Inspection) -> list[str]:
    if found.correction is None:
        return []
    reads, _ = found.correction.reads
    frames = "the frame" if reads == "frame" else f"stage {reads}"
    ratio = found.correction.seconds / found.whole.seconds
    return [f"correction of moved scores, which reads {frames}: {ratio:.2f} times the uncut network"]


def _tensors(found: Inspection) -> list[str]:
    lines = []
    for part in found.parts:
        tensors = [("cut at", part.cut), ("holds" if part.kind == "stage" else "gives", part.held)]
        lines += [
            f"{part.name} {verb} {', '.join(f'{name} {sides(shape)}' for name, shape in shapes.items())}"
            for verb, shapes in tensors
            if shapes
        ]
    return ["", *lines, ""]
