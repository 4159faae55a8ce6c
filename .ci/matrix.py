"""Run the quick tests with the lowest dependency versions that pyproject.toml allows, and with the newest.

    python .ci/matrix.py [lowest|newest ...]

The lowest versions run on the oldest Python that the project supports, the newest on the newest Python that is installed. Both are
looked for under pyenv and on the PATH. A run whose Python is missing is skipped, and a line says so.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OLDEST = tuple(int(part) for part in PROJECT["requires-python"].removeprefix(">=").split("."))
RUNTIME_EXTRAS = ("onnxruntime", "plots")
Version = tuple[int, ...]


def main(runs: list[str]) -> int:
    """Run what is asked for, or both; return the exit status."""
    unknown = set(runs) - {"lowest", "newest"}
    if unknown:
        print(f"unknown run {sorted(unknown)[0]!r}; choose lowest, newest, or nothing for both", file=sys.stderr)
        return 2
    pythons = installed_pythons()
    failed = False
    for run in runs or ["lowest", "newest"]:
        python = pythons.get(OLDEST) if run == "lowest" else newest(pythons)
        if python is None:
            wanted = ".".join(map(str, OLDEST))
            wanted = f"Python {wanted}" if run == "lowest" else f"a Python newer than {wanted}"
            print(f"matrix: {run} skipped, because {wanted} is not installed", flush=True)
        else:
            failed |= not passed(run, python)
    return int(failed)


def installed_pythons() -> dict[Version, str]:
    """Return the interpreters that the project supports, by minor version; of one minor version the newest."""
    roots = [Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"]
    candidates = [str(path) for root in roots for path in root.glob("3.*/bin/python")]
    candidates += [found for minor in range(OLDEST[1], 40) if (found := shutil.which(f"python3.{minor}"))]
    found: dict[Version, tuple[Version, str]] = {}
    for python in [*candidates, sys.executable]:
        version = version_of(python)
        if version >= OLDEST and version > found.get(version[:2], ((), ""))[0]:
            found[version[:2]] = version, python
    return {minor: python for minor, (_, python) in found.items()}


def version_of(python: str) -> Version:
    """Return the version of a final release, or () if the interpreter does not run."""
    code = "import sys, venv; print(*sys.version_info[:3] if sys.version_info.releaselevel == 'final' else ())"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return tuple(map(int, done.stdout.split())) if done.returncode == 0 else ()


def newest(pythons: dict[Version, str]) -> str | None:
    """Return the newest interpreter, unless it is the oldest that is supported."""
    latest = max(pythons, default=OLDEST)
    return pythons[latest] if latest > OLDEST else None


def lower_bounds() -> list[str]:
    """Return ``name==version`` for each runtime dependency: the lowest version that pyproject.toml allows."""
    lines = [*PROJECT["dependencies"], *(line for name in RUNTIME_EXTRAS for line in extra(name))]
    matches = [re.match(r"([\w.-]+)>=([\d.]+)", line) for line in lines]
    if not all(matches):
        raise SystemExit(f"matrix: each dependency needs a lower bound NAME>=VERSION; found {lines}")
    return [f"{match[1]}=={match[2]}" for match in matches if match]


def extra(name: str) -> Iterable[str]:
    return PROJECT["optional-dependencies"][name]


def passed(run: str, python: str) -> bool:
    """Install and test one end of the range; tell the versions and the seconds."""
    start = time.monotonic()
    folder = ROOT / f".venv-{run}"
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    inside = str(folder / "bin" / "python")
    pins = lower_bounds() if run == "lowest" else []
    # Wheels only: a dependency that would have to be built from source is told of, not tested.
    install = [inside, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", *pins]
    subprocess.run([*install, "--editable", ".[test]"], cwd=ROOT, check=True)
    ready = time.monotonic()
    print(f"matrix: {run} on {version_text(python)}: {', '.join(versions(inside))}", flush=True)
    if run == "newest":
        tell_older(inside)
    # Deprecations in the newest versions are shown, and are errors with the pinned versions alone.
    tests = [inside, "-m", "pytest", "-n", "auto", "--dist", "loadfile", "-m", "not slow", "-W", "default"]
    done = subprocess.run([*tests, "--doctest-ignore-import-errors", "--quiet"], cwd=ROOT, check=False)
    end = time.monotonic()
    word = "passed" if done.returncode == 0 else "FAILED"
    print(f"matrix: {run} {word}: installed in {ready - start:.0f} s, tested in {end - ready:.0f} s", flush=True)
    return done.returncode == 0


def version_text(python: str) -> str:
    return "Python " + ".".join(map(str, version_of(python)))


def names() -> set[str]:
    return {pin.partition("==")[0] for pin in lower_bounds()}


def versions(python: str) -> list[str]:
    """Return ``name version`` of each runtime dependency as installed."""
    return [f"{each['name']} {each['version']}" for each in listed(python)]


def tell_older(python: str) -> None:
    """Print a line for each runtime dependency whose newest release was not installed."""
    for each in listed(python, "--outdated"):
        print(
            f"matrix: {each['name']} {each['latest_version']} exists, but {each['version']} was installed: the newest has no wheel "
            "for this Python, or another package does not allow it",
            flush=True,
        )


def listed(python: str, *options: str) -> list[dict[str, str]]:
    done = subprocess.run(
        [python, "-m", "pip", "list", "--format", "json", *options], capture_output=True, text=True, check=True
    )
    return [each for each in json.loads(done.stdout) if each["name"].lower().replace("_", "-") in names()]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
