"""A line of ``trace.jsonl``: what became of one frame."""

from __future__ import annotations

import json
import math

from clockseg.clockwork.trace import Record
from clockseg.video import Frame

_FRAME = '{"frame": '


def trace_line(frame: Frame, record: Record, *, encode_seconds: float) -> str:
    """One line of ``trace.jsonl``, without its end."""
    seconds = record.seconds
    base = frame.time_base
    return json.dumps(
        {
            "frame": frame.index,
            "pts": frame.pts,
            "time_base": None if base is None else f"{base.numerator}/{base.denominator}",
            "pts_seconds": None if frame.pts_seconds is None else round(frame.pts_seconds, 6),
            "size": list(frame.size),
            "fill": record.fill,
            "fired": list(record.fired),
            "signal": [_finite(signal) for signal in record.signal],
            "carried": record.carried,
            "seconds": {
                "decode": round(frame.decode_seconds, 6),
                "stages": [round(spent, 6) for spent in seconds.stages],
                "clock": round(seconds.clock, 6),
                "motion": round(seconds.motion, 6),
                "fuse": round(seconds.fuse, 6),
                "finish": round(seconds.finish, 6),
                "encode": round(encode_seconds, 6),
            },
        },
        allow_nan=False,
    )


def renumbered(line: str, by: int) -> str:
    """A line of a trace that ``trace_line`` made, with a frame number higher ``by`` so many.

    >>> renumbered('{"frame": 2, "pts": 1}', 100)
    '{"frame": 102, "pts": 1}'
    """
    number, comma, rest = line.removeprefix(_FRAME).partition(",")
    return f"{_FRAME}{int(number) + by}{comma}{rest}"


def _finite(signal: float | None) -> float | None:
    """What JSON can say of a clock's signal; not a number is none."""
    return round(float(signal), 6) if signal is not None and math.isfinite(signal) else None
