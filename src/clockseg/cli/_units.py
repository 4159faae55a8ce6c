"""Counts, bytes and shapes as people read them."""

from __future__ import annotations


def count(number: float) -> str:
    """A large count in readable units.

    >>> count(1_234_000_000), count(56_000), count(0)
    ('1.234 G', '0.056 M', '0')
    """
    if not number:
        return "0"
    return f"{number / 1e9:.3f} G" if number >= 1e8 else f"{number / 1e6:.3f} M"


def in_bytes(number: int) -> str:
    """Bytes in readable units.

    >>> in_bytes(1_300_000), in_bytes(512)
    ('1.3 MB', '0.5 kB')
    """
    return f"{number / 1e6:.1f} MB" if number >= 1e6 else f"{number / 1e3:.1f} kB"


def sides(shape: tuple[int, ...]) -> str:
    """A shape on one line.

    >>> sides((1, 3, 24, 32))
    '1x3x24x32'
    """
    return "x".join(map(str, shape))
