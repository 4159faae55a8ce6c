"""Two ways to measure: runs in interleaved rounds, and schedules side by side on one clip."""

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
from clockseg.clockwork.schedule import Schedule, schedule_for
from clockseg.evaluation.evaluate import Evaluation
from clockseg.evaluation.flicker import flicker
from clockseg.evaluation.metrics import finite

Run = Callable[[Any], Any]
Seconds = Mapping[str, Sequence[float]]


def interleaved(runs: Mapping[str, Run], frames: Sequence[Any], rounds: int, warm: int = 2) -> dict[str, list[float]]:
    """Return the mean seconds a frame of each run, by round; the runs take turns in another order each round.

    Before each turn ``warm`` frames run unmeasured, so that threads and caches are those of this run. The first round, in
    which engines compile, isn't counted.
    """
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name in random.Random(number).sample(list(runs), len(runs)):
            for frame in frames[:warm]:
                runs[name](frame)
            start = time.perf_counter()
            for frame in frames:
                runs[name](frame)
            if number:
                seconds[name].append((time.perf_counter() - start) / len(frames))
        say(f"round {number} of {rounds}", again=True)
    say("")
    return seconds


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


def compared(
    reference: StagedNetwork, ways: Sequence[tuple[str, StagedNetwork, Any]], clip: Any, *, passes: int = 1
) -> list[Facts]:
    """Return a row for the uncut ``reference`` and for each way (name, network, schedule) on a clip.

    Every frame goes through all of them before the next; agreement and time are relative to the reference's, seconds are
    those of all passes.
    """
    beside = [(name, net, schedule_for(schedule, len(net))) for name, net, schedule in ways]
    found = [_pass(reference, beside, clip) for _ in range(passes)]
    rows = [_pooled(each) for each in zip(*found, strict=True)]
    first = replace(rows[0], scores=rows[0].oracle, tally=rows[0].uncut, flickers=rows[0].uncut_flickers)
    whole = _row("uncut", first) | {"agreement": 1.0, "pixels": 1.0}
    return [whole, *(_row(name, one) for (name, _, _), one in zip(ways, rows, strict=True))]


def _pass(reference: StagedNetwork, ways: Sequence[tuple[str, StagedNetwork, Schedule]], clip: Any) -> Any:
    # Names may be the same for two networks, and evaluate wants each once.
    numbered = [(str(number), net, schedule) for number, (_, net, schedule) in enumerate(ways)]
    return evaluate(reference, {}, [clip], baselines=numbered, boundary=False, progress=_progress)


def _progress(at: Any) -> None:
    say(f"{at.clip}: {at.done} of {at.expected} frames", again=True)


def _pooled(passes: Sequence[Evaluation]) -> Evaluation:
    """Scores of the first pass, which repeat exactly, with the mean of all passes' seconds."""
    first = passes[0]
    seconds = statistics.fmean(one.tally.seconds for one in passes)
    uncut = statistics.fmean(one.uncut.seconds for one in passes)
    return replace(first, tally=replace(first.tally, seconds=seconds), uncut=replace(first.uncut, seconds=uncut))


def _row(name: str, one: Evaluation) -> Facts:
    return {
        "name": name,
        "mean_iu": finite(one.scores.mean_iu),
        "agreement": finite(one.agreement.mean_iu_of()),
        "pixels": finite(one.agreement.pixel_acc),
        "flicker": flicker(one.flickers),
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
