"""``clockseg cut``: from anybody's network to one ONNX file and its sidecar, cut into stages."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING

from clockseg.cli._cut_report import report
from clockseg.cli._new_files import check_new_network
from clockseg.cli._options import need, positive, size
from clockseg.errors import UsageError

if TYPE_CHECKING:
    from clockseg.networks.cut_source import Said, Source

DESCRIPTION = """Cut a network into stages: copy it to NET.onnx, and write beside it NET.json, which says how frames
are prepared, what its classes are, where it is cut and which schedule fits it. Everything else reads these two.

MODEL is an ONNX file; hf:DIRECTORY, a local checkpoint folder of transformers; or torchvision:NAME with --weights. What
isn't said is taken from it, or settled and told. Before the files get their names the network is run in parts and whole,
which must give the same."""
ENGINES = ("auto", "openvino", "onnxruntime", "onnxruntime-cuda", "onnxruntime-tensorrt")


def three(text: str) -> tuple[float, float, float]:
    """``N`` for every channel or ``N,N,N``, for argparse.

    >>> three("0.5"), three("1,2,3")
    ((0.5, 0.5, 0.5), (1.0, 2.0, 3.0))
    """
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if len(found) not in (1, 3) or not all(map(math.isfinite, found)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number or three of them, such as 0.485,0.456,0.406")
    return (found[0], found[0], found[0]) if len(found) == 1 else (found[0], found[1], found[2])


def number(text: str) -> float:
    """A number or a quotient, for argparse.

    >>> number("1/255") == 1 / 255, number("1")
    (True, 1.0)
    """
    try:
        above, _, below = text.partition("/")
        found = float(above) / float(below or 1)
    except (ValueError, ZeroDivisionError):
        found = math.nan
    if not math.isfinite(found) or found == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number other than 0, such as 1/255")
    return found


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``cut`` and its options."""
    parser = commands.add_parser(
        "cut",
        help="cut any network into stages",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", metavar="MODEL", help="FILE.onnx, hf:DIRECTORY or torchvision:NAME")
    parser.add_argument("--out", required=True, type=Path, metavar="NET.onnx", help="the file to write")
    parser.add_argument("--overwrite", action="store_true", help="replace NET.onnx and NET.json if they are there")
    parser.add_argument("--weights", type=Path, metavar="FILE", help="of torchvision:NAME: .pth or .safetensors")
    _add_cut_options(parser.add_argument_group("where to cut"))
    _add_frame_options(parser.add_argument_group("what it reads: x = (pixel * scale - mean) / std"))
    _add_class_options(parser.add_argument_group("what it gives"))
    group = parser.add_argument_group("check")
    group.add_argument("--engine", default="auto", choices=ENGINES, help="what runs it (default: auto, the fastest)")
    group.add_argument("--threads", type=positive, metavar="N", help="threads of the engine (default: one a core)")
    parser.set_defaults(run=run)


def _add_cut_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--at",
        default="auto",
        metavar="auto|NAME,NAME",
        help="a tensor, node or module a stage, from the frame on; A+B where several tensors cross (default: auto)",
    )
    group.add_argument("--stages", type=positive, metavar="N", help="of --at auto, how many (default: 3)")
    group.add_argument(
        "--for",
        dest="purpose",
        choices=("time", "latency", "detail"),
        help="of --at auto: the least time on frames on which only stage 1 fires, stages of like time for a pipeline, or fine "
        "maps in what is always fresh (default: time)",
    )
    group.add_argument(
        "--scores",
        metavar="NAME,-,NAME",
        help="each stage's own class scores, - for none (--scores=-,NAME where the first has none); clocks watch them "
        "(default: those that are found)",
    )
    group.add_argument("--schedule", metavar="SPEC", help="the schedule to recommend (default: one that fits)")


def _add_frame_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--size", type=size, metavar="WIDTHxHEIGHT", help="working size (default: the file's, if fixed)")
    group.add_argument("--mean", type=three, metavar="N,N,N", help="per channel, or one for all")
    group.add_argument("--std", type=three, metavar="N,N,N", help="per channel, or one for all")
    group.add_argument("--scale", type=number, metavar="N", help="of pixels (default: 1/255; 1 where mean is above 2)")
    group.add_argument("--colour", choices=("rgb", "bgr"), help="order of channels (default: rgb)")
    group.add_argument(
        "--pad-multiple",
        type=positive,
        metavar="N",
        help="pad frames to multiples of N (default: the smallest that fits)",
    )


def _add_class_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--output", metavar="NAME", help="tensor of class scores, or of ids (default: its only output)")
    group.add_argument(
        "--classes",
        metavar="FILE|none",
        help="names: one a line, a JSON list, a JSON object of id: name, or a data set's classes.json; none if it gives no "
        "labels but a map of numbers, such as depth",
    )
    group.add_argument("--palette", type=Path, metavar="FILE", help="a colour a class: JSON, or lines r g b or #rrggbb")
    group.add_argument("--ignore", type=int, metavar="ID", help="id of pixels without a class (default: 255)")


def run(args: argparse.Namespace) -> int:
    """Cut, check, write, and print what was found."""
    from clockseg.networks.cut_settling import Cutting
    from clockseg.networks.cutting import cut_network

    _check_options(args)
    check_new_network(args.out, overwrite=args.overwrite)
    said = _said(args)
    cutting = Cutting(
        at=args.at,
        stages=args.stages or 3,
        purpose=args.purpose or "time",
        scores=args.scores,
        schedule=args.schedule,
    )
    source = _source(args, said)
    print(report(cut_network(source, args.out, said=said, cutting=cutting, engine=args.engine, threads=args.threads)))
    return 0


def _check_options(args: argparse.Namespace) -> None:
    if isinstance(args.size, int):
        raise UsageError(f"--size {args.size}: give WIDTHxHEIGHT, such as 1024x512.")
    if args.at != "auto" and (args.stages or args.purpose):
        raise UsageError("--stages and --for are for --at auto; with names there is a stage a name.")
    if (args.weights is None) == args.model.startswith("torchvision:"):
        raise UsageError("--weights FILE is for torchvision:NAME, which needs it.")
    if args.ignore is not None and not 0 <= args.ignore <= 255:
        raise UsageError(f"--ignore {args.ignore}: label maps are bytes; give 0 to 255.")
    if args.palette is not None and args.classes in (None, "none"):
        raise UsageError("--palette gives a colour a class: give --classes FILE as well.")


def _said(args: argparse.Namespace) -> Said:
    """What the options say of the network."""
    from clockseg.networks.class_names import ClassNames, read_class_names, read_palette
    from clockseg.networks.cut_source import Said

    named = ClassNames(()) if args.classes in (None, "none") else read_class_names(Path(args.classes))
    palette = named.palette if args.palette is None else read_palette(args.palette, len(named.names))
    return Said(
        output=args.output,
        classes=None if args.classes is None else named.names,
        palette=palette or None,
        ignore=named.ignore if args.ignore is None else args.ignore,
        size=args.size,
        mean=args.mean,
        std=args.std,
        scale=args.scale,
        colour=args.colour,
        pad_multiple=args.pad_multiple,
    )


def _source(args: argparse.Namespace, said: Said) -> Source:
    from clockseg.engines import engine
    from clockseg.networks.cut_source import onnx_source
    from clockseg.networks.cutting import check_engine

    kind, _, rest = args.model.partition(":")
    runs = engine(check_engine(args.engine), threads=args.threads)
    if kind == "hf":
        need("torch", "transformers", what="hf:", extra="transformers")
        from clockseg.networks.hf import hf_source

        return hf_source(Path(rest), given=said, engine=runs)
    if kind == "torchvision":
        need("torch", what="torchvision:")
        from clockseg.networks.torchvision_zoo import torchvision_source

        return torchvision_source(rest, args.weights, given=said, engine=runs)
    return onnx_source(Path(args.model))
