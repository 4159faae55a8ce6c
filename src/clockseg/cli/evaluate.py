"""``clockseg evaluate``: schedules against human labels, against every frame, and in time."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clockseg.cli import _streaming as streaming
from clockseg.cli._clips import Account, clips_of, each, renamed
from clockseg.cli._options import (
    add_data_options,
    add_frames_options,
    add_network_options,
    add_plot_option,
    add_schedule_options,
    as_planned,
    check_new_files,
    load_network,
    parse_schedules,
    plots,
)
from clockseg.cli._pipelines import Pipelines, add_baseline_option, load_baselines
from clockseg.cli._terminal import align, percent, shown
from clockseg.errors import UsageError

if TYPE_CHECKING:
    from clockseg.clockwork.network import StagedNetwork
    from clockseg.clockwork.schedule import Schedule
    from clockseg.datasets.clips import Clip
    from clockseg.evaluation.labels import Evaluation
    from clockseg.evaluation.values import ValueEvaluation

DESCRIPTION = """Measure the accuracy and the speed of schedules.

DATA is a folder of clips (CLIP/images/*, CLIP/labels/*.png for some or all frames, classes.json beside the clips), one
such clip, a folder of pictures, a video, or a data set in its official layout (see docs/datasets.md). Without labels only
agreement is measured: scores against the labels of the uncut network on every frame; for a network whose output is
numbers, such as depth, the relative error mean |a - b| / mean |b|. Time is relative to the uncut network's, both measured
in the same run; pipelines run serially unless --concurrent. With --streaming FPS frames come in
real time instead, and at each frame's deadline (as the next one comes) the newest finished output is scored."""


def add_parser(subparsers: Any) -> None:
    """``clockseg evaluate`` and its options."""
    parser = subparsers.add_parser(
        "evaluate",
        help="measure the accuracy and the speed of schedules",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("data", nargs="+", metavar="DATA", help="clips with or without labels, or videos")
    add_data_options(parser)
    parser.add_argument(
        "--map",
        type=Path,
        metavar="FILE",
        help='maps the network\'s classes to those of DATA, many to one: lines "NETWORK CLASS = DATA CLASS" or a JSON object; '
        "* stands for all others, and classes that both have need no line",
    )
    add_schedule_options(parser, several=True)
    pipelines = parser.add_argument_group("pipelines and streams")
    pipelines.add_argument(
        "--concurrent",
        action="store_true",
        help="run the segments of pipelines concurrently, each on a share of the threads",
    )
    streaming.add_options(pipelines)
    add_baseline_option(pipelines)
    add_network_options(parser)
    add_frames_options(parser)
    add_plot_option(parser, "the score of each schedule against its time, and the IU of every class")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Evaluate and print; 1 if a clip failed or was incomplete."""
    if args.ahead and (args.streaming is None or args.concurrent):
        raise UsageError("--ahead is for --streaming, and instead of --concurrent.")
    if args.plot is not None and args.streaming is not None:
        raise UsageError("--plot can't draw --streaming results; leave one of them out.")
    check_new_files(*plots(args), overwrite=True)
    args = as_planned(args, *(args.schedule or ()))
    account = Account()
    clips = clips_of(args, account)
    if not clips:
        return 1
    net = load_network(args)
    clips = clips if args.map is None else renamed(clips, args.map, net)
    schedules = parse_schedules(args.schedule, net, args.carry)
    pipelines, baselines = Pipelines(args, load_network, net), load_baselines(args, load_network)
    if args.streaming is not None:
        _check_labels(net)
        with streaming.prepared(pipelines, schedules, baselines) as one:
            streamed = _summed(clips, lambda clip: one(clip, account.cut_short), account)
        if streamed:
            print(streaming.report(args, net, streamed))
        return 1 if account.troubles else 0
    found = _summed(clips, lambda clip: _one(pipelines, schedules, baselines, clip, account), account)
    if not found:
        return 1
    if args.plot is not None:
        from clockseg.report.plots import draw_evaluation

        draw_evaluation(found, args.plot)
    print(json.dumps(_facts(args, net, found), allow_nan=False) if args.json else table(found))
    return 1 if account.troubles else 0


def _check_labels(net: StagedNetwork) -> None:
    from clockseg.evaluation.values import gives_numbers

    if gives_numbers(net):
        raise UsageError(
            f"network {net.name!r} gives numbers, but --streaming scores labels; leave it out to compare "
            "schedules by their relative error."
        )


def _summed(clips: Sequence[Clip], one: Callable[[Clip], Sequence[Any]], account: Account) -> list[Any]:
    """Sum what ``one`` returns over the clips that can be read; empty if none can."""
    total: list[Any] = []
    for _, found in each(clips, one, account):
        total = [a + b for a, b in zip(total, found, strict=True)] if total else list(found)
    return total


def _one(
    pipelines: Pipelines,
    schedules: Sequence[tuple[str, Schedule]],
    baselines: Sequence[tuple[str, StagedNetwork]],
    clip: Clip,
    account: Account,
) -> Sequence[Evaluation | ValueEvaluation]:
    from clockseg.cli._progress import shown as bar
    from clockseg.evaluation.labels import evaluate
    from clockseg.evaluation.values import evaluate_values, gives_numbers

    with ExitStack() as stack, bar(clip.name, quiet=pipelines.args.quiet) as show:
        return (evaluate_values if gives_numbers(pipelines.net) else evaluate)(
            pipelines.net,
            schedules,
            [clip],
            baselines=baselines,
            session=pipelines.session(stack),
            progress=show,
            warn=account.cut_short,
        )


def _facts(
    args: argparse.Namespace, net: StagedNetwork, found: Sequence[Evaluation | ValueEvaluation]
) -> dict[str, Any]:
    data = args.data[0] if len(args.data) == 1 else args.data
    facts = {"data": data, "network": net.name, "engine": net.engine}
    told = facts | ({"pipelines": "concurrent"} if args.concurrent else {})
    return told | {"schedules": [one.facts() for one in found]}


def table(found: Sequence[Evaluation | ValueEvaluation]) -> str:
    """Format one row per schedule; ``-`` where there is nothing to report."""
    stages = list(found[0].tally.fire_rate)
    head = [
        "schedule",
        *_scores(found[0]),
        *(f"fires {name}" for name in stages),
        "network rate",
        "ms/frame",
        "relative time",
        "relative mult-adds",
    ]
    return align([head, *(_row(one, stages) for one in found)])


def _row(one: Evaluation | ValueEvaluation, stages: Sequence[str]) -> list[str]:
    facts = one.facts()
    return [
        one.schedule,
        *_scores(one).values(),
        *(percent(one.tally.fire_rate.get(stage)) for stage in stages),  # baselines have other stages
        percent(facts["network_rate"]),
        shown(facts["seconds_per_frame"], lambda seconds: f"{1000 * seconds:.2f}"),
        shown(facts["relative_time"], lambda share: f"{share:.3f}"),
        shown(facts["relative_multiply_adds"], lambda share: f"{share:.3f}"),
    ]


def _scores(one: Evaluation | ValueEvaluation) -> dict[str, str]:
    """Return the columns of accuracy with their cells."""
    from clockseg.evaluation.values import ValueEvaluation

    facts = one.facts()
    agreement = facts["agreement"]
    if isinstance(one, ValueEvaluation):
        return {
            "relative error": percent(agreement["relative_error"]),
            "worst frame": percent(agreement["worst_frame"]),
        }
    return {
        "mean IU": percent(facts["mean_iu"]),
        "kept": percent(one.kept),
        "agreement": percent(agreement["mean_iu"]),
        "pixels": percent(agreement["pixel_acc"]),
        "flicker": percent(facts["flicker"]["flicker"]),
        "uncut flicker": percent(facts["uncut_flicker"]["flicker"]),
        "lag": shown(facts["reaction_lag"]["median"], str),
    }
