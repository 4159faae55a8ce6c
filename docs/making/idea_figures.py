"""Draws the figures of docs/the-idea.md from runs of a drawn network (``drawn_network``) and from a measured table.

Command: ``python docs/making/idea_figures.py``. It takes a second.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import drawn_network
import street_scene
from drawing import DEPTHS, Drawing, Point
from drawn_network import STAGES, Shown
from street_scene import COLOURS

from clockseg.clocks.rates import alternating, fixed_rate, frame_oracle
from clockseg.clocks.spec import parse_schedule

ROOT = Path(__file__).resolve().parents[2]
BLUES = (*DEPTHS[:2], "deep")
"""Colours of stages from shallow to deep, as in every figure."""
ADAPTIVE = "adaptive(0.07, watch=1)"
THRESHOLD = 0.07


def mark() -> str:
    """Draw the logo: a clock over three stages."""
    drawn = Drawing(32, 32, "clockseg")
    for index, fill in enumerate(DEPTHS):
        drawn.box((3 + 9 * index, 19), (8, 10), fill=fill, edge="none")
    drawn.disc((16, 10), 8, fill="#ffffff", edge="#0b4f8a")
    drawn.line((16, 5), (16, 10), (20, 12), tone="#0b4f8a", width=2)
    return drawn.svg()


def slow() -> str:
    """Draw three frames of a street, and the measured change of pixels and stages from frame to frame."""
    drawn = Drawing(720, 330, "Three frames of a street, and bars: pixels change most, the deepest stage least")
    for index, car in enumerate((14, 40, 66)):
        corner = (20 + 235 * index, 24)
        street_scene.draw_picture(drawn, corner, 210, car=car, person=118 - 4 * index)
        drawn.text((corner[0], 18), f"frame {index + 1}", align="start", tone="muted", size=12)
    drawn.text((20, 186), "how much changes from one frame to the next, street on six videos", align="start", bold=True)
    for index, (name, share) in enumerate(velocities().items()):
        y, fill = 200 + 31 * index, ("#8d93a1", *BLUES)[index]
        drawn.text((150, y + 15), name, align="end")
        drawn.box((160, y), (1200 * share, 21), fill=fill, edge="none")
        drawn.text((160 + 1200 * share + 8, y + 15), f"{share:.3f}", align="start", tone="muted", size=12)
    return drawn.svg()


def velocities() -> dict[str, float]:
    """Read the mean changes of the stages of ``street`` that ``clockseg reproduce velocity`` measured.

    >>> list(velocities())
    ['pixels', 'stage 1', 'stage 2', 'stage 3']
    """
    told = json.loads((ROOT / "benchmarks/results/reproduced/street/velocity.json").read_text(encoding="utf-8"))
    rows = [row for row in told["rows"] if row["source"].startswith("measured")]
    means = {row["what"]: float(row["temporal difference"].split()[0]) for row in rows}
    return dict(
        zip(("pixels", *STAGES), (means[name] for name in ("pixels", "stride8", "stride16", "context")), strict=True)
    )


def stages() -> str:
    """Draw a network as a row of stages, each coarser than the one before, and the fused output."""
    drawn = Drawing(720, 306, "A network as a row of stages; each computes a coarser map; the maps are fused")
    [now] = drawn_network.shown(frame_oracle, (40,))
    street_scene.draw_picture(drawn, (14, 44), 130, car=40)
    drawn.text((79, 34), "the frame", bold=True)
    _row(drawn, now, y=44, left=176, held=())
    drawn.text((360, 298), "deeper: coarser maps, fewer mistakes, slower to change", tone="muted", size=12)
    return drawn.svg()


def _row(drawn: Drawing, now: Shown, *, y: float, left: float, held: Sequence[int]) -> None:
    """Draw three stages side by side from ``left`` on, their maps below them, and the fused output at the right."""
    drawn.line((left - 26, y + 39), (left, y + 39), head=True)
    for index, name in enumerate(STAGES):
        x, rests = left + 124 * index, index in held
        fill = "paper" if rests else BLUES[index]
        drawn.box((x, y), (98, 78), fill=fill, edge=BLUES[index], dashed=rests)
        ink = "ink" if rests or not index else "#ffffff"
        ink = "#1d2126" if not rests and not index else ink
        drawn.text((x + 49, y + 36), name, bold=True, tone=ink)
        drawn.text((x + 49, y + 54), "holds" if rests else "fires", size=12, tone=ink)
        drawn.clock((x + 49, y - 17), rests=rests)
        if index < 2:
            drawn.line(
                (x + 98, y + 39), (x + 124, y + 39), head=True, dashed=index + 1 in held, tone=_tone(index + 1 in held)
            )
        drawn.line((x + 49, y + 78), (x + 49, y + 108), head=True, dashed=rests, tone=_tone(rests))
        drawn.cells((x, y + 110), (98, 59), now.held[index], COLOURS)
        drawn.box((x, y + 110), (98, 59), fill="none", edge="muted", dashed=rests)
        drawn.text((x + 49, y + 183), _kept(index, rests), size=11, tone="muted")
        drawn.line((x + 49, y + 190), (x + 49, y + 212), tone=_tone(rests), dashed=rests)
    right = left + 124 * 3 + 20
    drawn.line((left + 49, y + 212), (right + 62, y + 212), (right + 62, y + 172), head=True)
    drawn.text(((left + right) / 2 + 20, y + 228), "fused from fresh and held maps" if held else "fused", size=12)
    drawn.cells((right, y + 88), (130, 78), now.output, COLOURS)
    drawn.box((right, y + 88), (130, 78), fill="none", edge="ink")
    drawn.text((right + 65, y + 80), "labels", bold=True)


def _tone(rests: bool) -> str:
    return "muted" if rests else "ink"


def _kept(index: int, rests: bool) -> str:
    return "unchanged" if rests else f"{drawn_network.STRIDES[index]} x {drawn_network.STRIDES[index]} pixels per cell"


def held() -> str:
    """Draw a frame on which only the first stage fires."""
    drawn = Drawing(720, 306, "The next frame: stage 1 fires, stages 2 and 3 hold, and the output is fused from both")
    frames = drawn_network.shown(fixed_rate((1, 2, 2)), (40, 48))
    street_scene.draw_picture(drawn, (14, 44), 130, car=48)
    drawn.text((79, 34), "the next frame", bold=True)
    _row(drawn, frames[1], y=44, left=176, held=(1, 2))
    drawn.text(
        (360, 298),
        "dashed: not computed on this frame; the value is cached from the previous frame",
        tone="muted",
        size=12,
    )
    return drawn.svg()


def clocks() -> str:
    """Draw the firings of three schedules over twelve frames of a car that drives, waits and drives on."""
    drawn = Drawing(
        720, 470, "Firings of three schedules over twelve frames; the adaptive clock rests while the car waits"
    )
    for t, car in enumerate(drawn_network.CARS):
        street_scene.draw_picture(drawn, (_column(t), 14), 42, car=car, person=118 - 2 * t)
    drawn.text((120, 32), "the car drives,", align="end", size=12, tone="muted")
    drawn.text((120, 46), "waits, drives on", align="end", size=12, tone="muted")
    named = (("every frame", frame_oracle), ("alternating", alternating), (ADAPTIVE, parse_schedule(ADAPTIVE)))
    for index, (title, schedule) in enumerate(named):
        _firings(drawn, 66 + 98 * index, title, drawn_network.shown(schedule))
    _signal(drawn, 66 + 98 * 3 + 4, drawn_network.shown(parse_schedule(ADAPTIVE)))
    return drawn.svg()


def _column(t: int) -> float:
    return 132 + 48 * t


def _firings(drawn: Drawing, y: float, title: str, frames: list[Shown]) -> None:
    drawn.text((132, y + 13), title, align="start", bold=True)
    rate = sum(sum(one.fired) for one in frames) / sum(len(one.fired) for one in frames)
    drawn.text((708, y + 13), f"{rate:.0%} of all stages fire", align="end", tone="muted", size=12)
    for index, name in enumerate(STAGES):
        top = y + 20 + 23 * index
        drawn.text((120, top + 14), name, align="end", size=12)
        for t, one in enumerate(frames):
            if one.fired[index]:
                drawn.box((_column(t), top), (42, 19), fill=BLUES[index], edge=BLUES[index])
            else:
                drawn.box((_column(t), top), (42, 19), edge=BLUES[index], dashed=True)


def _signal(drawn: Drawing, y: float, frames: list[Shown]) -> None:
    """Draw the adaptive clock's signal, the change since its stages last fired, as bars against the threshold."""
    bottom, scale = y + 74, 600
    drawn.text((120, y + 34), "change of stage 1's", align="end", size=12)
    drawn.text((120, y + 48), "labels since the", align="end", size=12)
    drawn.text((120, y + 62), "last firing", align="end", size=12)
    for t, one in enumerate(frames):
        if one.signal is not None:
            fired = one.fired[-1]
            height = max(1.0, min(scale * one.signal, 66))
            drawn.box((_column(t) + 8, bottom - height), (26, height), fill=BLUES[2] if fired else "rule", edge="none")
    drawn.line((132, bottom), (708, bottom), tone="muted")
    level = bottom - scale * THRESHOLD
    drawn.line((132, level), (708, level), tone="#d55e00", dashed=True)
    drawn.text((134, level - 6), "threshold", align="start", size=11, tone="#c04d00")


def motion() -> str:
    """Draw held labels as they are and warped along the motion."""
    drawn = Drawing(720, 250, "Held labels lag behind the car; warped along the motion they fit again")
    then, now = 34.0, 62.0
    panels = (
        ("reused: late", then, False),
        ("motion", now, True),
        ("warped: on time", now, False),
    )
    for index, (title, car, arrows) in enumerate(panels):
        corner = (16 + 236 * index, 34)
        drawn.text((corner[0], 24), title, align="start", bold=True)
        _moved(drawn, corner, then, now, held_at=None if arrows else car)
        if arrows:
            _arrows(drawn, corner, then, now)
    lines = (
        "The network ran some frames ago.",
        "From optical flow, or from the codec.",
        "Grey: came into view, unknown.",
    )
    for index, text in enumerate(lines):
        drawn.text((16 + 236 * index, 186), text, align="start", size=12, tone="muted")
    drawn.text((360, 228), "Warping a map costs a small fraction of computing it.", size=12)
    return drawn.svg()


_PANEL = 216.0


def _moved(drawn: Drawing, corner: Point, then: float, now: float, *, held_at: float | None) -> None:
    """Draw the current picture, and over it the car as the held labels show it."""
    street_scene.draw_picture(drawn, corner, _PANEL, car=now)
    scale = _PANEL / street_scene.WIDTH
    if held_at is None:
        return
    if held_at != then:
        start, width, height = corner[0] + scale * then, scale * (now - then), scale * 26
        drawn.box((start, corner[1] + scale * 58), (width, height), fill="#b9bec6", edge="muted", dashed=True)
    for _, points in street_scene.shapes(held_at)[9:11]:
        drawn.shape(
            [(corner[0] + scale * x, corner[1] + scale * y) for x, y in points], fill="#d55e00cc", edge="#ffffff"
        )


def _arrows(drawn: Drawing, corner: Point, then: float, now: float) -> None:
    scale = _PANEL / street_scene.WIDTH
    for x, y in ((then + 8, 60), (then + 4, 69), (then + 4, 77), (then + 22, 60), (then + 24, 69), (then + 24, 77)):
        start = corner[0] + scale * x, corner[1] + scale * y
        drawn.line(start, (start[0] + scale * (now - then), start[1]), tone="#ffffff", head=True, width=1.8)


FIGURES = {"mark": mark, "slow": slow, "stages": stages, "held": held, "clocks": clocks, "motion": motion}


def write(folder: Path) -> None:
    """Write all figures as ``idea-NAME.svg``; the bytes are the same every time."""
    for name, draw in FIGURES.items():
        (folder / f"idea-{name}.svg").write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    write(ROOT / "docs/figures")
