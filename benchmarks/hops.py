"""How many calls of functions of the package does one frame take, and of how many functions?

    PYTHONPATH=src python benchmarks/hops.py

Counts the calls made by ``Session.__call__`` on a frame after the first ones, itself included: on the bundled network
``street`` at a small size, through the interpreter and through the fused executor of its engine.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import clockseg

PACKAGE = str(Path(clockseg.__file__).parent)
SCHEDULES = {
    "adaptive": clockseg.adaptive(0.02),
    "skip-frame, fires": clockseg.skip_frame(2),
    "skip-frame, holds": clockseg.skip_frame(3),
}
WARM = 2
"""Frames before the one that is counted: with skip_frame(2) it fires, with skip_frame(3) it holds."""


def hops(session: clockseg.Session, image: Any) -> Counter[str]:
    """Calls of the package's functions for one frame, by function."""
    found: Counter[str] = Counter()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        # Comprehensions are no functions of anybody's.
        if event == "call" and code.co_filename.startswith(PACKAGE) and not code.co_name.startswith("<"):
            found[f"{code.co_filename.removeprefix(PACKAGE)}:{code.co_qualname}"] += 1

    sys.setprofile(note)
    try:
        session(image)
    finally:
        sys.setprofile(None)
    return found


def main() -> None:
    """Print a line for each schedule and executor; with ``--all`` each function too."""
    random = np.random.default_rng(0)
    images = [random.integers(0, 256, (96, 128, 3), dtype=np.uint8) for _ in range(WARM + 1)]
    fused = clockseg.load("street", engine="openvino", size=(128, 96))
    alone = clockseg.StagedNetwork(**{**vars(fused), "executor": None})
    for executor, net in (("interpreter", alone), ("fused", fused)):
        for name, schedule in SCHEDULES.items():
            session = clockseg.Session(net, schedule)
            for image in images[:WARM]:
                session(image)
            found = hops(session, images[WARM])
            own = sum(count for at, count in found.items() if at.startswith("/clockwork/"))
            print(
                f"{executor:12} {name:18} {found.total():4} hops, {own:3} of them in clockwork, {len(found):3} functions"
            )
            if "--all" in sys.argv:
                for at, count in found.most_common():
                    print(f"    {count:3} {at}")


if __name__ == "__main__":
    main()
