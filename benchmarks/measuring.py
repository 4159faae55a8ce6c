"""Two ways to measure: runs that take turns, and schedules side by side on one clip."""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from benchmarks.harness import Facts, say
from clockseg import evaluate
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import schedule_for
from clockseg.evaluation.evaluate import Evaluation
from clockseg.evaluation.flicker import flicker_facts
from clockseg.evaluation.metrics import finite

Run = Callable[[Any], Any]
Seconds = Mapping[str, Sequence[float]]


def turns(runs: Mapping[str, Any], turn: Callable[[Any], Any], rounds: int) -> dict[str, list[Any]]:
    """Return what ``turn`` gives for each run, by round; the runs take turns in another order each round.

    The first round, in which engines compile and fill their caches, isn't counted.
    """
    found: dict[str, list[Any]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name in random.Random(number).sample(list(runs), len(runs)):
            given = turn(runs[name])
            found[name] += [given] if number else []
        say(f"round {number} of {rounds}", again=True)
    say("")
    return found


def interleaved(runs: Mapping[str, Run], frames: Sequence[Any], rounds: int, warm: int = 2) -> dict[str, list[float]]:
    """Return the mean seconds a frame of each run, by round (see ``turns``).

    Before each turn ``warm`` frames run unmeasured, so that threads and caches are those of this run.
    """

    def turn(run: Run) -> float:
        for frame in frames[:warm]:
            run(frame)
        return took(lambda: [run(frame) for frame in frames]) / len(frames)

    return turns(runs, turn, rounds)


def ratio(seconds: Seconds, over: str, under: str) -> float:
    """Return the median over rounds of one run's time over another's."""
    return round(statistics.median(a / b for a, b in zip(seconds[over], seconds[under], strict=True)), 4)


def milliseconds(seconds: Sequence[float]) -> float:
    """Return the median in milliseconds."""
    return round(1000 * statistics.median(seconds), 3)


def took(run: Callable[[], Any]) -> float:
    """Return the seconds of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def compared(reference: StagedNetwork, ways: Sequence[tuple[str, StagedNetwork, Any]], clip: Any) -> list[Facts]:
    """Return a row for the uncut ``reference`` and for each way (name, network, schedule) on a clip.

    Every frame goes through all of them before the next; agreement and time are relative to the reference's.
    """
    # Names may be the same for two networks, and evaluate wants each once.
    beside = [(str(number), net, schedule_for(schedule, len(net))) for number, (_, net, schedule) in enumerate(ways)]

    def progress(at: Any) -> None:
        say(f"{at.clip}: {at.done} of {at.expected} frames", again=True)

    rows = evaluate(reference, {}, [clip], baselines=beside, progress=progress)
    first = replace(rows[0], scores=rows[0].oracle, tally=rows[0].uncut, flickers=rows[0].uncut_flickers)
    whole = _row("uncut", first) | {"agreement": 1.0, "pixels": 1.0}
    return [whole, *(_row(name, one) for (name, _, _), one in zip(ways, rows, strict=True))]


def _row(name: str, one: Evaluation) -> Facts:
    return {
        "name": name,
        "mean_iu": finite(one.scores.mean_iu),
        "agreement": finite(one.agreement.mean_iu_of()),
        "pixels": finite(one.agreement.pixel_acc),
        "flicker": flicker_facts(one.flickers)["flicker"],
        "network_rate": one.tally.network_rate,
        "fire_rate": one.tally.fire_rate,
        "milliseconds": 1000 * (one.tally.seconds_per_frame or 0.0),
        "time": one.relative_time,
        "multiply_adds": one.relative_multiply_adds,
    }


def clockseg(*arguments: str) -> str:
    """Run the command line in a process of its own and return what it prints; end the program if it fails."""
    command = [sys.executable, "-m", "clockseg", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
