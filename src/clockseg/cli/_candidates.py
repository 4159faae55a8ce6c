"""Where a network can be cut, as ``clockseg inspect --cuts`` prints it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from clockseg.cli._table import align, percent, shown
from clockseg.cli._units import count, in_bytes, sides

if TYPE_CHECKING:
    from clockseg.graph.candidates import Candidate
    from clockseg.graph.choice import Choice
    from clockseg.networks.cut_candidates import CutCandidates

EXPLAINED = """above: share of the multiply-adds (and of the time, measured uncut) that makes these tensors.
every frame: share of the multiply-adds that runs on a frame on which only stage 1 fires, cut here and at {end}.
skip: whether what is fresh then reaches the output while the rest holds."""


def text(found: CutCandidates) -> str:
    """What was found as a table to read."""
    width, height = found.size
    time = "" if found.seconds is None else f", {1e3 * found.seconds:.1f} ms uncut, node by node in OpenVINO"
    names = [f"reads {name} {sides(shape)}" for name, shape in found.inputs.items()]
    names += [f"gives {name} {sides(shape)}" for name, shape in found.outputs.items()]
    head = f"{found.network}: {width}x{height}, {count(found.multiply_adds)} multiply-adds to {found.output}{time}"
    rows: list[tuple[str, ...]] = [
        ("cut at", "stride", "channels", "size", "above", "of time", "every frame", "skip", "now")
    ]
    rows += [_row(one, found) for one in found.candidates]
    if found.seconds is None:
        rows = [(*row[:5], *row[6:]) for row in rows]
    if not found.cuts:
        rows = [row[:-1] for row in rows]
    end = " + ".join(found.candidates[-1].tensors)
    lines = [head, *names, "", align(rows), "", EXPLAINED.format(end=end), "", *_choices(found)]
    return "\n".join(lines)


def _row(one: Candidate, found: CutCandidates) -> tuple[str, ...]:
    return (
        " + ".join(one.tensors),
        shown(one.stride, str),
        shown(one.channels, str),
        in_bytes(one.bytes),
        percent(one.above),
        percent(one.seconds_above),
        percent(one.every_frame),
        "yes" if one.skip else "",
        "cut" if one.tensors in found.cuts else "",
    )


def _choices(found: CutCandidates) -> Iterator[str]:
    by = "multiply-adds" if found.seconds is None else "time"
    for choice in found.choices:
        yield f"--at auto --for {choice.purpose}, by {by}: {_cuts(choice)}"
        yield f"    {_shares(choice)}{'; ' + choice.note if choice.note else ''}"
        if choice.runner_up is not None:
            yield f"    next best: {_cuts(choice.runner_up)}; {_shares(choice.runner_up)}"


def _cuts(choice: Choice) -> str:
    return ", ".join("+".join(cut) for cut in choice.cuts)


def _shares(choice: Choice) -> str:
    stages = " + ".join(f"{100 * share:.0f}" for share in choice.stages)
    return (
        f"{percent(choice.every_frame)} on every frame (stages {stages} %, what fuses them {100 * choice.shared:.0f} %)"
    )
