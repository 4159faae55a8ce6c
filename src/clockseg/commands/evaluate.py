"""``clockseg evaluate``: schedules against human labels, against every frame, and in time."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clockseg._errors import DataError, VideoError
from clockseg.commands._options import (
    add_frames_options,
    add_network_options,
    add_schedule_options,
    load_network,
    parse_schedules,
)
from clockseg.commands._table import align, percent, shown

if TYPE_CHECKING:
    from clockseg.datasets.clips import Clip
    from clockseg.evaluation import Evaluation
    from clockseg.schedule import Schedule
    from clockseg.stages import StagedNetwork

DESCRIPTION = """Run schedules over clips and tell how good and how fast each is.

DATA is a folder of clips (CLIP/images/*, CLIP/labels/*.png for some or all frames, classes.json beside the clips), one
such clip, a folder of pictures, or a video. Without labels there is agreement alone: scores against the labels that the
uncut network gives on every frame. Time is relative to that network's, both measured in the same run."""


def add_parser(subparsers: Any) -> None:
    """``clockseg evaluate`` and its options."""
    parser = subparsers.add_parser(
        "evaluate",
        help="scores, agreement and time of schedules",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("data", nargs="+", metavar="DATA", help="clips with or without labels, videos")
    add_schedule_options(parser, several=True)
    add_network_options(parser)
    add_frames_options(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Evaluate and print; 1 if a clip failed or was cut short."""
    account = _Account()
    clips = _clips(args, account)
    if not clips:
        return 1
    net = load_network(args)
    found = _evaluate(args, net, parse_schedules(args.schedule, net, args.carry), clips, account)
    if not found:
        return 1
    print(json.dumps(_facts(args, net, found), allow_nan=False) if args.json else table(found))
    return 1 if account.troubles else 0


class _Account:
    """What went wrong, told on standard error as it happens."""

    def __init__(self) -> None:
        self.troubles = 0

    def cut_short(self, text: str) -> None:
        """Not all of a clip could be decoded."""
        self.troubles += 1
        print(f"clockseg: warning: {text}", file=sys.stderr)

    def failed(self, text: object) -> None:
        """A clip is left out."""
        self.troubles += 1
        print(f"clockseg: error: {text}", file=sys.stderr)


def _clips(args: argparse.Namespace, account: _Account) -> list[Clip]:
    from clockseg.datasets.clips import read_clips

    found: list[Clip] = []
    for data in args.data:
        try:
            found += read_clips(data, every=args.every, limit=args.limit)
        except (DataError, VideoError) as error:
            account.failed(error)
    return found


def _evaluate(
    args: argparse.Namespace,
    net: StagedNetwork,
    schedules: Sequence[tuple[str, Schedule]],
    clips: Sequence[Clip],
    account: _Account,
) -> list[Evaluation]:
    """The sums over the clips that could be read; empty if none could."""
    total: list[Evaluation] = []
    for clip in clips:
        try:
            found = _one(args, net, schedules, clip, account)
        except (DataError, VideoError) as error:
            account.failed(f"{error} Clip {clip.name} is left out.")
            continue
        total = [a + b for a, b in zip(total, found, strict=True)] if total else list(found)
    return total


def _one(
    args: argparse.Namespace,
    net: StagedNetwork,
    schedules: Sequence[tuple[str, Schedule]],
    clip: Clip,
    account: _Account,
) -> Sequence[Evaluation]:
    from clockseg.commands._progress import shown as bar
    from clockseg.evaluation import evaluate

    with bar(clip.name, quiet=args.quiet) as show:
        return evaluate(
            net,
            schedules,
            [clip],
            progress=show,
            warn=account.cut_short,
        )


def _facts(args: argparse.Namespace, net: StagedNetwork, found: Sequence[Evaluation]) -> dict[str, Any]:
    data = args.data[0] if len(args.data) == 1 else args.data
    return {"data": data, "network": net.name, "engine": net.engine, "schedules": [one.facts() for one in found]}


def table(found: Sequence[Evaluation]) -> str:
    """A row a schedule, aligned; ``-`` where there is nothing to tell."""
    stages = list(found[0].tally.fire_rate)
    head = [
        "schedule",
        "mean IU",
        "kept",
        "agreement",
        *(f"fires {name}" for name in stages),
        "network rate",
        "ms/frame",
        "relative time",
    ]
    return align([head, *(_row(one) for one in found)])


def _row(one: Evaluation) -> list[str]:
    facts = one.facts()
    return [
        one.schedule,
        percent(facts["mean_iu"]),
        percent(one.kept),
        percent(facts["agreement"]["mean_iu"]),
        *(percent(rate) for rate in one.tally.fire_rate.values()),
        percent(facts["network_rate"]),
        shown(facts["seconds_per_frame"], lambda seconds: f"{1000 * seconds:.2f}"),
        shown(facts["relative_time"], lambda share: f"{share:.3f}"),
    ]
