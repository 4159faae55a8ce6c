"""``clockseg evaluate --streaming FPS``: networks on frames that come in real time."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, TypeAlias

from clockseg.cli._options import above_zero
from clockseg.cli._pipelines import Pipelines
from clockseg.cli._terminal import align, percent, shown

if TYPE_CHECKING:
    from clockseg.clockwork.network import StagedNetwork
    from clockseg.clockwork.schedule import Schedule
    from clockseg.datasets.clips import Clip
    from clockseg.evaluation.streaming import Streamed
    from clockseg.execution.pipeline import How

One: TypeAlias = "Callable[[Clip, Callable[[str], None]], Sequence[Streamed]]"
"""From a clip, and what is told of what could not be decoded, to what was shown of it."""


def add_options(parser: argparse._ActionsContainer) -> None:
    """``--streaming --ahead``."""
    parser.add_argument(
        "--streaming",
        type=above_zero,
        metavar="FPS",
        help="let frames come in real time and score the newest finished output at each frame's deadline",
    )
    parser.add_argument(
        "--ahead",
        action="store_true",
        help="with --streaming: compute the delayed segments of pipelines when the output has left, on all threads",
    )


@contextmanager
def prepared(
    pipelines: Pipelines,
    schedules: Sequence[tuple[str, Schedule]],
    baselines: Sequence[tuple[str, StagedNetwork]],
) -> Iterator[One]:
    """Yield a function that streams a clip through the uncut network, the schedules and the baselines, in that order."""
    from clockseg.clockwork.schedule import frame_oracle
    from clockseg.clockwork.session import Session
    from clockseg.evaluation.streaming import evaluate_streaming
    from clockseg.execution.pipeline import Runner

    args, net = pipelines.args, pipelines.net
    with ExitStack() as stack:
        scheduled = [(name, pipelines.start(stack, schedule, _how(args))) for name, schedule in schedules]
        whole = [(name, Runner(Session(one.uncut(), frame_oracle))) for name, one in (("full", net), *baselines)]
        runners = [whole[0], *scheduled, *whole[1:]]

        def one(clip: Clip, warn: Callable[[str], None]) -> Sequence[Streamed]:
            told = (lambda sentence: None) if args.quiet else _told
            return evaluate_streaming(net, runners, [clip], fps=args.streaming, progress=told, warn=warn)

        yield one


def report(args: argparse.Namespace, net: StagedNetwork, found: Sequence[Streamed]) -> str:
    """One JSON object, or the table."""
    if not args.json:
        return table(found)
    data = args.data[0] if len(args.data) == 1 else args.data
    facts = {"data": data, "network": net.name, "engine": net.engine, "fps": args.streaming, "pipelines": _how(args)}
    return json.dumps({**facts, "schedules": [one.facts() for one in found]}, allow_nan=False)


def table(found: Sequence[Streamed]) -> str:
    """A row a network or schedule, aligned; ``-`` where there is nothing to tell."""
    return align([list(HEAD), *(row(one) for one in found)])


HEAD = ("schedule", "mean IU", "kept", "agreement", "age ms", "p95", "oldest ms", "finished", "dropped", "on time")


def row(one: Streamed) -> list[str]:
    """The cells under ``HEAD``."""
    facts = one.facts()
    return [
        one.name,
        percent(facts["mean_iu"]),
        percent(facts["kept"]),
        percent(facts["agreement"]["mean_iu"]),
        _age(facts["age_ms"], "median"),
        _age(facts["age_ms"], "p95"),
        _age(facts["oldest_age_ms"], "median"),
        str(one.finished),
        str(one.dropped),
        percent(one.on_time / len(one.ages)),
    ]


def _age(ages: dict[str, float] | None, which: str) -> str:
    return shown(None if ages is None else ages[which], lambda value: f"{value:.0f}")


def _how(args: argparse.Namespace) -> How:
    return "concurrent" if args.concurrent else "ahead" if args.ahead else "serial"


def _told(sentence: str) -> None:
    print(f"clockseg: {sentence}", file=sys.stderr, flush=True)
