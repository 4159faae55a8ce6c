"""Golden results: what runs of the package gave at a known commit, and what differs today.

A run goes through public names and the command line alone, so modules may move under it. Of each run are kept the SHA-256
of the decoded label maps with the pixels per class, traces and tables without seconds. Hashes are compared only on the
processor and with the versions that they were made with; elsewhere class counts and figures are compared with a tolerance.

    python tests/goldens/record.py compare [RUN ...]        compare all runs, or these; exit code 1 if one differs
    python tests/goldens/record.py compare --quick          the runs that need neither shared data nor torch
    python tests/goldens/record.py record [RUN ...] [--reason TEXT]    write RUN.json anew; TEXT says why it differs
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import runs  # noqa: E402

PACKAGES = ("numpy", "av", "opencv-python-headless", "onnx", "openvino", "torch", "transformers")
FEATURES = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile")
COUNTS = 0.005
"""Share of a video's pixels that may have another class where hashes can't be compared."""
RELATIVE, ABSOLUTE = 0.02, 0.02


def main() -> int:
    """Record or compare; print a line for each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("compare", "record"))
    parser.add_argument("run", nargs="*", metavar="RUN", help=f"one of {', '.join(runs.RUNS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="only runs on generated frames")
    parser.add_argument("--reason", help="with record: why the results differ from those before")
    args = parser.parse_args()
    if unknown := set(args.run) - set(runs.RUNS):
        parser.error(f"no run is named {', '.join(sorted(unknown))}; there are {', '.join(runs.RUNS)}.")
    names = args.run or [name for name in runs.RUNS if not args.quick or name in runs.QUICK]
    failed = False
    for name in names:
        if missing := runs.missing(name):
            print(f"{name}: skipped: {missing}", flush=True)
            continue
        found = in_folder(runs.RUNS[name])
        if args.action == "record":
            write(name, found, args.reason)
            print(f"{name}: recorded", flush=True)
            continue
        differences = compare(name, found)
        failed = failed or bool(differences)
        print(f"{name}: {'equal' if not differences else 'differs'}{how(name)}", flush=True)
        for line in differences:
            print(f"    {line}", flush=True)
    return int(failed)


def in_folder(run: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    """Return the results of a run as JSON gives them back."""
    with tempfile.TemporaryDirectory(prefix="goldens-") as folder:
        return dict(json.loads(json.dumps(run(Path(folder)))))


def write(name: str, found: dict[str, Any], reason: str | None) -> None:
    """Write ``NAME.json``."""
    facts = {"commit": commit(), "reason": reason, "made_with": made_with(), "found": found}
    text = json.dumps(facts, indent=1, allow_nan=False)
    for _ in range(2):  # the innermost lists and objects on one line
        text = re.sub(r"[\[{][^\[\]{}\n]*\n[^\[\]{}]*[\]}]", lambda found: re.sub(r"\s*\n\s*", " ", found[0]), text)
    (HERE / f"{name}.json").write_text(text + "\n")


def compare(name: str, found: dict[str, Any], *, alone: bool = True) -> list[str]:
    """Return a line for each value that is not as recorded; none if all are.

    ``alone``: nothing else ran in this process. Otherwise figures have the tolerance, since an engine's last bits depend on that.
    """
    golden = json.loads((HERE / f"{name}.json").read_text())
    return list(differences(golden["found"], found, "", exact=alone and golden["made_with"] == made_with()))


def how(name: str) -> str:
    """Return a remark where hashes can't be compared."""
    there = json.loads((HERE / f"{name}.json").read_text())["made_with"]
    here = made_with()
    other = [f"{key} {there.get(key)} -> {here.get(key)}" for key in here if here.get(key) != there.get(key)]
    return f" (within the tolerance: {', '.join(other)})" if other else ""


def made_with() -> dict[str, str | None]:
    """Return what decides the last bits of a result: versions, processor, and its features."""
    found: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    info = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    told = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in info)}
    flags = told.get("flags", "").split()
    return found | {"processor": told.get("model name"), "features": " ".join(f for f in FEATURES if f in flags)}


def differences(there: Any, here: Any, path: str, *, exact: bool) -> Iterator[str]:
    """Yield a line for each place where two JSON values differ, beyond the tolerance unless ``exact``."""
    if isinstance(there, dict) and isinstance(here, dict):
        if {"sha256", "counts"} <= there.keys() & here.keys():
            yield from _differing_maps(there, here, path, exact=exact)
            return
        for key in sorted(there.keys() | here.keys()):
            if key not in here or key not in there:
                yield f"{path}/{key}: {'is gone' if key in there else 'is new'}"
            else:
                yield from differences(there[key], here[key], f"{path}/{key}", exact=exact)
    elif isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
        for index, (one, other) in enumerate(zip(there, here, strict=True)):
            yield from differences(one, other, f"{path}[{index}]", exact=exact)
    elif not _same(there, here, exact=exact):
        yield f"{path}: {there!r} -> {here!r}"


def _same(there: Any, here: Any, *, exact: bool) -> bool:
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in (there, here))
    if exact or not numbers:
        return bool(there == here) or (not exact and isinstance(there, str) and isinstance(here, str))
    return math.isclose(there, here, rel_tol=RELATIVE, abs_tol=ABSOLUTE)


def _differing_maps(there: dict[str, Any], here: dict[str, Any], path: str, *, exact: bool) -> Iterator[str]:
    if there["shape"] != here["shape"]:
        yield f"{path}: {there['shape']} -> {here['shape']} (frames, height, width)"
        return
    classes = there["counts"].keys() | here["counts"].keys()
    moved = sum(abs(there["counts"].get(one, 0) - here["counts"].get(one, 0)) for one in classes) / 2
    share = moved / math.prod(there["shape"])
    if there["sha256"] != here["sha256"] and (exact or share > COUNTS):
        first = next((k for k, (a, b) in enumerate(zip(there["frames"], here["frames"])) if a != b), None)
        yield f"{path}: other maps from frame {first} on; class counts differ by {100 * share:.3f} % of the pixels"


def commit() -> str | None:
    """Return the commit that the imported package stands at."""
    import clockseg

    home = Path(clockseg.__file__).parent
    asked = ("git", "-C", str(home), "rev-parse", "--short", "HEAD")
    done = subprocess.run(asked, capture_output=True, text=True, check=False, env=os.environ | {"LC_ALL": "C"})
    return done.stdout.strip() or None


if __name__ == "__main__":
    sys.exit(main())
