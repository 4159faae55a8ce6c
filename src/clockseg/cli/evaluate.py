"""``clockseg evaluate``: schedules against human labels, against every frame, and in real time."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from clockseg.cli._clips import Account, clips_of, each, renamed
from clockseg.cli._options import (
    above_zero,
    add_baseline_option,
    add_data_options,
    add_frames_options,
    add_network_options,
    add_options,
    add_plot_option,
    check_new_files,
    load_baselines,
    load_network,
    new_command,
    plots,
)
from clockseg.cli._schedules import add_schedule_options, as_planned, parse_schedules
from clockseg.cli._terminal import columns, percent, print_result, say, shown
from clockseg.errors import UsageError

if TYPE_CHECKING:
    from clockseg.clockwork.network import StagedNetwork
    from clockseg.clockwork.schedule import Schedule
    from clockseg.datasets.clips import Clip
    from clockseg.evaluation.labels import Evaluation
    from clockseg.evaluation.streaming import Streamed
    from clockseg.evaluation.values import ValueEvaluation

One: TypeAlias = "Callable[[Clip], Sequence[Any]]"
"""From a clip to the result of each schedule and network on it; results can be added."""

DESCRIPTION = """Measure the accuracy and the speed of schedules.

DATA is a folder of clips (CLIP/images/*, CLIP/labels/*.png for some or all frames, classes.json beside the clips), one such
clip, a folder of pictures, a video, or a data set in its official layout (see docs/datasets.md).

With labels, the table has the mIoU and the share of the every-frame mIoU that a schedule keeps. Agreement compares with the
uncut network on every frame, and needs no labels; for a network whose output is numbers, such as depth, it is the relative
error mean |a - b| / mean |b|. Time is relative to the uncut network's, measured in the same run.

With --streaming FPS, frames come in real time instead: at each frame's deadline, when the next one comes, the newest output
that is finished is scored."""


def add_parser(commands: Any) -> None:
    """Add ``clockseg evaluate`` and its options."""
    help = "measure the accuracy and the speed of schedules"
    parser = new_command(commands, "evaluate", run, help=help, description=DESCRIPTION)
    parser.add_argument("data", nargs="+", metavar="DATA", help="clips with or without labels, or videos")
    add_data_options(parser)
    parser.add_argument(
        "--map",
        type=Path,
        metavar="FILE",
        help='map the network\'s classes to those of DATA, many to one: lines "NETWORK CLASS = DATA CLASS" or a JSON object; '
        "* stands for all others, and classes that both have need no line",
    )
    add_schedule_options(parser, several=True)
    group = parser.add_argument_group("pipelines and streams")
    help = "let frames come in real time and score the newest finished output at each frame's deadline"
    group.add_argument("--streaming", type=above_zero, metavar="FPS", help=help)
    help = "with --streaming: compute the delayed segments of pipelines when the output has left"
    group.add_argument("--ahead", action="store_true", help=help)
    add_baseline_option(group)
    add_network_options(parser)
    add_frames_options(parser)
    add_plot_option(parser, "the score of each schedule against its time, and the IoU of every class")
    add_options(parser, "--json")


def run(args: argparse.Namespace) -> int:
    """Evaluate and print; 1 if a clip failed or was incomplete."""
    _check_options(args)
    args = as_planned(args, *(args.schedule or ()))
    account = Account()
    clips = clips_of(args, account)
    if not clips:
        return 1
    net = load_network(args)
    clips = clips if args.map is None else renamed(clips, args.map, net)
    schedules = parse_schedules(args.schedule, net, args.carry)
    baselines = load_baselines(args, load_network)
    prepared = _runs if args.streaming is None else _streams
    one = prepared(args, net, schedules, baselines, account)
    found: list[Any] = []
    for _, of_clip in each(clips, one, account):
        found = [a + b for a, b in zip(found, of_clip, strict=True)] if found else list(of_clip)
    if not found:
        return 1
    if args.plot is not None:
        from clockseg.report.plots import draw_evaluation

        draw_evaluation(found, args.plot)
    facts = _setting(args, net) | {"schedules": [result.facts() for result in found]}
    print_result(args, facts, lambda: table(found) if args.streaming is None else streaming_table(found))
    return 1 if account.troubles else 0


def _check_options(args: argparse.Namespace) -> None:
    if args.ahead and args.streaming is None:
        raise UsageError("--ahead is for --streaming; give both, or neither.")
    if args.plot is not None and args.streaming is not None:
        raise UsageError("--plot can't draw --streaming results; leave one of them out.")
    check_new_files(*plots(args), overwrite=True)


def _runs(
    args: argparse.Namespace,
    net: StagedNetwork,
    schedules: Sequence[tuple[str, Schedule]],
    baselines: Sequence[tuple[str, StagedNetwork]],
    account: Account,
) -> One:
    """Return a function that runs a clip through the uncut network, the schedules and the baselines, in that order."""
    from clockseg.cli._progress import shown as bar
    from clockseg.evaluation.labels import evaluate
    from clockseg.evaluation.values import evaluate_values, gives_numbers

    def one(clip: Clip) -> Sequence[Evaluation | ValueEvaluation]:
        with bar(clip.name, quiet=args.quiet) as show:
            return (evaluate_values if gives_numbers(net) else evaluate)(
                net, schedules, [clip], baselines=baselines, progress=show, warn=account.cut_short
            )

    return one


def _streams(
    args: argparse.Namespace,
    net: StagedNetwork,
    schedules: Sequence[tuple[str, Schedule]],
    baselines: Sequence[tuple[str, StagedNetwork]],
    account: Account,
) -> One:
    """Return a function like that of ``_runs``, for frames that come in real time."""
    from clockseg.clockwork.schedule import frame_oracle
    from clockseg.evaluation.streaming import evaluate_streaming
    from clockseg.evaluation.values import gives_numbers
    from clockseg.execution.pipeline import runner

    if gives_numbers(net):
        raise UsageError(
            f"network {net.name!r} gives numbers, but --streaming scores labels; leave it out to compare "
            "schedules by their relative error."
        )
    scheduled = [(name, runner(net, schedule, ahead=args.ahead)) for name, schedule in schedules]
    whole = [(name, runner(one.uncut(), frame_oracle)) for name, one in (("full", net), *baselines)]
    runners = [whole[0], *scheduled, *whole[1:]]

    def one(clip: Clip) -> Sequence[Streamed]:
        told = (lambda sentence: None) if args.quiet else say
        return evaluate_streaming(net, runners, [clip], fps=args.streaming, progress=told, warn=account.cut_short)

    return one


def _setting(args: argparse.Namespace, net: StagedNetwork) -> dict[str, Any]:
    data = args.data[0] if len(args.data) == 1 else args.data
    facts = {"data": data, "network": net.name, "engine": net.engine}
    if args.streaming is None:
        return facts
    return facts | {"fps": args.streaming, "pipelines": "ahead" if args.ahead else "serial"}


def table(found: Sequence[Evaluation | ValueEvaluation]) -> str:
    """Format one row per schedule; ``-`` where there is nothing to report."""
    from clockseg.evaluation.values import ValueEvaluation

    facts = {id(one): one.facts() for one in found}
    fires = {  # baselines have other stages
        f"fires {stage}": lambda one, stage=stage: percent(one.tally.fire_rate.get(stage))
        for stage in found[0].tally.fire_rate
    }
    cells: Mapping[str, Callable[[Any], str]] = {
        "schedule": lambda one: one.schedule,
        **(_ERRORS if isinstance(found[0], ValueEvaluation) else _SCORES),
        **fires,
        "network rate": lambda one: percent(facts[id(one)]["network_rate"]),
        "ms/frame": lambda one: shown(facts[id(one)]["seconds_per_frame"], lambda seconds: f"{1000 * seconds:.2f}"),
        "relative time": lambda one: shown(facts[id(one)]["relative_time"], lambda share: f"{share:.3f}"),
        "relative mult-adds": lambda one: shown(facts[id(one)]["relative_multiply_adds"], lambda share: f"{share:.3f}"),
    }
    return columns(found, cells)


_ERRORS: dict[str, Callable[[Any], str]] = {
    "relative error": lambda one: percent(one.facts()["agreement"]["relative_error"]),
    "worst frame": lambda one: percent(one.facts()["agreement"]["worst_frame"]),
}
_SCORES: dict[str, Callable[[Any], str]] = {
    "mIoU": lambda one: percent(one.facts()["mean_iu"]),
    "kept": lambda one: percent(one.kept),
    "agreement": lambda one: percent(one.facts()["agreement"]["mean_iu"]),
    "pixels": lambda one: percent(one.facts()["agreement"]["pixel_acc"]),
    "flicker": lambda one: percent(one.facts()["flicker"]["flicker"]),
    "uncut flicker": lambda one: percent(one.facts()["uncut_flicker"]["flicker"]),
    "lag": lambda one: shown(one.facts()["reaction_lag"]["median"], str),
}


def streaming_table(found: Sequence[Streamed]) -> str:
    """Format one row per network or schedule; ``-`` where there is nothing to report."""
    cells: Mapping[str, Callable[[Streamed], str]] = {
        "schedule": lambda one: one.name,
        "mIoU": lambda one: percent(one.facts()["mean_iu"]),
        "kept": lambda one: percent(one.facts()["kept"]),
        "agreement": lambda one: percent(one.facts()["agreement"]["mean_iu"]),
        "age ms": lambda one: _age(one.facts()["age_ms"], "median"),
        "p95": lambda one: _age(one.facts()["age_ms"], "p95"),
        "oldest ms": lambda one: _age(one.facts()["oldest_age_ms"], "median"),
        "finished": lambda one: str(one.finished),
        "dropped": lambda one: str(one.dropped),
        "on time": lambda one: percent(one.on_time / len(one.ages)),
    }
    return columns(found, cells)


def _age(ages: dict[str, float] | None, which: str) -> str:
    return shown(None if ages is None else ages[which], lambda value: f"{value:.0f}")
