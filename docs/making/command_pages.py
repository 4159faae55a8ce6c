"""The command reference, generated from the argument parsers: the text of ``--help`` as pages."""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Iterator

from clockseg.cli.main import EXIT_CODES, parser

_INDENT = "    "


def pages() -> dict[str, str]:
    """Return Markdown by path: one page per command, and one that lists them.

    >>> sorted(pages())[:3]
    ['commands/cut.md', 'commands/evaluate.md', 'commands/import.md']
    """
    made = {f"commands/{name}.md": _page(name, command) for name, (command, _) in commands(parser()).items()}
    return {"commands/index.md": _index(), **made}


def commands(given: argparse.ArgumentParser) -> dict[str, tuple[argparse.ArgumentParser, str]]:
    """Return the subcommands of a parser, each with its one-line description.

    >>> list(commands(parser()))[0]
    'segment'
    """
    found: dict[str, tuple[argparse.ArgumentParser, str]] = {}
    for action in given._actions:  # argparse has no other way to ask
        if isinstance(action, argparse._SubParsersAction):
            lines = {choice.dest: choice.help or "" for choice in action._choices_actions}
            found |= {name: (below, lines.get(name, "")) for name, below in action.choices.items()}
    return found


def leaves(given: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Iterate over a parser and the parsers of all commands below it.

    >>> [one.prog for one in leaves(parser())][:2]
    ['clockseg', 'clockseg segment']
    """
    yield given
    for below, _ in commands(given).values():
        yield from leaves(below)


def _index() -> str:
    top = parser()
    rows = [f"| [`clockseg {name}`]({name}.md) | {plain(line)} |" for name, (_, line) in commands(top).items()]
    return "\n".join(
        [
            "# Commands",
            "",
            f"{plain(top.description or '')} Each command explains itself: `clockseg COMMAND --help`. These pages are generated",
            "from the same text whenever the site is built.",
            "",
            "| command | purpose |",
            "| --- | --- |",
            *rows,
            "",
            f"{plain(EXIT_CODES)}.",
            "",
        ]
    )


def _page(name: str, command: argparse.ArgumentParser) -> str:
    return "\n".join([f"# clockseg {name}", "", *_body(command), ""])


def _body(command: argparse.ArgumentParser, level: int = 2) -> Iterator[str]:
    """Return description, usage and options of a command, then those of its subcommands under headings."""
    yield from [plain(command.description or ""), "", "```text", _usage(command), "```", ""]
    for group in command._action_groups:
        shown = [action for action in group._group_actions if is_shown(action)]
        if shown:
            yield from [f"**{plain(_title(group.title or ''))}**", ""]
            for action in shown:
                yield from _option(command, action)
    if command.epilog:
        yield from [plain(command.epilog), ""]
    for name, (below, _) in commands(command).items():
        yield from [f"{'#' * level} {command.prog} {name}", "", *_body(below, level + 1)]


def _usage(command: argparse.ArgumentParser) -> str:
    """Return the usage line, wrapped in the same way on every terminal."""
    words = " ".join(command.format_usage().split())
    return textwrap.fill(words, 80, subsequent_indent=_INDENT, break_on_hyphens=False, break_long_words=False)


def is_shown(action: argparse.Action) -> bool:
    hidden = isinstance(action, argparse._SubParsersAction | argparse._HelpAction)
    return not hidden and action.help != argparse.SUPPRESS


def _title(title: str) -> str:
    return {"positional arguments": "Arguments", "options": "Options"}.get(title, title[:1].upper() + title[1:])


def _option(command: argparse.ArgumentParser, action: argparse.Action) -> list[str]:
    """Return a definition: the option's spelling, and its help below."""
    return [f"`{spelling(action)}`", f":{_INDENT[1:]}{plain(help_of(command, action))}", ""]


def spelling(action: argparse.Action) -> str:
    """Return an option with its value, as usage lines show it.

    >>> spelling(argparse.ArgumentParser().add_argument("--limit", "-n", metavar="N"))
    '--limit, -n N'
    """
    takes = action.metavar if isinstance(action.metavar, str) else " ".join(action.metavar or ())
    if not takes and action.choices:
        takes = f"{{{','.join(map(str, action.choices))}}}"
    if not takes and action.nargs != 0:
        takes = action.dest.upper()
    if not action.option_strings:
        return takes
    return (
        f"{', '.join(action.option_strings)} {takes}".strip() if action.nargs != 0 else ", ".join(action.option_strings)
    )


def help_of(command: argparse.ArgumentParser, action: argparse.Action) -> str:
    """Return the help of an option with its default and choices filled in.

    >>> given = argparse.ArgumentParser()
    >>> help_of(given, given.add_argument("--limit", default=3, help="at most (default: %(default)s)"))
    'at most (default: 3)'
    """
    said = {key: value for key, value in vars(action).items() if value is not argparse.SUPPRESS}
    choices = ", ".join(map(str, action.choices)) if action.choices else ""
    return " ".join(((action.help or "") % (said | {"prog": command.prog, "choices": choices})).split())


def plain(text: str) -> str:
    """Escape text for Markdown; options in it become code.

    >>> plain("a *.mp4 or <name>, see --out")
    'a \\\\*.mp4 or &lt;name&gt;, see `--out`'
    """
    escaped = re.sub(r"([\\`*_\[\]|#])", r"\\\1", text).replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"(?<![\w-])--[a-z-]*(?![\w-])", r"`\g<0>`", escaped)
