"""Is anything lost, doubled or half-written when a run of many videos is killed, again and again, and resumed?

    python benchmarks/kills.py [--kills 50] [--docs]      results/kills.json and a table

Eight videos of three pieces each, two jobs. The run is killed (SIGKILL) after a random time, by turns the first process
alone, one of its workers, or all at once, and begun again with --resume; after the last time it may end. Labels,
overlays and traces (less their seconds) are compared, byte by byte, with those of a run in one process that nobody disturbed.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from clockseg.segmenting.manifest import read
from long_videos import SIZE, different, long_videos
from page import insert, table
from provenance import HERE, write_result

SCHEDULE = "adaptive(0.1)"
AT_WORK = 0.85
"""Of the kills come when pieces are being written; the others may come earlier."""
UNDER_WAY = "*/.part/.*.part"


def main() -> None:
    """Kill, resume, compare, write."""
    args = _arguments()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        long_videos(folder / "videos", args.videos)
        subprocess.run(_command(folder, "undisturbed", jobs=1), check=True)
        facts = _disturbed(folder, args)
        facts["different"] = different(folder / "undisturbed", folder / "disturbed")
    print(f"{facts['kills']} kills, {facts['runs']} runs; files that differ: {facts['different'] or 'none'}")
    write_result("kills", facts)
    if args.docs:
        insert(HERE.parent / "docs" / "many-videos.md", "kills", _table(facts))


def _disturbed(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    chance = random.Random(args.seed)
    killed: Counter[str] = Counter()
    runs, there = 0, []
    while True:
        process = subprocess.Popen(
            _command(folder, "disturbed", jobs=2, resume=True), start_new_session=True, stderr=subprocess.DEVNULL
        )
        runs += 1
        if killed.total() == args.kills:
            if process.wait() != 0:
                sys.exit("the run that nobody killed failed.")
            break
        if chance.random() < AT_WORK:
            _until_at_work(folder / "disturbed", process)
        time.sleep(chance.uniform(0, args.longest))
        if process.poll() is not None:
            # It had ended already: what it made is taken away, so that there is something to kill.
            _forget(folder / "disturbed")
            continue
        killed[_kill(process, chance)] += 1
        there.append(_there(folder / "disturbed"))
    return {"videos": args.videos, "kills": args.kills, "runs": runs, "killed": dict(killed), "there": there}


def _until_at_work(out: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until a piece is being written that wasn't there before."""
    before = set(out.glob(UNDER_WAY))
    while process.poll() is None and not set(out.glob(UNDER_WAY)) - before:
        time.sleep(0.02)


def _there(out: Path) -> list[int]:
    """How many videos are done, and how many pieces of others are whole."""
    done = sum(entry.state == "done" for _, entry in read(out))
    return [done, len(list(out.glob("*/.part/*/piece.json")))]


def _kill(process: subprocess.Popen[bytes], chance: random.Random) -> str:
    """Kill the run, or a worker of it and then the run; what was killed."""
    workers = [int(pid) for pid in _children(process.pid)]
    what = chance.choice(("first process", "worker", "all"))
    if what == "worker" and workers:
        os.kill(chance.choice(workers), signal.SIGKILL)
        time.sleep(chance.uniform(0, 1))
    if what == "all":
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
    return what


def _children(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []


def _forget(out: Path) -> None:
    """Take away what is done of half of the videos."""
    manifest = out / "manifest.jsonl"
    lines = manifest.read_text().splitlines(keepends=True)
    manifest.write_text(
        "".join(line.replace('"state": "done"', '"state": "waiting"') for line in lines[::2]) + "".join(lines[1::2])
    )


def _command(folder: Path, out: str, *, jobs: int, resume: bool = False) -> list[str]:
    size = f"{SIZE[0]}x{SIZE[1]}"
    command = [
        sys.executable,
        "-m",
        "clockseg",
        "segment",
        str(folder / "videos"),
        "--out",
        str(folder / out),
        "--quiet",
    ]
    command += ["--schedule", SCHEDULE, "--size", size, "--engine", "openvino", "--jobs", str(jobs)]
    return [*command, "--resume"] if resume else command


def _table(facts: dict[str, Any]) -> str:
    killed = ", ".join(f"{count} times {what}" for what, count in sorted(facts["killed"].items()))
    same = "none differs" if not facts["different"] else f"different: {', '.join(facts['different'])}"
    left = [sum(one) for one in facts["there"]]
    found = f"{sum(map(bool, left))} times something whole, up to {max(left)} videos and pieces"
    rows = [["videos", "kills", "runs", "what was killed", "what each left", "labels, overlays, traces"]]
    rows.append([str(facts["videos"]), str(facts["kills"]), str(facts["runs"]), killed, found, same])
    return table(rows)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--videos", type=int, default=8)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--longest", type=float, default=4.0, help="seconds before a kill, at most (default: 4)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--docs", action="store_true", help="put the table into docs/many-videos.md")
    return parser.parse_args()


if __name__ == "__main__":
    main()
