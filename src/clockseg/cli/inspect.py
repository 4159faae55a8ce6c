"""``clockseg inspect``: what a network is made of, and what each part costs here."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from clockseg.cli.options import ENGINE, NETWORK_HELP, add_group, add_options, engine_options, positive
from clockseg.cli.terminal import columns, count, in_bytes, percent, print_result, shown, sides
from clockseg.errors import NetworkError, UsageError
from clockseg.networks import DRIVING

if TYPE_CHECKING:
    from clockseg.graph.choice import Candidate
    from clockseg.networks.inspection import CutCandidates, Inspected, Inspection


HELP = "show a network's stages, cuts and groups, and the cost of each on this machine"
DESCRIPTION = """Show a network's stages, cuts and groups, with the parameters, multiply-adds, cached values and measured
time of each part, compared with the uncut network. With --cuts, or for an ONNX file without a sidecar, show where it can be
cut."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``clockseg inspect``."""
    help = f"{NETWORK_HELP} (default: {DRIVING})"
    parser.add_argument("network", nargs="?", default=DRIVING, metavar="NETWORK", help=help)
    add_group(parser, "network", *ENGINE)
    parser.add_argument("--repeat", type=positive, default=30, metavar="N", help="timed runs (default: 30)")
    group = parser.add_argument_group("cut candidates")
    group.add_argument("--cuts", action="store_true", help="list the candidates and the choice of cut --at auto")
    help = "with --cuts: the tensor that candidates must lead to (default: the sidecar's or the first output)"
    group.add_argument("--output", metavar="NAME", help=help)
    help = "with --cuts: number of stages to choose (default: 3)"
    group.add_argument("--stages", type=positive, metavar="N", help=help)
    add_options(parser, "--json")
    help = (
        "first delete all compiled networks from the cache on disk, which CLOCKSEG_CACHE_BYTES limits (default: 1 GB)"
    )
    parser.add_argument("--clear-cache", action="store_true", help=help)


def run(args: argparse.Namespace) -> int:
    """Inspect the network and print what was found."""
    from clockseg.engines import clear_cache
    from clockseg.networks.inspection import inspect, inspect_cuts

    if args.clear_cache:
        freed = clear_cache()
        if not args.json:
            print(f"cleared the cache of compiled networks: {in_bytes(freed)}\n")
    path, how = Path(args.network), engine_options(args) | {"repeat": args.repeat}
    # Of an ONNX file without a sidecar, the places of cuts are shown, unless it gives instances, which are not cut.
    bare = path.suffix == ".onnx" and path.is_file() and not path.with_suffix(".json").exists()
    if args.cuts or (bare and not _gives_instances(path)):
        del how["engine"]
        cuts = inspect_cuts(args.network, output=args.output, stages=args.stages or 3, **how)
        print_result(args, asdict(cuts), lambda: cuts_text(cuts))
        return 0
    if args.output or args.stages:
        raise UsageError("--output and --stages work only with --cuts; add it.")
    found = inspect(args.network, **how)
    print_result(args, asdict(found), lambda: text(found))
    return 0


def _gives_instances(path: Path) -> bool:
    from clockseg.graph import onnx_reader
    from clockseg.instances.recognising import recognise

    try:
        return recognise(onnx_reader.read(path)) is not None
    except NetworkError:
        return False


def text(found: Inspection) -> str:
    """Format an inspection as a table."""
    width, height = found.size
    head = (
        f"{found.network}: {sum(part.kind == 'stage' for part in found.parts)} stages, {len(found.classes)} classes; "
        f"{width}x{height}, {found.engine} {found.precision}, threads: {found.threads}"
    )
    ratio = found.staged_seconds / found.whole.seconds
    return "\n".join(
        [
            head,
            "",
            parts_table((*found.parts, found.whole)),
            "",
            f"every stage firing: {1e3 * found.staged_seconds:.2f} ms, {ratio:.2f} times the uncut network",
            *_tensors(found),
            f"recommended schedule: {found.schedule or 'none'}",
            *([] if found.warning is None else [f"warning: {found.warning}"]),
        ]
    )


def parts_table(parts: Iterable[Inspected]) -> str:
    """Format a table of what each part reads, costs and keeps, and of its time."""
    cells: dict[str, Callable[[Inspected], str]] = {
        "part": lambda part: part.name,
        "reads": lambda part: ", ".join(part.reads),
        "parameters": lambda part: f"{part.parameters:,}",
        "multiply-adds": lambda part: count(part.multiply_adds),
        "held": lambda part: in_bytes(part.held_bytes) if part.held else "",
        "ms": lambda part: f"{1e3 * part.seconds:.2f}",
        "share": lambda part: "" if part.share is None else percent(part.share),
    }
    return columns(parts, cells, left=2)


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


EXPLAINED = """above: share of the multiply-adds (and of the time, measured uncut) before these tensors.
stage 1 alone: share of the multiply-adds that run on a frame on which only stage 1 fires, if stage 1 ends at these tensors and
the last stage at {end}.
skip: yes if fresh values reach the output on such a frame (a skip connection)."""


def cuts_text(found: CutCandidates) -> str:
    """Format cut candidates as a table."""
    width, height = found.size
    time = "" if found.seconds is None else f", {1e3 * found.seconds:.1f} ms uncut, node by node in OpenVINO"
    names = [f"reads {name} {sides(shape)}" for name, shape in found.inputs.items()]
    names += [f"gives {name} {sides(shape)}" for name, shape in found.outputs.items()]
    if len(found.outputs) > 1:
        names.append(f"shown for {found.output}, one of {len(found.outputs)} outputs; --output NAME selects another")
    head = f"{found.network}: {width}x{height}, {count(found.multiply_adds)} multiply-adds to {found.output}{time}"
    cells: dict[str, Callable[[Candidate], str]] = {
        "cut at": lambda one: " + ".join(one.tensors),
        "stride": lambda one: shown(one.stride, str),
        "channels": lambda one: shown(one.channels, str),
        "size": lambda one: in_bytes(one.bytes),
        "above": lambda one: percent(one.above),
        **({} if found.seconds is None else {"of time": lambda one: percent(one.seconds_above)}),
        "stage 1 alone": lambda one: percent(one.every_frame),
        "skip": lambda one: "yes" if one.skip else "",
        **({"now": lambda one: "cut" if one.tensors in found.cuts else ""} if found.cuts else {}),
    }
    end = " + ".join(found.candidates[-1].tensors)
    lines = [head, *names, "", columns(found.candidates, cells), "", EXPLAINED.format(end=end), "", *_choice(found)]
    return "\n".join(lines)


def _choice(found: CutCandidates) -> list[str]:
    choice = found.choice
    cuts = ", ".join("+".join(cut) for cut in choice.cuts)
    stages = " + ".join(f"{100 * share:.0f}" for share in choice.stages)
    shares = f"stage 1 alone {percent(choice.every_frame)} (stages {stages} %, fusing {100 * choice.shared:.0f} %)"
    note = f"; {choice.note}" if choice.note else ""
    return [f"--at auto, by shares of {choice.work}: {cuts}", f"    {shares}{note}"]
