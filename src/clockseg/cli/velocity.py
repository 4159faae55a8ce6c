"""``clockseg velocity``: measure how fast each depth of a network changes over videos."""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clockseg.cli._clips import Account, clips_of, each, frames_of
from clockseg.cli._options import (
    add_data_options,
    add_frames_options,
    add_network_options,
    add_options,
    add_plot_option,
    check_new_files,
    load_network,
    new_command,
    plots,
)
from clockseg.cli._terminal import align, columns, percent, print_result, shown
from clockseg.files import whole

if TYPE_CHECKING:
    from clockseg.clockwork.network import StagedNetwork
    from clockseg.datasets.clips import Clip
    from clockseg.paper.feature_velocity import Shot, Velocity

DESCRIPTION = """Measure how fast each depth of a network changes over video (the paper's Table 1).

Every frame is compared with the previous one: its pixels, the label map of every stage, the output, and the annotation
if there is one. Each clip is a shot: values are means over its frames, then the mean and deviation over shots. Deep stages
should change slowly; if they do not, a clock saves nothing there.

accuracy: as given with --accuracies. velocity: the share of labels that differ from the previous frame's (for pixels, their
mean relative difference), with its deviation over shots. exceeds deepest: the share of frames on which the stage changes more
than the last one. rank corr.: rank correlation over frames of its changes with those of the last stage and of the output.
A dash marks a value that was not measured, for example in a clip of one frame."""


def add_parser(subparsers: Any) -> None:
    """``clockseg velocity`` and its options."""
    help = "measure how fast each stage changes over videos"
    parser = new_command(subparsers, "velocity", run, help=help, description=DESCRIPTION)
    parser.add_argument("data", nargs="+", metavar="VIDEO", help="videos and clips, with or without labels")
    add_data_options(parser)
    help = (
        "leave the first frame of each clip out of its mean (default: compare it with itself, a zero, as the authors' code "
        "does)"
    )
    parser.add_argument("--leave-first", action="store_true", help=help)
    help = "depths of the stages (default: layers counted in the graph)"
    parser.add_argument("--depths", metavar="N,N,..", type=_numbers(int), help=help)
    help = "mIoU of the stages' own score maps, 0 to 1, to print next to them"
    parser.add_argument("--accuracies", metavar="A,A,..", type=_numbers(float, most=1), help=help)
    add_network_options(parser)
    add_frames_options(parser)
    out = parser.add_argument_group("output")
    out.add_argument("--csv", type=Path, metavar="FILE", help="write one row per frame")
    add_plot_option(out, "the change of each depth, and its course in the clips with the least and the most motion")
    add_options(out, "--overwrite", help="replace existing files")
    add_options(out, "--json")


def _numbers(kind: type[int] | type[float], *, most: float = math.inf) -> Any:
    def parsed(text: str) -> tuple[float, ...]:
        try:
            found = tuple(kind(part) for part in text.split(","))
        except ValueError:
            found = (math.nan,)
        if not all(0 <= number <= most for number in found):
            ends = "" if most == math.inf else f" from 0 to {most}"
            raise argparse.ArgumentTypeError(f"{text!r} is not a comma-separated list of numbers{ends}, one per stage")
        return found

    return parsed


def run(args: argparse.Namespace) -> int:
    """Compare each frame with the previous one and print the result; return 1 if a clip failed or was cut short."""
    from clockseg.paper.feature_velocity import Velocity

    _check_files(args)
    account = Account()
    clips = clips_of(args, account)
    if not clips:
        return 1
    net = load_network(args)
    depths = _depths(args) if args.depths is None else args.depths
    nothing = Velocity(
        net.name, tuple(stage.name for stage in net.stages), (), not args.leave_first, depths, args.accuracies or ()
    )
    shots = tuple(shot for _, shot in each(clips, lambda clip: _shot(args, net, clip, account), account))
    if not shots:
        return 1
    found = replace(nothing, shots=shots)
    _write(args, found)
    print_result(args, {"engine": net.engine, **found.facts()}, lambda: text(found))
    return 1 if account.troubles else 0


def _check_files(args: argparse.Namespace) -> None:
    csv_files = [] if args.csv is None else [args.csv]
    check_new_files(*csv_files, *plots(args), overwrite=args.overwrite)


def _depths(args: argparse.Namespace) -> tuple[int, ...]:
    """Count the layers up to each stage in the graph of the network's file."""
    import numpy as np

    from clockseg.graph.cost import depths
    from clockseg.networks.load import load

    graph = load(args.network, engine=None, size=args.size)
    frame = np.zeros((graph.sidecar.input.height, graph.sidecar.input.width, 3), np.uint8)
    height, width = graph.prepare(frame)["image"].shape[1:3]
    return depths(graph, (width, height))


def _shot(args: argparse.Namespace, net: StagedNetwork, clip: Clip, account: Account) -> Shot:
    from clockseg.paper.feature_velocity import shot

    ignore = 255 if clip.classes is None else clip.classes.ignore
    return shot(net, clip.name, frames_of(clip, net, account, quiet=args.quiet), ignore=ignore)


def _write(args: argparse.Namespace, found: Velocity) -> None:
    if args.csv is not None:
        _write_csv(found, args.csv)
    if args.plot is not None:
        from clockseg.paper.velocity_plot import draw_velocity

        draw_velocity(found, args.plot)


def _write_csv(found: Velocity, path: Path) -> None:
    """Write one row per frame; a cell without a measurement is empty."""
    with whole(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["clip", "frame", *found.names])
        for shot in found.shots:
            for index, *values in zip(shot.indices, *shot.series, strict=True):
                rows.writerow([shot.name, index, *("" if math.isnan(value) else float(value) for value in values)])


def text(found: Velocity) -> str:
    """Return the table of depths, and that of shots if there are several."""
    told = found.facts()
    others = {name: {"stage": name, **told[name]} for name in ("pixels", "output", "labels")}
    rows = [others["pixels"], *told["stages"], others["output"]]
    if told["labels"]["mean"] is not None:
        rows.append(others["labels"])

    def correlation(with_what: str) -> Callable[[dict[str, Any]], str]:
        return lambda row: _number(row[f"rank_correlation_{with_what}"]["mean"]) if "depth" in row else ""

    cells: dict[str, Callable[[dict[str, Any]], str]] = {
        "": lambda row: row["stage"],
        "depth": lambda row: shown(row["depth"], str) if "depth" in row else "",
        "accuracy": lambda row: percent(row["accuracy"]) if "depth" in row else "",
        "velocity": lambda row: _number(row["mean"]),
        "deviation": lambda row: _number(row["deviation"]),
        "exceeds deepest": lambda row: percent(row["exceeds_deepest"]) if "depth" in row else "",
        "rank corr. deepest": correlation("deepest"),
        "rank corr. output": correlation("output"),
    }
    table = columns(rows, cells)
    return table if len(found.shots) == 1 else f"{table}\n\n{_shots(found.stages, told['shots'])}"


def _shots(stages: Sequence[str], shots: Sequence[dict[str, Any]]) -> str:
    rows = [["shot", "frames", "pixels", *stages, "output"]]
    for shot in shots:
        numbers = (shot["pixels"], *shot["stages"], shot["output"])
        rows.append([shot["shot"], str(shot["frames"]), *map(_number, numbers)])
    return align(rows)


def _number(value: float | None) -> str:
    return shown(value, lambda number: f"{number:.3f}")
