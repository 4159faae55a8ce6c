"""The Python reference: a page for the core names and one per submodule, each listing its public names.

The pages contain names only; mkdocstrings adds signatures and docstrings when the site is built.
"""

from __future__ import annotations

import importlib
import inspect
from itertools import groupby

import clockseg


def pages() -> dict[str, str]:
    """Return Markdown by path.

    >>> sorted(pages())[:2]
    ['python/carry.md', 'python/clocks.md']
    """
    return {"python/index.md": _core(), **{f"python/{family}.md": _family(family) for family in clockseg._FAMILIES}}


def public(family: str) -> list[str]:
    """Return the public names of a submodule: its ``__all__``, or the functions and classes without a leading underscore.

    >>> public("graph")
    ['Division', 'Graph', 'Input', 'Node', 'Sidecar', 'divide']
    """
    module = importlib.import_module(clockseg._FAMILIES[family])
    said = getattr(module, "__all__", None)
    if said is not None:
        return list(said)
    kinds = inspect.isfunction, inspect.isclass
    made = inspect.getmembers(module, lambda found: any(kind(found) for kind in kinds))
    return [name for name, found in made if found.__module__ == module.__name__ and not name.startswith("_")]


def _core() -> str:
    named = [name for name in clockseg.__all__ if name in clockseg._HOME]
    homes = groupby(sorted(named, key=_place), clockseg._HOME.__getitem__)
    parts = [part for home, names in homes for part in (*_titled(home), *_entries("clockseg", list(names)))]
    families = [
        f"* [`clockseg.{family}`]({family}.md): {_subject(home)}" for family, home in clockseg._FAMILIES.items()
    ]
    return "\n".join(["# Python", "", *_HEAD, *families, "", *parts])


def _place(name: str) -> tuple[bool, str]:
    """Sort key that puts public modules first."""
    home = clockseg._HOME[name]
    return "._" in home, home


def _titled(home: str) -> list[str]:
    """Return a heading with the module's name, and its subject below.

    >>> _titled("clockseg.errors")[0]
    '## Errors'
    """
    return [f"## {home.split('.')[-1].strip('_').replace('_', ' ').capitalize()}", "", _subject(home), ""]


_HEAD = [
    "Core names are in `clockseg` itself, the others in its submodules; each is imported when it is first used. Pictures are",
    "uint8 RGB [height, width, 3], label maps uint8 [height, width] of class ids, and score maps float32 [1, classes, h, w]",
    "before the softmax. These pages are generated from the docstrings whenever the site is built; the examples are tests.",
    "",
]


def _family(family: str) -> str:
    module = clockseg._FAMILIES[family]
    return "\n".join([f"# {module}", "", _subject(module), "", *_entries(module, public(family))])


def _entries(module: str, names: list[str]) -> list[str]:
    shown = [[f"::: {module}.{name}", "    options:", f'      heading: "{name}"', ""] for name in names]
    return [line for lines in shown for line in lines]


def _subject(module: str) -> str:
    """Return the first sentence of a module's docstring."""
    said = (importlib.import_module(module).__doc__ or module).split("\n\n")[0].replace("\n", " ").replace("``", "`")
    told = said.removeprefix(f"{module.split('.')[-1].capitalize()}: ")
    return told[:1].upper() + told[1:]
