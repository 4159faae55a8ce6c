"""Clocks, schedules and carries as text: ``either(adaptive(0.25), at_least_every(8))``, ``package.module:object``.

``object_named`` reads names, calls of names, and literals, tuples and lists as their arguments; nothing else is evaluated.
``Written`` is the way back.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from clockseg.errors import UsageError, nearest, place_outside

LONGEST = 2000
"""Characters of a specification; longer ones are refused before they are parsed."""


class Written:
    """A dataclass whose ``str`` is the text that it is read from: its name, and the arguments that are not the defaults.

    >>> from clockseg.carry import Flow, Warp
    >>> str(Flow()), str(Warp(Flow(scale=0.25), of="fused"))
    ('flow', 'warp(flow(scale=0.25), of="fused")')
    """

    written: ClassVar[str]
    """The name in the text."""

    def __str__(self) -> str:
        known: Any = fields(self)  # type: ignore[arg-type]  # subclasses are dataclasses
        given = [(one, getattr(self, one.name)) for one in known if one.repr]
        arguments = [
            _argument(value) if one.default is MISSING else f"{one.name}={_argument(value)}"
            for one, value in given
            if value != one.default
        ]
        return f"{self.written}({', '.join(arguments)})" if arguments else self.written


def _argument(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return repr(value) if isinstance(value, int | float | tuple) else str(value)


def object_named(text: str, known: Mapping[str, Any], *, what: str = "schedule", imports: bool = True) -> Any:
    """Return the object that ``text`` names; ``imports=False``, for text from files, refuses package.module:object.

    >>> object_named("fixed_rate((1, 2, 2))", {"fixed_rate": lambda periods: periods})
    (1, 2, 2)
    """
    text = text.strip()
    if not imports and names_code(text):
        raise UsageError(
            f"{what} {text!r} names code, and what a file names is not imported; give it on the command line."
        )
    names = f"Known: {', '.join(sorted(known))}."
    if not text or len(text) > LONGEST:
        raise UsageError(f"{what} {text[:40]!r}: give a name or a call of 1 to {LONGEST} characters. {names}")
    try:
        return _Reader(text, known, what).value(parsed(text))
    except UsageError:
        raise
    except (SyntaxError, ValueError, RecursionError) as error:
        raise UsageError(
            f"{what} {text!r} can't be read ({getattr(error, 'msg', None) or type(error).__name__}); "
            f"give a name or a call, such as adaptive(0.25). {names}"
        ) from None


def parsed(text: str) -> ast.expr:
    """Return the syntax tree of an expression; ``SyntaxError`` for any text that is none."""
    try:
        return ast.parse(_marked(text), mode="eval").body
    except (ValueError, RecursionError, MemoryError) as error:
        raise SyntaxError(type(error).__name__) from None


def source(text: str, node: ast.expr) -> str:
    """Return the part of ``text`` that ``node``, of the tree of this text, was parsed from.

    >>> source("every(mine:clock)", parsed("every(mine:clock)").args[0])
    'mine:clock'
    """
    return _unmarked(ast.get_source_segment(_marked(text), node) or "")


_MARK = "\u02d0"
"""Stands for the colon of package.module:object where text is parsed: a letter that looks like it."""


def _marked(text: str) -> str:
    """Return ``text`` with every package.module:object outside of quotes as a name that Python parses.

    >>> _marked("either(mine:clock, 'a:b')") == f"either(mine{_MARK}clock, 'a:b')"
    True
    """
    parts = re.split(r"""("[^"]*"|'[^']*')""", text)
    parts[::2] = (re.sub(r"\b([A-Za-z_][\w.]*):(?=[A-Za-z_])", rf"\1{_MARK}", part) for part in parts[::2])
    return "".join(parts)


def _unmarked(text: str) -> str:
    return text.replace(_MARK, ":")


def names_code(text: str) -> bool:
    """Return True if ``text`` names package.module:object outside of quotes.

    >>> names_code("either(mine:clock, every(2))"), names_code("learned('a:b.onnx', 0.5)")
    (True, False)
    """
    return _MARK in _marked(text)


class _Reader(NamedTuple):
    """Turns the syntax tree of ``text`` into the object that it names."""

    text: str
    known: Mapping[str, Any]
    what: str

    def value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Name | ast.Attribute) and _MARK in (name := ast.unparse(node)):
            return _imported(_unmarked(name), self.what)
        if isinstance(node, ast.Name):
            if node.id not in self.known:
                if node.id == self.text:
                    raise UsageError(f"there is no {self.what} {node.id!r}. {nearest(node.id, self.known)}")
                raise self.error(f"there is no {node.id!r}. {nearest(node.id, self.known)}")
            return self.known[node.id]
        if isinstance(node, ast.Call):
            return self.call(node)
        if isinstance(node, ast.Tuple | ast.List):
            return tuple(map(self.value, node.elts))
        try:
            return ast.literal_eval(node)
        except ValueError:
            found = ast.unparse(node)
            raise self.error(f"{found!r} is neither a number, a text in quotes, a tuple nor a known name.") from None

    def call(self, node: ast.Call) -> Any:
        named = isinstance(node.func, ast.Name) or _MARK in ast.unparse(node.func)
        if not named or any(isinstance(one, ast.Starred) for one in node.args):
            raise self.error("only calls of known names are read.")
        options = {one.arg: self.value(one.value) for one in node.keywords if one.arg is not None}
        if len(options) != len(node.keywords):
            raise self.error("an argument is given twice or with **; give arguments by name, each once.")
        function, args = self.value(node.func), [self.value(one) for one in node.args]
        try:
            if inspect.isfunction(function) and next(iter(inspect.signature(function).parameters), "") == "tick":
                # A function of the tick: bind the arguments after the tick.
                names = list(inspect.signature(function).parameters)[1:]
                return partial(function, **dict(zip(names, args, strict=False)), **options)
            return function(*args, **options)
        except TypeError as error:
            # Python names the function itself, such as Change.__init__(); the text has its public name.
            why = re.sub(r"^[\w.]+(?=\(\))", _unmarked(ast.unparse(node.func)), str(error))
            hint = " A list of values is one argument: ((1, 2, 4))." if " takes " in why else ""
            raise self.error(f"{why}.{hint}") from None

    def error(self, why: str) -> UsageError:
        return UsageError(f"{self.what} {self.text!r}: {why}")


def _imported(text: str, what: str) -> Any:
    module, _, path = text.partition(":")
    # As with python -m, a module in the current folder is found.
    sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = importlib.import_module(module)
        for attribute in path.split("."):
            found = getattr(found, attribute)
    except (Exception, SystemExit) as error:  # a module may raise anything when it is imported
        place = place_outside(error)
        why = f"{place}: {type(error).__name__}: {error}" if place else str(error)
        raise UsageError(f"{what} {text!r} can't be imported ({why}). Give package.module:object.") from None
    finally:
        sys.path.remove(str(Path.cwd()))
    return found
