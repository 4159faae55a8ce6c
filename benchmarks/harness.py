"""Everything that measurements share: options, where a figure comes from, results and their pages.

A case is a module of ``benchmarks.cases``. Its docstring says what is measured, ``OPTIONS`` holds its options with their
defaults, ``measure(options)`` returns figures as plain values, and ``pages(figures)`` makes Markdown of them, by page. The
harness adds ``provenance`` to the figures and writes results/NAME.json and results/PAGE.md. A case that writes more, such as
a picture, has ``write(figures)``. A case with ``PARTS`` measures each part by itself, with ``part(name, options)`` in place of
``measure``: ``--parts NAME --write`` measures one part and keeps the stored figures of the others.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import pkgutil
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import cases
from clockseg.execution.machine import machine, versions

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
sys.path.append(str(ROOT / "tests"))  # networks and videos that cases share with tests
Facts = dict[str, Any]


def main(arguments: Sequence[str]) -> int:
    """Run a case, or list them all; the exit code is 1 if the case says that something is not as it should be."""
    names = [module.name for module in pkgutil.iter_modules(cases.__path__)]
    if not arguments or arguments[0] in ("-h", "--help"):
        print("python -m benchmarks NAME [--help]; NAME is one of:\n")
        print("\n".join(f"  {name:20} {(_case(name).__doc__ or '').splitlines()[0]}" for name in names))
        return 0
    name = arguments[0].replace("-", "_")
    if name not in names:
        print(f"benchmarks: there is no case {arguments[0]!r}; there are {', '.join(names)}.", file=sys.stderr)
        return 2
    case = _case(name)
    asked = _options(name, case, arguments[1:])
    stored = RESULTS / f"{name}.json"
    if asked.render and not stored.exists():
        print(f"benchmarks: {stored} isn't there; measure first, without --render.", file=sys.stderr)
        return 2
    facts = json.loads(stored.read_text()) if asked.render else _measured(name, case, asked)
    for page, text in pages(case, facts).items():
        print(f"{text}\n")
        if asked.write or asked.render:
            write_page(page, name, text)
    if (asked.write or asked.render) and hasattr(case, "write"):
        case.write(facts)
    if asked.write and not asked.render:
        stored.write_text(json.dumps(facts, indent=1, allow_nan=False) + "\n")
        say(f"{stored} written")
    return int(not facts.get("passed", True))


def _case(name: str) -> Any:
    return importlib.import_module(f"benchmarks.cases.{name}")


def _measured(name: str, case: Any, asked: Namespace) -> Facts:
    """Return a case's figures; of a case of parts those asked for, and the stored ones of the others."""
    if not hasattr(case, "PARTS"):
        return {"provenance": provenance(), **case.measure(asked)}
    stored = RESULTS / f"{name}.json"
    parts = json.loads(stored.read_text())["parts"] if stored.exists() else {}
    for part in asked.parts:
        say(part)
        parts[part] = {"provenance": provenance(), **case.part(part, asked)}
    return {"parts": {part: parts[part] for part in case.PARTS if part in parts}}


def pages(case: Any, facts: Facts) -> dict[str, str]:
    """Return a case's pages, with where the figures were measured; cases of parts say it of each part."""
    end = f"\n\n{where(facts)}" if "provenance" in facts else ""
    return {page: f"{text}{end}" for page, text in case.pages(facts).items()}


def _options(name: str, case: Any, arguments: Sequence[str]) -> Namespace:
    """Read the case's options; results are written if all have their defaults, or with --write."""
    parser = argparse.ArgumentParser(
        f"python -m benchmarks {name}", description=case.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write the results though options were changed")
    parser.add_argument("--render", action="store_true", help="measure nothing; make the pages of the stored results")
    options = case.OPTIONS | ({"parts": list(case.PARTS)} if hasattr(case, "PARTS") else {})
    for option, default in options.items():
        several = isinstance(default, list)
        kind = type(default[0] if several else default) if default not in (None, []) else int
        more: Facts = {"nargs": "*"} if several else {}
        kind = str if default == [] else kind
        shown = "all" if default is None else default
        flag = f"--{option.replace('_', '-')}"
        parser.add_argument(flag, type=kind, default=default, help=f"(default: {shown})", **more)
    asked = parser.parse_args(arguments)
    changed = any(getattr(asked, option) != default for option, default in options.items())
    asked.write = asked.write or not changed
    return asked


def say(sentence: str, *, again: bool = False) -> None:
    """Tell people at the terminal; ``again``: in place of the line before."""
    print(f"\r{sentence}" if again else sentence, end="" if again else "\n", file=sys.stderr, flush=True)


def provenance() -> Facts:
    """Return commit, date, machine and versions; a commit of files that were changed since ends with ``+``."""
    found, changed = _git("rev-parse", "--short", "HEAD"), _git("status", "--porcelain", "-uno", "--", "src")
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    commit = found and found + ("+" if changed else "")
    return {"commit": commit, "date": today, "machine": machine(), "versions": versions()}


def _git(*arguments: str) -> str | None:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return None if done.returncode else done.stdout.strip()


def where(facts: Mapping[str, Any]) -> str:
    """Return a line that says on which machine, when and at which commit the figures were measured."""
    made = facts["provenance"]
    return (
        f"{made['machine']['cores']} cores of {made['machine']['processor']}, {made['date']}, commit {made['commit']}."
    )


def write_page(page: str, name: str, text: str) -> None:
    """Write results/PAGE.md below the title that it has."""
    path = RESULTS / f"{page}.md"
    title = path.read_text().splitlines()[0] if path.exists() else f"# {page.replace('-', ' ').capitalize()}"
    path.write_text(f"{title}\n\nMeasured by `python -m benchmarks {name}`.\n\n{text}\n")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown, numbers to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def listing(rows: Iterable[Facts], columns: Mapping[str, str | Callable[[Facts], str]]) -> str:
    """Return a table of ``rows``; each column is the key of a text or number, or what makes the cell of a row.

    >>> print(listing([{"name": "a", "time": 0.5}], {"way": "name", "time": share("time")}))
    | way | time |
    | --- | ---: |
    | a | 50.0 % |
    """
    cells = [[cell(row) if callable(cell) else str(row[cell]) for cell in columns.values()] for row in rows]
    return table(list(columns), cells)


def share(key: str, digits: int = 1) -> Callable[[Facts], str]:
    """Return what makes a percentage of the number under ``key``."""
    return lambda row: percent(row[key], digits)


def figure(key: str, form: str = ".2f") -> Callable[[Facts], str]:
    """Return what writes the number under ``key`` in this form."""
    return lambda row: number(row[key], form)


def percent(part: float | None, digits: int = 1) -> str:
    """Return a share as a percentage, or a dash.

    >>> percent(0.6612), percent(None)
    ('66.1 %', '-')
    """
    return "-" if part is None else f"{100 * part:.{digits}f} %"


def number(value: float | None, form: str = ".2f") -> str:
    """Return a number in this form, or a dash."""
    return "-" if value is None else format(value, form)


def code(text: str) -> str:
    """Return a schedule in backticks, a plain name as it is."""
    return f"`{text}`" if "(" in text else text
