"""Calls of the package's functions that one frame takes, and of how many functions, through both executors."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import clockseg
from benchmarks.harness import Facts, listing
from benchmarks.inputs import noise

OPTIONS: Facts = {}
PACKAGE = str(Path(clockseg.__file__).parent)
SCHEDULES = ("adaptive(0.02)", "skip_frame(2)", "skip_frame(3)")


def measure(asked: Namespace) -> Facts:
    """Count on the third frame, on which skip_frame(2) fires and skip_frame(3) doesn't."""
    fused = clockseg.load("street", engine="openvino", size=(128, 96))
    frames, rows = noise(fused, 3), []
    for executor, net in (("interpreter", replace(fused, executor=None)), ("fused", fused)):
        for text in SCHEDULES:
            session = clockseg.Session(net, clockseg.parse_schedule(text))
            found = [_calls(session, frame) for frame in frames][-1]
            own = sum(count for at, count in found.items() if at.startswith("/clockwork/"))
            facts = {"executor": executor, "schedule": text, "calls": found.total(), "clockwork": own}
            rows.append(facts | {"functions": len(found), "each": dict(found.most_common())})
    return {"rows": rows}


def _calls(session: Any, image: Any) -> Counter[str]:
    found: Counter[str] = Counter()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        # Comprehensions are nobody's functions.
        if event == "call" and code.co_filename.startswith(PACKAGE) and not code.co_name.startswith("<"):
            found[f"{code.co_filename.removeprefix(PACKAGE)}:{code.co_qualname}"] += 1

    sys.setprofile(note)
    try:
        session(image)
    finally:
        sys.setprofile(None)
    return found


def pages(facts: Facts) -> dict[str, str]:
    """One row an executor and a schedule."""
    columns = {"executor": "executor", "schedule": "schedule", "calls": "calls"}
    return {"hops": listing(facts["rows"], columns | {"of them in clockwork": "clockwork", "functions": "functions"})}
