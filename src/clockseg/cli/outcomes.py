"""Output of ``segment``: the result of each video, and a final table if there are several."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from clockseg.cli.progress import Watch
from clockseg.cli.terminal import columns, fail, indented, percent, say, warn
from clockseg.errors import ClocksegError, DataError, fault
from clockseg.segmenting.inputs import Input
from clockseg.segmenting.segmentation import Outcome
from clockseg.segmenting.work import Segmented

LONGEST_NAME = 60
LONGEST_TABLE = 40
"""Rows; of more videos only those that failed or were cut short are in the table."""
FEWEST_TIMED = 20
"""Frames after the first; the network's time on fewer is too uncertain to be told."""
LEAST_BUSY = 0.3
"""The least share of a run that is worth naming as what kept it busy."""


def tell_each(
    outcomes: Generator[Outcome, None, None], inputs: Sequence[Input], watch: Watch, *, quiet: bool, page: bool
) -> int:
    """Print the result of each of ``inputs`` as it comes, and a table of several at the end; return the exit code.

    ``watch`` counts those that have ended. ``page``: also write the page of each. The error of a single input is raised,
    unless its files are at fault (``OSError``, ``DataError``), which is printed.
    """
    told: list[Outcome] = []
    try:
        with closing(outcomes):
            for outcome in outcomes:
                error = outcome.error
                if len(inputs) == 1 and error is not None and not isinstance(error, OSError | DataError):
                    raise error
                told.append(outcome)
                watch.ended()
                _tell(outcome, quiet=quiet)
                if page and outcome.done is not None and not outcome.before:
                    _write_page(outcome.done.folder)
    except KeyboardInterrupt:
        say("run the same command with --resume to continue from here.")
        raise
    finally:
        if len(inputs) > 1 and not quiet and told:
            place = {input.key: number for number, input in enumerate(inputs)}
            print(_table(sorted(told, key=lambda one: place[one.input.key]), len(place)))
    return 0 if all(outcome.whole for outcome in told) else 1


def _tell(outcome: Outcome, *, quiet: bool) -> None:
    source = outcome.input.source
    if outcome.error is not None:
        text = _said(outcome.error)
        fail(text if source in text else f"{source}: {text}")
    if outcome.done is None:
        return
    if not outcome.before:
        for sentence in (*outcome.done.problems, *outcome.done.summary["warnings"]):
            warn(f"{source}: {sentence}")
    if not quiet:
        print(indented(f"{source}: done before") if outcome.before else _told(outcome.done), flush=True)


def _write_page(folder: Path) -> None:
    from clockseg.report import write
    from clockseg.segmenting.results import REPORT

    write([folder], folder / REPORT, overwrite=True, warn=say)


def _said(error: Exception) -> str:
    if isinstance(error, ClocksegError | OSError):
        return str(error)
    return fault(error) or f"{type(error).__name__}: {error}"


def _told(done: Segmented) -> str:
    summary: dict[str, Any] = done.summary
    if summary["network_rate"] is None:
        return f"{done.folder}: 1 frame"
    rates, time, frames = summary["fire_rate"], _time(summary), summary["frames"]
    told = f"{done.folder}: {frames} frames in {summary['wall_seconds']:.1f} s ({summary['fps']:.1f} FPS)"
    # As in the summary: the network always runs on the first frame, which says nothing about the schedule.
    later = frames - 1
    ran = f"The network ran on {round(summary['network_rate'] * later)} of the {later} frames after the first"
    if len(set(rates.values())) > 1:
        ran += f" ({', '.join(f'{name} on {round(rate * later)}' for name, rate in rates.items())})"
    if time:
        ran += f", in {percent(time)} of the time that it would need for all of them (estimated)"
    carry = "" if summary["carry"] == "identity" else f" Carry: {summary['carry']}."
    return f"{told}. {ran}.{carry}{_busiest(summary)}"


def _time(figures: dict[str, Any]) -> float | None:
    """Return the estimated time relative to the network's on every frame; None if too few frames were timed."""
    return figures.get("relative_time_estimate") if (figures.get("frames") or 0) > FEWEST_TIMED else None


def _busiest(summary: dict[str, Any]) -> str:
    """Return a sentence on the activity that took the most time, or "" if it took little of it, as in a short run.

    Activities overlap, each in a thread of its own.
    """
    name, seconds = max(summary["busy_seconds"].items(), key=lambda one: one[1])
    share = min(1.0, seconds / summary["wall_seconds"])
    if share < LEAST_BUSY:
        return ""
    what = {"writing": "drawing and encoding", "showing": "making outputs", "network": "the network"}.get(name, name)
    return f" Busiest: {what}, {percent(share)} of the time."


def _table(outcomes: Sequence[Outcome], given: int) -> str:
    """A row a video, or, of many, a row of each that isn't whole; and the sum."""
    shown = outcomes if len(outcomes) <= LONGEST_TABLE else [one for one in outcomes if not one.whole]
    failed = sum(one.error is not None for one in outcomes)
    cut = sum(not one.whole for one in outcomes) - failed
    before, coming = sum(one.before for one in outcomes), given - len(outcomes)
    counts = {"of them before": before, "with problems": cut, "failed": failed, "to come": coming}
    parts = [f"{len(outcomes) - failed} of {given} videos segmented"]
    parts += [f"{count} {what}" for what, count in counts.items() if count]
    total = f"{', '.join(parts)}; {sum(_figures(one).get('frames') or 0 for one in outcomes)} frames"
    return f"{columns(shown, _CELLS)}\n{total}" if shown else total


def _short(text: str) -> str:
    """A name with its middle left out, if it is long."""
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME // 2]}…{text[-LONGEST_NAME // 2 :]}"


def _figures(outcome: Outcome) -> dict[str, Any]:
    return {} if outcome.done is None else outcome.done.summary


def _state(outcome: Outcome) -> str:
    if outcome.before:
        return "done before"
    return "failed" if outcome.error is not None else "" if outcome.whole else "with problems"


_CELLS: dict[str, Callable[[Outcome], str]] = {
    "video": lambda one: _short(one.input.source),
    "frames": lambda one: str(_figures(one).get("frames", "")),
    "network ran on": lambda one: percent(_figures(one).get("network_rate")),
    "time": lambda one: percent(_time(_figures(one))),
    "": _state,
}
