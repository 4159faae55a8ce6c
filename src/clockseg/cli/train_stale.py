"""``clockseg train stale``: a correction for scores that are some frames old, learnt from the network's own answers."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clockseg.cli._clips import Account, clips_of
from clockseg.cli._options import (
    above_zero,
    add_data_options,
    add_engine_options,
    add_frames_options,
    count,
    need_torch,
    positive,
    read_data_options,
)
from clockseg.cli._progress import counting, watched
from clockseg.cli._terminal import align, percent

if TYPE_CHECKING:
    from clockseg.datasets.clips import Clip
    from clockseg.training import Trained

DESCRIPTION = """Teach a network to show scores that are some frames old.

Under a carry that moves what is held (--carry "warp(flow)"), most frames show scores of an earlier one, moved along with the
picture. A small fusion, trained here, corrects them: it reads the moved scores, what the motion leaves unexplained, and
the picture (--reads frame: no stage of the network runs on such a frame) or the features of a stage that fires on every
frame (--reads stage1). The network is frozen; its own answers teach, and labels too where DATA has them and they mean the
same classes. Videos teach by their own frames. Folders of pictures may lie far apart in time: there the frames before
each are made up, by a random zoom, shift, turn, bend and change of light, with things that pass before the scene.

DIR gets NAME.onnx (the network, unchanged, and its correction behind it) with its sidecar, log.jsonl, and state.pt, which
--resume goes on from. Frames on which every stage fires are shown as they are, without the correction."""


def add_parser(networks: Any) -> None:
    """``clockseg train stale`` and its options."""
    parser = networks.add_parser(
        "stale",
        help="a correction for scores that are some frames old, for any network with classes",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("network", metavar="NET", help="a bundled network, or FILE.onnx with its sidecar beside it")
    parser.add_argument("data", nargs="+", metavar="DATA", help="videos, clips, folders of pictures")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="where the results go")
    parser.add_argument("--name", metavar="NAME", help="of the file NAME.onnx (default: the network's, with -stale)")
    parser.add_argument("--resume", action="store_true", help="go on from DIR/state.pt, if it is there")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    _add_how(parser.add_argument_group("how"))
    add_data_options(parser)
    add_engine_options(parser.add_argument_group("engine"))
    add_frames_options(parser)
    parser.set_defaults(run=run)


def _add_how(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--reads",
        default="frame",
        metavar="frame|STAGE",
        help="what it reads of the present frame: the picture, or the features of a stage (default: frame)",
    )
    group.add_argument(
        "--flow-scale",
        type=above_zero,
        default=0.5,
        metavar="S",
        help="the scale of the flow that moves the scores, as at run time (default: 0.5)",
    )
    group.add_argument("--samples", type=positive, default=1000, metavar="N", help="to learn from (default: 1000)")
    group.add_argument("--steps", type=positive, metavar="N", help="of the training (default: 2400)")
    group.add_argument(
        "--minutes", type=above_zero, metavar="M", help="end after so long, if the steps aren't done by then"
    )
    group.add_argument("--seed", type=count, default=0, metavar="N", help="of everything random (default: 0)")
    group.add_argument(
        "--hold-out",
        action="append",
        default=[],
        metavar="CLIP",
        help="learn nothing from this clip and score on it; may be given several times (default: every eighth frame)",
    )
    group.add_argument(
        "--validation",
        action="append",
        default=[],
        metavar="DATA",
        help="run these clips at the end, every 2nd, 4th, 8th and 12th frame in full, with the correction and without",
    )


def run(args: argparse.Namespace) -> int:
    """Train, write and print; 1 if a clip was left out or cut short."""
    need_torch("training")
    account = Account()
    clips = clips_of(args, account)
    if not clips:
        return 1
    validation = [clip for data in args.validation for clip in read_data_options(args, data)]
    found = _trained(args, clips, validation, account)
    share = _share(args, found.path)
    if args.json:
        print(json.dumps({**found.facts, "corrected_frame": share}, allow_nan=False))
    elif not args.quiet:
        print(f"{table(found.facts)}\n{found.path}\n{advice(found.path, share)}")
    return 1 if account.troubles else 0


def _share(args: argparse.Namespace, path: Path) -> float:
    from clockseg.carry import Flow, Warp
    from clockseg.networks.inspection import corrected_share

    warp = Warp(Flow(args.flow_scale), of="fused")
    options = {"engine": args.engine, "precision": args.precision, "threads": args.threads, "size": args.size}
    return corrected_share(path, warp, **options)


def advice(path: Path, share: float) -> str:
    """Recommend the corrected network only if it saves time.

    >>> print(advice(Path("net.onnx"), 1.17))
    warning: a corrected frame takes 1.17 times as long as the uncut network, so the correction makes this network slower.
    Where scores are moved anyway, use the network without it.
    """
    if share >= 1:
        return (
            f"warning: a corrected frame takes {share:.2f} times as long as the uncut network, so the correction makes this "
            "network slower. Where scores are moved anyway, use the network without it."
        )
    return (
        f"a corrected frame takes {share:.2f} of the uncut network's time\n"
        f'next: clockseg evaluate DATA --network {path} --carry "warp(flow)"'
    )


def _trained(args: argparse.Namespace, clips: list[Clip], validation: list[Clip], account: Account) -> Trained:
    from dataclasses import replace

    from clockseg.carry import Flow
    from clockseg.training.stale import RECIPE, Choices, train_stale

    recipe = RECIPE if args.steps is None else replace(RECIPE, steps=args.steps)
    choices = Choices(
        reads=args.reads,
        samples=args.samples,
        hold_out=tuple(args.hold_out),
        seed=args.seed,
        minutes=args.minutes,
        resume=args.resume,
        flow=Flow(args.flow_scale),
        recipe=recipe,
    )
    quiet = args.quiet or args.json
    return train_stale(
        args.network,
        clips,
        args.out,
        choices=choices,
        name=args.name,
        validation=validation,
        engine=args.engine,
        precision=args.precision,
        threads=args.threads,
        size=args.size,
        say=watched(_line, quiet=quiet),
        progress=counting("samples", quiet=quiet),
        warn=account.cut_short,
    )


HELD_OUT = ("frames old", "samples", "moved", "corrected", "in full")


def table(facts: dict[str, Any]) -> str:
    """Mean IU by age of the scores, in percent, and on whole clips where there are any."""
    rows = [list(HELD_OUT)]
    for age, row in facts["held_out"].items():
        rows.append([age, str(row["samples"]), *(percent(row[name]) for name in ("moved", "corrected", "fresh"))])
    parts = [align(rows, left=1)] if len(rows) > 1 else []
    if "clips" in facts:
        means, kept = facts["clips"]["mean_iu"], facts["clips"]["kept"]
        rows = [["runs in full", "mean IU", "kept"]]
        rows += [[name, percent(means[name]), percent(kept[name])] for name in means]
        parts.append(align(rows, left=1))
    return "\n\n".join(parts)


def _line(entry: dict[str, Any]) -> str | None:
    """Of an entry of the log, what one wants to watch."""
    if entry["event"] == "step":
        return f"step {entry['step']} of {entry['of']}  loss {entry['loss']:.3f}  {entry['minutes']:.1f} min"
    if entry["event"] == "start":
        taught = "labels and the network's scores" if entry["labels"] else "the network's scores"
        return f"{entry['samples']} samples, {entry['held_out']} held out; {taught} teach"
    return None
