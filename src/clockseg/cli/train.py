"""``clockseg train``: corrections, score heads and clocks for a network, learned from its own outputs."""

from __future__ import annotations

from typing import Any

from clockseg.cli import train_clock, train_heads, train_stale


def add_parser(subparsers: Any) -> None:
    """Add ``clockseg train stale``, ``heads`` and ``clock``."""
    parser = subparsers.add_parser(
        "train",
        help="train a correction, score heads or a clock for a network",
        description="Train an addition to a network from unlabelled video. Options: clockseg train KIND --help",
    )
    kinds = parser.add_subparsers(metavar="KIND", required=True)
    for command in (train_stale, train_heads, train_clock):
        command.add_parser(kinds)
