"""Results of a run of many videos that is killed again and again and resumed, against those of an undisturbed one.

Videos of three pieces each, two jobs. The run is killed (SIGKILL) after a random time, by turns the first process alone,
one of its workers, or all at once, and begun again with --resume. Labels, overlays and traces (less their seconds) are
compared byte by byte.
"""

from __future__ import annotations

import subprocess
import tempfile
from argparse import Namespace
from pathlib import Path

from benchmarks.harness import Facts, table

OPTIONS = {"videos": 8, "kills": 50, "longest": 4.0, "seed": 0}


def measure(asked: Namespace) -> Facts:
    """Kill, resume and compare."""
    from killing import command, disturbed
    from long_videos import different, long_videos

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        long_videos(folder / "videos", asked.videos)
        subprocess.run(command(folder, "undisturbed", "--jobs", "1"), check=True)
        facts = disturbed(folder, asked)
        facts["different"] = different(folder / "undisturbed", folder / "disturbed")
    return facts | {"passed": not facts["different"]}


def pages(facts: Facts) -> dict[str, str]:
    """One row."""
    killed = ", ".join(f"{count} times {what}" for what, count in sorted(facts["killed"].items()))
    same = "none differs" if not facts["different"] else f"different: {', '.join(facts['different'])}"
    left = [sum(one) for one in facts["there"]]
    found = f"{sum(map(bool, left))} times something whole, up to {max(left)} videos and pieces"
    head = ["videos", "kills", "runs", "what was killed", "what each left", "labels, overlays, traces"]
    counts = [str(facts[key]) for key in ("videos", "kills", "runs")]
    return {"kills": table(head, [[*counts, killed, found, same]])}
