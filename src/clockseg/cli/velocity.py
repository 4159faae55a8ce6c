"""``clockseg velocity``: measure how fast each depth of a network changes over videos."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from clockseg.cli import options
from clockseg.cli.loading import Clips, load_network
from clockseg.cli.terminal import align, columns, print_result, shown

if TYPE_CHECKING:
    from clockseg.datasets.clips import Clip
    from clockseg.paper.velocity import Shot, Velocity

HELP = "measure how fast each stage changes over videos"
DESCRIPTION = """Measure how fast the labels of each stage change over video (the paper's Table 1).

Every frame is compared with the previous one: its pixels, the label map of every stage, the output, and the annotation
if there is one. Values are means over the frames of each clip, then the mean and deviation over clips. Deep stages
should change slowly; if they do not, holding them costs accuracy.

velocity: the share of labels that differ from the previous frame's (for pixels, their mean relative difference), with its
deviation over clips. A dash marks a value that was not measured, for example in a clip of one frame."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``clockseg velocity``."""
    options.add_data_options(parser, "VIDEO", "videos and clips, with or without labels")
    options.add_network_options(parser)
    options.add_frames_options(parser)
    out = parser.add_argument_group("output")
    options.add_plot_option(out, "the changes of each stage in the clips with the least and the most motion")
    options.add_options(out, "--overwrite", help="replace an existing file")
    options.add_options(out, "--json")


def run(args: argparse.Namespace) -> int:
    """Compare each frame with the previous one and print the result; return 1 if a clip failed or was cut short."""
    from clockseg.paper.velocity import Velocity, depths, draw_velocity, shot

    if args.plot is not None:
        options.need("matplotlib", what="--plot", extra="plots")
    options.check_new_files(args.plot, overwrite=args.overwrite)
    clips = Clips(args)
    net = load_network(args)

    def one(clip: Clip) -> Shot:
        ignore = 255 if clip.classes is None else clip.classes.ignore
        return shot(net, clip.name, clips.frames(clip, net), ignore=ignore)

    found = Velocity(net.name, net.names, tuple(clips.map(one)), depths(net))
    if args.plot is not None:
        draw_velocity(found, args.plot)
    print_result(args, {"engine": net.engine, **found.facts()}, lambda: _text(found))
    return clips.exit_code


def _text(found: Velocity) -> str:
    """Return the table of depths, and that of shots if there are several."""
    told = found.facts()
    others = {name: {"stage": name, **told[name]} for name in ("pixels", "output", "labels")}
    rows = [others["pixels"], *told["stages"], others["output"]]
    if told["labels"]["mean"] is not None:
        rows.append(others["labels"])

    cells: dict[str, Callable[[dict[str, Any]], str]] = {
        "": lambda row: row["stage"],
        "depth": lambda row: shown(row["depth"], str) if "depth" in row else "",
        "velocity": lambda row: _number(row["mean"]),
        "deviation": lambda row: _number(row["deviation"]),
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
