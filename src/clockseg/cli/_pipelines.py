"""Pipelines and baselines on the command line: what ``evaluate`` and ``bench`` share."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, TypeAlias

from clockseg.errors import UsageError

if TYPE_CHECKING:
    from clockseg.clockwork.network import StagedNetwork
    from clockseg.clockwork.schedule import Schedule
    from clockseg.clockwork.session import Session
    from clockseg.execution.pipeline import How, Runner, Threaded

Load: TypeAlias = "Callable[[argparse.Namespace], StagedNetwork]"


def add_baseline_option(parser: argparse._ActionsContainer) -> None:
    """``--baseline``."""
    parser.add_argument(
        "--baseline",
        action="append",
        default=[],
        metavar="NETWORK",
        help="another network, run whole on every frame beside the schedules, such as street beside street-large; repeat "
        "the option for several",
    )


def load_baselines(args: argparse.Namespace, load: Load) -> list[tuple[str, StagedNetwork]]:
    """Each ``--baseline`` with its network, in the same engine."""
    return [(text, load(_with(args, network=text))) for text in args.baseline]


def check_concurrent(net: StagedNetwork) -> None:
    """Refuse engines in which the segments of a pipeline can't have threads of their own."""
    if net.engine.startswith("torch"):
        raise UsageError(
            "torch has one number of threads for the whole process, so segments can't have a share each. "
            "Give --engine openvino or onnxruntime."
        )


@dataclass
class Pipelines:
    """Runs schedules on ``net``, the network these options ask for, which ``load`` loads again for other numbers of threads."""

    args: argparse.Namespace
    load: Load
    net: StagedNetwork

    def start(self, stack: ExitStack, schedule: Schedule, how: How) -> Runner:
        """A runner whose workers end with ``stack``."""
        from clockseg.execution.pipeline import running

        if how != "concurrent" or len(schedule.segments()) == 1:
            return stack.enter_context(running(self.threaded, schedule, how=how, threads=self.threads))
        check_concurrent(self.net)
        costs = self.costs if self.threads > len(schedule.segments()) else None
        return stack.enter_context(running(self.threaded, schedule, how=how, threads=self.threads, costs=costs))

    def session(self, stack: ExitStack) -> Callable[[StagedNetwork, Schedule], Session]:
        """Return the factory of ``evaluate``'s sessions: concurrent pipelines with ``--concurrent``, ended with ``stack``."""
        from clockseg.clockwork.session import Session

        if not self.args.concurrent:
            return Session
        return lambda net, schedule: self.start(stack, schedule, "concurrent").session

    @cached_property
    def threaded(self) -> Threaded:
        """The network by the number of threads; loaded once for each."""
        return cache(
            lambda threads: self.net if threads == self.threads else self.load(_with(self.args, threads=threads))
        )

    @cached_property
    def threads(self) -> int:
        """In all."""
        from clockseg.execution.machine import threads_or_all

        return threads_or_all(self.args.threads)

    @cached_property
    def costs(self) -> tuple[float, ...]:
        """Seconds per stage, measured on noise, for dividing the threads among them."""
        from clockseg.evaluation.latency import noise
        from clockseg.execution.pipeline import stage_seconds

        return stage_seconds(self.net, noise(self.net, 8))


def _with(args: argparse.Namespace, **changed: object) -> argparse.Namespace:
    return argparse.Namespace(**(vars(args) | changed))
