"""Clocks, schedules and carries as text: ``either(adaptive(0.25), at_least_every(8))``, ``package.module:object``.

``object_named`` reads names, calls of names, and literals, tuples and lists as their arguments; nothing else is evaluated.
``Written`` is the way back.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import operator
import re
import sys
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

from clockseg.clockwork.clock import Plain
from clockseg.errors import UsageError, fault, nearest

LONGEST = 2000
"""Characters of a specification; longer ones are refused before they are parsed."""
COLON = "\u02d0"
"""Stands for the colon of package.module:object in syntax trees: a letter that looks like it."""


class Written:
    """A dataclass whose ``str`` is the text that it is read from: its name, and the arguments that are not the defaults."""

    @property
    def written(self) -> str:
        """The name in the text: that of the class, in lower case."""
        return re.sub(r"\B([A-Z])", r"_\1", type(self).__name__).lower()

    def __str__(self) -> str:
        arguments = _arguments(self)
        return f"{self.written}({arguments})" if arguments else self.written


def _arguments(made: Any) -> str:
    """Return the arguments of a dataclass as text, without those that are the defaults."""
    given = [(one, getattr(made, one.name)) for one in fields(made) if one.init and one.repr]
    return ", ".join(
        text_of(value) if one.default is MISSING else f"{one.name}={text_of(value)}"
        for one, value in given
        if value != one.default
    )


def text_of(value: Any) -> str:
    """Return the text that ``value`` is read from: a literal, a clock, a carry, or a function or dataclass of the user's own.

    >>> text_of((1, 2)), text_of(abs), text_of(partial(pow, 2, mod=5))
    ('(1, 2)', 'builtins:abs', 'builtins:pow(2, mod=5)')
    """
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Plain):
        value = value.function
    if isinstance(value, partial):
        named = [f"{name}={text_of(one)}" for name, one in value.keywords.items()]
        return f"{text_of(value.func)}({', '.join([*map(text_of, value.args), *named])})"
    if inspect.isroutine(value):
        return f"{value.__module__}:{value.__qualname__}"
    if is_dataclass(value) and type(value).__str__ is object.__str__:
        return f"{type(value).__module__}:{type(value).__qualname__}({_arguments(value)})"
    kind: Any = type(value)
    if kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__:
        return f"{kind.__module__}:{kind.__qualname__}"
    return str(value)


def object_named(text: str, known: Mapping[str, Any], *, what: str = "schedule", imports: bool = True) -> Any:
    """Return the object that ``text`` names; ``imports=False``, for text from files, refuses package.module:object."""
    text = text.strip()
    if not imports and names_code(text):
        raise UsageError(
            f"{what} {text!r} names code, and what a file names is not imported; give it on the command line."
        )
    if not 0 < len(text) <= LONGEST:
        raise UsageError(
            f"{what} {text[:40]!r}: give a name or a call of 1 to {LONGEST} characters. {nearest('', known)}"
        )
    if text.isidentifier() and text not in known:
        raise UsageError(f"there is no {what} {text!r}. {nearest(text, known)}")
    try:
        return _value(parsed(text), known)
    except UsageError:
        raise
    except (SyntaxError, ValueError, RecursionError) as error:
        raise UsageError(f"{what} {text!r}: {error}") from None


def parsed(text: str) -> ast.expr:
    """Return the syntax tree of an expression; ``UsageError`` for any text that is none."""
    try:
        return ast.parse(_marked(text), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        why = getattr(error, "msg", None) or type(error).__name__
        raise UsageError(f"{text!r} can't be read ({why}); give a name or a call, such as adaptive(0.25).") from None


def source(text: str, node: ast.expr) -> str:
    """Return the part of ``text`` that ``node``, of the tree of this text, was parsed from."""
    return (ast.get_source_segment(_marked(text), node) or "").replace(COLON, ":")


def names_code(text: str) -> bool:
    """Return True if ``text`` names package.module:object outside of quotes."""
    return COLON in _marked(text)


def _marked(text: str) -> str:
    """Return ``text`` with every package.module:object outside of quotes as a name that Python parses."""
    return re.sub(r"""("[^"]*"|'[^']*')|(?<=\w):(?=[A-Za-z_])""", lambda found: found[1] or COLON, text)


def _value(node: ast.expr, known: Mapping[str, Any]) -> Any:
    """Return the object that a syntax tree names; ``SyntaxError`` says why it names none."""
    name = ast.unparse(node)
    match node:
        case ast.Name() | ast.Attribute() if COLON in name:
            return _imported(name.replace(COLON, ":"))
        case ast.Name() if name in known:
            return known[name]
        case ast.Name():
            raise SyntaxError(f"there is no {name!r}. {nearest(name, known)}")
        case ast.Call():
            return _called(node, known)
        case ast.Tuple(parts) | ast.List(parts):
            return tuple(_value(part, known) for part in parts)
        case ast.Dict([]):
            raise SyntaxError("{} stands for a threshold in `tune` and `plan`, which choose it; give a number here.")
    try:
        return ast.literal_eval(node)
    except (TypeError, ValueError):
        raise SyntaxError(f"{name!r} is neither a number, a text in quotes, a tuple nor a known name.") from None


def _called(node: ast.Call, known: Mapping[str, Any]) -> Any:
    """Return the result of the call ``node``; of a function of a tick, its arguments after the tick are bound."""
    name = ast.unparse(node.func)
    if not isinstance(node.func, ast.Name) and COLON not in name:
        raise SyntaxError("only calls of known names are read.")
    function, args = _value(node.func, known), [_value(one, known) for one in node.args]
    options = {one.arg: _value(one.value, known) for one in node.keywords if one.arg is not None}
    if len(options) != len(node.keywords):
        raise SyntaxError("an argument is given twice or with **; give arguments by name, each once.")
    try:
        if inspect.isfunction(function) and (names := list(inspect.signature(function).parameters))[:1] == ["tick"]:
            bound = partial(function, **dict(zip(names[1:], args, strict=False)), **options)
            # The facts that the function declares.
            vars(bound).update(vars(function))
            return bound
        return function(*args, **options)
    except TypeError as error:
        # Python names the function itself, such as Change.__init__(); the text has its public name.
        why = re.sub(r"^[\w.]+(?=\(\))", name.replace(COLON, ":"), str(error))
        hint = " A list of values is one argument: ((1, 2, 4))." if " takes " in why else ""
        raise SyntaxError(f"{why}.{hint}") from None


def _imported(text: str) -> Any:
    module, _, path = text.partition(":")
    # As with python -m, a module in the current folder is found.
    sys.path.insert(0, str(Path.cwd()))
    try:
        return operator.attrgetter(path)(importlib.import_module(module))
    except (Exception, SystemExit) as error:  # a module may raise anything when it is imported
        why = fault(error) or error
        raise SyntaxError(f"{text!r} can't be imported ({why}); give package.module:object.") from None
    finally:
        sys.path.remove(str(Path.cwd()))
