"""Hostile inputs made from good ones: bytes, texts and JSON changed at random, the same again for the same seed."""

from __future__ import annotations

import json
import random
import re
import struct
from copy import deepcopy
from typing import Any

from fuzz_values import NUMBERS, PIECES, VALUES, WORDS


def changed_bytes(data: bytes, chance: random.Random, *, other: bytes = b"") -> bytes:
    """``data`` after one to eight changes: of bits, bytes and numbers; runs cut out, doubled, spliced in; the end cut off.

    ``other``: what pieces are taken from as well.
    """
    made = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        at = _place(made, chance)
        _CHANGES[chance.randrange(len(_CHANGES))](made, at, chance, other or data)
    return bytes(made)


def _place(made: bytearray, chance: random.Random) -> int:
    """Headers are at the beginning or at the end."""
    size = len(made)
    near = chance.choice((64, 512, size or 1))
    at = chance.randrange(min(near, size)) if size else 0
    return at if chance.random() < 0.7 else max(0, size - 1 - at)


def _flip(made: bytearray, at: int, chance: random.Random, other: bytes) -> None:
    made[at : at + 1] = bytes(byte ^ 1 << chance.randrange(8) for byte in made[at : at + 1])


def _byte(made: bytearray, at: int, chance: random.Random, other: bytes) -> None:
    made[at : at + 1] = bytes([chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))])


def _number(made: bytearray, at: int, chance: random.Random, other: bytes) -> None:
    kind = chance.choice((">H", "<H", ">I", "<I", ">I", ">Q", "<Q"))
    value = chance.choice(NUMBERS) * chance.choice((1, 1, 1 << 31))
    made[at : at + struct.calcsize(kind)] = struct.pack(kind, value & (1 << 8 * struct.calcsize(kind)) - 1)


def _random(made: bytearray, at: int, chance: random.Random, other: bytes) -> None:
    size = chance.choice((2, 16, 200))
    made[at : at + size] = chance.randbytes(size)


def _cut(made: bytearray, at: int, chance: random.Random, other: bytes) -> None:
    del made[at : at + chance.choice((1, 4, 60, 1000))]


def _end(made: bytearray, at: int, chance: random.Random, other: bytes) -> None:
    del made[at:]


def _double(made: bytearray, at: int, chance: random.Random, other: bytes) -> None:
    made[at:at] = made[at : at + chance.choice((1, 8, 100, 2000))] * chance.choice((1, 1, 30))


def _splice(made: bytearray, at: int, chance: random.Random, other: bytes) -> None:
    start, size = chance.randrange(len(other) or 1), chance.choice((4, 40, 400, 10**6))
    made[at : at + chance.choice((0, size))] = other[start : start + size]


_CHANGES = (_flip, _flip, _byte, _number, _number, _random, _cut, _end, _double, _splice)


def changed_text(text: str, chance: random.Random) -> str:
    """``text`` after one to six pieces of ``PIECES`` were put in, repeated, or taken out; sometimes nested or very long."""
    for _ in range(chance.choice((1, 1, 2, 3, 6))):
        at, size = chance.randrange(len(text) + 1), chance.choice((0, 0, 1, 5))
        text = text[:at] + chance.choice(PIECES) * chance.choice((1, 1, 1, 2, 50)) + text[at + size :]
    if chance.random() < 0.1:
        opening, closing = chance.choice(
            (("(", ")"), ("[", "]"), ("either(", ")"), ("invert(", ")"), ("-", ""), ("carried(", ")"))
        )
        depth = chance.choice((5, 90, 200, 1000))
        text = opening * depth + text + closing * depth
    return text


def changed_words(text: str, chance: random.Random) -> str:
    """``text`` with one to three of its names, numbers and texts replaced by another: brackets stay as they are."""
    words = re.split(r"([\w.]+(?:\([\w.=, ]*\))?|'[^']*'|\"[^\"]*\")", text)
    for _ in range(chance.choice((1, 1, 2, 3))):
        at = chance.randrange(1, len(words), 2)
        words[at] = chance.choice(WORDS)
    return "".join(words)


def changed_value(value: Any, chance: random.Random) -> Any:
    """JSON's values with one to four of them, anywhere inside, replaced, taken out, doubled or renamed."""
    made = json.loads(json.dumps(value))
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        holder, key = chance.choice(_places({"": made}))
        what = chance.randrange(4)
        if what == 0 and isinstance(holder, dict) and holder is not made:
            holder[chance.choice([one for one in VALUES if isinstance(one, str)])] = holder[key]
        elif what == 1 and key != "":
            del holder[key]
        elif what == 2 and isinstance(holder, list):
            holder.insert(0, deepcopy(holder[key]))
        elif key == "":
            made = deepcopy(chance.choice(VALUES)) if chance.random() < 0.2 else made
        else:
            holder[key] = deepcopy(chance.choice(VALUES))
    return made


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every place in ``value``: what holds it, and under which key."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    found = [(value, key) for key in keys]
    return found + [place for key in keys for place in _places(value[key])]


def as_json(value: Any, chance: random.Random) -> bytes:
    """JSON's text, sometimes with a field twice, and sometimes damaged."""
    text = json.dumps(value, ensure_ascii=chance.random() < 0.5)
    if chance.random() < 0.1 and isinstance(value, dict) and value:
        key = chance.choice(list(value))
        text = f"{text[:-1]}, {json.dumps(key)}: {json.dumps(chance.choice(VALUES))}}}"
    data = text.encode("utf-8", "surrogatepass")
    return changed_bytes(data, chance) if chance.random() < 0.2 else data
